//! Finds users' objects in the file, and removes and restores them.

use std::collections::BTreeMap;

use rusqlite::Connection;

use crate::store::program_objects::{OWN_TRIGGER, is_program_index, is_program_table, is_program_view};
use crate::store::{Result, Statements, quoted};

/// Indexes that could make a write fail: UNIQUE ones refuse rows that the service has, an expression, condition or
/// collation may fail for a value or exist only in its owner's program.
const COULD_REFUSE_A_ROW: &str = "type = 'index' AND EXISTS (
        SELECT 1 FROM pragma_index_list(tbl_name) AS l, pragma_index_xinfo(sqlite_schema.name) AS x
        WHERE l.name = sqlite_schema.name
          AND (l.\"unique\" OR l.partial OR x.cid = -2 OR x.coll NOT IN ('BINARY', 'NOCASE', 'RTRIM')))";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store) struct UserObject {
    /// `view`, `trigger` or `index`.
    pub kind: String,
    pub name: String,
    /// The table or view that it belongs to; for a view, its own name.
    table: String,
    sql: String,
}

/// Users' objects under a condition, in the order of creation; of indexes those of the program's tables.
pub(in crate::store) fn of_users(conn: &Connection, condition: &str) -> Result<Vec<UserObject>> {
    let mut found = read(conn, condition)?;
    found.retain(|object| !is_own(object) && (object.kind != "index" || is_program_table(&object.table)));
    Ok(found)
}

/// Whether the program has made it. An index has a name of the program's, and its way of writing: another one is a person's,
/// whatever it is called.
fn is_own(object: &UserObject) -> bool {
    let UserObject { kind, name, table, sql } = object;
    match kind.as_str() {
        "view" => is_program_view(name),
        "trigger" => sql.contains(OWN_TRIGGER),
        _ => {
            is_program_table(table)
                && is_program_index(table, name)
                && sql.contains(&format!("INDEX {name} ON {table} ("))
        }
    }
}

/// The indexes of columns of a table that the program made, or might have made, with their text.
pub(in crate::store) fn own_indexes(conn: &Connection, table: &str) -> Result<BTreeMap<String, String>> {
    let indexes = read(conn, &format!("type = 'index' AND tbl_name = '{table}' AND name GLOB 'ix_*'"))?;
    Ok(indexes.into_iter().filter(is_own).map(|index| (index.name, index.sql)).collect())
}

pub(in crate::store) fn count_own(conn: &Connection) -> Result<usize> {
    Ok(read(conn, "type <> 'table'")?.iter().filter(|object| is_own(object)).count())
}

fn read(conn: &Connection, condition: &str) -> Result<Vec<UserObject>> {
    let sql = format!(
        "SELECT type, name, tbl_name, sql FROM main.sqlite_schema WHERE {condition} AND sql IS NOT NULL ORDER BY rowid"
    );
    conn.rows(&sql, [], |row| {
        Ok(UserObject { kind: row.get(0)?, name: row.get(1)?, table: row.get(2)?, sql: row.get(3)? })
    })
}

/// Drops users' triggers, and removes their views until [`restore`].
pub(in crate::store) fn set_aside(conn: &Connection) -> Result<Vec<UserObject>> {
    // Dropping a view drops its triggers.
    for trigger in of_users(conn, "type = 'trigger'")? {
        drop_for_good(conn, &trigger, "it is in the way of a change of the columns")?;
    }
    let views = of_users(conn, "type = 'view'")?;
    for view in &views {
        drop_object(conn, view)?;
    }
    Ok(views)
}

pub(in crate::store) fn restore(conn: &Connection, views: &[UserObject]) {
    for view in views {
        // A new version of the program may have an object of this name.
        if let Err(error) = conn.execute_batch(&view.sql) {
            tracing::warn!(
                "The view `{}` could not be kept: {}. It was: {}",
                view.name,
                sqlite_message(&error),
                view.sql
            );
        }
    }
}

/// Drops users' indexes on a column that will be dropped. The program's own have been dropped before.
pub(in crate::store) fn drop_indexes_on(conn: &Connection, table: &str, column: &str) -> Result<()> {
    let condition = format!(
        "type = 'index' AND tbl_name = '{table}'
         AND EXISTS (SELECT 1 FROM pragma_index_info(sqlite_schema.name) AS i WHERE i.name = '{column}')"
    );
    let why = format!("its column {column} goes");
    read(conn, &condition)?.iter().try_for_each(|index| drop_for_good(conn, index, &why))
}

/// Call it before the first write after a change of the schema.
pub(in crate::store) fn drop_indexes_in_the_way(conn: &Connection) -> Result<()> {
    let why = "it is UNIQUE, partial or on an expression, so it could refuse a record of the service";
    of_users(conn, COULD_REFUSE_A_ROW)?.iter().try_for_each(|index| drop_for_good(conn, index, why))
}

fn drop_for_good(conn: &Connection, object: &UserObject, why: &str) -> Result<()> {
    tracing::warn!("The {} `{}` was dropped: {why}. It was: {}", object.kind, object.name, object.sql);
    drop_object(conn, object)
}

fn drop_object(conn: &Connection, object: &UserObject) -> Result<()> {
    conn.batch(&format!("DROP {} IF EXISTS main.{}", object.kind, quoted(&object.name)))
}

/// SQLite's message without the statement.
pub(super) fn sqlite_message(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqliteFailure(_, Some(message)) => message.clone(),
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_are_restored_with_their_own_text_and_triggers_go() {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(
            "CREATE TABLE contacts (id TEXT, cf_a TEXT);
             CREATE VIEW \"odd \"\" name\" AS SELECT missing FROM nowhere;
             CREATE VIEW later AS SELECT * FROM \"odd \"\" name\";
             CREATE TRIGGER mine AFTER INSERT ON contacts BEGIN SELECT missing FROM nowhere; END;
             CREATE TRIGGER instead INSTEAD OF INSERT ON later BEGIN SELECT 1; END;
             CREATE INDEX by_a ON contacts (cf_a);
             CREATE INDEX by_id ON contacts (id)",
        )
        .unwrap();
        let before = of_users(&conn, "type = 'view'").unwrap();
        let taken = set_aside(&conn).unwrap();
        drop_indexes_on(&conn, "contacts", "cf_a").unwrap();
        let names = || read(&conn, "type <> 'table'").unwrap().into_iter().map(|o| o.name).collect::<Vec<_>>();
        assert_eq!(names(), ["by_id"]);
        conn.execute_batch("ALTER TABLE contacts RENAME COLUMN id TO key; ALTER TABLE contacts DROP COLUMN cf_a")
            .unwrap();
        restore(&conn, &taken);
        assert_eq!(of_users(&conn, "type = 'view'").unwrap(), before);

        let taken = set_aside(&conn).unwrap();
        conn.execute_batch("CREATE VIEW later AS SELECT 1 AS one").unwrap();
        restore(&conn, &taken);
        assert_eq!(names(), ["by_id", "later", "odd \" name"]);
    }

    #[test]
    fn indexes_that_could_refuse_a_row_are_dropped_without_reading_their_text() {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(
            "CREATE TABLE contacts (id TEXT, email TEXT); CREATE TABLE mine (x);
             CREATE INDEX kept ON contacts (email COLLATE NOCASE DESC, id);
             CREATE UNIQUE INDEX contacts_email ON contacts (email);
             CREATE INDEX partial ON contacts (email) WHERE email LIKE '%@%';
             CREATE INDEX expression ON contacts (id, json_extract(email, '$'));
             CREATE UNIQUE INDEX of_mine ON mine (x)",
        )
        .unwrap();
        drop_indexes_in_the_way(&conn).unwrap();
        let left: Vec<String> = read(&conn, "type = 'index'").unwrap().into_iter().map(|index| index.name).collect();
        assert_eq!(left, ["kept", "of_mine"]);
    }
}
