//! The field catalogue: every standard field of the service, once.
//!
//! The columns of the mirror, the upserts, the data dictionary, the checks of the query builder and the sandbox's
//! validation all derive from these tables. Adding a field is one line here and a migration in `schema/`.
//!
//! # Always true
//! - `wire` is the name in an answer; a dot names a field of a nested object (`location.country`).
//! - `filter` holds the operators of the reference's filter tables. The filter's name is [`Field::filter_name`].
//! - `writable` marks only what the reference shows in a PATCH body; what it does not show is not assumed.

use std::fmt;

use serde::{Deserialize, Serialize};

pub use super::ops::{Op, Ops};

pub use super::fields::{COMPANY, CONTACT, DEFINITION, TEAM_MEMBER};

/// What a standard field holds, and so which type its column has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The record's own identifier.
    Id,
    /// Text.
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
    Instant,
    /// What the reference calls just "value", or does not type at all: a string as it is, a number's digits as they
    /// came, anything else as JSON. With `num`, a REAL companion column named `<column>_num` serves sorting and sums.
    Value {
        /// Whether there is a companion column.
        num: bool,
    },
    /// An array or object, kept as JSON text.
    Json,
}

impl Kind {
    /// The SQLite type of the column.
    pub const fn sql_type(self) -> &'static str {
        match self {
            Kind::Integer | Kind::Boolean => "INTEGER",
            Kind::Number => "REAL",
            Kind::Id | Kind::Text | Kind::Etag | Kind::Instant | Kind::Value { .. } | Kind::Json => "TEXT",
        }
    }

    /// The word for this kind in the data dictionary.
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Id => "id",
            Kind::Text => "text",
            Kind::Etag => "etag",
            Kind::Integer => "integer",
            Kind::Number => "number",
            Kind::Boolean => "boolean",
            Kind::Instant => "timestamp",
            Kind::Value { .. } => "value",
            Kind::Json => "json",
        }
    }

    /// Whether the column has a REAL companion `<column>_num`.
    pub const fn has_num(self) -> bool {
        matches!(self, Kind::Value { num: true })
    }
}

/// Which answers carry a field (reference, *Projections by response*).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// List items and details.
    List,
    /// Details only.
    Detail,
    /// No answer: it can only be filtered by.
    Nowhere,
}

/// One standard field.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The name in an answer; a dot names a field of a nested object.
    pub wire: &'static str,
    /// The column of the mirror.
    pub column: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Which answers carry it.
    pub shown: Shown,
    /// The operators it can be filtered by.
    pub filter: Ops,
    /// Whether lists can be sorted by it.
    pub sortable: bool,
    /// Whether the reference shows it in a PATCH body.
    pub writable: bool,
    /// What it means, for the data dictionary.
    pub about: &'static str,
}

impl Field {
    pub(super) const fn new(
        wire: &'static str,
        column: &'static str,
        kind: Kind,
        shown: Shown,
        about: &'static str,
    ) -> Field {
        Field { wire, column, kind, shown, filter: Ops::NONE, sortable: false, writable: false, about }
    }
    pub(super) const fn list(wire: &'static str, column: &'static str, kind: Kind, about: &'static str) -> Field {
        Field::new(wire, column, kind, Shown::List, about)
    }
    pub(super) const fn detail(wire: &'static str, column: &'static str, kind: Kind, about: &'static str) -> Field {
        Field::new(wire, column, kind, Shown::Detail, about)
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

/// A kind of record that has custom fields, details and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Object {
    /// A contact.
    Contact,
    /// A company.
    Company,
}

impl Object {
    /// Both.
    pub const ALL: [Object; 2] = [Object::Contact, Object::Company];

    /// The standard fields.
    pub const fn fields(self) -> &'static [Field] {
        match self {
            Object::Contact => CONTACT,
            Object::Company => COMPANY,
        }
    }

    /// The fields that a list item carries, in the order of the columns.
    pub fn list_fields(self) -> impl Iterator<Item = &'static Field> {
        self.fields().iter().filter(|field| field.shown == Shown::List)
    }

    /// The fields that only a detail carries, in the order of the columns.
    pub fn detail_fields(self) -> impl Iterator<Item = &'static Field> {
        self.fields().iter().filter(|field| field.shown == Shown::Detail)
    }

    /// The `objectType` of the service, and of every column of the mirror that names a kind of record.
    pub const fn as_str(self) -> &'static str {
        match self {
            Object::Contact => "contact",
            Object::Company => "company",
        }
    }

    /// The object of that word.
    pub fn from_word(word: &str) -> Option<Object> {
        Object::ALL.into_iter().find(|object| object.as_str() == word)
    }

    /// The resource that lists this object.
    pub const fn resource(self) -> Resource {
        match self {
            Object::Contact => Resource::Contacts,
            Object::Company => Resource::Companies,
        }
    }

    /// The table of list items.
    pub const fn table(self) -> &'static str {
        match self {
            Object::Contact => "contacts",
            Object::Company => "companies",
        }
    }

    /// The table of what only details carry.
    pub const fn detail_table(self) -> &'static str {
        match self {
            Object::Contact => "contact_details",
            Object::Company => "company_details",
        }
    }

    /// The key column of [`Object::detail_table`].
    pub const fn detail_key(self) -> &'static str {
        match self {
            Object::Contact => "contact_id",
            Object::Company => "company_id",
        }
    }

    /// The full-text search table.
    pub const fn search_table(self) -> &'static str {
        match self {
            Object::Contact => "contact_search",
            Object::Company => "company_search",
        }
    }

    /// The view that joins both.
    pub const fn full_view(self) -> &'static str {
        match self {
            Object::Contact => "contacts_full",
            Object::Company => "companies_full",
        }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Something that the service lists; also what a person names on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resource {
    /// `/contacts`.
    Contacts,
    /// `/companies`.
    Companies,
    /// `/team-members`.
    TeamMembers,
    /// `/custom-field-definitions`.
    CustomFields,
}

impl Resource {
    /// All of them.
    pub const ALL: [Resource; 4] =
        [Resource::Contacts, Resource::Companies, Resource::TeamMembers, Resource::CustomFields];

    /// The path below the base URL.
    pub const fn path(self) -> &'static str {
        match self {
            Resource::Contacts => "/contacts",
            Resource::Companies => "/companies",
            Resource::TeamMembers => "/team-members",
            Resource::CustomFields => "/custom-field-definitions",
        }
    }

    /// The scope that reading needs (reference, *Endpoints*).
    pub const fn read_scope(self) -> &'static str {
        match self {
            Resource::Contacts => "contacts:read",
            Resource::Companies => "companies:read",
            Resource::TeamMembers => "team-members:read",
            Resource::CustomFields => "custom-fields:read",
        }
    }

    /// The scope that writing needs, where there is writing.
    pub const fn write_scope(self) -> Option<&'static str> {
        match self {
            Resource::Contacts => Some("contacts:write"),
            Resource::Companies => Some("companies:write"),
            Resource::TeamMembers | Resource::CustomFields => None,
        }
    }

    /// The name on the command line, in `sync_runs` and in messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Resource::Contacts => "contacts",
            Resource::Companies => "companies",
            Resource::TeamMembers => "team-members",
            Resource::CustomFields => "custom-fields",
        }
    }

    /// The resource of that name.
    pub fn from_word(word: &str) -> Option<Resource> {
        Resource::ALL.into_iter().find(|resource| resource.as_str() == word)
    }

    /// The standard fields of its items.
    pub const fn fields(self) -> &'static [Field] {
        match self {
            Resource::Contacts => CONTACT,
            Resource::Companies => COMPANY,
            Resource::TeamMembers => TEAM_MEMBER,
            Resource::CustomFields => DEFINITION,
        }
    }

    /// The kind of record, where the items are records with custom fields.
    pub const fn object(self) -> Option<Object> {
        match self {
            Resource::Contacts => Some(Object::Contact),
            Resource::Companies => Some(Object::Company),
            Resource::TeamMembers | Resource::CustomFields => None,
        }
    }

    /// Whether `q` is supported (reference, *Search fields for q*).
    pub const fn searchable(self) -> bool {
        !matches!(self, Resource::CustomFields)
    }

    /// The field that `filter[name]` means.
    pub fn filter_field(self, name: &str) -> Option<&'static Field> {
        self.fields().iter().find(|field| !field.filter.is_empty() && field.filter_name() == name)
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_columns_are_the_wire_names_in_snake_case() {
        for resource in Resource::ALL {
            let mut seen = BTreeSet::new();
            for field in resource.fields() {
                assert!(seen.insert(field.column), "{resource} {}", field.column);
                let snake = field.wire.chars().fold(String::new(), |mut name, c| {
                    match c {
                        '.' => name.push('_'),
                        c if c.is_ascii_uppercase() => name.extend(['_', c.to_ascii_lowercase()]),
                        c => name.push(c),
                    }
                    name
                });
                assert_eq!(field.column, snake);
            }
        }
    }

    #[test]
    fn the_filter_tables_have_the_rows_of_the_reference() {
        let count = |r: Resource| r.fields().iter().filter(|f| !f.filter.is_empty()).count();
        assert_eq!(count(Resource::Contacts), 14);
        assert_eq!(count(Resource::Companies), 13);
        assert_eq!(count(Resource::TeamMembers), 1);
        assert_eq!(count(Resource::CustomFields), 0);
    }
}
