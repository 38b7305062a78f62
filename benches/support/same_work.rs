//! What a straight-line program adds to its rows if it does the same work as the mirror: the secondary indexes, the rows of
//! multi-selects, the search index and the history of changes, each by the plainest SQL that there is.
//!
//! All of it is built in bulk once the rows are there, which is the cheapest way; a run of changes keeps it in step.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, params};

use super::straight_line::COLUMNS;

/// The tables beside the rows, with the same contents as the mirror's.
const TABLES: &str = "
    CREATE TABLE custom_multi_values (
        object_type TEXT NOT NULL, record_id TEXT NOT NULL, field_key TEXT NOT NULL, position INTEGER NOT NULL,
        value TEXT NOT NULL, PRIMARY KEY (object_type, record_id, field_key, position)) STRICT, WITHOUT ROWID;
    CREATE TABLE changes (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, object_type TEXT NOT NULL, record_id TEXT NOT NULL, kind TEXT NOT NULL,
        fields TEXT NOT NULL, seen_at TEXT NOT NULL) STRICT;
    CREATE TABLE search_documents (docid INTEGER PRIMARY KEY, is_company INTEGER NOT NULL, record_id TEXT NOT NULL) STRICT;
    CREATE VIRTUAL TABLE contact_search USING fts5 (
        record_id UNINDEXED, name, email, company, position, custom, tokenize = 'unicode61 remove_diacritics 2');";

/// The bulk building, the indexes of the schema included.
const BUILD: [&str; 6] = [
    "INSERT INTO custom_multi_values
     SELECT 'contact', r.id, 'topics', v.key, v.value FROM contacts AS r, json_each(r.cf_topics) AS v
     WHERE r.cf_topics IS NOT NULL ORDER BY +r.id, v.key",
    "INSERT INTO search_documents SELECT rowid, 0, id FROM contacts ORDER BY rowid",
    "INSERT INTO contact_search (rowid, record_id, name, email, company, position, custom)
     SELECT rowid, id, name, email, company, position, concat_ws(char(10), cf_nickname, cf_customer_ref)
     FROM contacts ORDER BY rowid",
    include_str!("../../schema/indexes_after_first_copy/contacts.sql"),
    include_str!("../../schema/indexes_after_first_copy/shared.sql"),
    "CREATE INDEX ix_nickname ON contacts (cf_nickname);
     CREATE INDEX ix_nickname_as_text ON contacts (coalesce(cf_nickname, NULL));
     CREATE INDEX ix_customer_ref ON contacts (cf_customer_ref);
     CREATE INDEX ix_customer_ref_as_text ON contacts (coalesce(cf_customer_ref, NULL));
     CREATE INDEX ix_children ON contacts (cf_children);
     CREATE INDEX ix_lifetime_value ON contacts (cast(cf_lifetime_value AS REAL))",
];

/// Creates the tables beside the rows.
pub fn create(conn: &Connection) -> rusqlite::Result<()> {
    conn.execute_batch(TABLES)
}

/// Builds everything from the rows, in one transaction.
pub fn build(conn: &mut Connection) -> rusqlite::Result<()> {
    let tx = conn.transaction()?;
    for sql in BUILD {
        tx.execute_batch(sql)?;
    }
    tx.commit()
}

/// The columns that are searched.
const SEARCHED: [&str; 6] = ["name", "email", "company", "position", "cf_nickname", "cf_customer_ref"];

/// Keeps search index and history in step with a row that changed; `changed` are the places of its columns with what they
/// held before.
pub fn follow(
    conn: &Connection,
    id: &str,
    values: &[ValueRef<'_>],
    changed: &[(usize, serde_json::Value)],
) -> rusqlite::Result<()> {
    if changed.iter().any(|(place, _)| SEARCHED.contains(&COLUMNS[*place])) {
        conn.prepare_cached(
            "UPDATE contact_search SET (name, email, company, position, custom) =
                 (SELECT name, email, company, position, concat_ws(char(10), cf_nickname, cf_customer_ref)
                  FROM contacts WHERE id = ?1)
             WHERE rowid = (SELECT docid FROM search_documents WHERE is_company = 0 AND record_id = ?1)",
        )?
        .execute([id])?;
    }
    let mut fields = serde_json::Map::new();
    for (place, old) in changed {
        fields.insert(COLUMNS[*place].into(), vec![old.clone(), json(values[*place])].into());
    }
    conn.prepare_cached(
        "INSERT INTO changes (object_type, record_id, kind, fields, seen_at)
         VALUES ('contact', ?1, 'update', ?2, '2026-03-04T12:00:00.000000Z')",
    )?
    .execute(params![id, serde_json::Value::from(fields).to_string()])?;
    Ok(())
}

/// A column's value as JSON.
pub fn json(value: ValueRef<'_>) -> serde_json::Value {
    match value {
        ValueRef::Integer(number) => number.into(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into(),
        ValueRef::Real(number) => number.into(),
        ValueRef::Null | ValueRef::Blob(_) => serde_json::Value::Null,
    }
}
