//! Records that the service no longer has: nominated by a sweep, confirmed by id, and only then removed.
//!
//! # Why a missing row is not a removed row
//! Paging is not a snapshot (reference, *List query conventions*, rule 10): a row may slip between two pages. A sweep
//! only nominates what it passed over; an answer by id decides. And an outage is never mirrored: where much would go at
//! once, nothing goes until a person says so.

use std::collections::HashSet;

use crate::api::decode;
use crate::api::{ErrorClass, ListQuery};
use crate::model::{Instant, Object, Purpose, Record, RecordId};
use crate::store::{MirrorTx, Phase, StoreError};
use crate::sync::engine::Engine;
use crate::sync::error::{Asking, SyncError};
use crate::sync::tally::Noted;
use crate::sync::walks::walk::{Frontier, Range, Walk};

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

/// What the service said about records that were asked for by id.
pub(in crate::sync) struct LookedUp {
    /// It does not have these.
    pub(in crate::sync) gone: Vec<RecordId>,
    /// It has these.
    pub(in crate::sync) here: Vec<Record>,
    /// When it was asked.
    pub(in crate::sync) asked_at: Instant,
    /// The layout that the answer was decoded with.
    pub(in crate::sync) layout: u64,
}

/// What came of a sweep's nominations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sync) enum Confirmed {
    /// Every nomination was decided.
    All,
    /// So much would go that it looks like an outage; nothing was removed.
    LooksLikeOutage { going: u64, of: u64 },
}

/// Nominates what a page passed over: rows here between the walk's frontier before and after the page that the page did
/// not have. Whatever a page has is no longer nominated.
pub(in crate::sync) fn note_missing(
    tx: &MirrorTx<'_>,
    object: Object,
    walk: &Walk,
    before: Frontier,
    records: &[Record],
    ends: bool,
) -> Result<(), StoreError> {
    let ids: Vec<&str> = records.iter().map(|record| record.id.as_str()).collect();
    let ids = serde_json::Value::from(ids).to_string();
    let after = walk.frontier;
    let (from, to) = match &walk.range {
        Range::Created { from, to } => (*from, *to),
        _ => (None, None),
    };
    let low = match before {
        Frontier::Start => from.map(|from| (from, true)),
        Frontier::At(at) => Some((at, false)),
        Frontier::Nulls => None,
    };
    let has_dates = !matches!(walk.range, Range::WithoutCreated) && before != Frontier::Nulls;
    let has_nulls = matches!(walk.range, Range::All | Range::WithoutCreated);
    if has_dates {
        match after {
            Frontier::At(at) if !ends => tx.nominate_between(object, low, Some((at, true)), &ids)?,
            Frontier::Start if !ends => {}
            _ => tx.nominate_between(object, low, to.map(|to| (to, false)), &ids)?,
        }
    }
    if has_nulls && before != Frontier::Nulls && (after == Frontier::Nulls || ends) {
        tx.nominate_dateless(object, &ids)?;
    }
    tx.withdraw_nominations(object, &ids)
}

impl Engine {
    /// Asks the service for every nominated record by id, and removes those that it does not have.
    pub(in crate::sync) async fn confirm_removals(
        &self,
        object: Object,
        removals: Removals,
    ) -> Result<Confirmed, SyncError> {
        let (nominated, of) = self.store.write(move |tx| tx.nominated(object)).await?;
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
        self.store.write(move |tx| tx.clear_nominations(object)).await?;
        Ok(Confirmed::All)
    }

    /// Those of the ids that the service does not have, for 1 RU a list of them; what it has is applied on the way.
    pub(in crate::sync) async fn absent(&self, object: Object, ids: &[RecordId]) -> Result<Vec<RecordId>, SyncError> {
        let looked = self.look_up(object, ids).await?;
        let noted = self
            .store
            .write(move |tx| {
                let mut noted = Noted::default();
                // Only presence was asked for: with other columns than the answer was decoded with, the next walk
                // applies it.
                if tx.expect_layout(looked.layout).is_ok() {
                    let phase = tx.phase(object)?;
                    for record in &looked.here {
                        noted.record(record, tx.apply_list(object, record, looked.asked_at, phase)?);
                    }
                }
                Ok(noted)
            })
            .await?;
        self.count(&noted.tally);
        Ok(looked.gone)
    }

    /// Asks for records by id: which the service has, and which not.
    pub(in crate::sync) async fn look_up(&self, object: Object, ids: &[RecordId]) -> Result<LookedUp, SyncError> {
        let resource = object.resource();
        let doing = "confirm removals of";
        let layout = self.store.layout();
        let mut looked =
            LookedUp { gone: Vec::new(), here: Vec::new(), asked_at: self.clock.now(), layout: layout.version };
        let Some(first) = ids.first() else { return Ok(looked) };
        if !first.fits_a_list() {
            // A comma cannot be escaped in a list (rule 2): such a record is asked for on its own.
            match self.client.detail(object, first, Purpose::Audit).await {
                Ok(_) => {}
                Err(error) if error.class() == ErrorClass::Gone => looked.gone.push(first.clone()),
                Err(error) if error.class() == ErrorClass::SkipRecord => {}
                Err(source) => return Err(source).asking(doing, resource),
            }
            return Ok(looked);
        }
        let query = ListQuery::new(resource).ids(ids).asking(doing, resource)?;
        let answer = self.client.list(&query, Purpose::Audit).await.asking(doing, resource)?;
        let page = decode::page(resource, &answer.body, &layout).asking(doing, resource)?;
        looked.asked_at = answer.asked_at;
        let here: HashSet<&RecordId> = page.records.iter().map(|record| &record.id).collect();
        // An answer that is not whole, or that answers another question, proves no absence.
        if page.next.is_none() && page.unusable == 0 && here.iter().all(|id| ids.contains(id)) {
            looked.gone = ids.iter().filter(|id| !here.contains(id)).cloned().collect();
        }
        looked.here = page.records;
        Ok(looked)
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
        let removals = Removals { most: self.settings.most_removals, accepted: false };
        let of = self.store.write(move |tx| tx.count_rows(object)).await?;
        if absent.len() == gone.len() && removals.allows(absent.len() as u64, of) {
            self.remove(object, absent).await?;
            return Ok(true);
        }
        let (resource, now) = (object.resource(), self.clock.now());
        let what = "details of records that lists have were not found";
        self.store.write(move |tx| tx.note_oddity("details_not_found", resource, what, now)).await?;
        self.warn(format!("{} details of {resource} were not found: this looks like an outage", gone.len()));
        Ok(false)
    }

    /// Removes records whose absence is confirmed.
    pub(in crate::sync) async fn remove(&self, object: Object, gone: Vec<RecordId>) -> Result<(), SyncError> {
        let now = self.clock.now();
        let removed = self
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
