//! Every standard field of the service, once. [`Field`] explains the columns of these tables.

use std::sync::LazyLock;

use super::FieldKind::{Boolean, Etag, Id, Integer, Json, Number, Text};
use super::{Field, FieldKind, FieldProjection, ops};

const TIME: FieldKind = FieldKind::Instant;
const VALUE: FieldKind = FieldKind::Value { num: false };
const AMOUNT: FieldKind = FieldKind::Value { num: true };

type FieldTable = LazyLock<Vec<Field>>;

pub(super) static CONTACT: FieldTable = FieldTable::new(|| {
    vec![
        Field::list("id", Id, "record identifier").filter(ops::TEXT),
        Field::list("name", Text, "full name").sortable(),
        Field::list("firstName", Text, "first name"),
        Field::list("lastName", Text, "last name"),
        Field::list("email", Text, "primary e-mail address; read-only through the API").filter(ops::TEXT),
        Field::list("mobile", Text, "primary mobile number; read-only through the API").filter(ops::TEXT),
        Field::list("position", Text, "job title").filter(ops::PHRASE).writable(),
        Field::list("company", Text, "company text"),
        Field::list("companyId", Text, "identifier of the company").filter(ops::TEXT),
        Field::list("ownerId", Text, "identifier of the owning team member").filter(ops::TEXT),
        Field::list("qualification", Boolean, "whether the contact is qualified").filter(ops::BOOLEAN),
        Field::list("createdAt", TIME, "when the record was created").filter(ops::RANGE).sortable(),
        Field::list("updatedAt", TIME, "when the record last changed").filter(ops::RANGE).sortable(),
        Field::list("intentType", Text, "kind of intent"),
        Field::list("intentLevel", Text, "HIGH, MED or LOW").filter(ops::TEXT),
        Field::list("lastInteractionAt", TIME, "time of the last interaction").filter(ops::RANGE).sortable(),
        Field::list("enrichmentStatus", Text, "pending, completed or failed").filter(ops::TEXT),
        Field::list("enrichmentAt", TIME, "when the record was enriched"),
        Field::list("etag", Etag, "version token of the record, its quotes included"),
        Field::list("location.country", Text, "country, as stored text").filter(ops::TEXT),
        Field::list("location.region", Text, "region"),
        Field::list("location.city", Text, "city"),
        Field::detail("industry", Text, "industry, as stored text").filter(ops::TEXT).writable(),
        Field::detail("language", Text, "preferred language").writable(),
        Field::detail("timezone", Text, "time zone").writable(),
        Field::detail("linkedinUrl", Text, "LinkedIn profile"),
        Field::detail("recordSource", Text, "where the record came from"),
        Field::detail("originChannel", Text, "channel of the first contact"),
        Field::detail("notes", Text, "notes").writable(),
        Field::detail("notesAt", TIME, "when the notes last changed"),
        Field::detail("score", Number, "deprecated historical score"),
        Field::detail("reasoning", Text, "reasoning behind the qualification"),
        Field::detail("qualificationConfidence", AMOUNT, "confidence of the qualification"),
        Field::detail("qualifiedAt", TIME, "when the contact was qualified"),
        Field::detail("intentReason", Text, "reason of the intent"),
        Field::detail("intentInferredAt", TIME, "when the intent was inferred"),
        Field::detail("lastMessageSentAt", TIME, "last message sent to the contact"),
        Field::detail("lastMessageReceivedAt", TIME, "last message received from the contact"),
        Field::detail("sessionSummaryDiscussed", VALUE, "what the last session discussed"),
        Field::detail("sessionSummaryRequests", VALUE, "what the contact asked for"),
        Field::detail("sessionSummaryAt", TIME, "when the session was summarised"),
        Field::detail("doNotContact", Boolean, "whether the contact must not be contacted"),
        Field::detail("doNotContactAt", TIME, "since when"),
        Field::detail("doNotContactReason", Text, "why"),
        Field::detail("emailMarketingConsentStatus", Text, "consent to marketing by e-mail"),
        Field::detail("emailMarketingConsentUpdatedAt", TIME, "when the e-mail consent changed"),
        Field::detail("smsMarketingConsentStatus", Text, "consent to marketing by SMS"),
        Field::detail("smsMarketingConsentUpdatedAt", TIME, "when the SMS consent changed"),
        Field::detail("whatsappMarketingConsentStatus", Text, "consent to marketing by WhatsApp"),
        Field::detail("whatsappMarketingConsentUpdatedAt", TIME, "when the WhatsApp consent changed"),
        Field::detail("phoneMarketingConsentStatus", Text, "consent to marketing by phone"),
        Field::detail("phoneMarketingConsentUpdatedAt", TIME, "when the phone consent changed"),
        Field::detail("consentUpdatedAt", TIME, "when any consent last changed"),
        Field::detail("contactable", Boolean, "whether any channel reaches the contact"),
        Field::detail("contactableChannels", Json, "the channels that do"),
        Field::detail("contactabilityUpdatedAt", TIME, "when contactability last changed"),
        Field::detail("emailReachabilityStatus", Text, "reachable by e-mail"),
        Field::detail("webChatReachabilityStatus", Text, "reachable by web chat"),
        Field::detail("whatsappReachabilityStatus", Text, "reachable by WhatsApp"),
        Field::detail("whatsappServiceWindowExpiresAt", TIME, "when the WhatsApp service window closes"),
        Field::detail("phoneReachabilityStatus", Text, "reachable by phone"),
    ]
});

pub(super) static COMPANY: FieldTable = FieldTable::new(|| {
    vec![
        Field::list("id", Id, "record identifier").filter(ops::TEXT),
        Field::list("name", Text, "name").sortable(),
        Field::list("registeredName", Text, "registered name"),
        Field::list("industry", Text, "industry").filter(ops::TEXT).writable(),
        Field::list("subIndustry", Text, "part of the industry").filter(ops::TEXT),
        Field::list("employeeCount", Integer, "number of employees").filter(ops::RANGE).sortable(),
        Field::list("revenue", AMOUNT, "revenue, exactly as the service gives it"),
        Field::list("hqCountry", Text, "country of the headquarters").filter(ops::TEXT),
        Field::list("yearFounded", Integer, "year of foundation").filter(ops::RANGE),
        Field::list("ownerId", Text, "identifier of the owning team member").filter(ops::TEXT),
        Field::list("logo", VALUE, "logo, exactly as the service gives it"),
        Field::list("enrichmentAt", TIME, "when the record was enriched"),
        Field::list("enrichmentStatus", Text, "pending, completed or failed").filter(ops::TEXT),
        Field::list("lastMessageSentAt", TIME, "last message sent to the company"),
        Field::list("lastMessageReceivedAt", TIME, "last message received from the company"),
        Field::list("lastInteractionAt", TIME, "time of the last interaction").filter(ops::RANGE).sortable(),
        Field::list("createdAt", TIME, "when the record was created").filter(ops::RANGE).sortable(),
        Field::list("updatedAt", TIME, "when the record last changed").filter(ops::RANGE).sortable(),
        Field::list("customerFitScore", Number, "customer fit, compared as stored").filter(ops::RANGE).sortable(),
        Field::list("etag", Etag, "version token of the record, its quotes included"),
        Field::list("websiteUrl", Text, "web site"),
        Field::detail("notes", Text, "notes"),
        Field::detail("notesAt", TIME, "when the notes last changed"),
        Field::detail("customerFitScoreReason", Text, "reason of the customer fit"),
        Field::new("domain", Text, FieldProjection::FilterOnly, "normalised host name").filter(ops::DOMAIN),
    ]
});

/// The custom field definition (reference, *Custom field definition*). `options` has a table of its own.
pub(super) static DEFINITION: FieldTable = FieldTable::new(|| {
    vec![
        Field::list("id", Id, "definition identifier"),
        Field::list("key", Text, "immutable public key, as used inside customFields"),
        Field::list("label", Text, "display text"),
        Field::list("dataType", Text, "type of the values"),
        Field::list("objectType", Text, "contact or company"),
        Field::list("status", Text, "ACTIVE or ARCHIVED"),
        Field::list("createdAt", TIME, "when the definition was created").sortable(),
        Field::list("updatedAt", TIME, "when the definition last changed"),
        Field::list("archivedAt", TIME, "when the definition was archived"),
        Field::list("nullable", Boolean, "whether a value may be missing"),
        Field::list("required", Boolean, "whether a value is required"),
        Field::list("readable", Boolean, "whether values are returned"),
        Field::list("writable", Boolean, "whether values can be set"),
        Field::list("filterable", Boolean, "whether lists can be filtered by the field"),
        Field::list("sortable", Boolean, "whether the definition calls itself sortable"),
        Field::list("allowedOperators", Json, "filter operators valid for the field, as a JSON array"),
    ]
});

/// The team member. The reference names its status, the fields that `q` searches and an etag; the rest is assumed likewise.
pub(super) static TEAM_MEMBER: FieldTable = FieldTable::new(|| {
    vec![
        Field::list("id", Id, "team member identifier"),
        Field::list("firstName", Text, "first name"),
        Field::list("lastName", Text, "last name"),
        Field::list("username", Text, "user name"),
        Field::list("email", Text, "e-mail address"),
        Field::list("status", Text, "ACTIVE, INACTIVE, SUSPENDED or PENDING").filter(ops::TEXT),
        Field::list("createdAt", TIME, "when the member was created").sortable(),
        Field::list("updatedAt", TIME, "when the member last changed"),
        Field::list("etag", Etag, "version token of the member, its quotes included"),
    ]
});
