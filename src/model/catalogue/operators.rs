//! Filter operators, and the sets of them that the reference's tables give to each kind of field.

use strum::{EnumString, IntoStaticStr, VariantArray};

/// A filter operator (reference, *List query conventions*). Its text is its name in a query string and in
/// `allowedOperators`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "camelCase")]
pub enum Op {
    Eq,
    Gt,
    Gte,
    Lt,
    Lte,
    In,
    /// A multi-select that holds at least one of a list.
    HasAny,
    Contains,
    /// Missing (`true`) or present (`false`).
    IsNull,
}

impl Op {
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ops(&'static [Op]);

impl Ops {
    pub const NONE: Ops = Ops(&[]);
    pub const TEXT: Ops = Ops(&[Op::Eq, Op::In, Op::IsNull]);
    /// For timestamps, dates and numbers.
    pub const RANGE: Ops = Ops(&[Op::Eq, Op::Gt, Op::Gte, Op::Lt, Op::Lte, Op::IsNull]);
    pub const BOOLEAN: Ops = Ops(&[Op::Eq, Op::IsNull]);
    /// For the contact's position.
    pub const PHRASE: Ops = Ops(&[Op::Eq, Op::Contains, Op::IsNull]);
    /// For the company's domain.
    pub const DOMAIN: Ops = Ops(&[Op::Eq, Op::In]);
    /// For multi-selects.
    pub const CHOICES: Ops = Ops(&[Op::HasAny, Op::IsNull]);
    /// For long texts.
    pub const PRESENCE: Ops = Ops(&[Op::IsNull]);

    pub fn allows(self, op: Op) -> bool {
        self.0.contains(&op)
    }

    /// In the order of the reference.
    pub fn iter(self) -> impl Iterator<Item = Op> {
        self.0.iter().copied()
    }

    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}
