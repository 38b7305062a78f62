//! Edits that are meant for one workspace and one file: where a copy takes the place of the file, those that wait in it may have
//! been sent by the file, and where a person accepts another one, none of those that waited, or that were made
//! on a row of the workspace before, is sent unless a person decides so.

use std::collections::BTreeMap;

use crm_mirror::model::{Instant, Object};
use crm_mirror::sandbox::World;
use rusqlite::Connection;

/// When an edit was last tried and released, as the outbox says.
type Times = (Option<String>, Option<String>);

/// The edits that no other workspace may receive.
#[derive(Default)]
pub struct PrivateEdits {
    /// Those that are kept from it, with what the outbox said when that began.
    kept: BTreeMap<i64, Times>,
    /// The newest edit that was looked at.
    last: i64,
}

impl PrivateEdits {
    /// The key is of another workspace from now on: what waits was meant for the one before.
    pub fn workspace_is_another(&mut self, conn: &Connection) {
        let open = "SELECT id, tried_at, released_at FROM outbox WHERE state IN ('queued', 'sending')";
        let Ok(mut stmt) = conn.prepare(open) else { return };
        let rows = stmt.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?)))).unwrap();
        self.kept.extend(rows.map(Result::unwrap));
        self.last = newest(conn).unwrap_or(self.last);
    }

    /// A person edited in SQL, maybe before every row was replaced: what the editor saw is not of this workspace if its record
    /// was created at another time.
    pub fn queued(&mut self, conn: &Connection, world: &World, is_unaccepted: bool) {
        for object in Object::ALL.into_iter().filter(|_| is_unaccepted) {
            let sql = format!(
                "SELECT o.id, o.record_id, r.created_at FROM outbox AS o JOIN {} AS r ON r.id = o.record_id
                 WHERE o.id > ?1 AND o.object_type = ?2 AND o.state = 'queued' AND o.tried_at IS NULL",
                object.table()
            );
            let Ok(mut stmt) = conn.prepare_cached(&sql) else { continue };
            let rows = stmt.query_map((self.last, object.to_string()), |row| {
                Ok((row.get(0)?, row.get::<_, String>(1)?, row.get::<_, Option<String>>(2)?))
            });
            for (id, record, created) in rows.unwrap().map(Result::unwrap) {
                let instant = |text: &str| text.parse::<Instant>().unwrap();
                let theirs = world.list_json(object.resource(), &record);
                let theirs = theirs.map(|found| found["createdAt"].as_str().map(instant));
                if theirs != Some(created.as_deref().map(instant)) {
                    self.kept.insert(id, (None, None));
                }
            }
        }
        self.last = newest(conn).unwrap_or(self.last);
    }

    /// The file was replaced by an older one.
    pub fn restored(&mut self) {
        self.kept.clear();
    }

    /// Looks at the edits after a run. What a person released is no longer kept, also if it is held once more later.
    pub fn after_run(&mut self, conn: &Connection) -> Result<(), String> {
        // What was in conflict before it was sent was resolved by a person. To a key that may only write, the version is all the
        // evidence that there is: what it refused was not carried out.
        let sql = "SELECT CASE WHEN status BETWEEN 400 AND 499 THEN ?2 ELSE tried_at END, released_at, EXISTS (
                       SELECT 1 FROM outbox_events AS c WHERE c.outbox_id = o.id AND c.to_state = 'conflict' AND c.id < (
                           SELECT max(id) FROM outbox_events WHERE outbox_id = o.id AND to_state = 'sending'))
                   FROM outbox AS o WHERE id = ?1";
        let Ok(mut stmt) = conn.prepare_cached(sql) else { return Ok(()) };
        let mut sent = None;
        self.kept.retain(|id, (tried, released)| {
            // History that is not kept for long.
            let row =
                stmt.query_row((*id, &*tried), |row| Ok::<(Times, bool), _>(((row.get(0)?, row.get(1)?), row.get(2)?)));
            let Ok((now, is_resolved)) = row else { return true };
            if is_resolved {
                return false;
            }
            if now.0 != *tried && now.1 == *released {
                sent.get_or_insert(*id);
            }
            now.1.is_none() || now.1 == *released
        });
        if let Some(id) = sent {
            return Err(format!("edit {id} was made for another workspace or another file, and was sent"));
        }
        Ok(())
    }
}

fn newest(conn: &Connection) -> rusqlite::Result<i64> {
    conn.query_row("SELECT coalesce(max(id), 0) FROM outbox", [], |row| row.get(0))
}
