//! Query results as answers, within bounds.

use rusqlite::types::ValueRef;
use rusqlite::{Rows, Statement, ToSql};
use serde_json::{Value, json};

/// The maximum length of a value, in characters, and of an answer, in bytes of its values.
const MAX_VALUE: usize = 4_000;
const LARGEST: usize = 100_000;

/// Runs a statement. `truncated` says whether rows were left out.
pub(super) fn rows(stmt: &mut Statement<'_>, params: &[&dyn ToSql], most: usize) -> rusqlite::Result<Value> {
    let columns: Vec<String> = stmt.column_names().map(String::from).collect();
    let mut rows = stmt.query(params)?;
    let (found, is_cut) = collect(&mut rows, columns.len(), most)?;
    Ok(json!({"columns": columns, "rows": found, "truncated": is_cut}))
}

fn collect(rows: &mut Rows<'_>, columns: usize, most: usize) -> rusqlite::Result<(Vec<Vec<Value>>, bool)> {
    let (mut found, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let values: Vec<Value> =
            (0..columns).map(|place| row.get_ref(place).map(value)).collect::<rusqlite::Result<_>>()?;
        bytes += values.iter().map(|value| value.as_str().map_or(8, str::len)).sum::<usize>();
        if found.len() == most || bytes > LARGEST {
            return Ok((found, true));
        }
        found.push(values);
    }
    Ok((found, false))
}

fn value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(i) => i.into(),
        ValueRef::Real(r) => r.into(),
        ValueRef::Text(text) => cut(&String::from_utf8_lossy(text)).into(),
        ValueRef::Blob(bytes) => format!("({} bytes)", bytes.len()).into(),
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_VALUE) {
        Some((at, _)) => format!("{}… ({} characters in all)", &text[..at], text.chars().count()),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    fn run(sql: &str, most: usize) -> Value {
        let conn = Connection::open_in_memory().unwrap();
        rows(&mut conn.prepare(sql).unwrap(), &[], most).unwrap()
    }

    #[test]
    fn answers_are_bounded_and_marked_as_truncated() {
        let all = run("SELECT 1 AS a, NULL AS b, 'x' AS c", 10);
        assert_eq!(all, json!({"columns": ["a", "b", "c"], "rows": [[1, null, "x"]], "truncated": false}));
        let many = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 1000) SELECT ";
        let cut = run(&format!("{many} i FROM n"), 5);
        assert_eq!((cut["rows"].as_array().unwrap().len(), &cut["truncated"]), (5, &json!(true)));
        let long = run(&format!("{many} hex(zeroblob(3000)) FROM n"), 1_000);
        assert!(long.to_string().len() < 2 * LARGEST && long["truncated"] == true);
    }
}
