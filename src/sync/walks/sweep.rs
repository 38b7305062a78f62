//! The sweep: every record, by `createdAt`, which never changes, so rows do not move between pages.
//!
//! It makes the first copy, `resync` runs it, and it finds what a changes walk cannot find: removed records, silent
//! changes, rows without an `updatedAt`. A large list is divided into slices that are walked concurrently for the same
//! RU: by the rows of the mirror, and in a first copy by what `first_copy` finds. Each slice has its checkpoint
//! in the file; a sweep that was interrupted continues where it was.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};

use super::pages::WalkPurpose;
pub use super::range::price;
use super::walk::{MAX_STRETCHES, Seen, Walk};
use crate::model::{Instant, Object, TimeBounds, TimeField, TimeRange};
use crate::store::{
    Checkpoint, Completeness, Goal, KnownChanges, LastRead, MirrorTx, ReadOf, ReadTx, StoreError, UnprovenRanges,
    uncovered,
};
use crate::sync::engine::SyncSettings;
use crate::sync::error::SyncError;
use crate::sync::job::{Job, JobKind};
use crate::sync::run::Run;
use crate::sync::walks::{first_copy, pages, service_clock};

/// A sweep in progress, computed from what its parts have stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// Our clock at its start.
    pub began: Instant,
    /// Records that it passed over because they could not be read.
    pub left_out: u64,
    /// What it reads, part by part. What none of them covers was not read.
    pub parts: Vec<Checkpoint<Walk>>,
}

/// How long a removal may be accepted on what a sweep has read.
const RECENT: Duration = Duration::from_secs(86_400);

impl Sweep {
    pub fn load(tx: &ReadTx<'_>, object: Object) -> Result<Option<Sweep>, StoreError> {
        let Some(begun) = tx.goals().last_read(Goal::Sweeping(object))? else { return Ok(None) };
        Ok(Some(Sweep {
            began: begun.began,
            left_out: begun.open.unsigned_abs(),
            parts: tx.reads(ReadOf::Sweep(object))?,
        }))
    }

    pub fn is_read(&self) -> bool {
        self.parts.iter().all(|part| part.done) && uncovered(&self.parts).is_empty()
    }

    pub fn rows(&self) -> u64 {
        self.seen().map(|seen| seen.rows).sum()
    }

    /// How many rows it has to read, as its first part announces, where that was asked for. One that was cut announces those
    /// that have a date.
    pub fn total(&self) -> Option<u64> {
        let announced = self.parts.iter().find(|part| part.part == "0")?.position.size.total?;
        let dateless = self.parts.iter().filter(|part| part.bounds == TimeBounds::Dateless);
        Some(announced + dateless.map(|part| part.position.seen.rows).sum::<u64>())
    }

    /// How far the changes are known once everything is read: the first changes walk begins where the copy began.
    pub fn known_changes(&self) -> KnownChanges {
        KnownChanges {
            watermark: self.seen().filter_map(|seen| seen.high).max(),
            served_at: self.seen().filter_map(|seen| seen.served_at).min(),
        }
    }

    /// Where a count has to show that no record is missing: what was read by cursor; and each part where the list had fewer
    /// rows than it announced. If there is one part only, the stretches that were read by cursor tell more.
    fn unproven(&self) -> Vec<TimeRange> {
        let mut ranges: Vec<&TimeRange> = self.seen().flat_map(|seen| &seen.paged).collect();
        ranges.sort_by_key(|range| range.order());
        let mut joined = Vec::new();
        ranges.into_iter().for_each(|range| range.join(&mut joined, MAX_STRETCHES));
        let is_short = self.total().is_some_and(|total| self.rows() < total);
        if is_short && (joined.is_empty() || self.parts.len() > 1) {
            joined = self.parts.iter().map(|part| TimeRange::of(TimeField::CreatedAt, part.bounds)).collect();
        }
        joined
    }

    fn seen(&self) -> impl Iterator<Item = &Seen> {
        self.parts.iter().map(|part| &part.position.seen)
    }
}

/// Whether the next sync carries out what is left of a resync.
pub fn is_stored(tx: &ReadTx<'_>, job: &Job) -> Result<bool, StoreError> {
    if job.kind != JobKind::Resync {
        return Ok(false);
    }
    for object in Object::ALL.into_iter().filter(|object| job.concerns(object.resource())) {
        // A sweep that was read, and waits for a decision, is of an earlier job.
        let asked = !tx.is_copied(object)? || tx.goals().is_set(Goal::AskedSweep(object))?;
        if asked || Sweep::load(tx, object)?.is_some_and(|sweep| !sweep.is_read()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Stores the requested sweeps: if this run ends early, the next one starts those that have not started.
pub(in crate::sync) async fn store_sweeps(run: &Run<'_>) -> Result<(), SyncError> {
    let (job, accepted, now) = (run.job.clone(), run.job.accept_removals, run.now());
    let writing = run.write(move |tx| {
        for object in Object::ALL.into_iter().filter(|object| job.concerns(object.resource())) {
            let outage = tx.refused_removals(object)?;
            let waits = outage.is_some() || tx.has_undecided(object)?;
            let begins = Sweep::load(tx, object)?.is_none_or(|sweep| {
                // A person who accepts what was refused decides on recent evidence without reading it again.
                let is_recent = sweep.began <= now && now.since(sweep.began) <= RECENT;
                outage.is_some() && !accepted || waits && !is_recent
            });
            if begins && tx.is_copied(object)? {
                tx.claims().set(Goal::AskedSweep(object))?;
            }
        }
        Ok(())
    });
    writing.await
}

/// Reads every record: starts a sweep, or continues the one in progress.
pub(in crate::sync) async fn sweep(run: &Run<'_>, object: Object) -> Result<(), SyncError> {
    let is_copied = run.read(move |tx| tx.is_copied(object)).await?;
    let work = if is_copied { "sweep" } else { "full copy" };
    run.begins(object.resource(), work, None);
    let again = run.job.kind == JobKind::Resync && !run.job.accept_removals;
    begin_sweep(run, object, again).await?;
    if !is_copied {
        first_copy::cut_first_copy(run, object).await?;
    }
    walk_slices(run, object).await?;
    run.ends(object.resource());
    Ok(())
}

async fn begin_sweep(run: &Run<'_>, object: Object, again: bool) -> Result<(), SyncError> {
    let now = run.now();
    // The first changes walk begins where the copy began: what is copied early may change while the rest is read.
    let first = run.read(move |tx| Ok(!tx.is_copied(object)? && !tx.goals().is_set(Goal::Sweeping(object))?));
    let served_at = if first.await? { service_clock::boundary(run, object).await? } else { None };
    let (workers, settings) = (run.engine.workers() as u64, run.engine.settings);
    let may_count = run.may_count(object);
    let writing = run.write(move |tx| {
        if let Some(sweep) = Sweep::load(tx, object)? {
            let refused = tx.refused_removals(object)?;
            let waits = refused.is_some() || tx.has_undecided(object)?;
            let asked = tx.goals().is_set(Goal::AskedSweep(object))?;
            // In progress; or read completely, and the missed records have to be decided on. A sweep that was
            // asked for since then is another one.
            if !(sweep.is_read() && (asked || waits && again)) {
                return Ok(());
            }
        }
        tx.claims().discard_sweep(object)?;
        let first_copy = !tx.is_copied(object)?;
        if first_copy && tx.count_rows(object)? == 0 {
            tx.claims().mark_first_copy(object)?;
        }
        tx.claims().begin_filling(object, &tx.goals().unfilled(&tx.layout(), object, false)?)?;
        tx.claims().unset(Goal::WantedSweep(object))?;
        tx.claims().unset(Goal::AskedSweep(object))?;
        tx.claims().reach(Goal::Sweeping(object), LastRead::between(now, now))?;
        for (number, bounds) in slices(tx, object, workers, &settings)?.into_iter().enumerate() {
            let mut slice = first_copy::new_slice(number, bounds, may_count);
            slice.position.seen.served_at = served_at;
            tx.claims().keep_read(ReadOf::Sweep(object), &slice)?;
        }
        Ok(())
    });
    writing.await
}

async fn walk_slices(run: &Run<'_>, object: Object) -> Result<(), SyncError> {
    let may_count = run.may_count(object);
    let Some(Sweep { mut parts, .. }) = run.read(move |tx| Sweep::load(tx, object)).await? else {
        return Ok(());
    };
    run.results().stored = parts.iter().map(|slice| slice.position.seen.rows).sum();
    let free = parts.iter().filter_map(|slice| slice.part.parse().ok()).max().map_or(0, |last: usize| last + 1);
    let lost = uncovered(&parts).into_iter().enumerate();
    parts.extend(lost.map(|(n, bounds)| first_copy::new_slice(free + n, bounds, may_count)));
    let failed = AtomicBool::new(false);
    let walking = parts.into_iter().filter(|slice| !slice.done).map(async |slice| {
        // What others have asked for is stored all the same; nothing new begins.
        if failed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let slice = Checkpoint { position: slice.position.clone().resumed(run.id), ..slice };
        let ended = pages::walk(run, WalkPurpose::Slice(object), slice, false).await;
        failed.fetch_or(ended.is_err(), Ordering::Relaxed);
        ended.map(drop)
    });
    // As many at once as there are requests, however many slices: each has pages in hand, which take memory and are
    // read again after a kill.
    let ended: Vec<Result<(), SyncError>> =
        stream::iter(walking).buffer_unordered(run.engine.workers()).collect().await;
    ended.into_iter().collect()
}

/// Cuts a sweep: one walk for a small mirror, else as many as there are workers, about as many rows in each, with edges on
/// whole seconds and a slice for rows without a date. A first copy begins as one walk and is cut when its size is known.
fn slices(
    tx: &MirrorTx<'_>,
    object: Object,
    workers: u64,
    settings: &SyncSettings,
) -> Result<Vec<TimeBounds>, StoreError> {
    let rows = if tx.is_copied(object)? { tx.count_rows(object)? } else { 0 };
    let count = workers.min(settings.slices(rows).unwrap_or(1));
    let edges = tx.edges(object, TimeRange::dated(TimeField::CreatedAt, None, None), count, 0.0)?;
    if edges.is_empty() {
        return Ok(vec![TimeBounds::Whole]);
    }
    Ok(TimeRange::between(TimeField::CreatedAt, &edges).into_iter().map(|range| range.bounds).collect())
}

/// Stores that a sweep is finished, once the missed records were decided on; `open` differences remain.
pub(in crate::sync) fn end_sweep(
    tx: &MirrorTx<'_>,
    object: Object,
    finished: Instant,
    open: u64,
) -> Result<(), StoreError> {
    let Some(sweep) = Sweep::load(tx, object)? else {
        return Ok(());
    };
    let is_first_copy = !tx.is_copied(object)?;
    if is_first_copy {
        tx.derived().finish_first_copy(object)?;
        tx.claims().know_changes(object, sweep.known_changes())?;
    } else {
        tx.records().recount(object)?;
    }
    // A first copy nominates nothing, so rows that it did not read may be of records that were removed since.
    let is_known = |rows: u64| (rows..=rows + sweep.left_out).contains(&sweep.rows());
    let is_unknown = is_first_copy && !is_known(tx.count_rows(object)?);
    let mut ranges = sweep.unproven();
    ranges.extend(is_unknown.then_some(TimeRange::WHOLE));
    // What an earlier sweep owed, this one has read.
    tx.claims().set_unproven(object, TimeField::CreatedAt, &UnprovenRanges { ranges, ..UnprovenRanges::default() })?;
    let before = tx.goals().last_read(Goal::Sweep(object))?.map_or(Instant::EPOCH, |read| read.began);
    let began = if sweep.left_out == 0 { sweep.began } else { before };
    tx.claims().reach(Goal::Sweep(object), LastRead::between(began, finished))?;
    let complete = Completeness { as_of: sweep.began, by_record: true };
    tx.claims().compared(object, complete, open + sweep.left_out)?;
    tx.claims().forget_left(object)?;
    tx.claims().end_filling(object, finished)?;
    tx.claims().discard_sweep(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It may be here in an earlier version: counts are equal then.
    #[tokio::test]
    async fn sweep_that_left_a_record_out_claims_no_changes() {
        let dir = tempfile::tempdir().unwrap();
        let store = crate::store::Store::open(&dir.path().join("mirror.db")).unwrap();
        let at = |second: i64| Instant::from_secs(1_700_000_000 + second).unwrap();
        for (began, left_out, claimed) in [(0, 1, None), (10, 0, Some(10)), (20, 2, Some(10)), (30, 0, Some(30))] {
            let swept = store.write(move |tx| {
                tx.claims().set(Goal::Copied(Object::Contact))?;
                tx.claims().reach(Goal::Sweeping(Object::Contact), LastRead::between(at(began), at(began)))?;
                tx.claims().leave_records_out(Object::Contact, left_out)?;
                end_sweep(tx, Object::Contact, at(began + 5), 0)?;
                tx.claims().set_unproven(Object::Contact, TimeField::CreatedAt, &UnprovenRanges::default())?;
                let read = tx.goals().last_read(Goal::Sweep(Object::Contact))?.map(|read| read.finished);
                Ok((tx.goals().changes_as_of(Object::Contact)?, read))
            });
            assert_eq!(swept.await.unwrap(), (claimed.map(at), Some(at(began + 5))), "{began}");
        }
        store.close().await;
    }

    /// What a person asks for after it was refused is not what the refused sweep stored.
    #[tokio::test]
    async fn sweep_of_an_earlier_job_is_not_this_one() {
        let dir = tempfile::tempdir().unwrap();
        let store = crate::store::Store::open(&dir.path().join("mirror.db")).unwrap();
        let is_stored = |goal: Option<Goal>| {
            let store = store.clone();
            async move {
                let reading = store.write(move |tx| {
                    goal.map_or(Ok(()), |goal| tx.claims().set(goal))?;
                    is_stored(tx, &Job::resync())
                });
                reading.await.unwrap()
            }
        };
        assert!(is_stored(None).await, "a sync copies everything");
        is_stored(Some(Goal::Copied(Object::Contact))).await;
        assert!(!is_stored(Some(Goal::Copied(Object::Company))).await);
        // It was read, and its removals were refused.
        let read = Checkpoint { done: true, ..first_copy::new_slice(0, TimeBounds::Whole, false) };
        store.write(move |tx| tx.claims().keep_read(ReadOf::Sweep(Object::Contact), &read)).await.unwrap();
        assert!(!is_stored(Some(Goal::Sweeping(Object::Contact))).await);
        assert!(is_stored(Some(Goal::AskedSweep(Object::Contact))).await);
        store.close().await;
    }
}
