//! Values that people write in SQL: into the columns of the writable views, and as arguments of functions.
//!
//! The triggers of the views and the check in Rust accept and refuse the same values, and what is queued is the value that
//! was written.

use crm_mirror::model::editable::Editable;
use crm_mirror::model::{DataType, Object};
use crm_mirror::outbox::validate as rules;
use crm_mirror::store::functions;
use rusqlite::types::Value as Sql;
use rusqlite::{Connection, params_from_iter};
use serde_json::{Value, json};

use super::mirrored::{OPTIONS, key, mirrored, triggers};
use super::{SEPARATOR, choice};

const CALLS: [&str; 2] =
    ["decimal_sum(column1) FROM (VALUES (?1), (?2), (?3))", "decimal_avg(column1) FROM (VALUES (?1), (?2), (?3))"];

thread_local! {
    static OPEN: Connection = mirrored().connection();
    static PLAIN: Connection = {
        let conn = Connection::open_in_memory().unwrap();
        conn.set_prepared_statement_cache_capacity(64);
        functions::register(&conn).unwrap();
        conn
    };
}

/// Checks a statement: the first byte chooses the column or the function, the rest are values.
pub fn check(data: &[u8]) {
    let (which, data) = choice(data);
    let mut values = data.split(|byte| *byte == SEPARATOR).map(value);
    if which < 32 {
        let values: [Sql; 3] = std::array::from_fn(|_| values.next().unwrap_or(Sql::Null));
        return PLAIN.with(|conn| call(conn, CALLS[which % CALLS.len()], &values));
    }
    let value = values.next().unwrap_or(Sql::Null);
    OPEN.with(|conn| {
        triggers(conn, false);
        conn.execute_batch("BEGIN IMMEDIATE; DELETE FROM outbox_events; DELETE FROM outbox").unwrap();
        triggers(conn, true);
        update(conn, which - 32, &value);
        conn.execute_batch("ROLLBACK").unwrap();
    });
}

/// A value: its first byte is its type.
fn value(data: &[u8]) -> Sql {
    let (which, data) = data.split_first().unwrap_or((&b'0', data));
    let text = || String::from_utf8_lossy(data).into_owned();
    match which {
        b'0' => Sql::Null,
        b'i' => Sql::Integer(text().parse().unwrap_or(data.len() as i64)),
        b'r' => Sql::Real(text().parse().ok().filter(|real: &f64| !real.is_nan()).unwrap_or(0.5)),
        b'b' => Sql::Blob(data.into()),
        _ => Sql::Text(text()),
    }
}

fn call(conn: &Connection, what: &str, values: &[Sql; 3]) {
    let mut stmt = conn.prepare_cached(&format!("SELECT {what}")).unwrap();
    let used = stmt.parameter_count();
    let found: rusqlite::Result<Sql> = stmt.query_row(params_from_iter(&values[..used]), |row| row.get(0));
    if let Ok(Sql::Text(text)) = &found {
        let longest =
            values.iter().map(|value| if let Sql::Text(text) = value { text.len() } else { 24 }).sum::<usize>();
        assert!(text.len() <= 18 * longest + 200, "{what} of {values:?}");
    }
    let again: rusqlite::Result<Sql> = stmt.query_row(params_from_iter(&values[..used]), |row| row.get(0));
    assert_eq!(found.is_ok(), again.is_ok(), "{what} of {values:?}");
}

fn update(conn: &Connection, which: usize, sql: &Sql) {
    let standard = ["position", "language", "notes"];
    let place = which % (standard.len() + 1 + 2 * DataType::ALL.len());
    let (object, field) = match place {
        0..3 => (Object::Contact, Editable::standard(Object::Contact, standard[place])),
        3 => (Object::Company, Editable::standard(Object::Company, "industry")),
        _ => (Object::Contact, Some(custom(DataType::ALL[(place - 4) / 2], place.is_multiple_of(2)))),
    };
    let field = field.expect("a field that can be edited");
    let (view, id) = if object == Object::Contact { ("contacts_full", "ct0") } else { ("companies_full", "co") };
    let set = format!("UPDATE {view} SET {} = ?1 WHERE id = '{id}'", field.column);
    let queued = conn.prepare_cached(&set).unwrap().execute([sql]);
    let select = "SELECT count(*), max(fields) FROM outbox";
    let (edits, fields): (i64, Option<String>) =
        conn.prepare_cached(select).unwrap().query_row([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    assert!(edits <= 1);
    let after = fields.map(|fields| serde_json::from_str::<Value>(&fields).expect("JSON")[&*field.column][1].clone());
    if queued.is_err() {
        assert_eq!(edits, 0);
    }
    let Some(held) = held(&field, sql) else { return };
    let check = rules::request(object, [(&field, &held)]);
    let settled = rules::settled(&field, &held);
    // Setting an empty required field to empty is accepted, and changes nothing.
    let nothing = settled.is_null();
    if queued.is_ok() {
        assert!(check.is_ok() || nothing, "{} {sql:?}: {check:?}", field.column);
    } else if !is_stricter(&field, &held) {
        assert!(check.is_err(), "{} {sql:?}: {queued:?}", field.column);
    }
    if let Some(after) = after {
        assert_eq!(after, settled, "{} {sql:?}", field.column);
    }
}

fn custom(data_type: DataType, clearable: bool) -> Editable {
    let key = key(data_type, clearable);
    Editable {
        object: Object::Contact,
        column: format!("cf_{key}").into(),
        wire: key.into(),
        data_type: Some(data_type),
        clearable,
        detail_only: data_type.detail_only(),
        options: if data_type.is_select() { OPTIONS.map(String::from).to_vec() } else { vec![] },
    }
}

/// The value of the column after a statement set this value; `None` where SQLite decides on it.
fn held(field: &Editable, sql: &Sql) -> Option<Value> {
    let integer = field.data_type.is_some_and(|data_type| data_type.sql_type() == "INTEGER");
    let held = match sql {
        Sql::Null => Value::Null,
        Sql::Integer(n) if integer => json!(n),
        Sql::Integer(n) => json!(n.to_string()),
        Sql::Text(text) if text.contains('\0') => return None,
        Sql::Text(text) => json!(text),
        Sql::Real(_) | Sql::Blob(_) => return None,
    };
    // An integer column makes a number of every text that looks like one.
    let is_odd = integer && held.as_str().is_some_and(|text| text.contains(|c: char| c.is_ascii_digit()));
    // A large integer may have been rounded before: the triggers refuse it.
    let is_large = integer && held.as_i64().is_some_and(|n| n.unsigned_abs() >= 1 << 53);
    (!is_odd && !is_large).then_some(held)
}

/// Whether the triggers refuse a value that the check accepts: a timestamp whose offset or form SQLite does not know.
fn is_stricter(field: &Editable, held: &Value) -> bool {
    field.data_type == Some(DataType::DateTime) && held.is_string()
}
