//! What a run may make of the rows: it removes no more than the guard allows, and no row returns to an older content.
//!
//! The names, notes and long texts of a history end with a number that grows with each change, and the change feed has each
//! content that a row ever had. So a wrong order of answers is found although a later page repairs the row.

use std::collections::{BTreeMap, BTreeSet};

use super::world_changes::serial;
use crate::support::{Crm, Mirror};
use crm_mirror::model::{Clock, Instant, Object};
use rusqlite::Connection;
use serde_json::Value;

/// What the answers of a run show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// The service as it is when it answers.
    Current,
    /// Also older contents, but lookups by id say which records exist, and in which version.
    Outdated,
    /// Contents are current, but records are missing everywhere.
    Incomplete,
    /// Anything that the service ever was.
    Any,
}

/// The version of each record in the mirror.
type Versions = BTreeMap<(&'static str, String), Option<String>>;

/// The mirror before a run.
pub struct RowHistory {
    versions: Versions,
    /// The last entry of the change feed.
    seen: i64,
}

/// An entry of the change feed.
struct FeedEntry {
    object: String,
    id: String,
    kind: String,
    fields: Value,
}

impl RowHistory {
    pub fn begin(mirror: &Mirror) -> RowHistory {
        let Some(conn) = opened(mirror) else { return RowHistory { versions: Versions::new(), seen: 0 } };
        let newest = "SELECT coalesce(max(seq), 0) FROM changes";
        let seen = conn.query_row(newest, [], |row| row.get(0)).unwrap_or(0);
        RowHistory { versions: versions(&conn), seen }
    }

    /// Whether a run whose answers showed `content` may have left the mirror as it is.
    pub fn judge(&self, mirror: &Mirror, crm: &Crm, content: Content) -> Result<(), String> {
        let (conn, now) = (opened(mirror), crm.clock.now());
        let after = conn.as_ref().map(versions).unwrap_or_default();
        guarded(&self.versions, &after)?;
        if content == Content::Any {
            return Ok(());
        }
        for (key, old) in &self.versions {
            if let Some(new) = after.get(key) {
                newer_version(old.as_deref(), new.as_deref(), now).map_err(|why| format!("{key:?}: {why}"))?;
            }
        }
        let exist = crm.sandbox.with_world(|world| Object::ALL.map(|object| world.ids(object.resource())).concat());
        let mut removed = BTreeSet::new();
        for entry in conn.map(|conn| self.feed(&conn)).unwrap_or_default() {
            let why = |why: String| format!("{} {}: {why}", entry.object, entry.id);
            let [old, new] = entry.values("updated_at");
            newer_version(old, new, now).map_err(why)?;
            match entry.kind.as_str() {
                "remove" if content != Content::Incomplete && exist.contains(&entry.id) => {
                    return Err(why("was removed although it exists".into()));
                }
                "remove" => _ = removed.insert(entry.id.clone()),
                // Nobody creates a record again.
                "insert" if content == Content::Current && removed.contains(&entry.id) => {
                    return Err(why("came back after its removal".into()));
                }
                _ => {}
            }
            if matches!(content, Content::Current | Content::Incomplete) {
                entry.texts_grow().map_err(why)?;
            }
        }
        Ok(())
    }
}

impl RowHistory {
    /// The entries of the run.
    fn feed(&self, conn: &Connection) -> Vec<FeedEntry> {
        let sql =
            "SELECT object_type, record_id, kind, fields FROM changes WHERE seq > ?1 AND kind <> 'schema' ORDER BY seq";
        let Ok(mut stmt) = conn.prepare(sql) else { return Vec::new() };
        let entries = stmt.query_map([self.seen], |row| {
            let fields: String = row.get(3)?;
            let fields = serde_json::from_str(&fields).unwrap();
            Ok(FeedEntry { object: row.get(0)?, id: row.get(1)?, kind: row.get(2)?, fields })
        });
        entries.unwrap().map(Result::unwrap).collect()
    }
}

impl FeedEntry {
    /// The old and the new text of a column.
    fn values(&self, column: &str) -> [Option<&str>; 2] {
        [0, 1].map(|place| self.fields[column][place].as_str())
    }

    /// Whether the texts of the entry are later than those before.
    fn texts_grow(&self) -> Result<(), String> {
        for column in ["name", "notes", "cf_story"] {
            let [old, new] = self.values(column).map(|text| text.and_then(serial));
            if let (Some(old), Some(new)) = (old, new)
                && new < old
            {
                return Err(format!("{column} returned from #{old} to #{new}"));
            }
        }
        Ok(())
    }
}

/// One connection for all that is asked: each parses the whole schema.
fn opened(mirror: &Mirror) -> Option<Connection> {
    mirror.path.exists().then(|| mirror.read())
}

fn versions(conn: &Connection) -> Versions {
    let mut versions = Versions::new();
    for table in Object::ALL.map(Object::table) {
        // A run that was killed early has made no tables.
        let Ok(mut stmt) = conn.prepare(&format!("SELECT id, updated_at FROM {table}")) else { continue };
        let rows = stmt.query_map([], |row| Ok(((table, row.get(0)?), row.get(1)?))).unwrap();
        versions.extend(rows.map(Result::unwrap));
    }
    versions
}

/// Nobody accepted removals: no run removes more than the guard allows.
fn guarded(before: &Versions, after: &Versions) -> Result<(), String> {
    for table in Object::ALL.map(Object::table) {
        let had = before.keys().filter(|(of, _)| *of == table).count();
        let lost = before.keys().filter(|key| key.0 == table && !after.contains_key(*key)).count();
        if had >= 10 && lost * 5 > had {
            return Err(format!("a run removed {lost} of {had} {table}"));
        }
    }
    Ok(())
}

/// Rows dated in the future are left out: a later change dates them back.
fn newer_version(old: Option<&str>, new: Option<&str>, now: Instant) -> Result<(), String> {
    let time = |at: &str| at.parse::<Instant>().unwrap();
    match (old.map(time), new.map(time)) {
        (Some(old), Some(new)) if old <= now && new < old => Err(format!("returned from version {old} to {new}")),
        _ => Ok(()),
    }
}
