-- The mirror: every table that people query, and the daemon's own state.
--
-- Custom fields add columns named cf_... to contacts, companies, contact_details and company_details; the views
-- contacts_full and companies_full are made by the program, since their columns follow the definitions.
-- Foreign keys are declared so that tools draw the relations; they are not enforced, because a contact may name a
-- company or an owner that the key cannot see.

-- The workspace's team members.
CREATE TABLE team_members (
    id TEXT PRIMARY KEY NOT NULL,
    first_name TEXT, -- first name
    last_name TEXT, -- last name
    username TEXT, -- user name
    email TEXT, -- e-mail address
    status TEXT, -- ACTIVE, INACTIVE, SUSPENDED or PENDING
    created_at TEXT, -- when the member was created
    updated_at TEXT, -- when the member last changed
    extra TEXT, -- what the columns cannot hold, verbatim JSON by wire name
    synced_at TEXT NOT NULL -- when the answer that this row was last written from was asked for, UTC
) STRICT;

-- Companies: what lists return.
CREATE TABLE companies (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT, -- name
    registered_name TEXT, -- registered name
    industry TEXT, -- industry
    sub_industry TEXT, -- part of the industry
    employee_count INTEGER, -- number of employees
    revenue TEXT, -- revenue, exactly as the service gives it
    revenue_num REAL, -- the same, as the nearest double: for sorting and sums
    hq_country TEXT, -- country of the headquarters
    year_founded INTEGER, -- year of foundation
    owner_id TEXT REFERENCES team_members (id), -- identifier of the owning team member
    logo TEXT, -- logo, exactly as the service gives it
    enrichment_at TEXT, -- when the record was enriched
    enrichment_status TEXT, -- pending, completed or failed
    last_message_sent_at TEXT, -- last message sent to the company
    last_message_received_at TEXT, -- last message received from the company
    last_interaction_at TEXT, -- time of the last interaction
    created_at TEXT, -- when the record was created
    updated_at TEXT, -- when the record last changed
    customer_fit_score REAL, -- customer fit, compared as stored
    etag TEXT, -- version token of the record, its quotes included
    website_url TEXT, -- web site
    extra TEXT, -- what the columns cannot hold, verbatim JSON by wire name
    synced_at TEXT NOT NULL -- when the answer that this row was last written from was asked for, UTC
) STRICT;

-- Companies: what only details return.
CREATE TABLE company_details (
    company_id TEXT PRIMARY KEY NOT NULL REFERENCES companies (id),
    notes TEXT, -- notes
    notes_at TEXT, -- when the notes last changed
    customer_fit_score_reason TEXT, -- reason of the customer fit
    etag TEXT, -- the record's etag when this detail was read; current while it equals the record's
    extra TEXT, -- what the columns cannot hold, verbatim JSON by wire name
    fetched_at TEXT NOT NULL -- when the detail was asked for, UTC
) STRICT;

-- Contacts: what lists return.
CREATE TABLE contacts (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT, -- full name
    first_name TEXT, -- first name
    last_name TEXT, -- last name
    email TEXT, -- primary e-mail address; read-only through the API
    mobile TEXT, -- primary mobile number; read-only through the API
    position TEXT, -- job title
    company TEXT, -- company text
    company_id TEXT REFERENCES companies (id), -- identifier of the company
    owner_id TEXT REFERENCES team_members (id), -- identifier of the owning team member
    qualification INTEGER, -- whether the contact is qualified
    created_at TEXT, -- when the record was created
    updated_at TEXT, -- when the record last changed
    intent_type TEXT, -- kind of intent
    intent_level TEXT, -- HIGH, MED or LOW
    last_interaction_at TEXT, -- time of the last interaction
    enrichment_status TEXT, -- pending, completed or failed
    enrichment_at TEXT, -- when the record was enriched
    etag TEXT, -- version token of the record, its quotes included
    location_country TEXT, -- country, as stored text
    location_region TEXT, -- region
    location_city TEXT, -- city
    extra TEXT, -- what the columns cannot hold, verbatim JSON by wire name
    synced_at TEXT NOT NULL -- when the answer that this row was last written from was asked for, UTC
) STRICT;

-- Contacts: what only details return.
CREATE TABLE contact_details (
    contact_id TEXT PRIMARY KEY NOT NULL REFERENCES contacts (id),
    industry TEXT, -- industry, as stored text
    language TEXT, -- preferred language
    timezone TEXT, -- time zone
    linkedin_url TEXT, -- LinkedIn profile
    record_source TEXT, -- where the record came from
    origin_channel TEXT, -- channel of the first contact
    notes TEXT, -- notes
    notes_at TEXT, -- when the notes last changed
    score REAL, -- deprecated historical score
    reasoning TEXT, -- reasoning behind the qualification
    qualification_confidence TEXT, -- confidence of the qualification
    qualification_confidence_num REAL, -- the same, as the nearest double: for sorting and sums
    qualified_at TEXT, -- when the contact was qualified
    intent_reason TEXT, -- reason of the intent
    intent_inferred_at TEXT, -- when the intent was inferred
    last_message_sent_at TEXT, -- last message sent to the contact
    last_message_received_at TEXT, -- last message received from the contact
    session_summary_discussed TEXT, -- what the last session discussed
    session_summary_requests TEXT, -- what the contact asked for
    session_summary_at TEXT, -- when the session was summarised
    do_not_contact INTEGER, -- whether the contact must not be contacted
    do_not_contact_at TEXT, -- since when
    do_not_contact_reason TEXT, -- why
    email_marketing_consent_status TEXT, -- consent to marketing by e-mail
    email_marketing_consent_updated_at TEXT, -- when the e-mail consent changed
    sms_marketing_consent_status TEXT, -- consent to marketing by SMS
    sms_marketing_consent_updated_at TEXT, -- when the SMS consent changed
    whatsapp_marketing_consent_status TEXT, -- consent to marketing by WhatsApp
    whatsapp_marketing_consent_updated_at TEXT, -- when the WhatsApp consent changed
    phone_marketing_consent_status TEXT, -- consent to marketing by phone
    phone_marketing_consent_updated_at TEXT, -- when the phone consent changed
    consent_updated_at TEXT, -- when any consent last changed
    contactable INTEGER, -- whether any channel reaches the contact
    contactable_channels TEXT, -- the channels that do
    contactability_updated_at TEXT, -- when contactability last changed
    email_reachability_status TEXT, -- reachable by e-mail
    web_chat_reachability_status TEXT, -- reachable by web chat
    whatsapp_reachability_status TEXT, -- reachable by WhatsApp
    whatsapp_service_window_expires_at TEXT, -- when the WhatsApp service window closes
    phone_reachability_status TEXT, -- reachable by phone
    etag TEXT, -- the record's etag when this detail was read; current while it equals the record's
    extra TEXT, -- what the columns cannot hold, verbatim JSON by wire name
    fetched_at TEXT NOT NULL -- when the detail was asked for, UTC
) STRICT;

-- The tenant's custom fields, active and archived.
CREATE TABLE custom_field_definitions (
    id TEXT PRIMARY KEY NOT NULL,
    key TEXT, -- immutable public key, as used inside customFields
    label TEXT, -- display text
    data_type TEXT, -- type of the values
    object_type TEXT, -- contact or company
    status TEXT, -- ACTIVE or ARCHIVED
    created_at TEXT, -- when the definition was created
    updated_at TEXT, -- when the definition last changed
    archived_at TEXT, -- when the definition was archived
    nullable INTEGER, -- whether a value may be missing
    required INTEGER, -- whether a value is required
    readable INTEGER, -- whether values are returned
    writable INTEGER, -- whether values can be set
    filterable INTEGER, -- whether lists can be filtered by the field
    sortable INTEGER, -- whether the definition calls itself sortable
    allowed_operators TEXT, -- filter operators valid for the field, as a JSON array
    column_name TEXT, -- the column that holds the values; NULL where they are kept in extra
    extra TEXT, -- what the columns cannot hold, verbatim JSON by wire name
    synced_at TEXT NOT NULL -- when the answer that this row was last written from was asked for, UTC
) STRICT;

-- The options of select fields.
CREATE TABLE custom_field_options (
    definition_id TEXT NOT NULL REFERENCES custom_field_definitions (id),
    position INTEGER NOT NULL, -- from 0, in the service's order
    value TEXT NOT NULL, -- the public value key, as it stands in records
    label TEXT, -- display text
    PRIMARY KEY (definition_id, position)
) STRICT, WITHOUT ROWID;

-- MULTI_SELECT values, one row each.
CREATE TABLE custom_multi_values (
    object_type TEXT NOT NULL, -- contact or company
    record_id TEXT NOT NULL,
    field_key TEXT NOT NULL, -- the definition's key
    position INTEGER NOT NULL, -- from 0, in the service's order
    value TEXT NOT NULL,
    PRIMARY KEY (object_type, record_id, field_key, position)
) STRICT, WITHOUT ROWID;

-- Records that the service no longer has; a record that comes back leaves this table.
CREATE TABLE removed_records (
    object_type TEXT NOT NULL, -- contact or company
    id TEXT NOT NULL,
    removed_at TEXT NOT NULL, -- when the removal was confirmed, UTC
    record TEXT NOT NULL, -- the last known record, a JSON object by column
    PRIMARY KEY (object_type, id)
) STRICT, WITHOUT ROWID;

-- What changed, field by field, since the mirror's first full copy.
CREATE TABLE changes (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, -- grows with every change, never reused
    object_type TEXT NOT NULL, -- contact or company
    record_id TEXT NOT NULL,
    kind TEXT NOT NULL, -- insert, update or remove
    fields TEXT NOT NULL, -- JSON: {column: [old, new]}
    seen_at TEXT NOT NULL -- when the mirror saw it, UTC
) STRICT;

-- Every run of the mirror.
CREATE TABLE sync_runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL, -- sync, resync or verify
    "trigger" TEXT NOT NULL, -- manual, schedule or demo
    started_at TEXT NOT NULL, -- UTC
    finished_at TEXT, -- NULL while running, or when the process was killed
    outcome TEXT, -- done, paused, refused or failed
    "rows" INTEGER NOT NULL DEFAULT 0, -- rows that lists and details returned
    ru INTEGER NOT NULL DEFAULT 0, -- request units charged
    inserted INTEGER NOT NULL DEFAULT 0, -- records that were new here
    updated INTEGER NOT NULL DEFAULT 0, -- records that had changed
    removed INTEGER NOT NULL DEFAULT 0, -- records confirmed as removed
    details INTEGER NOT NULL DEFAULT 0, -- details read
    warnings INTEGER NOT NULL DEFAULT 0, -- values kept in extra, items that cannot be mirrored
    error TEXT
) STRICT;

-- Every audit: a range counted here and there.
CREATE TABLE audits (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    object_type TEXT NOT NULL, -- contact or company
    dimension TEXT NOT NULL, -- created_at or updated_at
    range_from TEXT, -- inclusive; NULL is open
    range_to TEXT, -- exclusive; NULL is open
    null_range INTEGER NOT NULL DEFAULT 0, -- 1: the records without a timestamp
    count_here INTEGER NOT NULL,
    count_there INTEGER NOT NULL,
    found TEXT, -- what differed, JSON; NULL where nothing did
    audited_at TEXT NOT NULL -- UTC
) STRICT;

-- What the service did against its own document.
CREATE TABLE service_oddities (
    kind TEXT NOT NULL, -- unordered_page, row_outside_filter, repeated_cursor, ...
    resource TEXT NOT NULL, -- contacts, companies, team-members or custom-fields
    what TEXT NOT NULL, -- a sentence
    first_seen_at TEXT NOT NULL, -- UTC
    last_seen_at TEXT NOT NULL, -- UTC
    times INTEGER NOT NULL,
    PRIMARY KEY (kind, resource, what)
) STRICT, WITHOUT ROWID;

-- The data dictionary: every column of every table and view that people query.
CREATE TABLE mirror_columns (
    table_name TEXT NOT NULL,
    column_name TEXT NOT NULL,
    position INTEGER NOT NULL, -- from 0, in the table's order
    wire_name TEXT, -- the name in the service's answers; NULL for the mirror's own columns
    label TEXT, -- the display text of a custom field
    data_type TEXT NOT NULL, -- what it holds: text, timestamp, DECIMAL, ...
    source TEXT NOT NULL, -- list, detail, custom or mirror
    about TEXT,
    PRIMARY KEY (table_name, column_name)
) STRICT, WITHOUT ROWID;

-- The daemon's own state: checkpoints, watermarks, the RU ledger. Small JSON values by name, so that a page's
-- transaction touches one more page of the file and no more. Not for queries: its form may change.
CREATE TABLE state (
    name TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Records that a running sweep passed over: candidates for removal until the service confirms it by id.
CREATE TABLE sweep_missing (
    object_type TEXT NOT NULL,
    id TEXT NOT NULL,
    PRIMARY KEY (object_type, id)
) STRICT, WITHOUT ROWID;
