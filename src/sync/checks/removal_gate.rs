//! Removals: whatever nominates a record, only this module removes it.
//!
//! A sweep or an audit that misses a record, and a 404 for a detail or an update, only nominate it. Here the nominated
//! records of an object are looked up by id, and those that the service confirms as removed pass the [`RemovalGuard`]
//! together, including everything that was removed within the last day. What looks like an outage is refused, until a
//! user accepts it or the records are back. If no answer proves anything, the lookup is repeated later, with
//! increasing delay ([`UndecidedRemovals`]).

use super::compare::Audit;
use super::undecided_removals::UndecidedRemovals;
use crate::model::{Instant, Object, RecordId};
use crate::store::{RemovalDecision, RemovalGuard, RemovalShare};
use crate::sync::checkpoints::Outage;
use crate::sync::error::SyncError;
use crate::sync::job::Job;
use crate::sync::run::Run;
use crate::sync::walks::lookup::{Confirmation, FoundRecords, split_lookup};

/// The number of 404s for details in one run after which no further details are read: a service that has lost its
/// details has not lost its records.
pub(in crate::sync) const MANY_NOT_FOUND: usize = 20;

/// The result for an object's nominations.
#[derive(Debug, Default)]
pub(in crate::sync) struct Settlement {
    /// Records that the service confirmed as removed.
    pub(in crate::sync) gone: Vec<RecordId>,
    /// Whether they are kept anyway, because there are too many.
    pub(in crate::sync) refused: bool,
    /// Records about which no answer proved anything; they stay nominated.
    pub(in crate::sync) unproven: u64,
}

impl Settlement {
    /// Whether every nomination was decided and executed.
    pub(in crate::sync) const fn is_settled(&self) -> bool {
        !self.refused && self.unproven == 0
    }
}

/// Whether a run spends RU on removals that were refused before: a person accepts them, or asks for every record.
fn retries_refusals(job: &Job, by_person: bool) -> bool {
    let thorough = matches!(job, Job::Resync { .. } | Job::Verify { repair: true, .. });
    job.accept().removals || by_person && thorough
}

impl Run<'_> {
    fn removal_guard(&self) -> RemovalGuard {
        RemovalGuard { most: self.engine.settings.most_removals, accepted: self.job.accept().removals }
    }

    /// The ledger's steady clock, which measures days.
    pub(in crate::sync) fn steady_time(&self) -> Instant {
        self.engine.meter.ledger().steady_time()
    }

    /// Whether this run spends RU on removals that were refused before.
    pub(in crate::sync) fn retries_refusals(&self) -> bool {
        retries_refusals(self.job, self.by_person)
    }

    /// Looks up every nominated record of an object by id, and removes those that the service does not have. Those that
    /// it has are compared for the current audit.
    pub(in crate::sync) async fn settle_removals(&self, audit: &mut Audit) -> Result<Settlement, SyncError> {
        let (object, guard, steady) = (audit.object, self.removal_guard(), self.steady_time());
        let (nominated, share, refusal, undecided) = self
            .engine
            .store
            .read(move |tx| {
                let nominated = tx.nominated(object)?;
                let share = tx.removal_share(object, nominated.len() as u64, steady)?;
                let refusal: Option<Outage> = tx.state(&Outage::entry(object))?;
                Ok((nominated, share, refusal, UndecidedRemovals::load(tx, object)?))
            })
            .await?;
        if nominated.is_empty() {
            if refusal.is_some() {
                self.engine.store.write(move |tx| tx.clear_state(&Outage::entry(object))).await?;
            }
            return Ok(Settlement::default());
        }
        if let Some(refusal) = refusal
            && !self.retries_refusals()
        {
            return self.sample_refused(audit, refusal, &nominated).await;
        }
        if !self.retries_refusals() && !undecided.is_due(nominated.len() as u64, steady) {
            return Ok(Settlement { unproven: nominated.len() as u64, ..Settlement::default() });
        }
        let mut confirmation = Confirmation::of(object);
        let mut rest = &nominated[..];
        let allowed = guard.allows(share.going, share.of);
        if !allowed {
            // A service with unordered lists causes nominations of existing records: a sample distinguishes that from
            // an outage.
            let (few, others) = split_lookup(&nominated);
            self.confirm(object, few, &mut confirmation).await;
            if confirmation.ended.is_ok() && !confirmation.has_found(few) {
                return self.refuse(object, share).await;
            }
            rest = others;
        }
        self.confirm(object, rest, &mut confirmation).await;
        let ended = std::mem::replace(&mut confirmation.ended, Ok(()));
        let nothing = confirmation.found.is_empty() && confirmation.gone.ids().is_empty();
        if ended.is_err() && nothing && !confirmation.unproven.is_empty() {
            // The others wait with these, or each window would look up the same ones.
            self.leave_undecided(object, nominated.len() as u64, false).await?;
            return ended.map(|()| Settlement::default());
        }
        if ended.is_err() && !allowed {
            // A part of too many removals may be allowed by itself: only all of them together show what it is.
            self.keep_found(audit, confirmation.found).await?;
            return ended.map(|()| Settlement::default());
        }
        let settlement = self.conclude(audit, confirmation, guard).await?;
        ended.map(|()| settlement)
    }

    /// Applies the result of the lookups.
    async fn conclude(
        &self,
        audit: &mut Audit,
        confirmation: Confirmation,
        guard: RemovalGuard,
    ) -> Result<Settlement, SyncError> {
        let (object, steady, now) = (audit.object, self.steady_time(), self.engine.clock.now());
        let Confirmation { mut gone, found, unproven, .. } = confirmation;
        self.keep_found(audit, found).await?;
        if !guard.accepted {
            self.check_details(object, &mut gone).await?;
        }
        let ids = gone.ids().to_vec();
        let empty = !gone.is_witnessed();
        let decided = self.engine.store.write(move |tx| {
            let decision = tx.remove_confirmed(&gone, &guard, steady, now)?;
            let mut edits = Vec::new();
            if let RemovalDecision::Removed(_) = decision {
                edits = tx.reject_edits_of_removed(object, gone.ids(), now)?;
                let ids: Vec<&str> = gone.ids().iter().map(RecordId::as_str).collect();
                tx.withdraw_nominations(object, &serde_json::Value::from(ids).to_string())?;
                tx.clear_state(&Outage::entry(object))?;
            }
            Ok((decision, edits))
        });
        let (decision, edits) = decided.await?;
        self.edits_ended_by_removal(object, &edits);
        match decision {
            RemovalDecision::Removed(removed) => {
                self.count(&crate::store::Tally { removed, ..Default::default() });
                let unproven = unproven.len() as u64;
                self.leave_undecided(object, unproven, false).await?;
                Ok(Settlement { gone: ids, refused: false, unproven })
            }
            RemovalDecision::Unproven => {
                let unproven = (unproven.len() + ids.len()) as u64;
                self.leave_undecided(object, unproven, empty).await?;
                Ok(Settlement { unproven, ..Settlement::default() })
            }
            RemovalDecision::Refused(share) => Ok(Settlement { gone: ids, ..self.refuse(object, share).await? }),
        }
    }

    /// Withdraws the nominations of records that exist, and compares them.
    async fn keep_found(&self, audit: &mut Audit, found: Vec<FoundRecords>) -> Result<(), SyncError> {
        let object = audit.object;
        for found in found {
            let ids: Vec<&str> = found.records.iter().map(|record| record.id.as_str()).collect();
            let ids = serde_json::Value::from(ids).to_string();
            self.engine.store.write(move |tx| tx.withdraw_nominations(object, &ids)).await?;
            self.compare_found(audit, found).await?;
        }
        Ok(())
    }

    /// Stores that removals are refused.
    async fn refuse(&self, object: Object, share: RemovalShare) -> Result<Settlement, SyncError> {
        let RemovalShare { going, of } = share;
        let outage = Outage { going, of, seen_at: self.engine.clock.now(), sampled_at: Some(self.steady_time()) };
        self.engine.store.write(move |tx| tx.set_state(&Outage::entry(object), &outage)).await?;
        self.report_outage(object, outage);
        Ok(Settlement { refused: true, ..Settlement::default() })
    }

    fn report_outage(&self, object: Object, outage: Outage) {
        let outages = &mut self.results().outages;
        outages.retain(|(of, _)| *of != object);
        outages.push((object, outage));
    }

    /// Looks up a few of the refused records, once a day: if they are back, the refusal is withdrawn.
    async fn sample_refused(
        &self,
        audit: &mut Audit,
        refusal: Outage,
        nominated: &[RecordId],
    ) -> Result<Settlement, SyncError> {
        let (object, steady) = (audit.object, self.steady_time());
        let still = Settlement { refused: true, ..Settlement::default() };
        if !matches!(self.job, Job::Sync { .. } | Job::Push) {
            self.report_outage(object, refusal);
        }
        if !refusal.is_sample_due(steady) {
            return Ok(still);
        }
        let (few, _) = split_lookup(nominated);
        let mut confirmation = Confirmation::of(object);
        self.confirm(object, few, &mut confirmation).await;
        if !confirmation.has_found(few) {
            confirmation.ended?;
            let sampled = Outage { sampled_at: Some(steady), ..refusal };
            self.engine.store.write(move |tx| tx.set_state(&Outage::entry(object), &sampled)).await?;
            return Ok(still);
        }
        let withdrawn = self.engine.store.write(move |tx| tx.clear_state(&Outage::entry(object)));
        withdrawn.await?;
        tracing::info!(%object, "Records of {object} whose removal was refused are back");
        for found in confirmation.found {
            self.compare_found(audit, found).await?;
        }
        confirmation.ended?;
        Ok(Settlement { unproven: nominated.len() as u64, ..Settlement::default() })
    }

    /// Nominates records whose detail was not found. Returns whether further details should be read.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_person_has_refused_removals_looked_up_again() {
        let full = Job::Verify { objects: Default::default(), full: true, repair: false, accept: Default::default() };
        for (job, by_person, by_schedule) in [
            (Job::sync(), false, false),
            (Job::Push, false, false),
            (Job::verify(), false, false),
            (full, false, false),
            (Job::resync(), true, false),
            (Job::audit(), true, false),
            (Job::sync().accepting_removals(), true, true),
            (Job::verify().accepting_removals(), true, true),
            (Job::resync().accepting_removals(), true, true),
        ] {
            assert_eq!(retries_refusals(&job, true), by_person, "{job:?}");
            assert_eq!(retries_refusals(&job, false), by_schedule, "{job:?}");
        }
    }

    #[test]
    fn nominations_are_settled_once_none_is_refused_or_unproven() {
        for (refused, unproven, settled) in [(false, 0, true), (true, 0, false), (false, 1, false), (true, 2, false)] {
            let settlement = Settlement { refused, unproven, ..Settlement::default() };
            assert_eq!(settlement.is_settled(), settled, "refused: {refused}, unproven: {unproven}");
        }
    }
}
