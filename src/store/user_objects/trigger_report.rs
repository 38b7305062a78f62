//! Finds users' triggers that do not compile.
//!
//! SQLite compiles a trigger with the statement that fires it, and its message does not name the trigger. Each is
//! therefore compiled alone, in an empty copy of the file's tables and views in memory.

use rusqlite::Connection;

use super::objects::{self, PersonsObject};
use crate::store::error::{Doing, StoreError};

const DOING: &str = "compile the triggers of users";

/// Users' triggers that do not compile, each with the reason.
pub(super) fn broken(conn: &Connection) -> Result<Vec<PersonsObject>, StoreError> {
    let triggers: Vec<PersonsObject> =
        objects::of_people(conn)?.into_iter().filter(|object| object.kind == "trigger").collect();
    if triggers.is_empty() {
        return Ok(Vec::new());
    }
    let copy = Connection::open_in_memory().doing(DOING)?;
    for object in objects::read(conn, "type IN ('table', 'view')")? {
        // A table of a module that is missing here cannot be copied; neither can SQLite's own tables.
        let _ = copy.execute_batch(&object.sql);
    }
    let mut broken = Vec::new();
    for trigger in triggers {
        if let Some(why) = compile(&copy, &trigger) {
            broken.push(PersonsObject { why, ..trigger });
        }
    }
    Ok(broken)
}

/// Compiles the statements that may fire a trigger. Returns the error, if there is one.
fn compile(copy: &Connection, trigger: &PersonsObject) -> Option<String> {
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    if let Err(error) = copy.execute_batch(&trigger.sql) {
        return Some(objects::sqlite_message(&error));
    }
    let table = quoted(&trigger.table);
    let columns: Vec<String> = copy
        .prepare(&format!("SELECT * FROM {table}"))
        .map(|stmt| stmt.column_names().map(|name| format!("{0} = {0}", quoted(name))).collect())
        .unwrap_or_default();
    let fires = [
        format!("DELETE FROM {table}"),
        format!("INSERT INTO {table} DEFAULT VALUES"),
        format!("UPDATE {table} SET {}", columns.join(", ")),
    ];
    let error = fires.iter().find_map(|statement| {
        let error = objects::sqlite_message(&copy.prepare(statement).err()?);
        // A view without a trigger for this event.
        (!error.starts_with("cannot modify")).then_some(error)
    });
    let _ = copy.execute_batch(&format!("DROP TRIGGER {}", quoted(&trigger.name)));
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triggers_that_do_not_compile_are_named() {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, x TEXT);
             CREATE VIEW v AS SELECT x FROM t;
             CREATE TRIGGER fine AFTER UPDATE OF x ON t BEGIN DELETE FROM t WHERE x = OLD.x; END;
             CREATE TRIGGER bad AFTER INSERT ON t BEGIN INSERT INTO nowhere VALUES (NEW.x); END;
             CREATE TRIGGER worse BEFORE UPDATE OF x ON t BEGIN SELECT missing FROM t; END;
             CREATE TRIGGER instead INSTEAD OF DELETE ON v BEGIN SELECT OLD.y; END;
             CREATE TRIGGER whole INSTEAD OF INSERT ON v BEGIN SELECT NEW.x; END;",
        )
        .unwrap();
        let found: Vec<String> = broken(&conn).unwrap().into_iter().map(|object| object.name).collect();
        assert_eq!(found, ["bad", "worse", "instead"]);
    }
}
