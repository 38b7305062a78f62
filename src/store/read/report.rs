//! Queries of `status` and of its history on a read-only connection.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::model::{Instant, Object, Ru};
use crate::store::records::counts as held;
use crate::store::{ColumnEvent, ReadTx, Result, Statements, StoredTime, feed, wal};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Holds {
    pub rows: u64,
    pub removed: u64,
    /// Records whose detail is as new as the record.
    pub details_current: u64,
    pub custom_fields: u64,
}

/// A line of `sync_runs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedRun {
    pub id: i64,
    /// `sync`, `resync` or `verify`.
    pub kind: String,
    /// `manual`, `schedule` or `demo`.
    pub trigger: String,
    pub started_at: String,
    /// When it ended; `None` while it runs, or if its process was killed.
    pub finished_at: Option<String>,
    pub outcome: Option<String>,
    /// `None`, as the numbers after it, if its process was killed.
    pub rows: Option<u64>,
    pub inserted: Option<u64>,
    pub updated: Option<u64>,
    pub removed: Option<u64>,
    pub details: Option<u64>,
    pub ru: Option<u64>,
    pub error: Option<String>,
}

/// A line of `service_oddities`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OddityLine {
    pub kind: String,
    pub resource: String,
    /// The description, a sentence.
    pub what: String,
    pub times: u64,
    pub last_seen_at: String,
}

/// What the last runs for changes cost, without the first that completed: it made the copy.
pub fn cost_of_changes(tx: &ReadTx<'_>) -> Result<Vec<Ru>> {
    tx.rows(
        "SELECT ru FROM sync_runs WHERE kind = 'sync' AND outcome = 'done'
               AND id > (SELECT min(id) FROM sync_runs WHERE kind = 'sync' AND outcome = 'done')
             ORDER BY id DESC LIMIT 20",
        [],
        |row| row.get::<_, i64>(0).map(|ru| Ru::new(ru.unsigned_abs())),
    )
}

pub fn holds(tx: &ReadTx<'_>, object: Object) -> Result<Holds> {
    // If the entry was lost, it is counted until the next writer does.
    let held = held::kept(&tx.conn, object)?.map_or_else(|| held::count(&tx.conn, object), Ok)?;
    let removed = "SELECT count(*) FROM removed_records WHERE object_type = ?1";
    let fields = "SELECT count(*) FROM custom_field_definitions WHERE object_type = ?1 AND status = 'ACTIVE'";
    Ok(Holds {
        rows: held.rows,
        removed: tx.count(removed, [object])?,
        details_current: held.details_current,
        custom_fields: tx.count(fields, [object])?,
    })
}

pub fn last_runs(tx: &ReadTx<'_>, most: u32) -> Result<Vec<RecordedRun>> {
    let sql = "SELECT id, kind, \"trigger\", started_at, finished_at, outcome, \"rows\", inserted, updated, removed, \
               details, ru, error FROM sync_runs ORDER BY id DESC LIMIT ?1";
    tx.parsed(sql, [most])
}

/// When the last run that found changes began; where none did, the first run: nothing has changed since.
pub fn last_change(tx: &ReadTx<'_>) -> Result<Option<Instant>> {
    let sql = "SELECT started_at FROM sync_runs ORDER BY iif(inserted + updated + removed > 0, id, -id) DESC LIMIT 1";
    tx.find_time(sql, [])
}

pub fn scheduled_polls(tx: &ReadTx<'_>, since: Instant) -> Result<u64> {
    let sql = "SELECT count(*) FROM sync_runs WHERE kind = 'sync' AND \"trigger\" = 'schedule' AND started_at >= ?1";
    tx.count(sql, [since])
}

/// When the last run of a kind began, when the last one that leaves nothing to catch up on, and how many failed since. One that
/// asked the service nothing has not begun. Only a sync goes on where a suspended one stopped.
pub fn attempts(tx: &ReadTx<'_>, kind: &str) -> Result<([Option<Instant>; 2], u32)> {
    let sql = "WITH runs AS (SELECT id, started_at, outcome = 'failed' AS failed, outcome IN ('done', 'refused')
                   OR outcome = 'suspended' AND kind <> 'sync' AS ended
                 FROM sync_runs WHERE kind = ?1 AND NOT (outcome IS 'suspended' AND ru = 0))
               SELECT max(started_at), max(iif(ended, started_at, NULL)),
                 count(iif(failed AND id > (SELECT coalesce(max(id), 0) FROM runs WHERE ended), 1, NULL)) FROM runs";
    let (begun, ended, failed): (StoredTime, StoredTime, _) = tx.find_tuple(sql, [kind])?.unwrap_or_default();
    Ok(([begun.0, ended.0], failed))
}

/// Consecutive failed runs, up to the last one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failing {
    pub since: String,
    pub runs: u32,
    pub error: Option<String>,
}

pub fn failing(tx: &ReadTx<'_>) -> Result<Option<Failing>> {
    let sql = "SELECT min(started_at) AS since, count(*) AS runs,
                 (SELECT error FROM sync_runs WHERE outcome = 'failed' ORDER BY id DESC LIMIT 1) AS error
               FROM sync_runs WHERE outcome = 'failed'
                 AND id > (SELECT coalesce(max(id), 0) FROM sync_runs WHERE outcome <> 'failed')";
    tx.find_parsed(sql, [])
}

/// Whether the first run had this trigger, if there was one.
pub fn began_with(tx: &ReadTx<'_>, trigger: &str) -> Result<bool> {
    let first: Option<String> = tx.find_value("SELECT \"trigger\" FROM sync_runs ORDER BY id LIMIT 1", [])?;
    Ok(first.is_none_or(|first| first == trigger))
}

/// The newest entry of the feed, and the changes of columns after an entry, a hundred at most; none without an entry.
pub fn schema_changes(tx: &ReadTx<'_>, after: Option<u64>) -> Result<(u64, Vec<ColumnEvent>)> {
    let newest = tx.count("SELECT coalesce(max(seq), 0) FROM changes", [])?;
    let mut changes = feed::column_events(tx, after.unwrap_or(newest) as i64)?;
    changes.truncate(100);
    Ok((newest, changes))
}

pub fn oddities(tx: &ReadTx<'_>) -> Result<Vec<OddityLine>> {
    let sql = "SELECT kind, resource, what, times, last_seen_at FROM service_oddities ORDER BY last_seen_at DESC";
    tx.parsed(sql, [])
}

/// The size of the file and of its WAL, in bytes.
pub fn sizes(path: &Path) -> (u64, u64) {
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |meta| meta.len());
    (size(path), size(&wal::beside(path)))
}
