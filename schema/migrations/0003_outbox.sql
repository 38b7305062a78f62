-- Local edits on their way to the service, and what became of each.

-- One edit of one record. Made by UPDATE on contacts_full and companies_full, by `crm-mirror edit`, or through the control socket.
CREATE TABLE outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    object_type TEXT NOT NULL, -- contact or company
    record_id TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'queued', -- queued, sending, applied, conflict, rejected or dropped
    source TEXT NOT NULL, -- sql, edit or socket
    fields TEXT NOT NULL, -- JSON, {column: [before, after]} as the mirror's columns have them
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
    finished_at TEXT -- UTC; when it was applied, rejected or dropped
) STRICT;

CREATE INDEX outbox_open ON outbox (object_type, record_id, id) WHERE state IN ('queued', 'sending', 'conflict');

-- Every step of every edit: the trail that stays.
CREATE TABLE outbox_events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    outbox_id INTEGER NOT NULL REFERENCES outbox (id),
    at TEXT NOT NULL, -- UTC
    from_state TEXT, -- NULL where the edit was made
    to_state TEXT NOT NULL,
    why TEXT NOT NULL -- a sentence
) STRICT;
