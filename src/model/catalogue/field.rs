//! The properties of one standard field: where it appears, what it holds, and how it can be used.

use strum::IntoStaticStr;

use super::operators::Ops;

#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum FieldKind {
    Id,
    Text,
    /// The record's version token, byte for byte.
    Etag,
    /// A 64-bit integer.
    Integer,
    /// A number that is compared as stored: a REAL column.
    Number,
    /// A boolean: 0 or 1.
    Boolean,
    /// A timestamp: canonical UTC text with microseconds.
    #[strum(serialize = "timestamp")]
    Instant,
    /// What the reference calls just "value", or does not type at all: a string as it is, the digits of a number
    /// unchanged, anything else as JSON. With `num`, a REAL companion column named `<column>_num` serves sorting and
    /// sums.
    Value {
        /// Whether there is a companion column.
        num: bool,
    },
    /// An array or object, kept as JSON text.
    Json,
}

impl FieldKind {
    pub const fn sql_type(self) -> &'static str {
        match self {
            FieldKind::Integer | FieldKind::Boolean => "INTEGER",
            FieldKind::Number => "REAL",
            FieldKind::Id
            | FieldKind::Text
            | FieldKind::Etag
            | FieldKind::Instant
            | FieldKind::Value { .. }
            | FieldKind::Json => "TEXT",
        }
    }

    /// The name of this kind in the data dictionary.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    pub const fn has_num(self) -> bool {
        matches!(self, FieldKind::Value { num: true })
    }
}

/// Which answers carry a field (reference, *Projections by response*).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldProjection {
    List,
    Detail,
    /// No answer: the field can only be used in filters.
    FilterOnly,
}

#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The name in an answer; a dot separates the parts of a nested name.
    pub wire: &'static str,
    /// The wire name in snake case.
    pub column: &'static str,
    pub kind: FieldKind,
    pub projection: FieldProjection,
    /// As in the reference's filter tables.
    pub filter: Ops,
    pub sortable: bool,
    /// Whether the reference shows it in a PATCH body.
    pub writable: bool,
    /// What it means, for the data dictionary.
    pub about: &'static str,
}

impl Field {
    pub(super) fn new(wire: &'static str, kind: FieldKind, projection: FieldProjection, about: &'static str) -> Field {
        let column = column(wire).leak();
        Field { wire, column, kind, projection, filter: Ops::NONE, sortable: false, writable: false, about }
    }

    pub(super) fn list(wire: &'static str, kind: FieldKind, about: &'static str) -> Field {
        Field::new(wire, kind, FieldProjection::List, about)
    }

    pub(super) fn detail(wire: &'static str, kind: FieldKind, about: &'static str) -> Field {
        Field::new(wire, kind, FieldProjection::Detail, about)
    }

    pub(super) const fn filter(mut self, ops: Ops) -> Field {
        self.filter = ops;
        self
    }

    pub(super) const fn sortable(mut self) -> Field {
        self.sortable = true;
        self
    }

    pub(super) const fn writable(mut self) -> Field {
        self.writable = true;
        self
    }

    /// The name in `filter[…]`: the last part of the wire name (`country`, not `location.country`).
    pub fn filter_name(&self) -> &'static str {
        self.wire.rsplit('.').next().unwrap_or(self.wire)
    }
}

fn column(wire: &str) -> String {
    wire.chars().fold(String::new(), |mut name, c| {
        match c {
            '.' => name.push('_'),
            c if c.is_ascii_uppercase() => name.extend(['_', c.to_ascii_lowercase()]),
            c => name.push(c),
        }
        name
    })
}
