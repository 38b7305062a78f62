-- Full-text search, the labels of select values in one join, and what makes both quick.

-- Which record a row of contact_search or company_search is of. The records' own row numbers may change with a VACUUM;
-- these do not.
CREATE TABLE search_documents (
    docid INTEGER PRIMARY KEY, -- the rowid in contact_search or company_search
    object_type TEXT NOT NULL, -- contact or company
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
