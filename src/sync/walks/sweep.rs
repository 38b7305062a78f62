//! The sweep: every record, by `createdAt`, which does not change, so rows do not move between pages.
//!
//! It makes the first copy, it is what `resync` does, and it finds what no changes walk can: removed records, silent
//! changes, rows without an `updatedAt`. A large mirror is cut into slices that are walked side by side for the same
//! RU. Each slice has its checkpoint in the file; a sweep that was interrupted, for hours or by a kill, goes on where
//! it was.

use futures_util::future::join_all;

use super::fill::wanted_sweep;
use super::owed::OwedCounts;
use super::pages::WalkPurpose;
use super::walk::{Range, Walk};
use crate::model::{Instant, Object};
use crate::store::{MirrorTx, Phase, StateKey, StoreError};
use crate::sync::engine::Engine;
use crate::sync::error::SyncError;
use crate::sync::job::Job;
use crate::sync::run::Run;
use crate::sync::state::{Changes, Evidence, Fresh, Outage, Sweep};
use crate::sync::time_range::{TimeBounds, TimeField, TimeRange};

/// Rows a slice must have here to be worth a walk of its own: its last page is part empty, so 5,000 rows keep that
/// below 2 % of the RU.
const ROWS_PER_SLICE: u64 = 5_000;

impl Engine {
    /// Ends the sweeps of known records that are under way, and forgets how far they came; gives their objects. A first
    /// copy is not ended: without it there is no mirror.
    ///
    /// # Errors
    /// If the mirror's file refuses.
    pub async fn forget_sweeps(&self) -> Result<Vec<Object>, SyncError> {
        let forgotten = self
            .store
            .write(|tx| {
                let mut forgotten = Vec::new();
                for object in Object::ALL {
                    let asked: Option<bool> = tx.state(&Sweep::asked(object))?;
                    let under_way = Sweep::load(tx, object)?;
                    if tx.phase(object)? == Phase::FirstCopy || under_way.is_none() && asked.is_none() {
                        continue;
                    }
                    if under_way.is_some_and(|sweep| sweep.needed) {
                        // Not read on, but begun anew: nothing else would bring the column its values.
                        tx.set_state(&wanted_sweep(object), &true)?;
                    }
                    Sweep::clear(tx, object)?;
                    tx.clear_slices(object)?;
                    tx.clear_state(&Sweep::asked(object))?;
                    tx.clear_state(&Outage::entry(object))?;
                    tx.clear_nominations(object)?;
                    forgotten.push(object);
                }
                Ok(forgotten)
            })
            .await?;
        Ok(forgotten)
    }
}

impl Run<'_> {
    /// Notes the sweeps that a person or the schedule asked for: should this run end early, the next one begins those
    /// that have not begun.
    pub(in crate::sync) async fn note_sweeps(&self) -> Result<(), SyncError> {
        let (job, accepted) = (self.job.clone(), self.job.accept().removals);
        self.engine
            .store
            .write(move |tx| {
                for object in Object::ALL.into_iter().filter(|object| job.concerns(object.resource())) {
                    let outage: Option<Outage> = tx.state(&Outage::entry(object))?;
                    let begins = outage.is_some() && !accepted || Sweep::load(tx, object)?.is_none();
                    if begins && tx.phase(object)? == Phase::Kept {
                        tx.set_state(&Sweep::asked(object), &true)?;
                    }
                }
                Ok(())
            })
            .await?;
        Ok(())
    }

    /// Reads every record: begins a sweep, or resumes the one that is under way.
    pub(in crate::sync) async fn sweep(&self, object: Object) -> Result<(), SyncError> {
        let phase = self.engine.store.read(move |tx| tx.phase(object)).await?;
        let work = if phase == Phase::FirstCopy { "full copy" } else { "sweep" };
        self.begins(object.resource(), work, None);
        let again = matches!(self.job, Job::Resync { .. }) && !self.job.accept().removals;
        self.begin_sweep(object, again).await?;
        self.walk_slices(object).await?;
        self.ends(object.resource());
        Ok(())
    }

    async fn begin_sweep(&self, object: Object, again: bool) -> Result<(), SyncError> {
        let (now, key) = (self.engine.clock.now(), self.engine.client.key_fingerprint().to_string());
        let workers = self.engine.workers() as u64;
        self.engine
            .store
            .write(move |tx| {
                let known = tx.slices::<Walk>(object)?;
                // Where a slice cannot be read, nobody knows what is still to be read: all of it.
                if let (Some(left), Some(_)) = (known, Sweep::load(tx, object)?) {
                    let refused: Option<Outage> = tx.state(&Outage::entry(object))?;
                    // Under way; or read to its end, and what it passed over is to be decided.
                    if !left.is_empty() || refused.is_none() || !again {
                        return Ok(());
                    }
                }
                tx.clear_slices(object)?;
                let needed: Option<bool> = tx.state(&wanted_sweep(object))?;
                tx.clear_state(&wanted_sweep(object))?;
                tx.clear_state(&Sweep::asked(object))?;
                Sweep { began: now, served_at: None, high: None, rows: 0, pages: 0, needed: needed == Some(true) }
                    .store(tx, object)?;
                for (number, range) in slices(tx, object, workers)?.into_iter().enumerate() {
                    tx.set_state(&Sweep::slice_entry(object, number), &Walk::new(range, &key))?;
                }
                Ok(())
            })
            .await?;
        Ok(())
    }

    async fn walk_slices(&self, object: Object) -> Result<(), SyncError> {
        let key = self.engine.client.key_fingerprint();
        let slices: Vec<(StateKey, Walk)> =
            self.engine.store.read(move |tx| tx.slices(object)).await?.unwrap_or_default();
        let read = self.engine.store.read(move |tx| Sweep::load(tx, object)).await?.map_or(0, |sweep| sweep.rows);
        self.set_swept(read + slices.iter().map(|(_, walk)| walk.rows).sum::<u64>());
        let mut walks = Vec::new();
        for (entry, walk) in slices {
            let mut under_key = walk.under_key(key).into_iter();
            let first = under_key.next();
            for (n, further) in under_key.enumerate() {
                let entry = entry.part(&format!("k{n}"));
                let stored = further.clone();
                let name = entry.clone();
                self.engine.store.write(move |tx| tx.set_state(&name, &stored)).await?;
                walks.push((entry, further));
            }
            walks.extend(first.map(|walk| (entry, walk)));
        }
        // The client's pace bounds how many are under way at once.
        let running = walks.into_iter().map(|(entry, walk)| self.walk(WalkPurpose::Slice(object, entry), walk));
        for ended in join_all(running).await {
            ended?;
        }
        Ok(())
    }
}

/// Cuts a sweep: one walk for a first copy or a small mirror, else as many as there are workers, about as many rows in
/// each, with edges on whole seconds and a slice for rows without a date.
fn slices(tx: &MirrorTx<'_>, object: Object, workers: u64) -> Result<Vec<Range>, StoreError> {
    let whole = vec![Range::All];
    if tx.phase(object)? == Phase::FirstCopy {
        return Ok(whole);
    }
    let rows = tx.count_rows(object)?;
    let count = workers.min(rows / ROWS_PER_SLICE);
    if count < 2 {
        return Ok(whole);
    }
    let dated = TimeRange::dated(TimeField::CreatedAt, None, None);
    let edges = tx.edges(object, dated.stretch(), count, 0.0)?;
    if edges.is_empty() {
        return Ok(whole);
    }
    let ranges = TimeRange::between(TimeField::CreatedAt, &edges).into_iter().map(|span| match span.bounds {
        TimeBounds::Dated { from, to } => Range::Created { from, to },
        TimeBounds::Dateless | TimeBounds::Whole => Range::WithoutCreated,
    });
    Ok(ranges.collect())
}

/// Stores that a sweep is finished, once it is decided what became of the records that it passed over.
///
/// `open` differences were seen and left.
pub(in crate::sync) fn end_sweep(
    tx: &MirrorTx<'_>,
    object: Object,
    finished: Instant,
    open: u64,
) -> Result<(), StoreError> {
    let Some(sweep) = Sweep::load(tx, object)? else {
        return Ok(());
    };
    if tx.phase(object)? == Phase::FirstCopy {
        tx.finish_first_copy(object)?;
        // The first changes walk begins where the copy began, less the overlap.
        Changes { watermark: sweep.high, served_at: sweep.served_at, walk: None }.store(tx, object)?;
    } else {
        tx.recount(object)?;
    }
    if sweep.pages > 1 {
        OwedCounts::of_sweep(tx, object, sweep.pages)?;
    }
    tx.set_state(&Fresh::sweep(object), &Fresh { began: sweep.began, finished })?;
    let before: Option<Evidence> = tx.state(&Evidence::entry(object))?;
    tx.set_state(&Evidence::entry(object), &Evidence::after(before, sweep.began, true, open))?;
    Sweep::clear(tx, object)
}
