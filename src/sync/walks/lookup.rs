//! Asks for records by id: which the service has, and which not.
//!
//! Every request carries a witness, a record that exists, and an answer without it proves nothing: load balancers, caches
//! and replicas that lag answer as if there were no records.

use std::collections::{HashSet, VecDeque};

use super::progress::ListProgress;
use crate::api::{ErrorClass, ListQuery, PageSize, decode};
use crate::model::{Instant, Object, Purpose, Record, RecordId};
use crate::store::ConfirmedRemovals;
use crate::sync::error::{Asking, SyncError};
use crate::sync::run::Run;
use crate::sync::tally::Noted;

/// Ids that are asked for at once; with the witness, as many as a list holds.
pub(in crate::sync) const AT_ONCE: usize = 49;

/// Records that the service returned, and what is needed to write them.
#[derive(Debug)]
pub(in crate::sync) struct FoundRecords {
    /// The records.
    pub(in crate::sync) records: Vec<Record>,
    /// When they were asked for.
    pub(in crate::sync) asked_at: Instant,
    /// The layout that they were decoded with.
    pub(in crate::sync) layout: u64,
    /// Whether an item could not be read: it may be any of the records that were asked for.
    pub(in crate::sync) has_unusable: bool,
}

/// What the service said about records that were asked for by id.
pub(in crate::sync) struct Confirmation {
    /// Those that it does not have.
    pub(in crate::sync) gone: ConfirmedRemovals,
    /// Those that it has.
    pub(in crate::sync) found: Vec<FoundRecords>,
    /// Those that no answer proved anything about.
    pub(in crate::sync) unproven: Vec<RecordId>,
}

impl Confirmation {
    /// Nothing was asked yet.
    pub(in crate::sync) fn of(object: Object) -> Confirmation {
        Confirmation { gone: ConfirmedRemovals::none(object), found: Vec::new(), unproven: Vec::new() }
    }
}

impl Run<'_> {
    /// Asks for records by id, for 1 RU a list of them, and adds what that says.
    pub(in crate::sync) async fn confirm(
        &self,
        object: Object,
        ids: &[RecordId],
        into: &mut Confirmation,
    ) -> Result<(), SyncError> {
        let mut open: VecDeque<&[RecordId]> = [ids].into();
        while let Some(ids) = open.pop_front() {
            if ids.is_empty() {
                continue;
            }
            let fit = ListQuery::ids_that_fit(ids).clamp(1, AT_ONCE);
            let (some, rest) = ids.split_at(fit);
            let witness = self.witness(object).await?;
            match self.ask_by_id(object, some, witness.as_ref()).await {
                Ok(found) => {
                    let answered: HashSet<RecordId> = found.records.iter().map(|record| record.id.clone()).collect();
                    if found.has_unusable {
                        into.unproven.extend(some.iter().filter(|id| !answered.contains(*id)).cloned());
                        into.found.push(found);
                    } else if into.gone.take(some, witness.as_ref(), &answered) {
                        into.found.push(found);
                    } else {
                        self.withdraw_witness(object);
                        into.unproven.extend_from_slice(some);
                    }
                    open.push_front(rest);
                }
                // A service that limits the length of the whole list, and not of each value.
                Err(error) if error.class() == Some(ErrorClass::BadRequest) && some.len() > 1 => {
                    let (low, high) = some.split_at(some.len() / 2);
                    open.extend([low, high, rest]);
                }
                Err(error) if error.class() == Some(ErrorClass::BadRequest) => {
                    into.unproven.extend_from_slice(some);
                    open.push_front(rest);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Asks for records by id and applies those that the service has.
    pub(in crate::sync) async fn read_by_id(&self, object: Object, ids: &[RecordId]) -> Result<(), SyncError> {
        let mut confirmation = Confirmation::of(object);
        self.confirm(object, ids, &mut confirmation).await?;
        let gone = confirmation.gone.ids().to_vec();
        self.nominate(object, gone).await?;
        for found in confirmation.found {
            self.apply_found(object, found).await?;
        }
        Ok(())
    }

    /// Writes records that were asked for by id. With other columns than they were decoded with, the next walk does it.
    pub(in crate::sync) async fn apply_found(&self, object: Object, found: FoundRecords) -> Result<(), SyncError> {
        let applied = self.engine.store.write(move |tx| {
            let mut noted = Noted::default();
            if tx.expect_layout(found.layout).is_ok() {
                let phase = tx.phase(object)?;
                for record in &found.records {
                    noted.record(record, tx.apply_list(object, record, found.asked_at, phase)?);
                }
            }
            Ok(noted)
        });
        let noted = applied.await?;
        self.count(&noted.tally);
        Ok(())
    }

    /// Nominates records for removal. Only the gate for removals removes them.
    pub(in crate::sync) async fn nominate(&self, object: Object, ids: Vec<RecordId>) -> Result<(), SyncError> {
        if !ids.is_empty() {
            self.engine.store.write(move |tx| tx.nominate(object, &ids)).await?;
        }
        Ok(())
    }

    /// Asks for these records and the witness.
    async fn ask_by_id(
        &self,
        object: Object,
        ids: &[RecordId],
        witness: Option<&RecordId>,
    ) -> Result<FoundRecords, SyncError> {
        let (resource, doing) = (object.resource(), "confirm removals of");
        let query = ListQuery::new(resource);
        match ids {
            // A comma cannot be escaped in a list (rule 2): such a record is asked for on its own, and then the witness.
            [id] if !id.fits_a_list() => {
                let mut found = self.list_by(query.clone().equals("id", id.as_str()).asking(doing, resource)?).await?;
                if let Some(witness) = witness {
                    let seen = self.list_by(query.equals("id", witness.as_str()).asking(doing, resource)?).await?;
                    found.records.extend(seen.records);
                    found.has_unusable |= seen.has_unusable;
                }
                Ok(found)
            }
            ids => {
                let asked: Vec<RecordId> = ids.iter().chain(witness).cloned().collect();
                self.list_by(query.ids(&asked).asking(doing, resource)?).await
            }
        }
    }

    /// Every row of a short list.
    async fn list_by(&self, query: ListQuery) -> Result<FoundRecords, SyncError> {
        let (resource, doing) = (query.resource(), "confirm removals of");
        let layout = self.engine.store.layout();
        let mut found = FoundRecords {
            records: Vec::new(),
            asked_at: self.engine.clock.now(),
            layout: layout.version,
            has_unusable: false,
        };
        let (mut at, mut progress) = (query.clone(), ListProgress::default());
        loop {
            let answer = self.engine.client.list(&at, Purpose::Audit).await.asking(doing, resource)?;
            let page = decode::page(resource, &answer.body, &layout).asking(doing, resource)?;
            if found.records.is_empty() {
                found.asked_at = answer.asked_at;
            }
            let rows = page.records.len();
            found.has_unusable |= page.unusable > 0;
            found.records.extend(page.records);
            // A service may make its pages smaller than the list.
            let Some(next) = page.next else { return Ok(found) };
            progress.take(&next, rows);
            if progress.is_stuck() {
                return Err(SyncError::NotAdvancing { resource });
            }
            at = query.clone().after(next);
        }
    }

    /// A record that answers by id are asked together with: one of the mirror that nothing speaks against, or one that
    /// the service lists now. `None` where it lists none.
    async fn witness(&self, object: Object) -> Result<Option<RecordId>, SyncError> {
        if let Some(witness) = &self.results().witnesses[object as usize] {
            return Ok(witness.clone());
        }
        let mut witness = None;
        let tried = self.results().withdrawn_witness[object as usize];
        if !tried {
            witness = self.engine.store.read(move |tx| tx.witness(object)).await?;
        }
        if witness.is_none() {
            let query = ListQuery::new(object.resource()).limit(PageSize::ONE);
            let answer = self.engine.client.list(&query, Purpose::Audit).await.asking("list", object.resource())?;
            let layout = self.engine.store.layout();
            let page = decode::page(object.resource(), &answer.body, &layout).asking("list", object.resource())?;
            witness = page.records.into_iter().map(|record| record.id).find(RecordId::fits_a_list);
        }
        self.results().witnesses[object as usize] = Some(witness.clone());
        Ok(witness)
    }

    /// Notes that an answer lacked the witness: it may be gone itself, so the next one is one that the service lists.
    fn withdraw_witness(&self, object: Object) {
        let mut results = self.results();
        if !results.withdrawn_witness[object as usize] {
            results.withdrawn_witness[object as usize] = true;
            results.witnesses[object as usize] = None;
        }
    }
}
