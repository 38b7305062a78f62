//! Queries of `status` on a read-only connection. Use one read transaction, so that the results are consistent.

use std::path::Path;

use rusqlite::params;
use serde::Serialize;

use crate::model::{Instant, Object, Ru};
use crate::store::file::wal;
use crate::store::records::counts as held;
use crate::store::{ReadTx, Statements, StoreError, StoredTime};

const DOING: &str = "read the mirror";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Holds {
    pub rows: u64,
    /// Records that the service no longer has.
    pub removed: u64,
    /// Records whose detail is as new as the record.
    pub details_current: u64,
    pub custom_fields: u64,
}

impl Holds {
    /// Records whose detail is not current.
    pub fn details_left(&self) -> u64 {
        self.rows.saturating_sub(self.details_current)
    }
}

/// A line of `sync_runs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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
    /// Rows that lists and details returned.
    pub rows: u64,
    pub inserted: u64,
    pub updated: u64,
    pub removed: u64,
    pub details: u64,
    /// Request units charged.
    pub ru: u64,
    pub error: Option<String>,
}

/// A line of `service_oddities`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OddityLine {
    pub kind: String,
    pub resource: String,
    /// The description, a sentence.
    pub what: String,
    pub times: u64,
    pub last_seen_at: String,
}

/// The cost of the last runs of a kind. The first completed run for changes is omitted: it made the copy, and says nothing about
/// the next one.
pub fn cost_of_runs(tx: &ReadTx<'_>, kind: &str, most: u32) -> Result<Vec<Ru>, StoreError> {
    tx.conn.rows(
        "SELECT ru FROM sync_runs WHERE kind = ?1 AND outcome = 'done'
               AND id > (SELECT min(id) FROM sync_runs WHERE kind = 'sync' AND outcome = 'done')
             ORDER BY id DESC LIMIT ?2",
        params![kind, most],
        "read the last runs",
        |row| row.get::<_, i64>(0).map(|ru| Ru::new(ru.unsigned_abs())),
    )
}

pub fn holds(tx: &ReadTx<'_>, object: Object) -> Result<Holds, StoreError> {
    // If the entry was lost, it is counted until the next writer does.
    let held = held::kept(&tx.conn, object)?.map_or_else(|| held::count(&tx.conn, object), Ok)?;
    let removed = "SELECT count(*) FROM removed_records WHERE object_type = ?1";
    let fields = "SELECT count(*) FROM custom_field_definitions WHERE object_type = ?1 AND status = 'ACTIVE'";
    Ok(Holds {
        rows: held.rows,
        removed: tx.conn.count(removed, [object], DOING)?,
        details_current: held.details_current,
        custom_fields: tx.conn.count(fields, [object], DOING)?,
    })
}

pub fn team_members(tx: &ReadTx<'_>) -> Result<u64, StoreError> {
    tx.conn.count("SELECT count(*) FROM team_members", [], DOING)
}

/// The number of custom fields, including archived ones.
pub fn custom_fields(tx: &ReadTx<'_>) -> Result<u64, StoreError> {
    tx.conn.count("SELECT count(*) FROM custom_field_definitions", [], DOING)
}

pub fn last_runs(tx: &ReadTx<'_>, most: u32) -> Result<Vec<RecordedRun>, StoreError> {
    let sql = "SELECT id, kind, \"trigger\", started_at, finished_at, outcome, \"rows\", inserted, updated, removed, \
               details, ru, error FROM sync_runs ORDER BY id DESC LIMIT ?1";
    let count = |row: &rusqlite::Row<'_>, i| row.get::<_, i64>(i).map(i64::unsigned_abs);
    tx.conn.rows(sql, [most], DOING, |row| {
        Ok(RecordedRun {
            id: row.get(0)?,
            kind: row.get(1)?,
            trigger: row.get(2)?,
            started_at: row.get(3)?,
            finished_at: row.get(4)?,
            outcome: row.get(5)?,
            rows: count(row, 6)?,
            inserted: count(row, 7)?,
            updated: count(row, 8)?,
            removed: count(row, 9)?,
            details: count(row, 10)?,
            ru: count(row, 11)?,
            error: row.get(12)?,
        })
    })
}

/// When runs began that found changes, since an instant, and when the first run of all began.
pub fn runs_with_changes(tx: &ReadTx<'_>, since: Instant) -> Result<(Option<Instant>, Vec<Instant>), StoreError> {
    let first = tx.conn.find_time("SELECT min(started_at) FROM sync_runs", [], DOING)?;
    let sql = "SELECT started_at FROM sync_runs WHERE started_at >= ?1 AND inserted + updated + removed > 0";
    let found: Vec<StoredTime> = tx.conn.column(sql, [since], DOING)?;
    Ok((first, found.into_iter().filter_map(|at| at.0).collect()))
}

/// How many scheduled runs for changes began since an instant.
pub fn scheduled_polls(tx: &ReadTx<'_>, since: Instant) -> Result<u64, StoreError> {
    let sql = "SELECT count(*) FROM sync_runs WHERE kind = 'sync' AND \"trigger\" = 'schedule' AND started_at >= ?1";
    tx.conn.count(sql, [since], DOING)
}

/// When the last run of a kind started.
pub fn last_begun(tx: &ReadTx<'_>, kind: &str) -> Result<Option<Instant>, StoreError> {
    tx.conn.find_time("SELECT max(started_at) FROM sync_runs WHERE kind = ?1", [kind], DOING)
}

/// When a run last completed.
pub fn last_success(tx: &ReadTx<'_>) -> Result<Option<Instant>, StoreError> {
    let sql = "SELECT finished_at FROM sync_runs WHERE outcome = 'done' ORDER BY id DESC LIMIT 1";
    tx.conn.find_time(sql, [], DOING)
}

/// Consecutive failed runs, up to the last one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failing {
    /// When the first of them started, UTC.
    pub since: String,
    pub runs: u32,
    pub error: Option<String>,
}

/// The failed runs since the last one that did not fail; `None` if there are none.
pub fn failing(tx: &ReadTx<'_>) -> Result<Option<Failing>, StoreError> {
    let sql = "SELECT min(started_at), count(*), (SELECT error FROM sync_runs WHERE outcome = 'failed' ORDER BY id DESC LIMIT 1)
               FROM sync_runs WHERE outcome = 'failed'
                 AND id > (SELECT coalesce(max(id), 0) FROM sync_runs WHERE outcome <> 'failed')";
    let found: Option<(Option<String>, u32, Option<String>)> = tx.conn.find_tuple(sql, [], DOING)?;
    Ok(found.and_then(|(since, runs, error)| Some(Failing { since: since?, runs, error })))
}

/// Whether every run was started by `trigger`.
pub fn all_runs_by(tx: &ReadTx<'_>, trigger: &str) -> Result<bool, StoreError> {
    let sql = "SELECT count(*) FROM sync_runs WHERE \"trigger\" <> ?1";
    Ok(tx.conn.count(sql, [trigger], DOING)? == 0)
}

/// A change of a custom column in the feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaChange {
    /// `contact` or `company`.
    pub object: String,
    pub column: String,
    /// `added`, `archived`, `restored`, `retyped` or `removed`.
    pub op: String,
}

/// The newest entry of the feed, and the changes of columns after an entry, a hundred at most; none without an entry.
pub fn schema_changes(tx: &ReadTx<'_>, after: Option<u64>) -> Result<(u64, Vec<SchemaChange>), StoreError> {
    let newest = tx.conn.count("SELECT coalesce(max(seq), 0) FROM changes", [], DOING)?;
    let sql = "SELECT object_type, fields ->> '$.column', fields ->> '$.op' FROM changes
               WHERE seq > ?1 AND kind = 'schema' ORDER BY seq LIMIT 100";
    let changes = tx.conn.rows(sql, [after.unwrap_or(newest) as i64], DOING, |row| {
        Ok(SchemaChange { object: row.get(0)?, column: row.get(1)?, op: row.get(2)? })
    });
    Ok((newest, changes?))
}

/// Where the service breaks its own documentation, the latest first.
pub fn oddities(tx: &ReadTx<'_>) -> Result<Vec<OddityLine>, StoreError> {
    let sql = "SELECT kind, resource, what, times, last_seen_at FROM service_oddities ORDER BY last_seen_at DESC";
    tx.conn.rows(sql, [], DOING, |row| {
        Ok(OddityLine {
            kind: row.get(0)?,
            resource: row.get(1)?,
            what: row.get(2)?,
            times: row.get::<_, i64>(3)?.unsigned_abs(),
            last_seen_at: row.get(4)?,
        })
    })
}

/// The size of the file and of its WAL, in bytes.
pub fn sizes(path: &Path) -> (u64, u64) {
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |meta| meta.len());
    (size(path), size(&wal::beside(path)))
}
