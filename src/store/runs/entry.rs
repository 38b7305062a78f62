//! `sync_runs`: what every run did.

use rusqlite::params;

use crate::model::instant::Instant;
use crate::model::ru::Ru;
use crate::store::error::{Doing, StoreError};
use crate::store::tx::MirrorTx;

/// What a run did, counted as it goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Tally {
    /// Rows that lists and details returned.
    pub rows: u64,
    /// Records that were new here.
    pub inserted: u64,
    /// Records that had changed.
    pub updated: u64,
    /// Records confirmed as removed.
    pub removed: u64,
    /// Details read.
    pub details: u64,
    /// Values kept in `extra`, items that cannot be mirrored.
    pub warnings: u64,
    /// Request units charged.
    pub ru: Ru,
}

impl Tally {
    /// Adds another tally.
    pub fn add(&mut self, other: &Tally) {
        self.rows += other.rows;
        self.inserted += other.inserted;
        self.updated += other.updated;
        self.removed += other.removed;
        self.details += other.details;
        self.warnings += other.warnings;
        self.ru += other.ru;
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunOutcome {
    /// Everything that was asked for.
    Done,
    /// Ended early for the budget, a rate limit or a shutdown; the next run resumes it.
    Suspended,
    /// Would have mirrored what looks like an outage.
    Refused,
    /// Failed.
    Failed,
}

impl RunOutcome {
    /// The word in `sync_runs`.
    pub const fn as_str(self) -> &'static str {
        match self {
            RunOutcome::Done => "done",
            RunOutcome::Suspended => "suspended",
            RunOutcome::Refused => "refused",
            RunOutcome::Failed => "failed",
        }
    }
}

impl MirrorTx<'_> {
    /// Enters the beginning of a run and gives its number.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn begin_run(&self, kind: &str, trigger: &str, now: Instant) -> Result<i64, StoreError> {
        self.conn
            .execute(
                "INSERT INTO sync_runs (kind, \"trigger\", started_at) VALUES (?1, ?2, ?3)",
                params![kind, trigger, now.to_string()],
            )
            .doing("enter a run")?;
        Ok(self.conn.last_insert_rowid())
    }

    /// Enters the end of a run.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn end_run(
        &self,
        id: i64,
        now: Instant,
        outcome: RunOutcome,
        tally: &Tally,
        error: Option<&str>,
    ) -> Result<(), StoreError> {
        let n = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        self.conn
            .execute(
                "UPDATE sync_runs SET finished_at = ?2, outcome = ?3, \"rows\" = ?4, ru = ?5, inserted = ?6,
                        updated = ?7, removed = ?8, details = ?9, warnings = ?10, error = ?11 WHERE id = ?1",
                params![
                    id,
                    now.to_string(),
                    outcome.as_str(),
                    n(tally.rows),
                    n(tally.ru.get()),
                    n(tally.inserted),
                    n(tally.updated),
                    n(tally.removed),
                    n(tally.details),
                    n(tally.warnings),
                    error
                ],
            )
            .doing("enter a run")?;
        Ok(())
    }
}
