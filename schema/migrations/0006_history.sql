-- The history of every field, and what the feed says when a custom field's type changes.

-- What records held in a custom field before its type changed, until the values of the new type are here: they are the
-- old values of the changes that bring those.
CREATE TABLE retyped_values (
    object_type TEXT NOT NULL, -- contact or company
    record_id TEXT NOT NULL,
    column_name TEXT NOT NULL,
    value TEXT NOT NULL, -- as JSON
    PRIMARY KEY (object_type, record_id, column_name)
) STRICT, WITHOUT ROWID;

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
FROM changes AS c JOIN json_each(c.fields) AS f
WHERE c.kind <> 'schema';
