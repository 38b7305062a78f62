//! Removals: whatever nominated a record, only this removes it.
//!
//! A sweep that passes over a record, an audit that misses it, a detail or an update that is answered with 404: each only
//! nominates. Here the nominated records of an object are asked for by id, and those that the service confirms not to
//! have pass the [`RemovalGuard`] together, with everything that was removed within the last day. What looks like an
//! outage is refused, and stays refused until a person accepts it or the records are back.

use super::compare::Audit;
use crate::api::ListQuery;
use crate::model::{Instant, Object, RecordId};
use crate::store::{RemovalDecision, RemovalGuard, RemovalShare};
use crate::sync::error::SyncError;
use crate::sync::job::Job;
use crate::sync::run::Run;
use crate::sync::state::Outage;
use crate::sync::walks::lookup::{AT_ONCE, Confirmation};

/// Details not found in one run, after which the rest of them waits: a service that has lost its details has not lost its
/// records.
pub(in crate::sync) const MANY_NOT_FOUND: usize = 20;

/// What became of an object's nominations.
#[derive(Debug, Default)]
pub(in crate::sync) struct Settlement {
    /// Records that the service confirmed not to have.
    pub(in crate::sync) gone: Vec<RecordId>,
    /// Whether they stay all the same, because they are too many.
    pub(in crate::sync) refused: bool,
    /// Records that no answer proved anything about; they stay nominated.
    pub(in crate::sync) unproven: u64,
}

impl Settlement {
    /// Whether every nomination was decided and carried out.
    pub(in crate::sync) const fn is_settled(&self) -> bool {
        !self.refused && self.unproven == 0
    }
}

impl Run<'_> {
    fn removal_guard(&self) -> RemovalGuard {
        RemovalGuard { most: self.engine.settings.most_removals, accepted: self.job.accept().removals }
    }

    /// The beginning of the budget's window: what days are counted by.
    pub(in crate::sync) fn window(&self) -> Instant {
        self.engine.meter.ledger().since
    }

    /// Whether this run pays to find out about removals that were refused before.
    pub(in crate::sync) fn asks_again(&self) -> bool {
        let thorough = matches!(self.job, Job::Resync { .. } | Job::Verify { repair: true, .. });
        self.job.accept().removals || self.by_person && thorough
    }

    /// Asks for every nominated record of an object by id, and removes those that the service does not have. What it has
    /// is compared for the audit under way.
    pub(in crate::sync) async fn settle_removals(&self, audit: &mut Audit) -> Result<Settlement, SyncError> {
        let (object, guard, window) = (audit.object, self.removal_guard(), self.window());
        let (nominated, share, refusal) = self
            .engine
            .store
            .read(move |tx| {
                let nominated = tx.nominated(object)?;
                let share = tx.removal_share(object, nominated.len() as u64, window)?;
                let refusal: Option<Outage> = tx.state(&Outage::entry(object))?;
                Ok((nominated, share, refusal))
            })
            .await?;
        if nominated.is_empty() {
            if refusal.is_some() {
                self.engine.store.write(move |tx| tx.clear_state(&Outage::entry(object))).await?;
            }
            return Ok(Settlement::default());
        }
        if let Some(refusal) = refusal
            && !self.asks_again()
        {
            return self.sample_refused(audit, refusal, &nominated).await;
        }
        let mut confirmation = Confirmation::of(object);
        let mut rest = &nominated[..];
        if !guard.allows(share.going, share.of) {
            // A service that lost its order nominates what is there: a look at a few tells that from an outage.
            let (few, others) = nominated.split_at(ListQuery::ids_that_fit(&nominated).clamp(1, AT_ONCE));
            self.confirm(object, few, &mut confirmation).await?;
            if confirmation.found.iter().all(|found| !found.records.iter().any(|record| few.contains(&record.id))) {
                return self.refuse(object, share).await;
            }
            rest = others;
        }
        self.confirm(object, rest, &mut confirmation).await?;
        self.conclude(audit, confirmation, guard).await
    }

    /// Carries out what the answers say.
    async fn conclude(
        &self,
        audit: &mut Audit,
        confirmation: Confirmation,
        guard: RemovalGuard,
    ) -> Result<Settlement, SyncError> {
        let (object, window, now) = (audit.object, self.window(), self.engine.clock.now());
        let Confirmation { gone, found, unproven } = confirmation;
        for found in found {
            let ids: Vec<&str> = found.records.iter().map(|record| record.id.as_str()).collect();
            let ids = serde_json::Value::from(ids).to_string();
            self.engine.store.write(move |tx| tx.withdraw_nominations(object, &ids)).await?;
            self.compare_found(audit, found).await?;
        }
        let ids = gone.ids().to_vec();
        let decided = self.engine.store.write(move |tx| {
            let decision = tx.remove_confirmed(&gone, &guard, window, now)?;
            if let RemovalDecision::Removed(_) = decision {
                let ids: Vec<&str> = gone.ids().iter().map(RecordId::as_str).collect();
                tx.withdraw_nominations(object, &serde_json::Value::from(ids).to_string())?;
                tx.clear_state(&Outage::entry(object))?;
            }
            Ok(decision)
        });
        match decided.await? {
            RemovalDecision::Removed(removed) => {
                self.count(&crate::store::Tally { removed, ..Default::default() });
                let unproven = unproven.len() as u64;
                if unproven > 0 {
                    self.warn(format!(
                        "{unproven} {object} records seem to be gone, and no answer of the service proves it: they stay"
                    ));
                }
                Ok(Settlement { gone: ids, refused: false, unproven })
            }
            RemovalDecision::Refused(share) => Ok(Settlement { gone: ids, ..self.refuse(object, share).await? }),
        }
    }

    /// Stores that removals are refused.
    async fn refuse(&self, object: Object, share: RemovalShare) -> Result<Settlement, SyncError> {
        let RemovalShare { going, of } = share;
        let outage = Outage { going, of, seen_at: self.engine.clock.now(), sampled_in: Some(self.window()) };
        self.engine.store.write(move |tx| tx.set_state(&Outage::entry(object), &outage)).await?;
        self.report_outage(object, outage);
        Ok(Settlement { refused: true, ..Settlement::default() })
    }

    fn report_outage(&self, object: Object, outage: Outage) {
        let outages = &mut self.results().outages;
        outages.retain(|(of, _)| *of != object);
        outages.push((object, outage));
    }

    /// Asks for a few of the refused records, once a day: if they are back, the refusal is withdrawn.
    async fn sample_refused(
        &self,
        audit: &mut Audit,
        refusal: Outage,
        nominated: &[RecordId],
    ) -> Result<Settlement, SyncError> {
        let (object, window) = (audit.object, self.window());
        let still = Settlement { refused: true, ..Settlement::default() };
        if !matches!(self.job, Job::Sync { .. } | Job::Push) {
            self.report_outage(object, refusal);
        }
        if !refusal.is_sample_due(window) {
            return Ok(still);
        }
        let few = &nominated[..ListQuery::ids_that_fit(nominated).clamp(1, AT_ONCE)];
        let mut confirmation = Confirmation::of(object);
        self.confirm(object, few, &mut confirmation).await?;
        let back: usize = confirmation
            .found
            .iter()
            .map(|found| found.records.iter().filter(|record| few.contains(&record.id)).count())
            .sum();
        if back == 0 {
            let sampled = Outage { sampled_in: Some(window), ..refusal };
            self.engine.store.write(move |tx| tx.set_state(&Outage::entry(object), &sampled)).await?;
            return Ok(still);
        }
        let withdrawn = self.engine.store.write(move |tx| tx.clear_state(&Outage::entry(object)));
        withdrawn.await?;
        tracing::info!(%object, "Records of {object} whose removal was refused are back");
        for found in confirmation.found {
            self.compare_found(audit, found).await?;
        }
        Ok(Settlement { unproven: nominated.len() as u64, ..Settlement::default() })
    }

    /// Nominates records whose detail was not found. Says whether further details are worth asking for.
    pub(in crate::sync) async fn nominate_not_found(
        &self,
        object: Object,
        gone: Vec<RecordId>,
    ) -> Result<bool, SyncError> {
        let few = gone.len() < MANY_NOT_FOUND;
        if !few {
            let what = "details of records that lists have were not found";
            self.note("details_not_found", object.resource(), what).await?;
            let resource = object.resource();
            self.warn(format!("{} details of {resource} were not found: this looks like an outage", gone.len()));
        }
        self.nominate(object, gone).await?;
        Ok(few)
    }
}
