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

-- What waits to reach the service: a row per edited column of every open edit. The views go on showing the service's
-- truth until an edit is applied there.
CREATE VIEW pending_edits (
    edit_id, -- the edit's id in outbox
    object_type, -- contact or company
    record_id, -- the record's id
    name, -- what the record is called
    column_name, -- the column that was edited
    before, -- what the column held when the edit was made
    after, -- what it is to hold
    theirs, -- in a conflict, what it holds at the service
    state, -- queued, sending or conflict
    since -- when the edit was made, UTC
) AS
SELECT o.id, o.object_type, o.record_id, coalesce(c.name, k.name), f.key,
    json_extract(f.value, '$[0]'), json_extract(f.value, '$[1]'), json_extract(o.theirs, '$.' || f.key),
    o.state, o.queued_at
FROM outbox AS o JOIN json_each(o.fields) AS f
LEFT JOIN contacts AS c ON o.object_type = 'contact' AND c.id = o.record_id
LEFT JOIN companies AS k ON o.object_type = 'company' AND k.id = o.record_id
WHERE o.state IN ('queued', 'sending', 'conflict');
