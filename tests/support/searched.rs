//! The expected content of the search index, computed from the tables by plain SQL without the tested code.

use crm_mirror::model::Object;
use rusqlite::Connection;
use rusqlite::types::Value;

/// The texts of a record, one per line, in order; of standard fields the first alone, where it says what the others do.
fn joined(texts: &[Value], distinct: bool) -> Value {
    let text = |value: &Value| if let Value::Text(text) = value { Some(text.clone()) } else { None };
    let lines: Vec<String> = texts.iter().filter_map(text).collect();
    match texts.first().and_then(text) {
        Some(first) if distinct && (texts.len() == 1 || first == lines[1..].join(" ")) => first.into(),
        _ => Some(lines.join("\n")).filter(|text| !text.is_empty()).map_or(Value::Null, Value::Text),
    }
}

fn rows(conn: &Connection, sql: &str) -> Vec<Vec<Value>> {
    let mut stmt = conn.prepare(sql).unwrap();
    let count = stmt.column_count();
    stmt.query_map([], |row| (0..count).map(|i| row.get(i)).collect()).unwrap().map(Result::unwrap).collect()
}

/// Every difference between a mirror's search index and one built from its tables.
pub fn differences(conn: &Connection) -> Vec<String> {
    let mut out = Vec::new();
    for object in Object::ALL {
        let table = object.search_table();
        let (groups, columns): (&[&[&str]], &str) = match object {
            Object::Contact => (
                &[
                    &["r.name", "r.first_name", "r.last_name"],
                    &["r.email"],
                    &["r.company"],
                    &["r.position"],
                    &["d.notes"],
                    &["d.session_summary_discussed", "d.session_summary_requests"],
                ],
                "name, email, company, position, notes, summaries, custom",
            ),
            Object::Company => {
                (&[&["r.name"], &["r.registered_name", "r.website_url"], &["d.notes"]], "name, company, notes, custom")
            }
        };
        let custom = rows(
            conn,
            &format!(
                "SELECT column_name FROM custom_field_definitions WHERE object_type = '{object}' AND status = 'ACTIVE'
                 AND data_type IN ('SHORT_TEXT', 'LONG_TEXT') AND readable IS NOT 0 AND column_name IS NOT NULL
                 ORDER BY created_at IS NULL, created_at, id"
            ),
        );
        let custom: Vec<String> =
            custom.into_iter().map(|row| super::truth::shown(row[0].clone()).trim_matches('\'').to_string()).collect();
        let standard = groups.concat();
        let sources: Vec<&str> = standard.iter().copied().chain(custom.iter().map(String::as_str)).collect();
        let expected: Vec<Vec<Value>> = rows(
            conn,
            &format!(
                "SELECT r.id, {} FROM {} r LEFT JOIN {} d ON d.{} = r.id ORDER BY r.id",
                sources.join(", "),
                object.table(),
                object.detail_table(),
                object.detail_key()
            ),
        )
        .into_iter()
        .map(|row| {
            let mut document = vec![row[0].clone()];
            let mut place = 1;
            for group in groups {
                document.push(joined(&row[place..place + group.len()], true));
                place += group.len();
            }
            document.push(joined(&row[place..], false));
            document
        })
        .collect();
        let found = rows(conn, &format!("SELECT record_id, {columns} FROM {table} ORDER BY record_id"));
        if found != expected {
            out.push(format!("{table} holds {found:?}, should hold {expected:?}"));
        }
        // The mapping has the same rows.
        let mapped = rows(
            conn,
            &format!(
                "SELECT count(*) FROM {table} s JOIN search_documents m ON m.docid = s.rowid
                 AND m.record_id = s.record_id AND m.is_company = ('{object}' = 'company')"
            ),
        );
        if mapped[0][0] != Value::Integer(expected.len() as i64) {
            out.push(format!("search_documents does not map {table}"));
        }
    }
    let mapped = rows(
        conn,
        "SELECT (SELECT count(*) FROM search_documents)
              - (SELECT count(*) FROM contact_search) - (SELECT count(*) FROM company_search)",
    );
    if mapped[0][0] != Value::Integer(0) {
        out.push(format!("search_documents: {mapped:?} too many"));
    }
    out
}

/// Runs FTS5's own integrity check.
pub fn integrity(path: &std::path::Path) -> Vec<String> {
    let conn = Connection::open(path).unwrap();
    Object::ALL
        .into_iter()
        .filter_map(|object| {
            let table = object.search_table();
            let sql = format!("INSERT INTO {table} ({table}, rank) VALUES ('integrity-check', 0)");
            conn.execute_batch(&sql).err().map(|error| format!("{table}: {error}"))
        })
        .collect()
}
