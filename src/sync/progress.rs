//! The progress of the running job's long work, stored in the mirror's file so that every process can show it.
//!
//! A run notes when it starts to read an object's list or its details, and how many rows existed then; the checkpoints
//! have the current number. The rate since then gives the remaining time.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::error::SyncError;
use super::run::Run;
use super::walks::sweep::Sweep;
use crate::model::{Instant, Object};
use crate::store::{Goal, ReadOf, ReadTx, StoreError, report};

/// A rate measured for a shorter time is not reliable.
const MEASURED: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "kebab-case")]
pub enum LongWork {
    #[strum(serialize = "first copy")]
    FirstCopy,
    /// Reading a list again.
    #[strum(serialize = "sweep")]
    Sweep,
    #[strum(serialize = "details")]
    Details,
}

/// The note of a run when it starts its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct WorkStart {
    work: LongWork,
    /// Our clock then.
    since: Instant,
    /// The rows that existed before.
    rows: u64,
    total: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ObjectProgress {
    pub work: LongWork,
    /// Rows or details read so far.
    pub rows: u64,
    pub total: Option<u64>,
    /// Seconds until the end at the rate so far; `null` if not yet known.
    pub seconds_left: Option<u64>,
}

/// The progress of the work on an object in the current run, which began at `run_began`.
pub fn of_object(
    tx: &ReadTx<'_>,
    object: Object,
    run_began: Instant,
    now: Instant,
) -> Result<Option<ObjectProgress>, StoreError> {
    let start: Option<WorkStart> = tx.position(ReadOf::Progress(object))?;
    let Some(start) = start.filter(|start| start.since >= run_began) else { return Ok(None) };
    let read = read_so_far(tx, object, start.work)?;
    let rest = match start.work {
        LongWork::Details => report::holds(tx, object)?.details_left(),
        LongWork::FirstCopy | LongWork::Sweep if !tx.goals().is_set(Goal::Sweeping(object))? => 0,
        LongWork::FirstCopy | LongWork::Sweep => start.total.map_or(1, |total| total.saturating_sub(read)),
    };
    Ok((rest > 0).then(|| start.progress(read, now)))
}

impl WorkStart {
    fn progress(&self, read: u64, now: Instant) -> ObjectProgress {
        let (new, took) = (read.saturating_sub(self.rows), now.since(self.since));
        // Details are counted from the beginning of the run, lists from that of the copy.
        let rows = if self.work == LongWork::Details { new } else { read };
        let total = self.total.map(|total| total.max(rows));
        let measured = new > 0 && took >= MEASURED;
        let left = total.filter(|_| measured).map(|total| (total - rows) as f64 * took.as_secs_f64() / new as f64);
        ObjectProgress { work: self.work, rows, total, seconds_left: left.map(|left| left.ceil() as u64) }
    }
}

fn read_so_far(tx: &ReadTx<'_>, object: Object, work: LongWork) -> Result<u64, StoreError> {
    if work == LongWork::Details {
        return Ok(report::holds(tx, object)?.details_current);
    }
    Ok(Sweep::load(tx, object)?.map_or(0, |sweep| sweep.rows()))
}

impl Run<'_> {
    /// Notes that an object is read from now on: so many details of it, or its list.
    pub(super) async fn store_progress(&self, object: Object, details: Option<u64>) -> Result<(), SyncError> {
        let since = self.now();
        let note = self.write(move |tx| {
            let (work, total) = match (details, tx.is_copied(object)?) {
                (Some(total), _) => (LongWork::Details, Some(total)),
                (None, false) => (LongWork::FirstCopy, None),
                (None, true) => (LongWork::Sweep, Some(tx.count_rows(object)?)),
            };
            let rows = read_so_far(tx, object, work)?;
            tx.claims().keep_position(ReadOf::Progress(object), &WorkStart { work, since, rows, total })
        });
        note.await
    }

    pub(super) async fn store_total(&self, object: Object, total: u64) -> Result<(), SyncError> {
        let note = self.write(move |tx| {
            let start: Option<WorkStart> = tx.position(ReadOf::Progress(object))?;
            start.filter(|start| start.work != LongWork::Details).map_or(Ok(()), |start| {
                tx.claims().keep_position(ReadOf::Progress(object), &WorkStart { total: Some(total), ..start })
            })
        });
        note.await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(work: LongWork, rows: u64, total: Option<u64>) -> WorkStart {
        WorkStart { work, since: Instant::EPOCH, rows, total }
    }

    fn after(seconds: u64) -> Instant {
        Instant::EPOCH.plus(Duration::from_secs(seconds))
    }

    #[test]
    fn what_is_left_follows_from_the_rate_of_this_run() {
        // 3,000 rows existed before: 1,000 in 10 s, and 6,000 are left.
        let progress = start(LongWork::FirstCopy, 3_000, Some(10_000)).progress(4_000, after(10));
        assert_eq!((progress.rows, progress.total, progress.seconds_left), (4_000, Some(10_000), Some(60)));
        let details = start(LongWork::Details, 500, Some(200)).progress(550, after(25));
        assert_eq!((details.rows, details.seconds_left), (50, Some(75)));
    }

    #[test]
    fn nobody_guesses_without_a_total_or_a_rate() {
        for (total, read, seconds) in [(None, 4_000, 10), (Some(10_000), 3_000, 10), (Some(10_000), 4_000, 1)] {
            let progress = start(LongWork::Sweep, 3_000, total).progress(read, after(seconds));
            assert_eq!(progress.seconds_left, None, "{total:?} {read} {seconds}");
        }
        // Records are created while they are read.
        let more = start(LongWork::Sweep, 0, Some(100)).progress(120, after(10));
        assert_eq!((more.total, more.seconds_left), (Some(120), Some(0)));
    }
}
