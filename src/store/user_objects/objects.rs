//! Finds users' objects in the file, removes and restores them.

use std::collections::BTreeSet;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::index_guard;
use crate::model::catalogue::Object;
use crate::store::error::{Doing, StoreError};
use crate::store::program_objects::{GUARDED_TABLES, MIGRATED_VIEWS, history_view, lookup_view};

const DOING: &str = "keep the views of other people";

/// An object that the program did not create.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::store) struct PersonsObject {
    /// `view`, `trigger` or `index`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The table or view that it belongs to; for a view, its own name.
    pub table: String,
    /// The statement that creates it.
    pub sql: String,
    /// Why it could not be restored; empty before the first attempt.
    #[serde(default)]
    pub why: String,
}

/// The program's own views.
fn own_views() -> BTreeSet<&'static str> {
    let derived =
        Object::ALL.into_iter().flat_map(|object| [object.full_view(), history_view(object), lookup_view(object)]);
    MIGRATED_VIEWS.into_iter().chain(derived).collect()
}

/// Whether a trigger is the program's own: its name derives from its table's, see `store::outbox`.
fn is_own_trigger(name: &str, table: &str) -> bool {
    let Some(what) = name.strip_prefix(table).and_then(|rest| rest.strip_prefix('_')) else { return false };
    let is_guarded = GUARDED_TABLES.iter().any(|(guarded, _)| *guarded == table);
    match Object::ALL.iter().any(|object| object.full_view() == table) {
        true => ["update", "insert", "delete"].contains(&what) || what.starts_with("set_"),
        false => is_guarded && ["refuse_insert", "refuse_update", "refuse_delete"].contains(&what),
    }
}

/// Views, and triggers on any table or view, that the program did not create, in the order of creation.
pub(super) fn of_people(conn: &Connection) -> Result<Vec<PersonsObject>, StoreError> {
    let own = own_views();
    let found = read(conn, "type IN ('view', 'trigger')")?;
    Ok(found
        .into_iter()
        .filter(|object| match object.kind.as_str() {
            "view" => !own.contains(object.name.as_str()),
            _ => !is_own_trigger(&object.name, &object.table),
        })
        .collect())
}

pub(super) fn read(conn: &Connection, condition: &str) -> Result<Vec<PersonsObject>, StoreError> {
    let sql = format!(
        "SELECT type, name, tbl_name, sql FROM main.sqlite_schema WHERE {condition} AND sql IS NOT NULL ORDER BY rowid"
    );
    let mut stmt = conn.prepare(&sql).doing(DOING)?;
    let found = stmt.query_map([], |row| {
        Ok(PersonsObject {
            kind: row.get(0)?,
            name: row.get(1)?,
            table: row.get(2)?,
            sql: row.get(3)?,
            why: String::new(),
        })
    });
    found.and_then(Iterator::collect).doing(DOING)
}

/// Removes all of users' views and triggers from the file.
pub(in crate::store) fn set_aside(conn: &Connection) -> Result<Vec<PersonsObject>, StoreError> {
    let objects = of_people(conn)?;
    // Dropping a view drops its triggers.
    for kind in ["trigger", "view"] {
        for object in objects.iter().filter(|object| object.kind == kind) {
            drop_object(conn, object)?;
        }
    }
    Ok(objects)
}

/// Removes the indexes of a table that name a column which will be dropped. The program's own have been dropped before.
pub(in crate::store) fn take_indexes(
    conn: &Connection,
    table: &str,
    column: &str,
) -> Result<Vec<PersonsObject>, StoreError> {
    let on_table = format!("type = 'index' AND tbl_name = '{table}'");
    let names = |object: &PersonsObject| {
        let words = object.sql.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        words.into_iter().any(|word| word.eq_ignore_ascii_case(column))
    };
    let taken: Vec<PersonsObject> = read(conn, &on_table)?.into_iter().filter(names).collect();
    for object in &taken {
        drop_object(conn, object)?;
    }
    Ok(taken)
}

fn drop_object(conn: &Connection, object: &PersonsObject) -> Result<(), StoreError> {
    let name = object.name.replace('"', "\"\"");
    conn.execute_batch(&format!("DROP {} IF EXISTS main.\"{name}\"", object.kind)).doing(DOING)
}

/// Restores objects, views first and triggers last. Returns those that SQLite refuses, with the reason. An object that
/// was refused before is dropped from the list if its name is now used by another object.
pub(in crate::store) fn put_back(conn: &Connection, objects: &[PersonsObject]) -> Vec<PersonsObject> {
    let mut refused = Vec::new();
    for kind in ["view", "index", "trigger"] {
        for object in objects.iter().filter(|object| object.kind == kind) {
            let why = match why_harmful(object) {
                Some(why) if is_there(conn, &object.name) => format!("{why}; an object of this name already exists"),
                Some(why) => why,
                None => match conn.execute_batch(&object.sql) {
                    Ok(()) => continue,
                    Err(error) => error.to_string(),
                },
            };
            let is_replaced = !object.why.is_empty() && why.contains("already exists");
            if !is_replaced {
                refused.push(PersonsObject { why, ..object.clone() });
            }
        }
    }
    refused
}

/// Why an index could make a write fail; `None` for other objects.
fn why_harmful(object: &PersonsObject) -> Option<String> {
    if object.kind == "index" { index_guard::reason(&object.name, &object.table, &object.sql) } else { None }
}

/// Users' indexes that could make a write fail, each with the reason.
pub(in crate::store) fn harmful_indexes(conn: &Connection) -> Result<Vec<PersonsObject>, StoreError> {
    let indexes = read(conn, "type = 'index'")?;
    Ok(indexes.into_iter().filter_map(|index| Some(PersonsObject { why: why_harmful(&index)?, ..index })).collect())
}

/// Drops users' indexes that could make a write fail, and returns them.
pub(in crate::store) fn drop_harmful_indexes(conn: &Connection) -> Result<Vec<PersonsObject>, StoreError> {
    let harmful = harmful_indexes(conn)?;
    for index in &harmful {
        drop_object(conn, index)?;
    }
    Ok(harmful)
}

/// SQLite's message without the statement.
pub(super) fn sqlite_message(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqliteFailure(_, Some(message)) => message.clone(),
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        other => other.to_string(),
    }
}

fn is_there(conn: &Connection, name: &str) -> bool {
    let sql = "SELECT EXISTS (SELECT 1 FROM main.sqlite_schema WHERE name = ?1)";
    conn.query_row(sql, [name], |row| row.get(0)).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_triggers_are_recognised_by_table_and_name() {
        for (name, table, own) in [
            ("contacts_refuse_insert", "contacts", true),
            ("contacts_full_set_cf_tier", "contacts_full", true),
            ("companies_full_update", "companies_full", true),
            ("contacts_refuse_insert", "companies", false),
            ("contacts_update", "contacts", false),
            ("mine", "contacts_full", false),
            ("mine_update", "mine", false),
        ] {
            assert_eq!(is_own_trigger(name, table), own, "{name} on {table}");
        }
    }

    #[test]
    fn removed_objects_are_restored_with_their_own_text() {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(
            "CREATE TABLE contacts (id TEXT, cf_a TEXT);
             CREATE VIEW \"odd \"\" name\" AS SELECT missing FROM nowhere;
             CREATE VIEW later AS SELECT * FROM \"odd \"\" name\";
             CREATE TRIGGER mine AFTER INSERT ON contacts BEGIN SELECT missing FROM nowhere; END;
             CREATE TRIGGER instead INSTEAD OF INSERT ON later BEGIN SELECT 1; END;
             CREATE INDEX by_a ON contacts (cf_a);",
        )
        .unwrap();
        let before = read(&conn, "type <> 'table'").unwrap();
        let mut taken = set_aside(&conn).unwrap();
        taken.extend(take_indexes(&conn, "contacts", "cf_a").unwrap());
        assert_eq!(read(&conn, "type <> 'table'").unwrap(), []);
        conn.execute_batch(
            "ALTER TABLE contacts RENAME COLUMN id TO key; ALTER TABLE contacts RENAME COLUMN key TO id",
        )
        .unwrap();
        assert_eq!(put_back(&conn, &taken), []);
        let mut after = read(&conn, "type <> 'table'").unwrap();
        after.sort_by_key(|object| before.iter().position(|b| b.name == object.name));
        assert_eq!(after, before);

        let taken = set_aside(&conn).unwrap();
        conn.execute_batch("CREATE VIEW later AS SELECT 1 AS one").unwrap();
        let refused = put_back(&conn, &taken);
        assert_eq!(refused.iter().map(|object| object.name.as_str()).collect::<Vec<_>>(), ["later"]);
        assert_eq!(put_back(&conn, &refused), [], "its name belongs to another view now");
    }
}
