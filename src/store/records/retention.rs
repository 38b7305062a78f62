//! Prunes history by elapsed time, never by what a wall clock shows.
//!
//! A clock that jumps a month ahead must not empty the history, and an entry with the time of such a clock must not
//! keep all later ones forever. So the times of entries are not compared. The file counts how much time has passed over
//! all runs: by the monotonic clock within one boot of the machine; across a restart by the wall clock, as far as the
//! service's `Date` agrees. From time to time a [`HistoryMark`] stores the current end of the history; what lies before
//! a mark that is older than the retention is pruned.

use std::time::Duration;

use rusqlite::params;
use serde::{Deserialize, Serialize};

use crate::model::clock::{ClockReading, MonotonicReading};
use crate::model::instant::Instant;
use crate::store::error::{Doing, StoreError};
use crate::store::state_keys::StateKey;
use crate::store::tx::MirrorTx;

const DOING: &str = "prune old history";

/// The number of marks that cover the retention.
const MARKS: u32 = 128;

/// The maximum difference between the wall clock and the service's `Date` when the wall clock bridges a restart.
const AGREEMENT: Duration = Duration::from_secs(3_600);

/// The time that has certainly passed since the mirror was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HistoryClock {
    passed: Duration,
    wall: Instant,
    monotonic: Option<MonotonicReading>,
}

/// The end of the history when a certain time had passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct HistoryMark {
    passed: Duration,
    /// The wall clock at that time: finished edits have no number.
    wall: Instant,
    changes: i64,
    audits: i64,
    runs: i64,
}

impl HistoryClock {
    /// The clock at a reading; `date` is the service's time at about that moment, if it is known.
    fn at(before: Option<HistoryClock>, now: ClockReading, date: Option<Instant>) -> HistoryClock {
        let passed = before.map_or(Duration::ZERO, |before| {
            let then = ClockReading { wall: before.wall, monotonic: before.monotonic };
            let confirmed = date.is_some_and(|date| date.since(now.wall).max(now.wall.since(date)) <= AGREEMENT);
            let since = if now.is_comparable(&then) || confirmed { now.since(&then) } else { Duration::ZERO };
            before.passed.saturating_add(since)
        });
        HistoryClock { passed, wall: now.wall, monotonic: now.monotonic }
    }
}

impl MirrorTx<'_> {
    /// Prunes entries that have been stored for longer than `retention`: changes, removed records, audits, runs, and
    /// finished edits. `date` is the service's time at about `now`, if it is known.
    pub fn forget_old_history(
        &self,
        retention: Duration,
        now: ClockReading,
        date: Option<Instant>,
    ) -> Result<(), StoreError> {
        let clock = HistoryClock::at(self.state(&StateKey::HistoryClock)?, now, date);
        self.set_state(&StateKey::HistoryClock, &clock)?;
        let mut marks: Vec<HistoryMark> = self.state(&StateKey::HistoryMarks)?.unwrap_or_default();
        let due = marks.last().is_none_or(|last| clock.passed.saturating_sub(last.passed) >= retention / MARKS);
        if due {
            marks.push(self.history_mark(&clock)?);
        }
        // The newest mark that is old enough covers all before it.
        let old = marks.iter().rposition(|mark| clock.passed.saturating_sub(mark.passed) >= retention);
        if let Some(old) = old.filter(|_| clock.passed >= retention) {
            let mark = marks[old];
            marks.drain(..=old);
            self.forget_up_to(&mark, now.wall.minus(retention))?;
        } else if !due {
            return Ok(());
        }
        self.set_state(&StateKey::HistoryMarks, &marks)
    }

    fn history_mark(&self, clock: &HistoryClock) -> Result<HistoryMark, StoreError> {
        let newest = |sql: &str| -> Result<i64, StoreError> {
            self.conn.prepare_cached(sql).and_then(|mut stmt| stmt.query_row([], |row| row.get(0))).doing(DOING)
        };
        Ok(HistoryMark {
            passed: clock.passed,
            wall: clock.wall,
            changes: newest("SELECT coalesce(max(seq), 0) FROM changes")?,
            audits: newest("SELECT coalesce(max(id), 0) FROM audits")?,
            runs: newest("SELECT coalesce(max(id), 0) FROM sync_runs")?,
        })
    }

    fn forget_up_to(&self, mark: &HistoryMark, before: Instant) -> Result<(), StoreError> {
        // Both clocks must agree that it is time: that of the mark, and the current one.
        let before = before.min(mark.wall);
        let removed = "SELECT object_type, id FROM removed_records AS r
             WHERE CASE WHEN EXISTS (SELECT 1 FROM changes AS c WHERE c.object_type = r.object_type
                                     AND c.record_id = r.id AND c.kind = 'remove')
                   THEN NOT EXISTS (SELECT 1 FROM changes AS c WHERE c.object_type = r.object_type
                                    AND c.record_id = r.id AND c.kind = 'remove' AND c.seq > ?1)
                   ELSE r.removed_at < ?2 END";
        let values = params![mark.changes, before.to_string()];
        self.requeue_removed(removed, values)?;
        let forget = format!("DELETE FROM removed_records WHERE (object_type, id) IN ({removed})");
        self.conn.prepare_cached(&forget).and_then(|mut stmt| stmt.execute(values)).doing(DOING)?;
        for (sql, newest) in [
            ("DELETE FROM changes WHERE seq <= ?1", mark.changes),
            ("DELETE FROM audits WHERE id <= ?1", mark.audits),
            ("DELETE FROM sync_runs WHERE id <= ?1", mark.runs),
        ] {
            self.conn.prepare_cached(sql).and_then(|mut stmt| stmt.execute([newest])).doing(DOING)?;
        }
        self.forget_edits_before(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn reading(boot: u32, days: u64, wall: i64) -> ClockReading {
        ClockReading {
            wall: Instant::from_secs(wall * 86_400).unwrap(),
            monotonic: Some(MonotonicReading { boot, micros: days * 86_400_000_000 }),
        }
    }

    #[test]
    fn only_certainly_elapsed_time_counts() {
        let begin = HistoryClock::at(None, reading(1, 0, 20_000), None);
        let day = |wall: i64| Some(Instant::from_secs(wall * 86_400).unwrap());
        for (now, date, passed) in [
            (reading(1, 3, 20_003), None, 3 * DAY),
            (reading(1, 3, 30_000), None, 3 * DAY),
            (reading(1, 3, 10), day(10), 3 * DAY),
            // The machine was restarted.
            (reading(2, 0, 20_005), None, Duration::ZERO),
            (reading(2, 0, 20_005), day(20_005), 5 * DAY),
            (reading(2, 0, 30_000), day(20_005), Duration::ZERO),
            (reading(2, 0, 10), day(10), Duration::ZERO),
        ] {
            assert_eq!(HistoryClock::at(Some(begin), now, date).passed, passed, "{now:?} {date:?}");
        }
    }
}
