//! The field catalogue: every standard field of the service, once.
//!
//! The columns of the mirror, the upserts, the data dictionary, the checks of the query builder and the sandbox's
//! validation all derive from `tables`. Adding a field is one line there and a migration in `schema/`. Because all of
//! them derive from it, `tests/reference` holds literal records written from the reference as an independent witness.

mod tables;

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};

use self::tables::{COMPANY, CONTACT, DEFINITION, TEAM_MEMBER};

/// A kind of record that has custom fields, details and writes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Display, EnumString, IntoStaticStr,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Object {
    Contact,
    Company,
}

impl Object {
    pub const ALL: [Object; 2] = [Object::Contact, Object::Company];

    pub const fn pick<T: Copy>(self, contact: T, company: T) -> T {
        match self {
            Object::Contact => contact,
            Object::Company => company,
        }
    }

    pub fn fields(self) -> &'static [Field] {
        self.resource().fields()
    }

    /// Whether its records have a member with this name that contains fields.
    pub fn has_group(self, name: &str) -> bool {
        let is_of = |field: &Field| field.wire.split_once('.').is_some_and(|(group, _)| group == name);
        name == "customFields" || self.fields().iter().any(is_of)
    }

    pub fn list_fields(self) -> impl Iterator<Item = &'static Field> {
        self.fields().iter().filter(|field| field.projection == FieldProjection::List)
    }

    pub fn detail_fields(self) -> impl Iterator<Item = &'static Field> {
        self.fields().iter().filter(|field| field.projection == FieldProjection::Detail)
    }

    /// The service's `objectType`, which is also used in the columns of the mirror.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    pub const fn resource(self) -> Resource {
        self.pick(Resource::Contacts, Resource::Companies)
    }

    pub const fn table(self) -> &'static str {
        self.resource().table()
    }

    pub const fn detail_table(self) -> &'static str {
        self.pick("contact_details", "company_details")
    }

    pub const fn detail_key(self) -> &'static str {
        self.pick("contact_id", "company_id")
    }

    pub const fn search_table(self) -> &'static str {
        self.pick("contact_search", "company_search")
    }

    pub const fn full_view(self) -> &'static str {
        self.pick("contacts_full", "companies_full")
    }
}

/// Something that the service lists; also what users name on the command line.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Display, EnumString, IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Resource {
    Contacts,
    Companies,
    TeamMembers,
    CustomFields,
}

impl From<Object> for Resource {
    fn from(object: Object) -> Resource {
        object.resource()
    }
}

impl Resource {
    pub const ALL: [Resource; 4] =
        [Resource::Contacts, Resource::Companies, Resource::TeamMembers, Resource::CustomFields];

    /// Its path, the table of its records or items, and the scope that reading needs (reference, *Endpoints*).
    const fn names(self) -> [&'static str; 3] {
        match self {
            Resource::Contacts => ["/contacts", "contacts", "contacts:read"],
            Resource::Companies => ["/companies", "companies", "companies:read"],
            Resource::TeamMembers => ["/team-members", "team_members", "team-members:read"],
            Resource::CustomFields => ["/custom-field-definitions", "custom_field_definitions", "custom-fields:read"],
        }
    }

    pub const fn path(self) -> &'static str {
        self.names()[0]
    }

    pub const fn table(self) -> &'static str {
        self.names()[1]
    }

    pub const fn read_scope(self) -> &'static str {
        self.names()[2]
    }

    pub fn write_scope(self) -> Option<&'static str> {
        Some(self.object()?.pick("contacts:write", "companies:write"))
    }

    /// The name on the command line, in `sync_runs` and in messages.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    pub fn fields(self) -> &'static [Field] {
        match self {
            Resource::Contacts => &CONTACT,
            Resource::Companies => &COMPANY,
            Resource::TeamMembers => &TEAM_MEMBER,
            Resource::CustomFields => &DEFINITION,
        }
    }

    pub const fn object(self) -> Option<Object> {
        match self {
            Resource::Contacts => Some(Object::Contact),
            Resource::Companies => Some(Object::Company),
            Resource::TeamMembers | Resource::CustomFields => None,
        }
    }

    pub fn filter_field(self, name: &str) -> Option<&'static Field> {
        self.fields().iter().find(|field| !field.filter.is_empty() && field.filter_name() == name)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
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
        num: bool,
    },
    /// An array or object, kept as JSON text.
    Json,
}

impl FieldKind {
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
    pub filter: &'static [Op],
    pub sortable: bool,
    /// Whether the reference shows it in a PATCH body.
    pub writable: bool,
    /// What it means, for the data dictionary.
    pub about: &'static str,
}

impl Field {
    fn new(wire: &'static str, kind: FieldKind, projection: FieldProjection, about: &'static str) -> Field {
        let column = column(wire).leak();
        Field { wire, column, kind, projection, filter: &[], sortable: false, writable: false, about }
    }

    fn list(wire: &'static str, kind: FieldKind, about: &'static str) -> Field {
        Field::new(wire, kind, FieldProjection::List, about)
    }

    fn detail(wire: &'static str, kind: FieldKind, about: &'static str) -> Field {
        Field::new(wire, kind, FieldProjection::Detail, about)
    }

    const fn filter(self, filter: &'static [Op]) -> Field {
        Field { filter, ..self }
    }

    const fn sortable(self) -> Field {
        Field { sortable: true, ..self }
    }

    const fn writable(self) -> Field {
        Field { writable: true, ..self }
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

/// A filter operator (reference, *List query conventions*). Its text is its name in a query string and in
/// `allowedOperators`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EnumString, IntoStaticStr)]
#[strum(serialize_all = "camelCase", const_into_str)]
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

/// The operators of a kind of field, in the order of the reference.
pub mod ops {
    use super::Op;

    pub const TEXT: &[Op] = &[Op::Eq, Op::In, Op::IsNull];
    pub const RANGE: &[Op] = &[Op::Eq, Op::Gt, Op::Gte, Op::Lt, Op::Lte, Op::IsNull];
    pub const BOOLEAN: &[Op] = &[Op::Eq, Op::IsNull];
    /// For the contact's position.
    pub const PHRASE: &[Op] = &[Op::Eq, Op::Contains, Op::IsNull];
    /// For the company's domain.
    pub const DOMAIN: &[Op] = &[Op::Eq, Op::In];
    pub const CHOICES: &[Op] = &[Op::HasAny, Op::IsNull];
    pub const PRESENCE: &[Op] = &[Op::IsNull];
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_columns_are_the_wire_names_in_snake_case() {
        for resource in Resource::ALL {
            let columns: BTreeSet<&str> = resource.fields().iter().map(|field| field.column).collect();
            assert_eq!(columns.len(), resource.fields().len(), "{resource}");
        }
        let column = |wire: &str| Resource::Contacts.fields().iter().find(|field| field.wire == wire).unwrap().column;
        assert_eq!(column("lastMessageSentAt"), "last_message_sent_at");
        assert_eq!(column("location.country"), "location_country");
    }

    #[test]
    fn filter_tables_have_the_rows_of_the_reference() {
        let count = |r: Resource| r.fields().iter().filter(|f| !f.filter.is_empty()).count();
        assert_eq!(count(Resource::Contacts), 14);
        assert_eq!(count(Resource::Companies), 13);
        assert_eq!(count(Resource::TeamMembers), 1);
        assert_eq!(count(Resource::CustomFields), 0);
    }
}
