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
    etag TEXT, -- version token of the member, its quotes included
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
    etag TEXT, -- the record's etag when this detail was read; current while it equals the record's, empty to be read again
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
    etag TEXT, -- the record's etag when this detail was read; current while it equals the record's, empty to be read again
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
-- `status` counts them with each answer, and they are forgotten by their time: neither reads the records themselves.
CREATE INDEX removed_records_by_time ON removed_records (object_type, removed_at);

-- What changed, field by field, since the mirror's first full copy.
CREATE TABLE changes (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, -- grows with every change, never reused
    object_type TEXT NOT NULL, -- contact or company
    record_id TEXT NOT NULL, -- the record's id; empty where a column changed
    kind TEXT NOT NULL, -- insert, update or remove of a record; schema where a custom column changed
    fields TEXT NOT NULL, -- JSON: {column: [old, new]}; of a schema entry {column, op, from, to}, op being added, archived, restored, retyped or removed
    seen_at TEXT NOT NULL -- when the mirror saw it, UTC
) STRICT;

-- Every run of the mirror.
CREATE TABLE sync_runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL, -- sync, resync, verify or push
    "trigger" TEXT NOT NULL, -- manual, schedule or demo
    started_at TEXT NOT NULL, -- UTC
    finished_at TEXT, -- NULL while running, or when the process was killed
    outcome TEXT, -- done, suspended, refused or failed
    "rows" INTEGER DEFAULT 0, -- rows that lists and details returned; NULL as the next six when the process was killed
    ru INTEGER DEFAULT 0, -- request units charged
    inserted INTEGER DEFAULT 0, -- records that were new here
    updated INTEGER DEFAULT 0, -- records that had changed
    removed INTEGER DEFAULT 0, -- records confirmed as removed
    details INTEGER DEFAULT 0, -- details read
    warnings INTEGER DEFAULT 0, -- values kept in extra, items that cannot be mirrored
    error TEXT -- why it failed or was suspended
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

-- The program's own state: ids of the mirror, the RU ledger, what was derived. Small JSON values by name, so that a page's
-- transaction touches one more page of the file and no more. Not for queries: its form may change.
CREATE TABLE state (
    name TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- What needs another look, with what was seen of it. Not for queries: its form may change.
CREATE TABLE doubts (
    object_type TEXT NOT NULL, -- contact, company; contact_key, company_key; of lists that are read whole: team_member,
    -- contact_field, company_field; contact_range, company_range; workspace
    record_id TEXT NOT NULL, -- or of a definition; a key; a range of time; the key and address that saw the workspace; '' for all
    why TEXT NOT NULL, -- of a record: missed, older, gone (without a version it only counts), omitted, null group, failed; of a
    -- definition: lacked; of a key: unknown key; of an item: unlisted, gone; of a range that was read by cursor: created_at,
    -- updated_at; of one of records that share both: tie; of a workspace: unrecognised
    etag TEXT, -- the version that was seen
    version TEXT, -- its `updatedAt`; of a null group: what was null; of a definition: how many records lacked it
    tries INTEGER NOT NULL DEFAULT 0, -- lookups, failures or readings so far; removals that count for the guard
    first_seen TEXT, -- the first moment of the same answer; this and the next one by the ledger's steady clock
    not_before TEXT, -- when the next lookup is due
    PRIMARY KEY (object_type, why, record_id)
) STRICT, WITHOUT ROWID;

-- What is said to be here, as of when, and what is to be read next. Not for queries: its form may change.
CREATE TABLE goals (
    object TEXT NOT NULL, -- contact or company; team-members, custom-fields; what a scope is for; '' for the workspace
    kind TEXT NOT NULL,
    definition TEXT NOT NULL DEFAULT '', -- of a custom field, for what is said of a column; a scope
    since TEXT, -- the clock when the read began; what a detail has to be later than to show the value of a filled column
    finished TEXT, -- the clock when it ended
    steady TEXT, -- the ledger's steady clock when it began
    cost INTEGER, -- in RU
    open INTEGER NOT NULL DEFAULT 0, -- differences that a comparison left, removals that are refused, records that a sweep left out
    PRIMARY KEY (object, kind, definition)
) STRICT, WITHOUT ROWID;

-- How far the changes of an object are known. Not for queries: its form may change.
CREATE TABLE frontier (
    object TEXT PRIMARY KEY NOT NULL, -- contact or company
    watermark TEXT, -- the highest `updatedAt` that a finished walk applied
    served_at TEXT, -- the service's clock when that walk began; NULL if it does not tell the time
    doubt_from TEXT -- where the next walk begins at the latest: an earlier version was accepted since the last one began
) STRICT, WITHOUT ROWID;

-- What is being read, part by part, and how far. Not for queries: its form may change.
CREATE TABLE reads (
    object TEXT NOT NULL, -- contact or company; '' for the lists
    purpose TEXT NOT NULL, -- changes, sweep, fill, lists, ages, progress
    part TEXT NOT NULL DEFAULT '', -- the number of a slice; the key of a field that is filled
    bounds TEXT NOT NULL, -- what the part is by `createdAt`, as JSON
    done INTEGER NOT NULL DEFAULT 0, -- whether it was read to its end
    as_of TEXT, -- our clock as of which changes will be complete
    position TEXT NOT NULL, -- where the walk goes on, as JSON: a hint
    PRIMARY KEY (object, purpose, part)
) STRICT, WITHOUT ROWID;

-- Columns of records that the last answer should have shown and did not: what the service has for them is unknown. Not for
-- queries: its form may change.
CREATE TABLE unshown_columns (
    object_type TEXT NOT NULL, -- contact or company
    record_id TEXT NOT NULL,
    columns TEXT NOT NULL, -- their names, as a JSON array
    PRIMARY KEY (object_type, record_id)
) STRICT, WITHOUT ROWID;

-- Which record a row of contact_search or company_search is of. The records' own row numbers may change with a VACUUM;
-- these do not.
CREATE TABLE search_documents (
    docid INTEGER PRIMARY KEY, -- the rowid in contact_search or company_search
    is_company INTEGER NOT NULL, -- 0: of a contact, 1: of a company
    record_id TEXT NOT NULL -- the record's id
) STRICT;

CREATE VIRTUAL TABLE contact_search USING fts5 (
    record_id UNINDEXED, -- the contact's id, for joins; not searched
    name, -- full name, first and last name
    email, -- primary e-mail address
    company, -- company text
    position, -- job title
    notes, -- notes
    summaries, -- what the last session discussed, and what the contact asked for
    custom, -- every text custom field, one line each
    tokenize = 'unicode61 remove_diacritics 2'
);

CREATE VIRTUAL TABLE company_search USING fts5 (
    record_id UNINDEXED, -- the company's id, for joins; not searched
    name, -- name
    company, -- registered name and web site
    notes, -- notes
    custom, -- every text custom field, one line each
    tokenize = 'unicode61 remove_diacritics 2'
);

-- What the values of select fields are called: join by object_type, column_name (or field_key) and value.
CREATE VIEW select_labels (
    object_type, -- contact or company
    field_key, -- the definition's key
    column_name, -- the column that holds the values
    position, -- from 0, in the service's order
    value, -- the public value key, as it stands in records
    label -- display text
) AS
SELECT d.object_type, d.key, d.column_name, o.position, o.value, o.label
FROM custom_field_definitions AS d JOIN custom_field_options AS o ON o.definition_id = d.id;

CREATE INDEX custom_field_definitions_by_column ON custom_field_definitions (object_type, column_name);

-- What changed, a row per field.
CREATE VIEW change_fields (
    seq, -- the number of the change
    seen_at, -- when the mirror saw it, UTC
    object_type, -- contact or company
    record_id, -- the record's id
    column_name, -- the column of the _full view
    old_value, -- what it held before
    new_value, -- what it holds since
    derived -- 1 for etag, updated_at and the _num companions of decimals, else 0
) AS
SELECT c.seq, c.seen_at, c.object_type, c.record_id, f.key,
    json_extract(f.value, '$[0]'), json_extract(f.value, '$[1]'),
    CASE
        WHEN f.key IN ('etag', 'updated_at') THEN 1
        WHEN substr(f.key, -4) <> '_num' THEN 0
        WHEN substr(f.key, 1, 3) <> 'cf_' THEN 1
        ELSE NOT EXISTS (SELECT 1 FROM custom_field_definitions AS d
                         WHERE d.object_type = c.object_type AND d.column_name = f.key)
    END
FROM changes AS c CROSS JOIN json_each(c.fields) AS f
WHERE c.kind <> 'schema';

-- What records held in a column of a custom field that was dropped, because its type changed or it does not fit, until
-- other values are here: they are the old values of the changes that bring those.
CREATE TABLE ended_values (
    object_type TEXT NOT NULL, -- contact or company
    record_id TEXT NOT NULL,
    column_name TEXT NOT NULL,
    value TEXT NOT NULL, -- as JSON
    ended_by INTEGER NOT NULL, -- the `seq` of the entry of `changes` that ended it
    PRIMARY KEY (object_type, record_id, column_name)
) STRICT, WITHOUT ROWID;

-- Contacts and companies that were written or removed, each once, with the number of its last change: also what is no
-- entry of `changes`, such as an etag or the first reading of a detail. Kept while the mirror is published or followed,
-- and written in the transaction that changes the record.
CREATE TABLE changed_records (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, -- grows with every change of a record
    object_type TEXT NOT NULL, -- contact or company
    record_id TEXT NOT NULL,
    erase INTEGER NOT NULL DEFAULT 0, -- its entries of changes up to this one were erased; 0 for none
    UNIQUE (object_type, record_id)
) STRICT;

-- Records that a back-fill under way has read: those that have a value here and are not among them at its end may have lost
-- it.
CREATE TABLE filled_records (
    object_type TEXT NOT NULL, -- contact or company
    id TEXT NOT NULL,
    PRIMARY KEY (object_type, id)
) STRICT, WITHOUT ROWID;

-- One edit of one record. Made by UPDATE on contacts_full and companies_full, by `crm-mirror edit`, or by an assistant.
CREATE TABLE outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    object_type TEXT NOT NULL, -- contact or company
    record_id TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'queued', -- queued, held, sending, applied, conflict, rejected, dropped or replaced
    source TEXT NOT NULL, -- sql, edit, undo or assistant
    fields TEXT NOT NULL, -- JSON, {column: [before, after]} as the mirror's columns have them; an unknown before is an object
    base_etag TEXT, -- the version of the record that the edit was made on
    body TEXT, -- the request's body, byte for byte; set before it is first sent
    if_match TEXT, -- the version that the request replaces; set with the body
    idempotency_key TEXT, -- set with the body; a retry repeats all three
    attempts INTEGER NOT NULL DEFAULT 0,
    first_sent_at TEXT, -- UTC; when this body was first sent
    last_sent_at TEXT, -- UTC
    status INTEGER, -- the HTTP status of the last answer; NULL where none came
    answer TEXT, -- what the service said, or why the edit was refused here, JSON
    theirs TEXT, -- in a conflict, what the edited columns hold at the service, JSON, {column: value}
    merged_into INTEGER REFERENCES outbox (id), -- the edit of the same record that carries this one along
    queued_at TEXT NOT NULL, -- UTC
    finished_at TEXT, -- UTC; when it was applied, rejected, dropped or replaced
    tried_at TEXT, -- when a request with it was first sent, whatever came of it; UTC by a clock that nobody sets
    released_at TEXT, -- UTC; when a person let it pass `write_back.max_edits`
    undoes INTEGER REFERENCES outbox (id) -- the applied edit that it takes back, the last one of several
) STRICT;

CREATE INDEX outbox_open ON outbox (object_type, record_id, id) WHERE finished_at IS NULL;
CREATE INDEX outbox_new ON outbox (state, id) WHERE finished_at IS NULL AND tried_at IS NULL;
CREATE INDEX outbox_tried ON outbox (tried_at) WHERE tried_at IS NOT NULL;
CREATE INDEX outbox_ended ON outbox (state, finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX outbox_merged ON outbox (merged_into) WHERE merged_into IS NOT NULL;
CREATE INDEX outbox_undoes ON outbox (undoes) WHERE undoes IS NOT NULL;

-- Every step of every edit: the trail that stays.
CREATE TABLE outbox_events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    outbox_id INTEGER NOT NULL REFERENCES outbox (id),
    at TEXT NOT NULL, -- UTC
    from_state TEXT, -- NULL where the edit was made
    to_state TEXT NOT NULL,
    who TEXT, -- a user of the operating system, sql for a shell, mcp for an assistant; NULL where crm-mirror did it by itself
    why TEXT NOT NULL -- a sentence
) STRICT;

CREATE INDEX outbox_events_of ON outbox_events (outbox_id);

-- What waits to reach the service: a row per edited column of every open edit. The views show the service's truth until
-- an edit is applied there.
CREATE VIEW pending_edits (
    edit_id, -- the edit's id in outbox
    object_type, -- contact or company
    record_id, -- the record's id
    name, -- what the record is called
    column_name, -- the column that was edited
    before, -- what the column held when the edit was made
    before_known, -- 0 if that was unknown: then it replaces nothing but an empty value
    after, -- what it is to hold
    theirs, -- in a conflict, what it holds at the service
    state, -- queued, held, sending or conflict
    since -- when the edit was made, UTC
) AS
SELECT o.id, o.object_type, o.record_id, coalesce(c.name, k.name), f.key,
    CASE json_type(f.value, '$[0]') WHEN 'object' THEN json_extract(f.value, '$[0].unfit') ELSE json_extract(f.value, '$[0]') END,
    json_type(f.value, '$[0].unknown') IS NULL, json_extract(f.value, '$[1]'),
    coalesce(json_extract(o.theirs, '$.' || f.key || '.unfit'), json_extract(o.theirs, '$.' || f.key)),
    o.state, o.queued_at
FROM outbox AS o CROSS JOIN json_each(CASE WHEN json_valid(o.fields) THEN o.fields ELSE '{}' END) AS f
LEFT JOIN contacts AS c ON o.object_type = 'contact' AND c.id = o.record_id
LEFT JOIN companies AS k ON o.object_type = 'company' AND k.id = o.record_id
WHERE o.finished_at IS NULL;

-- Until when no request is made for the edits of a record, of an object, or of an object's custom fields. The program's own.
CREATE TABLE outbox_delays (
    object_type TEXT NOT NULL, -- contact or company
    scope TEXT NOT NULL, -- record, object, missed (in its place, of records that seem to be removed) or custom_fields
    record_id TEXT NOT NULL, -- the record; empty where more than one waits
    requests INTEGER NOT NULL, -- requests since an edit last came to its end
    recent INTEGER NOT NULL, -- those of them since the last pause of an hour
    last_at TEXT NOT NULL, -- UTC; when the last of them was made
    not_before TEXT NOT NULL, -- UTC; when the next request may be made
    api_key TEXT, -- the fingerprint of the key that was refused; another key is tried at once
    PRIMARY KEY (object_type, scope, record_id)
) STRICT, WITHOUT ROWID;

-- The values of one UPDATE of one record, between two triggers of a view; empty otherwise. The program's own.
CREATE TABLE outbox_values (
    column_name TEXT PRIMARY KEY,
    change TEXT NOT NULL, -- JSON, [before, after]
    unproven INTEGER NOT NULL DEFAULT 0, -- 1 if the record's version does not prove the value before
    effect INTEGER NOT NULL DEFAULT 1 -- -1: not decided yet, 0: changes nothing, 1: becomes part of the edit, 2: takes back an edit that was never sent
) STRICT, WITHOUT ROWID;
