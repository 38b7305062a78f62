//! Every standard field of the service, once. [`super::field`] explains the columns of these tables.

use super::field::FieldKind::{Boolean, Etag, Id, Integer, Json, Number, Text};
use super::field::{Field, FieldKind, FieldProjection};
use super::operators::Ops;

const TIME: FieldKind = FieldKind::Instant;
const VALUE: FieldKind = FieldKind::Value { num: false };
const AMOUNT: FieldKind = FieldKind::Value { num: true };

/// The contact (reference, *Contact*).
pub const CONTACT: &[Field] = &[
    Field::list("id", "id", Id, "record identifier").filter(Ops::TEXT),
    Field::list("name", "name", Text, "full name").sortable(),
    Field::list("firstName", "first_name", Text, "first name"),
    Field::list("lastName", "last_name", Text, "last name"),
    Field::list("email", "email", Text, "primary e-mail address; read-only through the API").filter(Ops::TEXT),
    Field::list("mobile", "mobile", Text, "primary mobile number; read-only through the API").filter(Ops::TEXT),
    Field::list("position", "position", Text, "job title").filter(Ops::PHRASE).writable(),
    Field::list("company", "company", Text, "company text"),
    Field::list("companyId", "company_id", Text, "identifier of the company").filter(Ops::TEXT),
    Field::list("ownerId", "owner_id", Text, "identifier of the owning team member").filter(Ops::TEXT),
    Field::list("qualification", "qualification", Boolean, "whether the contact is qualified").filter(Ops::BOOLEAN),
    Field::list("createdAt", "created_at", TIME, "when the record was created").filter(Ops::RANGE).sortable(),
    Field::list("updatedAt", "updated_at", TIME, "when the record last changed").filter(Ops::RANGE).sortable(),
    Field::list("intentType", "intent_type", Text, "kind of intent"),
    Field::list("intentLevel", "intent_level", Text, "HIGH, MED or LOW").filter(Ops::TEXT),
    Field::list("lastInteractionAt", "last_interaction_at", TIME, "time of the last interaction")
        .filter(Ops::RANGE)
        .sortable(),
    Field::list("enrichmentStatus", "enrichment_status", Text, "pending, completed or failed").filter(Ops::TEXT),
    Field::list("enrichmentAt", "enrichment_at", TIME, "when the record was enriched"),
    Field::list("etag", "etag", Etag, "version token of the record, its quotes included"),
    Field::list("location.country", "location_country", Text, "country, as stored text").filter(Ops::TEXT),
    Field::list("location.region", "location_region", Text, "region"),
    Field::list("location.city", "location_city", Text, "city"),
    Field::detail("industry", "industry", Text, "industry, as stored text").filter(Ops::TEXT).writable(),
    Field::detail("language", "language", Text, "preferred language").writable(),
    Field::detail("timezone", "timezone", Text, "time zone").writable(),
    Field::detail("linkedinUrl", "linkedin_url", Text, "LinkedIn profile"),
    Field::detail("recordSource", "record_source", Text, "where the record came from"),
    Field::detail("originChannel", "origin_channel", Text, "channel of the first contact"),
    Field::detail("notes", "notes", Text, "notes").writable(),
    Field::detail("notesAt", "notes_at", TIME, "when the notes last changed"),
    Field::detail("score", "score", Number, "deprecated historical score"),
    Field::detail("reasoning", "reasoning", Text, "reasoning behind the qualification"),
    Field::detail("qualificationConfidence", "qualification_confidence", AMOUNT, "confidence of the qualification"),
    Field::detail("qualifiedAt", "qualified_at", TIME, "when the contact was qualified"),
    Field::detail("intentReason", "intent_reason", Text, "reason of the intent"),
    Field::detail("intentInferredAt", "intent_inferred_at", TIME, "when the intent was inferred"),
    Field::detail("lastMessageSentAt", "last_message_sent_at", TIME, "last message sent to the contact"),
    Field::detail("lastMessageReceivedAt", "last_message_received_at", TIME, "last message received from the contact"),
    Field::detail("sessionSummaryDiscussed", "session_summary_discussed", VALUE, "what the last session discussed"),
    Field::detail("sessionSummaryRequests", "session_summary_requests", VALUE, "what the contact asked for"),
    Field::detail("sessionSummaryAt", "session_summary_at", TIME, "when the session was summarised"),
    Field::detail("doNotContact", "do_not_contact", Boolean, "whether the contact must not be contacted"),
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
    Field::detail("smsMarketingConsentStatus", "sms_marketing_consent_status", Text, "consent to marketing by SMS"),
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
    Field::detail("consentUpdatedAt", "consent_updated_at", TIME, "when any consent last changed"),
    Field::detail("contactable", "contactable", Boolean, "whether any channel reaches the contact"),
    Field::detail("contactableChannels", "contactable_channels", Json, "the channels that do"),
    Field::detail("contactabilityUpdatedAt", "contactability_updated_at", TIME, "when contactability last changed"),
    Field::detail("emailReachabilityStatus", "email_reachability_status", Text, "reachable by e-mail"),
    Field::detail("webChatReachabilityStatus", "web_chat_reachability_status", Text, "reachable by web chat"),
    Field::detail("whatsappReachabilityStatus", "whatsapp_reachability_status", Text, "reachable by WhatsApp"),
    Field::detail(
        "whatsappServiceWindowExpiresAt",
        "whatsapp_service_window_expires_at",
        TIME,
        "when the WhatsApp service window closes",
    ),
    Field::detail("phoneReachabilityStatus", "phone_reachability_status", Text, "reachable by phone"),
];

/// The company (reference, *Company*).
pub const COMPANY: &[Field] = &[
    Field::list("id", "id", Id, "record identifier").filter(Ops::TEXT),
    Field::list("name", "name", Text, "name").sortable(),
    Field::list("registeredName", "registered_name", Text, "registered name"),
    Field::list("industry", "industry", Text, "industry").filter(Ops::TEXT).writable(),
    Field::list("subIndustry", "sub_industry", Text, "part of the industry").filter(Ops::TEXT),
    Field::list("employeeCount", "employee_count", Integer, "number of employees").filter(Ops::RANGE).sortable(),
    Field::list("revenue", "revenue", AMOUNT, "revenue, exactly as the service gives it"),
    Field::list("hqCountry", "hq_country", Text, "country of the headquarters").filter(Ops::TEXT),
    Field::list("yearFounded", "year_founded", Integer, "year of foundation").filter(Ops::RANGE),
    Field::list("ownerId", "owner_id", Text, "identifier of the owning team member").filter(Ops::TEXT),
    Field::list("logo", "logo", VALUE, "logo, exactly as the service gives it"),
    Field::list("enrichmentAt", "enrichment_at", TIME, "when the record was enriched"),
    Field::list("enrichmentStatus", "enrichment_status", Text, "pending, completed or failed").filter(Ops::TEXT),
    Field::list("lastMessageSentAt", "last_message_sent_at", TIME, "last message sent to the company"),
    Field::list("lastMessageReceivedAt", "last_message_received_at", TIME, "last message received from the company"),
    Field::list("lastInteractionAt", "last_interaction_at", TIME, "time of the last interaction")
        .filter(Ops::RANGE)
        .sortable(),
    Field::list("createdAt", "created_at", TIME, "when the record was created").filter(Ops::RANGE).sortable(),
    Field::list("updatedAt", "updated_at", TIME, "when the record last changed").filter(Ops::RANGE).sortable(),
    Field::list("customerFitScore", "customer_fit_score", Number, "customer fit, compared as stored")
        .filter(Ops::RANGE)
        .sortable(),
    Field::list("etag", "etag", Etag, "version token of the record, its quotes included"),
    Field::list("websiteUrl", "website_url", Text, "web site"),
    Field::detail("notes", "notes", Text, "notes"),
    Field::detail("notesAt", "notes_at", TIME, "when the notes last changed"),
    Field::detail("customerFitScoreReason", "customer_fit_score_reason", Text, "reason of the customer fit"),
    Field::new("domain", "domain", Text, FieldProjection::FilterOnly, "normalised host name").filter(Ops::DOMAIN),
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
    Field::list("filterable", "filterable", Boolean, "whether lists can be filtered by the field"),
    Field::list("sortable", "sortable", Boolean, "whether the definition calls itself sortable"),
    Field::list("allowedOperators", "allowed_operators", Json, "filter operators valid for the field, as a JSON array"),
];

/// The team member. The reference names its status, the fields that `q` searches and an etag; the rest is assumed likewise.
pub const TEAM_MEMBER: &[Field] = &[
    Field::list("id", "id", Id, "team member identifier"),
    Field::list("firstName", "first_name", Text, "first name"),
    Field::list("lastName", "last_name", Text, "last name"),
    Field::list("username", "username", Text, "user name"),
    Field::list("email", "email", Text, "e-mail address"),
    Field::list("status", "status", Text, "ACTIVE, INACTIVE, SUSPENDED or PENDING").filter(Ops::TEXT),
    Field::list("createdAt", "created_at", TIME, "when the member was created").sortable(),
    Field::list("updatedAt", "updated_at", TIME, "when the member last changed"),
    Field::list("etag", "etag", Etag, "version token of the member, its quotes included"),
];
