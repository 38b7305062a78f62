//! The change history since the first full copy, and removed records: written, erased on request, and pruned by elapsed
//! time: a wall clock counts only where it bridges a restart.
//!
//! # Pruning
//! A clock that jumps a month ahead must not empty the history, and an entry with the time of such a clock must not
//! keep all later ones forever. So the times of entries are not compared. From time to time a [`HistoryMark`] stores
//! the current end of the history with the [`ElapsedClock`]; what lies before a mark that is older than the retention
//! is pruned. The age of a mark is what the monotonic clock has measured since. Where the machine was restarted
//! meanwhile, the wall clock counts too, as far as the service's `Date` confirms it.

use std::time::Duration;

use rusqlite::params;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::exclusions::plain_name;
use crate::model::{ElapsedClock, Instant, Object, RecordId};
use crate::store::{FeedTx, FieldDifference, RecordsTx, Result, StateKey, Statements};

const MARKS: u32 = 128;
/// The maximum difference between the wall clock and the service's `Date` when the wall clock bridges a restart.
const AGREEMENT: Duration = Duration::from_secs(3_600);

impl RecordsTx<'_> {
    /// Moves a record that the service no longer has to `removed_records`. Returns whether it was mirrored. Only the
    /// removal gate calls it.
    pub(super) fn remove(&self, object: Object, id: &RecordId, removed_at: Instant) -> Result<bool> {
        let row = |table: &str, key: &str| self.objects(&format!("SELECT * FROM {table} WHERE {key} = ?1"), [id]);
        let Some(mut record) = row(object.table(), "id")?.pop() else {
            return Ok(false);
        };
        self.count_before(object, id.as_str())?;
        self.tx.feed().mark_changed(object, id.as_str());
        if let Some(detail) = row(object.detail_table(), object.detail_key())?.pop() {
            let own = [object.detail_key(), "etag", "fetched_at"];
            let detail = detail.into_iter().filter(|(column, _)| !own.contains(&column.as_str()));
            record.extend(detail.map(|(column, value)| match column.as_str() {
                "extra" => ("detail_extra".into(), value),
                _ => (column, value),
            }));
        }
        let text = Value::Object(record.clone()).to_string();
        if self.tx.is_copied(object)? {
            let ended = "SELECT column_name FROM ended_values WHERE object_type = ?1 AND record_id = ?2";
            let ended: Vec<String> = self.column(ended, params![object, id])?;
            let values = record
                .into_iter()
                .filter(|(column, value)| !value.is_null() && column != "synced_at" && column != "id")
                .map(|(column, here)| (plain_name(&column).to_string(), here));
            // What waits for the value that was to take its place ends with the record, and has the name of its field.
            let values = ended.into_iter().map(|column| (column, Value::Null)).chain(values);
            let differences = values.map(|(column, here)| FieldDifference { column, here, there: Value::Null });
            self.tx.feed().remember(object, id.as_str(), "remove", differences.collect(), removed_at)?;
        }
        let insert =
            "INSERT OR REPLACE INTO removed_records (object_type, id, removed_at, record) VALUES (?1, ?2, ?3, ?4)";
        self.run(insert, (object, id, removed_at, text))?;
        for table in ["custom_multi_values", "unshown_columns"] {
            self.run(&format!("DELETE FROM {table} WHERE object_type = ?1 AND record_id = ?2"), (object, id))?;
        }
        let delete_detail = format!("DELETE FROM {} WHERE {} = ?1", object.detail_table(), object.detail_key());
        self.run(&delete_detail, [id])?;
        self.tx.knowledge().forget_doubts(object, id.as_str())?;
        self.run(&format!("DELETE FROM {} WHERE id = ?1", object.table()), [id])?;
        Ok(true)
    }

    /// Empties an object's tables and history: the mirror becomes another workspace's. Who follows it starts again.
    pub fn forget_all(&self, object: Object) -> Result<()> {
        self.tx.derived().recreate_search(object)?;
        for table in [object.table(), object.detail_table()] {
            self.run(&format!("DELETE FROM {table}"), [])?;
        }
        for table in ["custom_multi_values", "removed_records", "changes", "ended_values", "unshown_columns"] {
            self.run(&format!("DELETE FROM {table} WHERE object_type = ?1"), [object])?;
        }
        self.recount(object)?;
        self.tx.renew_mirror_id()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Erasure {
    /// The service still has the record, as far as is known.
    StillHere,
    Unknown,
    Erased(ErasedCounts),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ErasedCounts {
    pub record: bool,
    pub changes: u64,
    pub edits: u64,
}

impl FeedTx<'_> {
    /// Erases a record that is not mirrored any more from all tables, and overwrites it. Published copies follow.
    pub fn erase_removed(&self, object: Object, id: &str) -> Result<Erasure> {
        let exists = format!("SELECT EXISTS (SELECT 1 FROM {} WHERE id = ?1)", object.table());
        if self.value(&exists, [id])? {
            return Ok(Erasure::StillHere);
        }
        // Deleted contents are overwritten with zeros, not only freed.
        self.tx.conn.pragma_update(None, "secure_delete", true)?;
        let erase = |sql: &str| self.change(sql, params![object, id]);
        let record = erase("DELETE FROM removed_records WHERE object_type = ?1 AND id = ?2")? > 0;
        let first = erase(
            "UPDATE changes SET fields = '{}' WHERE seq = (SELECT min(seq) FROM changes)
                 AND object_type = ?1 AND record_id = ?2 AND fields <> '{}'",
        )?;
        let others = "DELETE FROM changes WHERE object_type = ?1 AND record_id = ?2 AND fields <> '{}'";
        let changes = (first + erase(others)?) as u64;
        erase(
            "DELETE FROM outbox_events WHERE outbox_id IN
                 (SELECT id FROM outbox WHERE object_type = ?1 AND record_id = ?2)",
        )?;
        for table in ["ended_values", "doubts", "unshown_columns", "outbox_delays"] {
            erase(&format!("DELETE FROM {table} WHERE object_type = ?1 AND record_id = ?2"))?;
        }
        let edits = erase("DELETE FROM outbox WHERE object_type = ?1 AND record_id = ?2")? as u64;
        if !record && changes == 0 && edits == 0 {
            return Ok(Erasure::Unknown);
        }
        self.publish_erasure(object, id)?;
        self.tx.derived().forget_removed_words(object)?;
        if self.tx.is_copied(object)? {
            // Who follows the feed, and has not read that it was removed, reads it here.
            self.remember(object, id, "remove", Vec::new(), Instant::system_now())?;
        }
        Ok(Erasure::Erased(ErasedCounts { record, changes, edits }))
    }

    /// Prunes entries that have been stored for longer than `retention`: changes, removed records, audits, runs, and
    /// finished edits. `clock` is that of the ledger at `now`, and `date` the service's time then, if it is known.
    pub fn forget_old_history(
        &self,
        retention: Duration,
        clock: ElapsedClock,
        now: Instant,
        date: Option<Instant>,
    ) -> Result<()> {
        let mut marks: Vec<HistoryMark> = self.tx.state(&StateKey::HistoryMarks)?.unwrap_or_default();
        // A clock that was lost, and began again, makes older marks later ones.
        marks.retain(|mark| mark.clock.time() <= clock.time());
        let due = marks.last().is_none_or(|last| clock.time().since(last.clock.time()) >= retention / MARKS);
        if due {
            let newest = |id: &str, table: &str| self.value(&format!("SELECT coalesce(max({id}), 0) FROM {table}"), []);
            let (changes, audits, runs) =
                (newest("seq", "changes")?, newest("id", "audits")?, newest("id", "sync_runs")?);
            marks.push(HistoryMark { clock, changes, audits, runs });
        }
        // The newest mark that is old enough covers all before it.
        let old = marks.iter().rposition(|mark| mark.is_older_than(retention, &clock, now, date));
        if let Some(old) = old {
            let mark = marks[old];
            marks.drain(..=old);
            self.forget_up_to(&mark, now.minus(retention))?;
        } else if !due {
            return Ok(());
        }
        self.tx.set_state(&StateKey::HistoryMarks, &marks)
    }

    fn forget_up_to(&self, mark: &HistoryMark, before: Instant) -> Result<()> {
        // Both clocks must agree that it is time: that of the mark, and the current one.
        let before = before.min(mark.clock.reading().wall);
        let removed = "SELECT object_type, id FROM removed_records AS r
             WHERE CASE WHEN EXISTS (SELECT 1 FROM changes AS c WHERE c.object_type = r.object_type
                                     AND c.record_id = r.id AND c.kind = 'remove')
                   THEN NOT EXISTS (SELECT 1 FROM changes AS c WHERE c.object_type = r.object_type
                                    AND c.record_id = r.id AND c.kind = 'remove' AND c.seq > ?1)
                   ELSE r.removed_at < ?2 END";
        let values = params![mark.changes, before.to_string()];
        self.requeue_selected(removed, values)?;
        let forget = format!("DELETE FROM removed_records WHERE (object_type, id) IN ({removed})");
        self.run(&forget, values)?;
        // What is left may begin long after, or be nothing.
        let horizon = "(SELECT seen_at FROM changes WHERE seq <= ?1 ORDER BY seq DESC LIMIT 1)";
        let move_horizon = format!(
            "UPDATE goals SET finished = {horizon} WHERE kind = 'copied' AND coalesce(finished, '') < {horizon}"
        );
        for (sql, newest) in [
            (move_horizon.as_str(), mark.changes),
            ("DELETE FROM changes WHERE seq <= ?1", mark.changes),
            ("DELETE FROM ended_values WHERE ended_by <= ?1", mark.changes),
            ("DELETE FROM audits WHERE id <= ?1", mark.audits),
            ("DELETE FROM sync_runs WHERE id <= ?1", mark.runs),
        ] {
            self.run(sql, [newest])?;
        }
        self.tx.edits().forget_edits_before(before)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct HistoryMark {
    clock: ElapsedClock,
    changes: i64,
    audits: i64,
    runs: i64,
}

impl HistoryMark {
    /// Whether the mark has certainly been there for so long.
    fn is_older_than(&self, retention: Duration, clock: &ElapsedClock, now: Instant, date: Option<Instant>) -> bool {
        let is_confirmed = date.is_some_and(|date| date.since(now).max(now.since(date)) <= AGREEMENT);
        clock.measured().saturating_sub(self.clock.measured()) >= retention
            || is_confirmed
                && clock.time().since(self.clock.time()) >= retention
                && now.since(self.clock.reading().wall) >= retention
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ClockReading, MonotonicReading};

    const DAY: Duration = Duration::from_secs(86_400);

    fn reading(boot: u32, days: u64, wall: i64) -> ClockReading {
        ClockReading {
            wall: Instant::from_secs(wall * 86_400).unwrap(),
            monotonic: Some(MonotonicReading { boot, micros: days * 86_400_000_000 }),
        }
    }

    #[test]
    fn only_certainly_elapsed_time_counts() {
        let begin = ElapsedClock::default().at(reading(1, 0, 20_000));
        let mark = HistoryMark { clock: begin, changes: 1, audits: 1, runs: 1 };
        let day = |wall: i64| Some(Instant::from_secs(wall * 86_400).unwrap());
        for (now, date, days) in [
            (reading(1, 3, 20_003), None, 3),
            (reading(1, 3, 30_000), None, 3),
            (reading(1, 3, 10), day(10), 3),
            // The machine was restarted.
            (reading(2, 0, 20_005), None, 0),
            (reading(2, 0, 20_005), day(20_005), 5),
            (reading(2, 0, 30_000), day(20_005), 0),
            (reading(2, 0, 10), day(10), 0),
        ] {
            let clock = begin.at(now);
            let is_older = |days: u32| mark.is_older_than(days * DAY, &clock, now.wall, date);
            assert!((days == 0 || is_older(days)) && !is_older(days + 1), "{now:?} {date:?}");
        }
        // A wall clock that was wrong at a restart, and was put right, has not made the history older.
        let ahead = begin.at(reading(2, 0, 20_100));
        let right = ahead.at(reading(2, 1, 20_001));
        assert!(!mark.is_older_than(30 * DAY, &right, reading(2, 1, 20_001).wall, day(20_001)));
    }
}
