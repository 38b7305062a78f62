//! The objects of the service and the resources that list them.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};

use super::field::{Field, FieldProjection};
use super::tables::{COMPANY, CONTACT, DEFINITION, TEAM_MEMBER};

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
        self.pick("contacts", "companies")
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

    /// The view that joins both tables.
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

    /// Whether `q` is supported (reference, *Search fields for q*).
    pub const fn searchable(self) -> bool {
        !matches!(self, Resource::CustomFields)
    }

    /// The field that `filter[name]` refers to.
    pub fn filter_field(self, name: &str) -> Option<&'static Field> {
        self.fields().iter().find(|field| !field.filter.is_empty() && field.filter_name() == name)
    }
}
