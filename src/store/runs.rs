//! `sync_runs`: the record of every run.

use rusqlite::params;
use strum::{IntoStaticStr, VariantNames};

use crate::model::{Instant, Record, Ru};
use crate::store::{Applied, MirrorTx, ReadTx, Result, Statements};

/// Scheduled runs that found nothing are kept only among so many last ones: with one every few seconds they would be most of
/// the file after a year.
const MAX_IDLE_RUNS: i64 = 100_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Tally {
    #[serde(rename = "rows_read")]
    pub rows: u64,
    pub inserted: u64,
    pub updated: u64,
    pub removed: u64,
    #[serde(rename = "details_read")]
    pub details: u64,
    /// Values kept in `extra`, items that cannot be mirrored.
    pub warnings: u64,
    #[serde(skip)]
    pub ru: Ru,
}

impl Tally {
    /// The warnings of a record are reported when it is written, not each time it is read again.
    pub fn count(&mut self, record: &Record, applied: Applied) {
        match applied {
            Applied::Inserted => self.inserted += 1,
            Applied::Updated => self.updated += 1,
            Applied::Unchanged | Applied::Older => return,
        }
        self.warnings += u64::from(record.inexact);
    }

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

#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, IntoStaticStr, VariantNames,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum RunOutcome {
    Done,
    /// Suspended by the budget, a rate limit or a shutdown; the next run resumes it.
    Suspended,
    /// Refused to mirror what looks like an outage.
    Refused,
    #[default]
    Failed,
}

impl ReadTx<'_> {
    /// Whether the last run of this kind that the schedule began before a run came to no end.
    pub fn is_repeated(&self, kind: &str, run: i64) -> Result<bool> {
        let sql = r#"SELECT coalesce(outcome, 'failed') IN ('failed', 'suspended') FROM sync_runs
                   WHERE kind = ?1 AND "trigger" = 'schedule' AND id < ?2 ORDER BY id DESC LIMIT 1"#;
        Ok(self.find_value(sql, (kind, run))?.unwrap_or(false))
    }

    /// When the last run began that went on to its end, whatever failed in it.
    pub fn last_mirrored(&self) -> Result<Option<Instant>> {
        let sql = "SELECT started_at FROM sync_runs WHERE outcome IN ('done', 'failed', 'refused') AND ru > 0
                     AND kind IN ('sync', 'resync') ORDER BY id DESC LIMIT 1";
        self.find_time(sql, [])
    }
}

impl MirrorTx<'_> {
    pub fn begin_run(&self, kind: &str, trigger: &str, now: Instant) -> Result<i64> {
        self.run(
            "INSERT INTO sync_runs (kind, \"trigger\", started_at) VALUES (?1, ?2, ?3)",
            params![kind, trigger, now],
        )?;
        Ok(self.conn.last_insert_rowid())
    }

    /// Ends the runs that nobody carries out any more; nobody knows when they ended, and what they had done.
    pub fn end_killed_runs(&self) -> Result<()> {
        let why = "its process was killed, or its end could not be stored";
        self.run(
            "UPDATE sync_runs SET outcome = 'failed', error = ?1, \"rows\" = NULL, ru = NULL, inserted = NULL, updated = NULL,
                        removed = NULL, details = NULL, warnings = NULL WHERE outcome IS NULL",
            [why],
        )
    }

    pub fn end_run(
        &self,
        id: i64,
        now: Instant,
        outcome: RunOutcome,
        tally: &Tally,
        error: Option<&str>,
    ) -> Result<()> {
        let Tally { rows, inserted, updated, removed, details, warnings, ru } = *tally;
        let counts = [rows, ru.get(), inserted, updated, removed, details, warnings];
        let [rows, ru, inserted, updated, removed, details, warnings] =
            counts.map(|count| i64::try_from(count).unwrap_or(i64::MAX));
        self.run(
            "UPDATE sync_runs SET finished_at = ?2, outcome = ?3, \"rows\" = ?4, ru = ?5, inserted = ?6,
                        updated = ?7, removed = ?8, details = ?9, warnings = ?10, error = ?11 WHERE id = ?1",
            params![id, now, <&str>::from(outcome), rows, ru, inserted, updated, removed, details, warnings, error],
        )?;
        self.run(
            "DELETE FROM sync_runs WHERE id = ?1 AND kind = 'sync' AND \"trigger\" = 'schedule' AND outcome = 'done'
                 AND \"rows\" = 0 AND details = 0 AND warnings = 0",
            [id - MAX_IDLE_RUNS],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;

    #[tokio::test]
    async fn idle_runs_of_long_ago_are_forgotten_and_others_stay() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("mirror.db")).unwrap();
        let at: Instant = "2026-03-04T12:00:00Z".parse().unwrap();
        let kept = store.write(move |tx| {
            let busy = Tally { rows: 1, ..Tally::default() };
            for (rows, trigger) in [(0, "schedule"), (0, "manual"), (1, "schedule")] {
                let id = tx.begin_run("sync", trigger, at)?;
                tx.end_run(id, at, RunOutcome::Done, &Tally { rows, ..Tally::default() }, None)?;
            }
            tx.conn.execute("UPDATE sqlite_sequence SET seq = ?1 WHERE name = 'sync_runs'", [MAX_IDLE_RUNS]).unwrap();
            for _ in 0..4 {
                let id = tx.begin_run("sync", "schedule", at)?;
                tx.end_run(id, at, RunOutcome::Done, &busy, None)?;
            }
            let mut stmt = tx.conn.prepare("SELECT id FROM sync_runs WHERE id < 1000 ORDER BY id").unwrap();
            let ids: Vec<i64> = stmt.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
            Ok(ids)
        });
        assert_eq!(kept.await.unwrap(), [2, 3]);
        store.close().await;
    }
}
