//! `changed_records`: the ids of the records that changed, each with the number of its last change.

use rusqlite::params;
use serde::{Deserialize, Serialize};

use crate::model::{Instant, Object};
use crate::store::{FeedTx, ReadTx, Result, StateKey, Statements, StoredTime, feed};

/// Enters one record with a number that is higher than all before it.
const ENTER: &str = "INSERT OR REPLACE INTO changed_records (object_type, record_id, erase)
    VALUES (?1, ?2, max(?3, coalesce(
        (SELECT erase FROM changed_records WHERE object_type = ?1 AND record_id = ?2), 0)))";

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PublishProgress {
    /// The database and schema that this is about; `None` while the URL is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The newest entry of the feed and the newest changed record that were published; `None` before the first load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<(i64, i64)>,
    pub published_at: Option<Instant>,
    pub last_error: Option<String>,
    /// When the first of the failures since the last success happened.
    pub failed_at: Option<Instant>,
    pub failures: u32,
    pub refused: u64,
    pub refused_rows: Vec<RefusedRow>,
    /// What could not follow, and what is kept only because views use it, one sentence each.
    pub left_behind: Vec<String>,
    #[serde(flatten)]
    pub proof: CopyProof,
}

impl PublishProgress {
    /// Since when nobody knows that both sides are equal; `None` while a new copy was not tried.
    pub fn unproven_since(&self) -> Option<Instant> {
        self.proof.equal_at.or(self.failed_at)
    }

    pub fn failed(self, why: String, now: Instant) -> PublishProgress {
        let failures = self.failures.saturating_add(1);
        PublishProgress { last_error: Some(why), failed_at: self.failed_at.or(Some(now)), failures, ..self }
    }
}

/// What is known about the equality of the published copy: the result of the last comparison of every value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CopyProof {
    /// When the last comparison began; `None` before the first.
    pub compared_at: Option<Instant>,
    /// When the last one began that ended with both sides equal.
    pub equal_at: Option<Instant>,
    pub differences: u64,
    pub differing: Vec<CopyDifference>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyDifference {
    pub table: String,
    pub key: String,
    /// The column; `None` if the whole row differs.
    pub column: Option<String>,
    pub kind: CopyDifferenceKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CopyDifferenceKind {
    Value,
    /// The row is in the mirror only.
    Missing,
    /// The row is in the database only.
    Extra,
}

impl std::fmt::Display for CopyDifference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.table, self.key)?;
        match (self.kind, &self.column) {
            (CopyDifferenceKind::Value, Some(column)) => write!(f, ": {column}"),
            (CopyDifferenceKind::Value, None) => write!(f, ": not comparable"),
            (CopyDifferenceKind::Missing, _) => write!(f, ": missing"),
            (CopyDifferenceKind::Extra, _) => write!(f, ": not in the mirror"),
        }
    }
}

/// A row that the database refuses: it is left out until its record changes or everything is loaded again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedRow {
    pub table: String,
    /// Its key, or which rows of the table.
    pub name: String,
    pub reason: String,
}

impl FeedTx<'_> {
    pub(in crate::store) fn mark_changed(&self, object: Object, id: &str) {
        self.tx.pending.changed.borrow_mut().insert((object, id.to_string()));
    }

    pub(in crate::store) fn flush_changed(&self) -> Result<()> {
        let noted = self.tx.pending.changed.take();
        if noted.is_empty() || !is_recording(self.tx)? {
            return Ok(());
        }
        noted.iter().try_for_each(|(object, id)| self.run(ENTER, params![object, id, 0]))
    }

    /// Enters every record of an object, so that all values are published again.
    pub(in crate::store) fn requeue_all(&self, object: Object) -> Result<()> {
        self.requeue_selected(&format!("SELECT ?1, id FROM {}", object.table()), &[&object])
    }

    /// Enters the records whose `object_type` and `id` the selection returns, removed ones too.
    pub(in crate::store) fn requeue_selected(&self, selection: &str, values: &[&dyn rusqlite::ToSql]) -> Result<()> {
        if is_recording(self.tx)? {
            let sql = format!(
                "WITH chosen(object, id) AS ({selection}) INSERT OR REPLACE INTO changed_records (object_type, record_id, erase)
                 SELECT object, id, coalesce(
                     (SELECT erase FROM changed_records WHERE object_type = object AND record_id = id), 0) FROM chosen"
            );
            self.run(&sql, values)?;
        }
        Ok(())
    }

    /// Enters a removed record whose history was erased, so that it is also erased where it was published.
    pub fn publish_erasure(&self, object: Object, id: &str) -> Result<()> {
        if is_recording(self.tx)? {
            self.run(ENTER, params![object, id, feed::span(self.tx)?.newest])?;
        }
        Ok(())
    }

    pub fn begin_recording(&self) -> Result<()> {
        self.tx.set_state(&StateKey::ChangedRecords, &true)
    }
}

pub fn is_recording(tx: &ReadTx<'_>) -> Result<bool> {
    tx.value("SELECT EXISTS (SELECT 1 FROM state WHERE name = ?1)", [StateKey::ChangedRecords.as_str()])
}

pub fn progress(tx: &ReadTx<'_>) -> Result<PublishProgress> {
    Ok(tx.state(&StateKey::PublishProgress)?.unwrap_or_default())
}

/// What is known of a target: what was proven of another one is nothing about it.
pub fn progress_of(tx: &ReadTx<'_>, target: Option<String>) -> Result<PublishProgress> {
    let known = progress(tx)?;
    Ok(if known.target == target { known } else { PublishProgress { target, ..PublishProgress::default() } })
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PublishLag {
    /// Entries of the feed, or records with changes that are not in the feed.
    pub entries: u64,
    /// The age of the oldest of them, in seconds; before the first load, for how long that has failed.
    pub seconds: u64,
    /// Without its target and position.
    #[serde(flatten)]
    pub progress: PublishProgress,
}

/// What a published copy lacks, also one that was never loaded.
pub fn lag(tx: &ReadTx<'_>, now: Instant) -> Result<PublishLag> {
    let mut progress = PublishProgress { target: None, ..progress(tx)? };
    let position = progress.position.take();
    let (seq, changed) = position.unwrap_or_default();
    let entries = tx.count("SELECT count(*) FROM changes WHERE seq > ?1", [seq])?;
    let records = tx.count("SELECT count(*) FROM changed_records WHERE seq > ?1", [changed])?;
    let oldest: Option<StoredTime> =
        tx.find_value("SELECT seen_at FROM changes WHERE seq > ?1 ORDER BY seq LIMIT 1", [seq])?;
    let entries = entries.max(records);
    // What was never loaded is owed since that was tried, however old the history is.
    let since = match position {
        None => progress.failed_at,
        Some(_) => oldest.and_then(|at| at.0).or(progress.published_at).filter(|_| entries > 0),
    };
    Ok(PublishLag { entries, seconds: since.map_or(0, |since| now.since(since).as_secs()), progress })
}
