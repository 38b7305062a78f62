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
    pub const fn word(self) -> &'static str {
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
    pub const ALL: [Op; 9] = [
        Op::Eq,
        Op::Gt,
        Op::Gte,
        Op::Lt,
        Op::Lte,
        Op::In,
        Op::HasAny,
        Op::Contains,
        Op::IsNull,
    ];

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
    const fn new(wire: &'static str, column: &'static str, kind: Kind, shown: Shown, about: &'static str) -> Field {
        Field {
            wire,
            column,
            kind,
            shown,
            filter: Ops::NONE,
            sortable: false,
            writable: false,
            about,
        }
    }
    const fn list(wire: &'static str, column: &'static str, kind: Kind, about: &'static str) -> Field {
        Field::new(wire, column, kind, Shown::List, about)
    }
    const fn detail(wire: &'static str, column: &'static str, kind: Kind, about: &'static str) -> Field {
        Field::new(wire, column, kind, Shown::Detail, about)
    }
    const fn filter(mut self, ops: Ops) -> Field {
        self.filter = ops;
        self
    }
    const fn sortable(mut self) -> Field {
        self.sortable = true;
        self
    }
    const fn writable(mut self) -> Field {
        self.writable = true;
        self
    }

    /// The name in `filter[…]`: the last part of the wire name (`country`, not `location.country`).
    pub fn filter_name(&self) -> &'static str {
        self.wire.rsplit('.').next().unwrap_or(self.wire)
    }
}

use Kind::{Boolean, Etag, Id, Integer, Json, Number, Text};
const TIME: Kind = Kind::Instant;
const VALUE: Kind = Kind::Value { num: false };
const AMOUNT: Kind = Kind::Value { num: true };

/// The contact (reference, *Contact*).
pub const CONTACT: &[Field] = &[
    Field::list("id", "id", Id, "record identifier").filter(Ops::TEXT),
    Field::list("name", "name", Text, "full name").sortable(),
    Field::list("firstName", "first_name", Text, "first name"),
    Field::list("lastName", "last_name", Text, "last name"),
    Field::list(
        "email",
        "email",
        Text,
        "primary e-mail address; read-only through the API",
    )
    .filter(Ops::TEXT),
    Field::list(
        "mobile",
        "mobile",
        Text,
        "primary mobile number; read-only through the API",
    )
    .filter(Ops::TEXT),
    Field::list("position", "position", Text, "job title")
        .filter(Ops::PHRASE)
        .writable(),
    Field::list("company", "company", Text, "company text"),
    Field::list("companyId", "company_id", Text, "identifier of the company").filter(Ops::TEXT),
    Field::list("ownerId", "owner_id", Text, "identifier of the owning team member").filter(Ops::TEXT),
    Field::list(
        "qualification",
        "qualification",
        Boolean,
        "whether the contact is qualified",
    )
    .filter(Ops::BOOLEAN),
    Field::list("createdAt", "created_at", TIME, "when the record was created")
        .filter(Ops::RANGE)
        .sortable(),
    Field::list("updatedAt", "updated_at", TIME, "when the record last changed")
        .filter(Ops::RANGE)
        .sortable(),
    Field::list("intentType", "intent_type", Text, "kind of intent"),
    Field::list("intentLevel", "intent_level", Text, "HIGH, MED or LOW").filter(Ops::TEXT),
    Field::list(
        "lastInteractionAt",
        "last_interaction_at",
        TIME,
        "time of the last interaction",
    )
    .filter(Ops::RANGE)
    .sortable(),
    Field::list(
        "enrichmentStatus",
        "enrichment_status",
        Text,
        "pending, completed or failed",
    )
    .filter(Ops::TEXT),
    Field::list("enrichmentAt", "enrichment_at", TIME, "when the record was enriched"),
    Field::list("etag", "etag", Etag, "version token of the record, its quotes included"),
    Field::list("location.country", "location_country", Text, "country, as stored text").filter(Ops::TEXT),
    Field::list("location.region", "location_region", Text, "region"),
    Field::list("location.city", "location_city", Text, "city"),
    Field::detail("industry", "industry", Text, "industry, as stored text")
        .filter(Ops::TEXT)
        .writable(),
    Field::detail("language", "language", Text, "preferred language").writable(),
    Field::detail("timezone", "timezone", Text, "time zone").writable(),
    Field::detail("linkedinUrl", "linkedin_url", Text, "LinkedIn profile"),
    Field::detail("recordSource", "record_source", Text, "where the record came from"),
    Field::detail("originChannel", "origin_channel", Text, "channel of the first contact"),
    Field::detail("notes", "notes", Text, "notes").writable(),
    Field::detail("notesAt", "notes_at", TIME, "when the notes last changed"),
    Field::detail("score", "score", Number, "deprecated historical score"),
    Field::detail("reasoning", "reasoning", Text, "reasoning behind the qualification"),
    Field::detail(
        "qualificationConfidence",
        "qualification_confidence",
        AMOUNT,
        "confidence of the qualification",
    ),
    Field::detail("qualifiedAt", "qualified_at", TIME, "when the contact was qualified"),
    Field::detail("intentReason", "intent_reason", Text, "reason of the intent"),
    Field::detail(
        "intentInferredAt",
        "intent_inferred_at",
        TIME,
        "when the intent was inferred",
    ),
    Field::detail(
        "lastMessageSentAt",
        "last_message_sent_at",
        TIME,
        "last message sent to the contact",
    ),
    Field::detail(
        "lastMessageReceivedAt",
        "last_message_received_at",
        TIME,
        "last message received from the contact",
    ),
    Field::detail(
        "sessionSummaryDiscussed",
        "session_summary_discussed",
        VALUE,
        "what the last session discussed",
    ),
    Field::detail(
        "sessionSummaryRequests",
        "session_summary_requests",
        VALUE,
        "what the contact asked for",
    ),
    Field::detail(
        "sessionSummaryAt",
        "session_summary_at",
        TIME,
        "when the session was summarised",
    ),
    Field::detail(
        "doNotContact",
        "do_not_contact",
        Boolean,
        "whether the contact must not be contacted",
    ),
    Field::detail("doNotContactAt", "do_not_contact_at", TIME, "since when"),
    Field::detail("doNotContactReason", "do_not_contact_reason", Text, "why"),
    Field::detail(
        "emailMarketingConsentStatus",
        "email_marketing_consent_status",
        Text,
        "consent to marketing by e-mail",
    ),
    Field::detail(
        "emailMarketingConsentUpdatedAt",
        "email_marketing_consent_updated_at",
        TIME,
        "when the e-mail consent changed",
    ),
    Field::detail(
        "smsMarketingConsentStatus",
        "sms_marketing_consent_status",
        Text,
        "consent to marketing by SMS",
    ),
    Field::detail(
        "smsMarketingConsentUpdatedAt",
        "sms_marketing_consent_updated_at",
        TIME,
        "when the SMS consent changed",
    ),
    Field::detail(
        "whatsappMarketingConsentStatus",
        "whatsapp_marketing_consent_status",
        Text,
        "consent to marketing by WhatsApp",
    ),
    Field::detail(
        "whatsappMarketingConsentUpdatedAt",
        "whatsapp_marketing_consent_updated_at",
        TIME,
        "when the WhatsApp consent changed",
    ),
    Field::detail(
        "phoneMarketingConsentStatus",
        "phone_marketing_consent_status",
        Text,
        "consent to marketing by phone",
    ),
    Field::detail(
        "phoneMarketingConsentUpdatedAt",
        "phone_marketing_consent_updated_at",
        TIME,
        "when the phone consent changed",
    ),
    Field::detail(
        "consentUpdatedAt",
        "consent_updated_at",
        TIME,
        "when any consent last changed",
    ),
    Field::detail(
        "contactable",
        "contactable",
        Boolean,
        "whether any channel reaches the contact",
    ),
    Field::detail(
        "contactableChannels",
        "contactable_channels",
        Json,
        "the channels that do",
    ),
    Field::detail(
        "contactabilityUpdatedAt",
        "contactability_updated_at",
        TIME,
        "when contactability last changed",
    ),
    Field::detail(
        "emailReachabilityStatus",
        "email_reachability_status",
        Text,
        "reachable by e-mail",
    ),
    Field::detail(
        "webChatReachabilityStatus",
        "web_chat_reachability_status",
        Text,
        "reachable by web chat",
    ),
    Field::detail(
        "whatsappReachabilityStatus",
        "whatsapp_reachability_status",
        Text,
        "reachable by WhatsApp",
    ),
    Field::detail(
        "whatsappServiceWindowExpiresAt",
        "whatsapp_service_window_expires_at",
        TIME,
        "when the WhatsApp service window closes",
    ),
    Field::detail(
        "phoneReachabilityStatus",
        "phone_reachability_status",
        Text,
        "reachable by phone",
    ),
];

/// The company (reference, *Company*).
pub const COMPANY: &[Field] = &[
    Field::list("id", "id", Id, "record identifier").filter(Ops::TEXT),
    Field::list("name", "name", Text, "name").sortable(),
    Field::list("registeredName", "registered_name", Text, "registered name"),
    Field::list("industry", "industry", Text, "industry")
        .filter(Ops::TEXT)
        .writable(),
    Field::list("subIndustry", "sub_industry", Text, "part of the industry").filter(Ops::TEXT),
    Field::list("employeeCount", "employee_count", Integer, "number of employees")
        .filter(Ops::RANGE)
        .sortable(),
    Field::list("revenue", "revenue", AMOUNT, "revenue, exactly as the service gives it"),
    Field::list("hqCountry", "hq_country", Text, "country of the headquarters").filter(Ops::TEXT),
    Field::list("yearFounded", "year_founded", Integer, "year of foundation").filter(Ops::RANGE),
    Field::list("ownerId", "owner_id", Text, "identifier of the owning team member").filter(Ops::TEXT),
    Field::list("logo", "logo", VALUE, "logo, exactly as the service gives it"),
    Field::list("enrichmentAt", "enrichment_at", TIME, "when the record was enriched"),
    Field::list(
        "enrichmentStatus",
        "enrichment_status",
        Text,
        "pending, completed or failed",
    )
    .filter(Ops::TEXT),
    Field::list(
        "lastMessageSentAt",
        "last_message_sent_at",
        TIME,
        "last message sent to the company",
    ),
    Field::list(
        "lastMessageReceivedAt",
        "last_message_received_at",
        TIME,
        "last message received from the company",
    ),
    Field::list(
        "lastInteractionAt",
        "last_interaction_at",
        TIME,
        "time of the last interaction",
    )
    .filter(Ops::RANGE)
    .sortable(),
    Field::list("createdAt", "created_at", TIME, "when the record was created")
        .filter(Ops::RANGE)
        .sortable(),
    Field::list("updatedAt", "updated_at", TIME, "when the record last changed")
        .filter(Ops::RANGE)
        .sortable(),
    Field::list(
        "customerFitScore",
        "customer_fit_score",
        Number,
        "customer fit, compared as stored",
    )
    .filter(Ops::RANGE)
    .sortable(),
    Field::list("etag", "etag", Etag, "version token of the record, its quotes included"),
    Field::list("websiteUrl", "website_url", Text, "web site"),
    Field::detail("notes", "notes", Text, "notes"),
    Field::detail("notesAt", "notes_at", TIME, "when the notes last changed"),
    Field::detail(
        "customerFitScoreReason",
        "customer_fit_score_reason",
        Text,
        "reason of the customer fit",
    ),
    Field::new("domain", "domain", Text, Shown::Nowhere, "normalised host name").filter(Ops::DOMAIN),
];

/// The custom field definition (reference, *Custom field definition*). `options` has a table of its own.
pub const DEFINITION: &[Field] = &[
    Field::list("id", "id", Id, "definition identifier"),
    Field::list("key", "key", Text, "immutable public key, as used inside customFields"),
    Field::list("label", "label", Text, "display text"),
    Field::list("dataType", "data_type", Text, "type of the values"),
    Field::list("objectType", "object_type", Text, "contact or company"),
    Field::list("status", "status", Text, "ACTIVE or ARCHIVED"),
    Field::list("createdAt", "created_at", TIME, "when the definition was created").sortable(),
    Field::list("updatedAt", "updated_at", TIME, "when the definition last changed"),
    Field::list("archivedAt", "archived_at", TIME, "when the definition was archived"),
    Field::list("nullable", "nullable", Boolean, "whether a value may be missing"),
    Field::list("required", "required", Boolean, "whether a value is required"),
    Field::list("readable", "readable", Boolean, "whether values are returned"),
    Field::list("writable", "writable", Boolean, "whether values can be set"),
    Field::list(
        "filterable",
        "filterable",
        Boolean,
        "whether lists can be filtered by the field",
    ),
    Field::list(
        "sortable",
        "sortable",
        Boolean,
        "whether the definition calls itself sortable",
    ),
    Field::list(
        "allowedOperators",
        "allowed_operators",
        Json,
        "filter operators valid for the field, as a JSON array",
    ),
];

/// The team member. The reference names its status and the fields that `q` searches; the rest is assumed likewise.
pub const TEAM_MEMBER: &[Field] = &[
    Field::list("id", "id", Id, "team member identifier"),
    Field::list("firstName", "first_name", Text, "first name"),
    Field::list("lastName", "last_name", Text, "last name"),
    Field::list("username", "username", Text, "user name"),
    Field::list("email", "email", Text, "e-mail address"),
    Field::list("status", "status", Text, "ACTIVE, INACTIVE, SUSPENDED or PENDING").filter(Ops::TEXT),
    Field::list("createdAt", "created_at", TIME, "when the member was created").sortable(),
    Field::list("updatedAt", "updated_at", TIME, "when the member last changed"),
];

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
    pub const fn word(self) -> &'static str {
        match self {
            Object::Contact => "contact",
            Object::Company => "company",
        }
    }

    /// The object of that word.
    pub fn from_word(word: &str) -> Option<Object> {
        Object::ALL.into_iter().find(|object| object.word() == word)
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
        f.write_str(self.word())
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
    pub const ALL: [Resource; 4] = [
        Resource::Contacts,
        Resource::Companies,
        Resource::TeamMembers,
        Resource::CustomFields,
    ];

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
    pub const fn word(self) -> &'static str {
        match self {
            Resource::Contacts => "contacts",
            Resource::Companies => "companies",
            Resource::TeamMembers => "team-members",
            Resource::CustomFields => "custom-fields",
        }
    }

    /// The resource of that name.
    pub fn from_word(word: &str) -> Option<Resource> {
        Resource::ALL.into_iter().find(|resource| resource.word() == word)
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
        self.fields()
            .iter()
            .find(|field| !field.filter.is_empty() && field.filter_name() == name)
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
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
