//! What people do with the mirror's file beside the daemon: in SQL, and with the verbs of the outbox.

use crm_mirror::model::{Clock, EditState};
use crm_mirror::outbox::user_decisions::{self, Decision};
use crm_mirror::store::{StoreError, outbox_report, write_beside};
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::types::Value as SqlValue;

use super::{EDITED, Edits, Queued, text_of};

/// Edits that wait and that nobody has to decide on: the record, and the edit with its last step.
pub fn waiting_edits(conn: &Connection) -> Vec<(String, String)> {
    // One in conflict keeps the later ones of its record waiting.
    let sql = "SELECT record_id, o.id || ' of ' || record_id || ' (' || state || ': ' || (
                 SELECT why FROM outbox_events WHERE outbox_id = o.id ORDER BY id DESC LIMIT 1) || ')'
               FROM outbox AS o WHERE state IN ('queued', 'sending') AND NOT EXISTS (
               SELECT 1 FROM outbox AS c WHERE c.record_id = o.record_id AND c.state IN ('conflict', 'held'))";
    let Ok(mut stmt) = conn.prepare(sql) else { return Vec::new() };
    stmt.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
}

/// A person writes a text that is not UTF-8, which must be refused: what is sent must be what was written.
pub fn write_junk(conn: &Connection, which: u32) {
    let sql = "UPDATE contacts_full SET position = CAST(x'6f75727320ff' AS TEXT)
               WHERE id = (SELECT id FROM contacts ORDER BY id LIMIT 1 OFFSET ?1)";
    let _ = conn.execute(sql, [which % 60]);
}

/// A person empties a field of a contact.
pub fn empty_in_sql(conn: &Connection, which: u32, edits: &mut Edits) {
    let chosen = "SELECT id FROM contacts ORDER BY id LIMIT 1 OFFSET ?1 % max(1, (SELECT count(*) FROM contacts))";
    let Ok(id) = conn.query_row(chosen, [which], |row| row.get::<_, String>(0)) else { return };
    if conn.execute("UPDATE contacts_full SET position = '' WHERE id = ?1", [&id]).is_ok() {
        // An empty text and null are the same, and the edit has the one that the mirror has.
        edits.expected.extend(["\"\"", "null"].map(|value| (id.clone(), "position".into(), value.into())));
    }
}

/// The edits that were not sent yet: their rows, records and fields.
fn unsent(conn: &Connection) -> Vec<(i64, String, String)> {
    let sql = "SELECT id, record_id, fields FROM outbox WHERE state IN ('queued', 'held') AND attempts = 0 ORDER BY id";
    let Ok(mut stmt) = conn.prepare(sql) else { return Vec::new() };
    stmt.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap().map(Result::unwrap).collect()
}

/// A person sets the service's value again while an edit waits that would change it: that edit must not be sent.
pub fn take_back(conn: &Connection, which: u32, edits: &mut Edits) {
    let unsent = unsent(conn);
    let Some((_, record, fields)) = unsent.get(which as usize % unsent.len().max(1)) else { return };
    let Some((object, column, _)) = EDITED.iter().find(|(_, column, _)| fields.contains(&format!("\"{column}\"")))
    else {
        return;
    };
    let view = object.full_view();
    let shown = format!("SELECT json_quote({column}) FROM {view} WHERE id = ?1");
    let Ok(value) = conn.query_row(&shown, [record], |row| row.get::<_, String>(0)) else { return };
    let set = format!("UPDATE {view} SET {column} = {column} WHERE id = ?1");
    if conn.execute(&set, [record]).is_ok() {
        edits.withdraw(record, column, fields);
        edits.expected.insert((record.clone(), (*column).to_string(), value));
    }
}

/// Another program spoils an edit that was not sent yet: it cannot be carried out, and stops no other.
pub fn spoil_edit(conn: &Connection, which: u32, edits: &mut Edits) {
    let unsent = unsent(conn);
    let Some((id, record, fields)) = unsent.get(which as usize % unsent.len().max(1)) else { return };
    let spoilt = conn
        .set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)
        .and_then(|_| conn.execute("UPDATE outbox SET fields = '{\"position\": [' WHERE id = ?1", [id]));
    if spoilt.is_ok() {
        for (_, column, _) in EDITED {
            edits.withdraw(record, column, fields);
        }
    }
}

/// A person at the `sqlite3` prompt: an edit of one record, or of all. Says whether anything was queued.
pub fn edit_in_sql(conn: &Connection, which: Option<u32>, number: u32, edits: &mut Edits) -> bool {
    let (object, column, _) = EDITED[number as usize % EDITED.len()];
    let ids: Vec<String> = match conn.prepare(&format!("SELECT id FROM {} ORDER BY id", object.table())) {
        Ok(mut stmt) => stmt.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect(),
        Err(_) => return false,
    };
    let chosen = match which {
        Some(which) => match ids.get(which as usize % ids.len().max(1)) {
            Some(id) => vec![id.clone()],
            None => return false,
        },
        None => ids,
    };
    let condition = if which.is_some() { "id = ?2" } else { "?2 IS NOT NULL" };
    let sql = format!("UPDATE {} SET {column} = ?1 WHERE {condition}", object.full_view());
    // Refused before the first run allows edits, where the column is archived, and where the disk is full.
    let text = text_of(number);
    let value = match text.parse::<f64>() {
        Ok(number) if !(number as u64).is_multiple_of(4_000_000_000) => SqlValue::Real(number),
        _ => SqlValue::Text(text.clone()),
    };
    let queued = conn.execute(&sql, (value, chosen.first()));
    if queued.is_err() {
        return false;
    }
    if let Some(id) = chosen.first() {
        // The tables take no updates from outside: a silent one would be lost.
        let past_the_view = format!("UPDATE {} SET synced_at = 'never' WHERE id = ?1", object.table());
        assert!(conn.execute(&past_the_view, [id]).is_err(), "{object} took an update past the view");
    }
    let stored = "SELECT record_id FROM outbox WHERE fields LIKE ?1";
    let mut stmt = conn.prepare(stored).unwrap();
    let stored = stmt.query_map([format!("%\"{text}\"%")], |row| row.get(0)).unwrap();
    let before = edits.len();
    for id in stored.map(Result::unwrap) {
        let place = edits.len();
        edits.queued.entry((number, id)).or_insert(Queued { column, place });
    }
    edits.len() > before
}

/// A person undoes a few edits that were applied: `outbox undo`.
pub fn undo(path: &std::path::Path, which: u32, clock: &dyn Clock, edits: &mut Edits) -> Result<(), StoreError> {
    let now = clock.now();
    write_beside(path, |tx| {
        let all = outbox_report::edits(tx, true)?;
        let applied: Vec<i64> =
            all.iter().filter(|edit| edit.state == EditState::Applied).map(|edit| edit.id).collect();
        let first = which as usize % applied.len().max(1);
        let chosen: Vec<i64> = applied.into_iter().skip(first).take(1 + which as usize % 3).collect();
        let undone = user_decisions::undo(tx, &chosen, now).unwrap_or_default();
        edits.wanted += undone.len() as u64;
        for of_record in undone {
            let fields = of_record.fields.iter().map(|(column, (_, before))| (column, before));
            edits.expect(of_record.record.as_str(), fields);
        }
        Ok(())
    })
}

/// A person decides on an edit: `outbox retry`, `release`, `drop` or `resolve`; without a number, on all that wait for
/// a person. Returns how many were decided.
pub fn decide(
    path: &std::path::Path,
    which: Option<u32>,
    clock: &dyn Clock,
    edits: &mut Edits,
) -> Result<usize, StoreError> {
    const ANY: [Decision; 5] = [Decision::Retry, Decision::Release, Decision::Drop, Decision::Mine, Decision::Theirs];
    let now = clock.now();
    write_beside(path, |tx| {
        let open = outbox_report::edits(tx, false)?;
        let chosen: Vec<_> = match which {
            Some(which) => {
                let chosen = open.get(which as usize % open.len().max(1));
                chosen.into_iter().map(|edit| (edit, ANY[which as usize % ANY.len()])).collect()
            }
            None => open.iter().filter_map(|edit| Some((edit, settling(edit.id, edit.state)?))).collect(),
        };
        let mut decided = 0;
        for (edit, decision) in chosen {
            // What cannot be decided so is refused, and changes nothing; but everybody can give up an edit.
            if let Err(refused) = user_decisions::decide(tx, edit.id, decision, now) {
                assert!(!matches!(decision, Decision::Drop), "edit {} cannot be dropped: {refused:?}", edit.id);
                continue;
            }
            decided += 1;
            let is_again = decision == Decision::Retry && edit.state == EditState::Rejected;
            edits.wanted += u64::from(is_again || matches!(decision, Decision::Release | Decision::Mine));
            if is_again || matches!(edit.state, EditState::Conflict | EditState::Held) {
                // It may have been carried out before somebody else changed the value, or be held in a copy, where it is not
                // taken back; a person wants it once more.
                edits.expect(edit.record.as_str(), edit.fields.iter().map(|(column, (_, after))| (column, after)));
            }
        }
        Ok(decided)
    })
}

/// What a person decides in the end.
fn settling(id: i64, state: EditState) -> Option<Decision> {
    match state {
        EditState::Held => Some(Decision::Release),
        EditState::Conflict if id % 2 == 0 => Some(Decision::Mine),
        EditState::Conflict => Some(Decision::Theirs),
        _ => None,
    }
}
