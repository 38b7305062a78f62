-- Edits that wait for a person's word, edits that were replaced before they were sent, and the delays between retries.

CREATE TABLE outbox_before AS SELECT * FROM outbox;
DROP VIEW pending_edits;
DROP TABLE outbox;

-- One edit of one record. Made by UPDATE on contacts_full and companies_full, by `crm-mirror edit`, or through the control socket.
CREATE TABLE outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    object_type TEXT NOT NULL, -- contact or company
    record_id TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'queued', -- queued, held, sending, applied, conflict, rejected, dropped or replaced
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
    finished_at TEXT, -- UTC; when it was applied, rejected, dropped or replaced
    tried_at TEXT, -- UTC; when a request with it was first sent, whatever came of it
    released_at TEXT, -- UTC; when a person let it pass `write_back.max_edits`
    undoes INTEGER REFERENCES outbox (id) -- the applied edit that it takes back
) STRICT;

INSERT INTO outbox (id, object_type, record_id, state, source, fields, base_etag, body, if_match, idempotency_key, attempts,
    first_sent_at, last_sent_at, status, answer, theirs, merged_into, queued_at, finished_at, tried_at)
SELECT id, object_type, record_id, state, source, fields, base_etag, body, if_match, idempotency_key, attempts,
    first_sent_at, last_sent_at, status, answer, theirs, merged_into, queued_at, finished_at,
    CASE WHEN attempts > 0 THEN coalesce(first_sent_at, last_sent_at, queued_at) END
FROM outbox_before;
DROP TABLE outbox_before;

CREATE INDEX outbox_open ON outbox (object_type, record_id, id) WHERE state IN ('queued', 'held', 'sending', 'conflict');
CREATE INDEX outbox_new ON outbox (id) WHERE state IN ('queued', 'held') AND tried_at IS NULL;
CREATE INDEX outbox_tried ON outbox (tried_at) WHERE tried_at IS NOT NULL;
CREATE INDEX outbox_ended ON outbox (state, finished_at) WHERE state IN ('rejected', 'applied', 'dropped', 'replaced');

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
    state, -- queued, held, sending or conflict
    since -- when the edit was made, UTC
) AS
SELECT o.id, o.object_type, o.record_id, coalesce(c.name, k.name), f.key,
    json_extract(f.value, '$[0]'), json_extract(f.value, '$[1]'), json_extract(o.theirs, '$.' || f.key),
    o.state, o.queued_at
FROM outbox AS o JOIN json_each(CASE WHEN json_valid(o.fields) THEN o.fields ELSE '{}' END) AS f
LEFT JOIN contacts AS c ON o.object_type = 'contact' AND c.id = o.record_id
LEFT JOIN companies AS k ON o.object_type = 'company' AND k.id = o.record_id
WHERE o.state IN ('queued', 'held', 'sending', 'conflict');

-- Until when no request is made for the edits of a record, of an object, or of an object's custom fields. The program's own.
CREATE TABLE outbox_delays (
    object_type TEXT NOT NULL, -- contact or company
    scope TEXT NOT NULL, -- record, object or custom_fields
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
    cancels INTEGER NOT NULL DEFAULT 0 -- 1 where it takes back an edit that was never sent
) STRICT, WITHOUT ROWID;
