//! Records that the service no longer has: nominated by a sweep, confirmed by id, and only then removed.
//!
//! # Why a missing row is not a removed row
//! Paging is not a snapshot (reference, *List query conventions*, rule 10): a row may slip between two pages. A sweep
//! only nominates what it passed over; an answer by id decides. And an outage is never mirrored: where much would go at
//! once, nothing goes until a person says so.

use std::collections::HashSet;

use super::engine::Engine;
use super::error::{Asking, SyncError};
use super::tally::Noted;
use super::walk::{Frontier, Range, Walk};
use crate::api::decode;
use crate::api::{Fate, ListQuery};
use crate::model::{Object, Purpose, Record, RecordId};
use crate::store::{Batch, Phase, StoreError};

/// Tables smaller than this may lose more than [`Removals::most`] of their rows at once.
const SMALL_TABLE: u64 = 100;
/// Tables smaller than this may lose all of their rows at once.
const TINY_TABLE: u64 = 10;

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
pub(super) enum Confirmed {
    /// Every nomination was decided.
    All,
    /// So much would go that it looks like an outage; nothing was removed.
    LooksLikeOutage { going: u64, of: u64 },
}

/// Nominates what a page passed over: rows here between the walk's frontier before and after the page that the page did
/// not have. Whatever a page has is no longer nominated.
pub(super) fn note_missing(
    batch: &Batch<'_>,
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
            Frontier::At(at) if !ends => batch.nominate_between(object, low, Some((at, true)), &ids)?,
            Frontier::Start if !ends => {}
            _ => batch.nominate_between(object, low, to.map(|to| (to, false)), &ids)?,
        }
    }
    if has_nulls && before != Frontier::Nulls && (after == Frontier::Nulls || ends) {
        batch.nominate_dateless(object, &ids)?;
    }
    batch.withdraw_nominations(object, &ids)
}

impl Engine {
    /// Asks the service for every nominated record by id, and removes those that it does not have.
    pub(super) async fn confirm_removals(&self, object: Object, removals: Removals) -> Result<Confirmed, SyncError> {
        let (nominated, of) = self.store.write(move |batch| batch.nominated(object)).await?;
        let going = nominated.len() as u64;
        if !removals.allows(going, of) {
            // A service that lost its order nominates what is there: a look at a few tells that from an outage.
            let few: Vec<RecordId> = nominated.iter().take(50).cloned().collect();
            let gone = self.absent(object, &few, true).await?;
            if gone.len() == few.len() {
                return Ok(Confirmed::LooksLikeOutage { going, of });
            }
        }
        let mut gone = Vec::new();
        let mut rest: &[RecordId] = &nominated;
        while !rest.is_empty() {
            let fit = ListQuery::ids_that_fit(rest).max(1);
            let (some, others) = rest.split_at(fit);
            gone.extend(self.absent(object, some, true).await?);
            rest = others;
        }
        let going = gone.len() as u64;
        if !removals.allows(going, of) {
            return Ok(Confirmed::LooksLikeOutage { going, of });
        }
        self.remove(object, gone).await?;
        self.store.write(move |batch| batch.clear_nominations(object)).await?;
        Ok(Confirmed::All)
    }

    /// Those of the ids that the service does not have, for 1 RU a list of them; what it has is applied on the way, if
    /// asked for.
    pub(super) async fn absent(
        &self,
        object: Object,
        ids: &[RecordId],
        apply: bool,
    ) -> Result<Vec<RecordId>, SyncError> {
        let resource = object.resource();
        let Some(first) = ids.first() else {
            return Ok(Vec::new());
        };
        if !first.fits_a_list() {
            // A comma cannot be escaped in a list (rule 2): such a record is asked for on its own.
            let here = match self.client.detail(object, first, Purpose::Audit, false).await {
                Ok(_) => true,
                Err(error) if matches!(error.fate(), Fate::Gone) => false,
                Err(error) if error.fate() == Fate::SkipRecord => true,
                Err(source) => return Err(source).asking("confirm removals of", resource),
            };
            return Ok(if here { Vec::new() } else { vec![first.clone()] });
        }
        let query = ListQuery::new(resource)
            .ids(ids)
            .asking("confirm removals of", resource)?;
        let answer = self
            .client
            .list(&query, Purpose::Audit, false)
            .await
            .asking("confirm removals of", resource)?;
        let layout = self.store.layout();
        let page = decode::page(resource, &answer.body, &layout).asking("confirm removals of", resource)?;
        let here: HashSet<RecordId> = page.records.iter().map(|record| record.id.clone()).collect();
        let to_the_point = here.iter().all(|id| ids.contains(id));
        if page.next.is_none() && page.unusable == 0 && to_the_point {
            let gone = ids.iter().filter(|id| !here.contains(*id)).cloned().collect();
            if apply {
                self.apply_found(object, page.records, answer.asked_at, layout.version)
                    .await?;
            }
            return Ok(gone);
        }
        // An answer that is not whole, or that answers another question, proves no absence.
        Ok(Vec::new())
    }

    async fn apply_found(
        &self,
        object: Object,
        records: Vec<Record>,
        asked_at: crate::model::Instant,
        layout: u64,
    ) -> Result<(), SyncError> {
        let noted = self
            .store
            .write(move |batch| {
                let mut noted = Noted::default();
                if batch.expect_layout(layout).is_err() {
                    // Only presence was asked for; the next walk applies them.
                    return Ok(noted);
                }
                let phase = batch.phase(object)?;
                for record in &records {
                    let applied = batch.apply_list(object, record, asked_at, phase)?;
                    noted.record(record, applied);
                }
                Ok(noted)
            })
            .await?;
        self.count(&noted.tally);
        Ok(())
    }

    /// Removes records whose absence is confirmed.
    pub(super) async fn remove(&self, object: Object, gone: Vec<RecordId>) -> Result<(), SyncError> {
        let now = self.clock.now();
        let removed = self
            .store
            .write(move |batch| {
                let phase: Phase = batch.phase(object)?;
                let mut removed = 0;
                for id in &gone {
                    removed += u64::from(batch.remove(object, id, now, phase)?);
                }
                Ok(removed)
            })
            .await?;
        self.count(&crate::store::Tally {
            removed,
            ..Default::default()
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_told_from_ordinary_removals() {
        let by_itself = Removals {
            most: 0.2,
            accepted: false,
        };
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
            assert!(
                Removals {
                    accepted: true,
                    ..by_itself
                }
                .allows(going, of)
            );
        }
    }
}
