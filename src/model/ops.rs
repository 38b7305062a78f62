//! Filter operators, and the sets of them that the reference's tables give to each kind of field.

/// A filter operator (reference, *List query conventions*).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// Equal.
    Eq,
    /// Greater than.
    Gt,
    /// Greater than or equal.
    Gte,
    /// Less than.
    Lt,
    /// Less than or equal.
    Lte,
    /// One of a list.
    In,
    /// A multi-select that holds at least one of a list.
    HasAny,
    /// Holds the text.
    Contains,
    /// Missing (`true`) or present (`false`).
    IsNull,
}

impl Op {
    /// Every operator.
    pub const ALL: [Op; 9] = [Op::Eq, Op::Gt, Op::Gte, Op::Lt, Op::Lte, Op::In, Op::HasAny, Op::Contains, Op::IsNull];

    /// The name in a query string and in `allowedOperators`.
    pub const fn wire(self) -> &'static str {
        match self {
            Op::Eq => "eq",
            Op::Gt => "gt",
            Op::Gte => "gte",
            Op::Lt => "lt",
            Op::Lte => "lte",
            Op::In => "in",
            Op::HasAny => "hasAny",
            Op::Contains => "contains",
            Op::IsNull => "isNull",
        }
    }

    /// The operator of that name.
    pub fn from_wire(name: &str) -> Option<Op> {
        Op::ALL.into_iter().find(|op| op.wire() == name)
    }
}

/// A set of operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ops(&'static [Op]);

impl Ops {
    /// None: the field cannot be filtered by.
    pub const NONE: Ops = Ops(&[]);
    /// For identifiers and texts.
    pub const TEXT: Ops = Ops(&[Op::Eq, Op::In, Op::IsNull]);
    /// For timestamps, dates and numbers.
    pub const RANGE: Ops = Ops(&[Op::Eq, Op::Gt, Op::Gte, Op::Lt, Op::Lte, Op::IsNull]);
    /// For booleans.
    pub const BOOLEAN: Ops = Ops(&[Op::Eq, Op::IsNull]);
    /// For the contact's position.
    pub const PHRASE: Ops = Ops(&[Op::Eq, Op::Contains, Op::IsNull]);
    /// For the company's domain.
    pub const DOMAIN: Ops = Ops(&[Op::Eq, Op::In]);
    /// For multi-selects.
    pub const CHOICES: Ops = Ops(&[Op::HasAny, Op::IsNull]);
    /// For long texts.
    pub const PRESENCE: Ops = Ops(&[Op::IsNull]);

    /// Whether the set holds `op`.
    pub fn allows(self, op: Op) -> bool {
        self.0.contains(&op)
    }

    /// The operators, in the order of the reference.
    pub fn iter(self) -> impl Iterator<Item = Op> {
        self.0.iter().copied()
    }

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}
