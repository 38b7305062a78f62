//! No edit overwrites a value that nobody was shown: where the mirror has not read a record's detail, an edit of a column that
//! only details have ends in conflict, if the service has a value there, and a person decides.

use std::collections::BTreeMap;

use crm_mirror::model::Object;
use crm_mirror::sandbox::World;
use rusqlite::Connection;

use crate::conflicts::value_at;
use crate::people::EDITED;

/// The columns that only details have.
const OF_DETAILS: [&str; 2] = ["language", "cf_story"];

/// The edits of values that the mirror had not read.
#[derive(Default)]
pub struct Unseen {
    /// Those of which the service had a value, with the value.
    edits: BTreeMap<i64, String>,
    last: i64,
}

impl Unseen {
    /// A person edited in SQL.
    pub fn queued(&mut self, conn: &Connection, world: &World) {
        let sql = "SELECT o.id, o.record_id, f.key FROM outbox AS o
                   CROSS JOIN json_each(CASE WHEN json_valid(o.fields) THEN o.fields ELSE '{}' END) AS f
                   WHERE o.id > ?1 AND o.object_type = 'contact' AND o.state = 'queued'
                   AND NOT EXISTS (SELECT 1 FROM contact_details AS d WHERE d.contact_id = o.record_id)";
        let Ok(mut stmt) = conn.prepare_cached(sql) else { return };
        let rows = stmt.query_map([self.last], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
        for (id, record, column) in rows.map(Result::unwrap) {
            let (record, column): (String, String) = (record, column);
            let path = EDITED.into_iter().find(|(_, known, _)| *known == column).map(|(_, _, path)| path);
            let value = path.and_then(|path| value_at(world, Object::Contact, &record, path));
            if let Some(value) = value.filter(|value| !value.is_null() && OF_DETAILS.contains(&column.as_str())) {
                self.edits.insert(id, value.to_string());
            }
        }
        self.last =
            conn.query_row("SELECT coalesce(max(id), 0) FROM outbox", [], |row| row.get(0)).unwrap_or(self.last);
    }

    /// The file was replaced by another one.
    pub fn restored(&mut self) {
        self.edits.clear();
        self.last = 0;
    }

    /// Looks at the edits after a run.
    pub fn after_run(&mut self, conn: &Connection) -> Result<(), String> {
        let sql = "SELECT state = 'applied' AND NOT EXISTS (
                       SELECT 1 FROM outbox_events AS e WHERE e.outbox_id = o.id AND e.to_state IN ('conflict', 'held'))
                   FROM outbox AS o WHERE id = ?1";
        let Ok(mut stmt) = conn.prepare_cached(sql) else { return Ok(()) };
        for (id, value) in &self.edits {
            if stmt.query_row([id], |row| row.get(0)).unwrap_or(false) {
                return Err(format!("edit {id} overwrote {value}, which the mirror had not read"));
            }
        }
        Ok(())
    }
}
