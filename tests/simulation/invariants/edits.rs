//! What became of every edit in the end.

use crm_mirror::model::Object;
use rusqlite::Connection;

use super::Watch;
use crate::people::{self, Edits, text_of};
use crate::support::{Crm, Mirror};

/// What the outbox says of the edits of a record.
fn trail(conn: &Connection, record: &str) -> String {
    let sql = "SELECT e.outbox_id || ' ' || o.fields || ' ' || e.at || ' ' || e.to_state || ': ' || e.why
               FROM outbox_events AS e JOIN outbox AS o ON o.id = e.outbox_id WHERE o.record_id = ?1 ORDER BY e.id";
    let mut stmt = conn.prepare(sql).unwrap();
    let lines: Vec<String> = stmt.query_map([record], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    lines.join("\n  ")
}

impl Watch {
    /// Every edit was carried out, or the outbox says why not.
    pub fn edits(&self, crm: &Crm, mirror: &Mirror, edits: &Edits) -> Result<(), String> {
        let conn = mirror.read();
        let mut stmt = conn.prepare("SELECT record_id, fields, state FROM outbox").unwrap();
        let rows = stmt.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
        let states: Vec<(String, String, String)> = rows.map(Result::unwrap).collect();
        for ((number, id), edit) in edits.iter() {
            let times = match self.carried_out.get(&(*number, id.clone())) {
                // It was sent before the file was restored, which may be of before or after that.
                Some(0) => continue,
                times => times.copied().unwrap_or(0),
            };
            let text = text_of(*number);
            let new = |fields: &str| fields.contains(&format!("\"{text}\"]"));
            let of_it = states.iter().filter(|(record, fields, _)| record == id && new(fields));
            let found: Vec<&str> = of_it.map(|(_, _, state)| state.as_str()).collect();
            if found.iter().any(|state| matches!(*state, "queued" | "sending" | "held")) {
                let why = trail(&conn, id);
                return Err(format!("the edit `{text}` of {id} is still {found:?} after undisturbed days:\n  {why}"));
            }
            let exists = || Object::ALL.into_iter().any(|object| crm.sandbox.world().etag(object, id).is_some());
            // One whose field was archived, whose record the mirror had removed, or whose answer was lost says that it may
            // have been applied.
            let says_so = "SELECT count(*) FROM outbox_events AS e JOIN outbox AS o ON o.id = e.outbox_id
                           WHERE o.record_id = ?1 AND e.why LIKE '%may have been applied%'";
            let says_so = conn.query_row(says_so, [id], |row| row.get::<_, i64>(0)).unwrap() > 0;
            let removed = "SELECT count(*) FROM changes WHERE record_id = ?1 AND kind = 'remove'";
            let was_removed = conn.query_row(removed, [id], |row| row.get::<_, i64>(0)).unwrap() > 0;
            let is_rejected = !found.is_empty() && found.iter().all(|state| *state == "rejected");
            if times > 0 && is_rejected && !says_so && !was_removed && exists() {
                let why = trail(&conn, id);
                return Err(format!("the edit `{text}` of {id} was carried out and is {found:?}:\n  {why}"));
            }
            // A later edit of the same field may have taken its place before it was sent.
            let replaced = edits
                .iter()
                .any(|((_, other), later)| other == id && later.column == edit.column && later.place > edit.place);
            let replaced = replaced || people::has_later_edit(&conn, id, edit.column, &text);
            if times == 0 && !replaced && (found.is_empty() || found.contains(&"applied")) {
                return Err(format!("the edit `{text}` of {id} was never carried out and is {found:?}"));
            }
        }
        Ok(())
    }
}
