-- The same views, with joins that DuckDB can parse too: it parses every view of a file that it attaches.

DROP VIEW change_fields;

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

DROP VIEW pending_edits;

-- What waits to reach the service: a row per edited column of every open edit. The views show the service's truth until
-- an edit is applied there.
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
FROM outbox AS o CROSS JOIN json_each(CASE WHEN json_valid(o.fields) THEN o.fields ELSE '{}' END) AS f
LEFT JOIN contacts AS c ON o.object_type = 'contact' AND c.id = o.record_id
LEFT JOIN companies AS k ON o.object_type = 'company' AND k.id = o.record_id
WHERE o.state IN ('queued', 'held', 'sending', 'conflict');
