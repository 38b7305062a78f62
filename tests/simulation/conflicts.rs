//! A conflict needs somebody else's change: an edit of a value that nobody changed at the service since is not one. Where
//! the answer was lost for longer than the service keeps it, a change of the record is enough: that of the value may have
//! been undone.

use std::collections::{BTreeMap, BTreeSet};

use crm_mirror::model::{Object, unknown_value};
use crm_mirror::sandbox::{Sandbox, World};
use rusqlite::Connection;
use serde_json::Value;

use crate::people::EDITED;

/// An edit whose editor saw what the service had.
struct Informed {
    record: String,
    object: Object,
    path: &'static [&'static str],
    /// What the service had then.
    value: Value,
    /// The version that the mirror had then, if it is known.
    version: Option<String>,
}

/// The last reason of an edit whose request is forgotten, on a record that changed meanwhile.
const MAY_BE_UNDONE: &str = "SELECT why LIKE 'no answer confirmed it, and the record changed since%' FROM outbox_events
    WHERE outbox_id = ?1 ORDER BY id DESC LIMIT 1";

/// Whether the service showed something at the field's place that is no value of it.
const IS_UNFIT: &str = r#"SELECT theirs LIKE '%{"unfit":%' FROM outbox WHERE id = ?1"#;

/// The edits that may not end in a conflict.
#[derive(Default)]
pub struct Conflicts {
    informed: BTreeMap<i64, Informed>,
    last: i64,
    seen: BTreeSet<i64>,
    /// Whether the file was replaced by an older one: what its edits were made on is not known.
    is_over: bool,
}

/// A field of a record at the service; an empty text is none. A field that is archived has no value, not even null.
pub fn value_at(world: &World, object: Object, id: &str, path: &[&str]) -> Option<Value> {
    let detail = world.detail_json(object, id)?;
    let value = path.iter().try_fold(&detail, |value, name| value.get(*name))?;
    Some(if value.as_str() == Some("") { Value::Null } else { value.clone() })
}

impl Conflicts {
    /// A person edited in SQL. While the service `deceives`, what an edit is compared with when its record is first read may
    /// be older than what the service has.
    pub fn queued(&mut self, conn: &Connection, sandbox: &Sandbox, deceives: bool) {
        let sql = "SELECT id, record_id, fields, base_etag, state = 'queued' FROM outbox
                   WHERE id > ?1 AND json_valid(fields)";
        let Ok(mut stmt) = conn.prepare_cached(sql) else { return };
        let rows = stmt.query_map([self.last], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get::<_, bool>(4)?))
        });
        for (id, record, fields, version, is_queued) in rows.unwrap().filter_map(Result::ok) {
            self.last = self.last.max(id);
            // What the service had when a person made an edit that is decided on is not known.
            if !is_queued {
                continue;
            }
            let (record, fields, version): (String, String, Option<String>) = (record, fields, version);
            let fields: BTreeMap<String, (Value, Value)> = serde_json::from_str(&fields).unwrap_or_default();
            // One that undoes several edits is in conflict if any of its fields has changed.
            let of_one_field = fields.len() == 1;
            let Some((column, (before, _))) = fields.into_iter().next().filter(|_| of_one_field) else { continue };
            let Some((object, _, path)) = EDITED.into_iter().find(|(_, known, _)| *known == column) else { continue };
            let Some(value) = value_at(&sandbox.world(), object, &record, path) else { continue };
            // The mirror may show what it read before somebody else's change. What was never read is read before the edit is
            // sent.
            let is_read_first = version.is_none() && before == unknown_value();
            let is_informed = (before == value || is_read_first) && !(version.is_none() && deceives);
            if is_informed {
                self.informed.insert(id, Informed { record, object, path, value, version });
            }
        }
    }

    /// Whether an edit is known that may not end in a conflict.
    pub fn concern_any(&self) -> bool {
        !self.is_over && !self.informed.is_empty()
    }

    /// The service shows something else than it has.
    pub fn doubt(&mut self) {
        self.informed.clear();
    }

    /// The file was replaced by an older one.
    pub fn restored(&mut self) {
        self.is_over = true;
    }

    /// Passes over the edits in conflict: what the service showed is not what it has, and it may change before it is
    /// looked at.
    pub fn pass_over(&mut self, conn: &Connection) {
        let Ok(mut stmt) = conn.prepare_cached("SELECT id FROM outbox WHERE state = 'conflict'") else { return };
        self.seen.extend(stmt.query_map([], |row| row.get::<_, i64>(0)).unwrap().filter_map(Result::ok));
    }

    /// Looks at the edits after a run.
    pub fn after_run(&mut self, conn: &Connection, sandbox: &Sandbox) -> Result<(), String> {
        let Ok(mut stmt) = conn.prepare_cached("SELECT id FROM outbox WHERE state = 'conflict'") else { return Ok(()) };
        let found: Vec<i64> = stmt.query_map([], |row| row.get(0)).unwrap().filter_map(Result::ok).collect();
        for id in found {
            if !self.seen.insert(id) {
                continue;
            }
            let Some(Informed { record, object, path, value, version }) = self.informed.get(&id) else { continue };
            // What is no value of the field came from an answer that showed something else than the service has.
            let is_unfit: Option<bool> = conn.query_row(IS_UNFIT, [id], |row| row.get(0)).unwrap_or_default();
            if is_unfit == Some(true) {
                continue;
            }
            let may_be_undone: bool = conn.query_row(MAY_BE_UNDONE, [id], |row| row.get(0)).unwrap_or_default();
            let same_version = version.is_some() && sandbox.world().etag(*object, record) == *version;
            if may_be_undone && !same_version {
                continue;
            }
            if value_at(&sandbox.world(), *object, record, path).as_ref() == Some(value) {
                let field = path.join(".");
                return Err(format!("edit {id} of {record} is in conflict, and {field} is {value} as before"));
            }
        }
        Ok(())
    }
}
