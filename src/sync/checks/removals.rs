//! Records that the service no longer has: nominated by a sweep, confirmed by id, and only then removed.
//!
//! # Why a missing row is not a removed row
//! Paging is not a snapshot (reference, *List query conventions*, rule 10): a row may slip between two pages. A sweep
//! only nominates what it passed over; an answer by id decides. And an outage is never mirrored: where much would go at
//! once, nothing goes until a person says so.

use crate::api::ListQuery;
use crate::model::{Object, RecordId};
use crate::store::Phase;
use crate::sync::error::SyncError;
use crate::sync::run::Run;
use crate::sync::state::Outage;
use crate::sync::walks::sweep::end_sweep;

/// Tables smaller than this may lose more than [`Removals::most`] of their rows at once.
const SMALL_TABLE: u64 = 100;
/// Tables smaller than this may lose all of their rows at once.
const TINY_TABLE: u64 = 10;

/// Details not found at once that are more than the ordinary removals between two lists.
pub(in crate::sync) const MANY_NOT_FOUND: usize = 20;
/// Details not found that are few even where nothing else was asked for.
const FEW_NOT_FOUND: usize = 2;

/// How many removals at once a run carries out without being told to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Removals {
    /// The part of a table, from 0 to 1.
    pub most: f64,
    /// Whether a person said that whatever is gone may go.
    pub accepted: bool,
}

impl Removals {
    /// Whether so many of so many rows may go.
    pub fn allows(&self, going: u64, of: u64) -> bool {
        if self.accepted || going == 0 {
            return true;
        }
        if going >= of && of >= TINY_TABLE {
            return false;
        }
        of < SMALL_TABLE || (going as f64) <= (of as f64) * self.most
    }
}

/// What came of a sweep's nominations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sync) enum Confirmed {
    /// Every nomination was decided.
    All,
    /// So much would go that it looks like an outage; nothing was removed.
    LooksLikeOutage { going: u64, of: u64 },
}

impl Run<'_> {
    /// Decides what became of the records that a sweep passed over, and ends it. Refuses what looks like an outage.
    pub(in crate::sync) async fn settle_sweep(&self, object: Object) -> Result<(), SyncError> {
        let removals = Removals { most: self.engine.settings.most_removals, accepted: self.job.accept().removals };
        if let Confirmed::LooksLikeOutage { going, of } = self.confirm_removals(object, removals).await? {
            let outage = Outage { going, of, seen_at: self.engine.clock.now() };
            self.engine.store.write(move |tx| tx.set_state(&Outage::entry(object), &outage)).await?;
            self.results().outages.push((object, outage));
            return Ok(());
        }
        let finished = self.engine.clock.now();
        self.engine.store.write(move |tx| end_sweep(tx, object, finished)).await?;
        self.carry_out_counts(object).await
    }

    /// Asks the service for every nominated record by id, and removes those that it does not have.
    pub(in crate::sync) async fn confirm_removals(
        &self,
        object: Object,
        removals: Removals,
    ) -> Result<Confirmed, SyncError> {
        let (nominated, of) = self.engine.store.read(move |tx| tx.nominated(object)).await?;
        let going = nominated.len() as u64;
        if !removals.allows(going, of) {
            // A service that lost its order nominates what is there: a look at a few tells that from an outage.
            let few: Vec<RecordId> = nominated.iter().take(50).cloned().collect();
            let gone = self.absent(object, &few).await?;
            if gone.len() == few.len() {
                return Ok(Confirmed::LooksLikeOutage { going, of });
            }
        }
        let mut gone = Vec::new();
        let mut rest: &[RecordId] = &nominated;
        while !rest.is_empty() {
            let fit = ListQuery::ids_that_fit(rest).max(1);
            let (some, others) = rest.split_at(fit);
            gone.extend(self.absent(object, some).await?);
            rest = others;
        }
        let going = gone.len() as u64;
        if !removals.allows(going, of) {
            return Ok(Confirmed::LooksLikeOutage { going, of });
        }
        self.remove(object, gone).await?;
        self.engine.store.write(move |tx| tx.clear_nominations(object)).await?;
        Ok(Confirmed::All)
    }

    /// Removes records whose detail was not found, of so many that were asked for: a few at the service's word. Where
    /// they are many, lists are asked too, and the limit of a sweep holds: a service that has lost its details has not
    /// lost its records. Says whether they could go.
    pub(in crate::sync) async fn remove_not_found(
        &self,
        object: Object,
        gone: Vec<RecordId>,
        asked: u64,
    ) -> Result<bool, SyncError> {
        let most = gone.len() > FEW_NOT_FOUND && gone.len() as u64 * 2 > asked;
        if gone.len() < MANY_NOT_FOUND && !most {
            self.remove(object, gone).await?;
            return Ok(true);
        }
        let mut absent = Vec::new();
        let mut rest: &[RecordId] = &gone;
        while !rest.is_empty() {
            let (some, others) = rest.split_at(ListQuery::ids_that_fit(rest).max(1));
            absent.extend(self.absent(object, some).await?);
            rest = others;
        }
        let removals = Removals { most: self.engine.settings.most_removals, accepted: false };
        let of = self.engine.store.read(move |tx| tx.count_rows(object)).await?;
        if absent.len() == gone.len() && removals.allows(absent.len() as u64, of) {
            self.remove(object, absent).await?;
            return Ok(true);
        }
        let (resource, now) = (object.resource(), self.engine.clock.now());
        let what = "details of records that lists have were not found";
        self.engine.store.write(move |tx| tx.note_oddity("details_not_found", resource, what, now)).await?;
        self.warn(format!("{} details of {resource} were not found: this looks like an outage", gone.len()));
        Ok(false)
    }

    /// Removes records whose absence is confirmed.
    pub(in crate::sync) async fn remove(&self, object: Object, gone: Vec<RecordId>) -> Result<(), SyncError> {
        let now = self.engine.clock.now();
        let removed = self
            .engine
            .store
            .write(move |tx| {
                let phase: Phase = tx.phase(object)?;
                let mut removed = 0;
                for id in &gone {
                    removed += u64::from(tx.remove(object, id, now, phase)?);
                }
                Ok(removed)
            })
            .await?;
        self.count(&crate::store::Tally { removed, ..Default::default() });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_told_from_ordinary_removals() {
        let by_itself = Removals { most: 0.2, accepted: false };
        for (going, of, allowed) in [
            (0, 0, true),
            (9, 9, true),
            (10, 10, false),
            (30, 99, true),
            (20, 100, true),
            (21, 100, false),
            (100_000, 100_000, false),
        ] {
            assert_eq!(by_itself.allows(going, of), allowed, "{going} of {of}");
            assert!(Removals { accepted: true, ..by_itself }.allows(going, of));
        }
    }
}
