//! What `status` reads: plain questions to a connection that may only read. Ask them in one read transaction, so that
//! the answers belong together.

use std::path::Path;

use rusqlite::OptionalExtension;
use serde::Serialize;

use crate::model::{Instant, Object, Ru};
use crate::store::error::{Doing, StoreError};
use crate::store::file::wal;
use crate::store::outbox::delays;
use crate::store::reader::ReadTx;
use crate::store::records::counts as held;
use crate::store::state::StateKey;

const DOING: &str = "read the mirror";

/// How much of an object is here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Holds {
    /// Records.
    pub rows: u64,
    /// Records that the service no longer has.
    pub removed: u64,
    /// Records whose detail is as new as the record.
    pub details_current: u64,
    /// Active custom fields.
    pub custom_fields: u64,
}

/// A line of `sync_runs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordedRun {
    /// Its number.
    pub id: i64,
    /// `sync`, `resync` or `verify`.
    pub kind: String,
    /// `manual`, `schedule` or `demo`.
    pub trigger: String,
    /// When it began.
    pub started_at: String,
    /// When it ended; `None` while it runs, or when its process was killed.
    pub finished_at: Option<String>,
    /// How it ended.
    pub outcome: Option<String>,
    /// Rows that lists and details returned.
    pub rows: u64,
    /// New records.
    pub inserted: u64,
    /// Changed records.
    pub updated: u64,
    /// Removed records.
    pub removed: u64,
    /// Details read.
    pub details: u64,
    /// Request units charged.
    pub ru: u64,
    /// Why it failed.
    pub error: Option<String>,
}

/// A line of `service_oddities`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OddityLine {
    /// What kind.
    pub kind: String,
    /// Where.
    pub resource: String,
    /// A sentence.
    pub what: String,
    /// How often.
    pub times: u64,
    /// When last.
    pub last_seen_at: String,
}

/// What the last runs that went for changes cost, and whether any of them was started by the schedule since an instant.
/// The first that was done is left out of the costs: it made the copy, and says nothing about the next.
///
/// # Errors
/// If SQLite refuses.
pub fn cost_of_runs(tx: &ReadTx<'_>, most: u32, since: Instant) -> Result<(Vec<Ru>, bool), StoreError> {
    let doing = "read the last runs";
    let mut stmt = tx
        .conn
        .prepare_cached(
            "SELECT ru, \"trigger\" = 'schedule' AND started_at >= ?2,
                    id > (SELECT min(id) FROM sync_runs WHERE kind = 'sync' AND outcome = 'done')
             FROM sync_runs WHERE kind = 'sync' AND outcome = 'done' ORDER BY id DESC LIMIT ?1",
        )
        .doing(doing)?;
    let rows = stmt.query_map(rusqlite::params![most, since.to_string()], |row| {
        Ok((row.get::<_, i64>(0)?.unsigned_abs(), row.get(1)?, row.get(2)?))
    });
    let runs: Vec<(u64, bool, bool)> = rows.and_then(Iterator::collect).doing(doing)?;
    Ok((
        runs.iter().filter(|(_, _, later)| *later).map(|(ru, ..)| Ru::new(*ru)).collect(),
        runs.iter().any(|(_, scheduled, _)| *scheduled),
    ))
}

fn number(tx: &ReadTx<'_>, sql: &str, params: &[&dyn rusqlite::ToSql]) -> Result<u64, StoreError> {
    let number: i64 = tx.conn.query_row(sql, params, |row| row.get(0)).doing(DOING)?;
    Ok(number.unsigned_abs())
}

/// How much of an object is here.
///
/// # Errors
/// If SQLite refuses.
pub fn holds(tx: &ReadTx<'_>, object: Object) -> Result<Holds, StoreError> {
    let word = object.as_str();
    let held = match held::kept(&tx.conn, object)? {
        Some(held) => held,
        // Written by an older program: counted until this one writes.
        None => held::count(&tx.conn, object)?,
    };
    let removed = "SELECT count(*) FROM removed_records WHERE object_type = ?1";
    let fields = "SELECT count(*) FROM custom_field_definitions WHERE object_type = ?1 AND status = 'ACTIVE'";
    Ok(Holds {
        rows: held.rows,
        removed: number(tx, removed, &[&word])?,
        details_current: held.details_current,
        custom_fields: number(tx, fields, &[&word])?,
    })
}

fn rows(tx: &ReadTx<'_>, table: &str) -> Result<u64, StoreError> {
    number(tx, &format!("SELECT count(*) FROM {table}"), &[])
}

/// How many team members are here.
///
/// # Errors
/// If SQLite refuses.
pub fn team_members(tx: &ReadTx<'_>) -> Result<u64, StoreError> {
    rows(tx, "team_members")
}

/// How many custom fields are defined, archived ones included.
///
/// # Errors
/// If SQLite refuses.
pub fn custom_fields(tx: &ReadTx<'_>) -> Result<u64, StoreError> {
    rows(tx, "custom_field_definitions")
}

/// The last runs, the newest first.
///
/// # Errors
/// If SQLite refuses.
pub fn last_runs(tx: &ReadTx<'_>, most: u32) -> Result<Vec<RecordedRun>, StoreError> {
    let sql = "SELECT id, kind, \"trigger\", started_at, finished_at, outcome, \"rows\", inserted, updated, removed, \
               details, ru, error FROM sync_runs ORDER BY id DESC LIMIT ?1";
    let mut stmt = tx.conn.prepare(sql).doing(DOING)?;
    let count = |row: &rusqlite::Row<'_>, i| row.get::<_, i64>(i).map(i64::unsigned_abs);
    stmt.query_map([most], |row| {
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
    .and_then(Iterator::collect)
    .doing(DOING)
}

/// When the last run of a kind began.
///
/// # Errors
/// If SQLite refuses.
pub fn last_begun(tx: &ReadTx<'_>, kind: &str) -> Result<Option<Instant>, StoreError> {
    instant_of(tx, "SELECT max(started_at) FROM sync_runs WHERE kind = ?1", &[&kind])
}

/// When a run last did all that it was to do.
///
/// # Errors
/// If SQLite refuses.
pub fn last_success(tx: &ReadTx<'_>) -> Result<Option<Instant>, StoreError> {
    let sql = "SELECT finished_at FROM sync_runs WHERE outcome = 'done' ORDER BY id DESC LIMIT 1";
    instant_of(tx, sql, &[])
}

fn instant_of(tx: &ReadTx<'_>, sql: &str, params: &[&dyn rusqlite::ToSql]) -> Result<Option<Instant>, StoreError> {
    let text: Option<Option<String>> = tx.conn.query_row(sql, params, |row| row.get(0)).optional().doing(DOING)?;
    Ok(text.flatten().and_then(|text| text.parse().ok()))
}

/// Runs that failed in a row, up to the last one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failing {
    /// When the first of them began, UTC.
    pub since: String,
    /// How many.
    pub runs: u32,
    /// What the last ended with.
    pub error: Option<String>,
}

/// The runs that failed since the last one that did not; `None` where that is none.
///
/// # Errors
/// If SQLite refuses.
pub fn failing(tx: &ReadTx<'_>) -> Result<Option<Failing>, StoreError> {
    let sql = "SELECT min(started_at), count(*), (SELECT error FROM sync_runs WHERE outcome = 'failed' ORDER BY id DESC LIMIT 1)
               FROM sync_runs WHERE outcome = 'failed'
                 AND id > (SELECT coalesce(max(id), 0) FROM sync_runs WHERE outcome <> 'failed')";
    tx.conn
        .query_row(sql, [], |row| {
            let since: Option<String> = row.get(0)?;
            let runs = row.get(1)?;
            let error = row.get(2)?;
            Ok(since.map(|since| Failing { since, runs, error }))
        })
        .doing(DOING)
}

/// The newest entry of the trail of edits, and whether edits are to be pushed now: one that is new, released or tried again
/// by hand after `last`, or one whose delay has just ended, whatever the schedule says. An edit that returned to the queue is
/// not new. While the schedule is paused nothing is to be pushed, and nothing is passed over.
///
/// # Errors
/// If SQLite refuses.
pub fn edits_after(tx: &ReadTx<'_>, last: i64) -> Result<(i64, bool), StoreError> {
    if tx.state::<Instant>(&StateKey::PausedSince)?.is_some() {
        return Ok((last, false));
    }
    let sql = "SELECT coalesce(max(e.id), ?1),
                      coalesce(max(e.to_state = 'queued' AND o.state = 'queued'
                                   AND coalesce(e.from_state, 'held') IN ('held', 'conflict')), 0)
               FROM outbox_events AS e JOIN outbox AS o ON o.id = e.outbox_id WHERE e.id > ?1";
    let (newest, queued): (i64, bool) = tx
        .conn
        .prepare_cached(sql)
        .and_then(|mut stmt| stmt.query_row([last], |row| Ok((row.get(0)?, row.get(1)?))))
        .doing(DOING)?;
    // The first look finds what came due while nobody looked.
    let looked_before = last > 0;
    Ok((newest, queued || delays::ended(&tx.conn, Instant::system_now(), looked_before)?))
}

/// Whether every run was started by `trigger`.
///
/// # Errors
/// If SQLite refuses.
pub fn all_runs_by(tx: &ReadTx<'_>, trigger: &str) -> Result<bool, StoreError> {
    let sql = "SELECT count(*) FROM sync_runs WHERE \"trigger\" <> ?1";
    Ok(number(tx, sql, &[&trigger])? == 0)
}

/// What the service did against its own document, the latest first.
///
/// # Errors
/// If SQLite refuses.
pub fn oddities(tx: &ReadTx<'_>) -> Result<Vec<OddityLine>, StoreError> {
    let sql = "SELECT kind, resource, what, times, last_seen_at FROM service_oddities ORDER BY last_seen_at DESC";
    let mut stmt = tx.conn.prepare(sql).doing(DOING)?;
    stmt.query_map([], |row| {
        Ok(OddityLine {
            kind: row.get(0)?,
            resource: row.get(1)?,
            what: row.get(2)?,
            times: row.get::<_, i64>(3)?.unsigned_abs(),
            last_seen_at: row.get(4)?,
        })
    })
    .and_then(Iterator::collect)
    .doing(DOING)
}

/// The size of the file and of its WAL, in bytes.
pub fn sizes(path: &Path) -> (u64, u64) {
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |meta| meta.len());
    (size(path), size(&wal::beside(path)))
}
