//! Decides the doubts about records that are due: those that were shown in an earlier version, and those that were missed.
//! Whatever nominates a record for removal, only this module removes it.
//!
//! A sweep or an audit that misses a record, and a 404 for a detail or an update, only nominate it. Here the nominated
//! records of an object are looked up by id, and those that the service confirms as removed pass the [`RemovalGuard`]
//! together, including everything that was removed within the last day. What looks like an outage is refused, until a
//! user accepts it or the records are back. If no answer proves anything, the lookup is repeated later, with
//! increasing delay: if one of its items could not be decoded, if it lacks every record, or if it is not as new as the record.
//! If the service lists no record of an object at all, nothing vouches for its answers: only a person accepts the removals.
//!
//! What an answer proves is the rule of [`AnswerTime`](crate::model::AnswerTime).

use std::time::Duration;

use super::compare::Audit;
use crate::model::{Instant, Object, RecordId, Resource};
use crate::store::{Goal, LastRead, ReadTx, RemovalDecision, RemovalGuard, StoreError, Tally, WholeListKind};
use crate::sync::checks::lookup_by_id::{self, Confirmation, FoundRecords, MAX_IN_VAIN, split_lookup};
use crate::sync::error::SyncError;
use crate::sync::job::{Job, JobKind};

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

/// Items of a resource that may have been removed, or have other values: their number, and how long the next lookup or list
/// waits if that has a time of its own.
pub fn undecided(tx: &ReadTx<'_>, resource: Resource, steady: Instant) -> Result<(u64, Option<Duration>), StoreError> {
    let Some(object) = Object::ALL.into_iter().find(|object| object.resource() == resource) else {
        let lists = match resource {
            Resource::TeamMembers => vec![WholeListKind::Team],
            _ => Object::ALL.map(WholeListKind::Definitions).into(),
        };
        let counts: Result<u64, StoreError> = lists.into_iter().map(|list| tx.count_unlisted(list)).sum();
        return Ok((counts?, None));
    };
    Ok((tx.count_open(object, false)?, tx.wait_of_doubts(object, steady)?))
}

/// Whether a run spends RU on removals that were refused before: a person accepts them, or asks for every record.
pub(in crate::sync) fn retries_refusals(job: &Job, by_person: bool) -> bool {
    job.accept_removals || by_person && (job.kind == JobKind::Resync || job.repair)
}

impl Audit<'_> {
    /// Looks up the records in doubt whose lookup is due, and removes those that the service does not have. Those that it has
    /// are compared for the current audit.
    pub(in crate::sync) async fn decide_doubts(&mut self) -> Result<Settlement, SyncError> {
        let (object, steady, by_person) = (self.object, self.run.steady_time(), self.run.by_person);
        let at_once = retries_refusals(self.run.job, by_person);
        let guard = self.run.removal_guard();
        let accepts = guard.accepted;
        let reading = self.run.read(move |tx| {
            let nominated = tx.count_nominated(object)?;
            let share = tx.removal_share(object, nominated, steady)?;
            let is_refused = tx.goals().is_set(Goal::RefusedRemovals(object))?;
            let refusal = tx.standing_refusal(object, &RemovalGuard { accepted: false, ..guard }, steady)?;
            // What goes on by itself after a suspension accepts only what the sweep under way finds.
            let is_sweeping = tx.goals().is_set(Goal::Sweeping(object))?;
            let accepted = accepts && (by_person || is_sweeping);
            Ok((
                nominated,
                tx.due_doubts(object, steady, at_once, by_person)?,
                share,
                (is_refused, refusal),
                (accepted, is_sweeping),
            ))
        });
        let (nominated, due, share, (is_refused, refusal), (accepted, is_sweeping)) = reading.await?;
        self.unseen.extend(due.missed.iter().filter(|_| is_sweeping).cloned());
        // A total that has some of them again: a few lookups tell whether the outage is over.
        let is_back = |rows: u64| self.total.is_some_and(|(there, _)| there + nominated > rows);
        let (is_over, standing) = (refusal.is_none(), refusal.filter(|refusal| !at_once && !is_back(refusal.of)));
        let guard = RemovalGuard { accepted, ..guard };
        self.look_at_older(due.older).await?;
        // It stands until a person decides, or lists show so many of the records again that the others are few.
        if let Some(refusal) = standing {
            if matches!(self.run.job.kind, JobKind::Resync | JobKind::Verify) {
                self.run.report_outage(object.resource(), refusal);
            }
            return Ok(Settlement { refused: true, ..Settlement::default() });
        }
        // Those that nothing vouches for wait, and stay refused until then.
        if is_refused && is_over && (nominated == 0 || !due.missed.is_empty()) {
            self.run.write(move |tx| tx.claims().unset(Goal::RefusedRemovals(object))).await?;
            self.run.withdraw_outage(object.resource());
        }
        let settlement = Settlement { unproven: nominated, ..Settlement::default() };
        if due.missed.is_empty() {
            return Ok(settlement);
        }
        let (mut confirmation, compared) = (Confirmation::new(self.run, object), self.findings.compared);
        let (mut rest, mut ended) = (&due.missed[..], Ok(()));
        let allowed = guard.allows(share.going, share.of);
        if !allowed {
            // A sample distinguishes an outage from unordered lists, which nominate existing records.
            let (few, others) = split_lookup(rest);
            ended = confirmation.confirm(few).await;
            let is_found = |found: &FoundRecords| found.records().any(|record| few.contains(&record.id));
            if ended.is_ok() && !confirmation.found.iter().any(is_found) {
                return self.refuse().await;
            }
            self.keep_found(std::mem::take(&mut confirmation.found)).await?;
            rest = others;
        }
        if ended.is_ok() {
            ended = self.confirm(&mut confirmation, rest).await;
        }
        let nothing = self.findings.compared == compared && confirmation.gone.ids().is_empty();
        if ended.is_err() && nothing && !confirmation.unproven.is_empty() {
            // The others wait with these, or each window would look up the same ones.
            self.leave_undecided(due.missed).await?;
            return ended.map(|()| settlement);
        }
        if ended.is_err() && !allowed {
            // A part of too many removals may be allowed by itself: only all of them together show what it is.
            return ended.map(|()| settlement);
        }
        let Settlement { gone, refused, .. } = self.conclude(confirmation, guard).await?;
        let left = self.run.read(move |tx| tx.count_nominated(object)).await?;
        ended.map(|()| Settlement { gone, refused, unproven: if refused { 0 } else { left } })
    }

    /// Looks up records, and compares those that exist as soon as an answer has them: they are not looked up again, whatever
    /// ends the run.
    pub(super) async fn confirm(
        &mut self,
        confirmation: &mut Confirmation<'_>,
        mut ids: &[RecordId],
    ) -> Result<(), SyncError> {
        while !ids.is_empty() {
            let (some, others) = split_lookup(ids);
            let ended = confirmation.confirm(some).await;
            self.keep_found(std::mem::take(&mut confirmation.found)).await?;
            ended?;
            ids = others;
        }
        Ok(())
    }

    /// Looks up records that were shown in an earlier version; nothing else is decided about the others once a few lookups
    /// in a row were in vain.
    async fn look_at_older(&mut self, older: Vec<RecordId>) -> Result<(), SyncError> {
        let (object, steady) = (self.object, self.run.steady_time());
        let (mut rest, mut in_vain, mut ended) = (&older[..], 0, Ok(()));
        while !rest.is_empty() && in_vain < MAX_IN_VAIN && ended.is_ok() {
            let (some, others) = split_lookup(rest);
            let mut confirmation = Confirmation::new(self.run, object);
            ended = confirmation.confirm(some).await;
            let gone = confirmation.gone.ids().to_vec();
            let missed = gone.clone();
            // Those that are not there any more are decided about as any that were missed.
            self.run.write(move |tx| tx.knowledge().forget_versions(object, &gone)).await?;
            lookup_by_id::nominate(self.run, object, missed).await?;
            let has_seen = confirmation.found.iter().any(|found| found.records().next().is_some());
            self.keep_found(confirmation.found).await?;
            let is_decided = some.iter().any(|id| !self.older.contains(id));
            in_vain = if has_seen && is_decided { 0 } else { in_vain + 1 };
            rest = others;
        }
        self.run.write(move |tx| tx.knowledge().were_looked_up(object, &older, steady)).await?;
        ended
    }

    /// Has the records wait that seem to be removed and are still in doubt.
    async fn leave_undecided(&self, unproven: Vec<RecordId>) -> Result<(), SyncError> {
        if unproven.is_empty() {
            return Ok(());
        }
        let object = self.object;
        self.run.warn(format!(
            "{} {object} records seem to be removed, but no answer of the service proves it: they are kept",
            unproven.len()
        ));
        let steady = self.run.steady_time();
        self.run.write(move |tx| tx.knowledge().were_looked_up(object, &unproven, steady)).await
    }

    async fn refuse(&self) -> Result<Settlement, SyncError> {
        let (object, now) = (self.object, self.run.now());
        let refusing = self.run.write(move |tx| {
            tx.claims().reach(Goal::RefusedRemovals(object), LastRead::between(now, now))?;
            tx.refused_removals(object)
        });
        if let Some(outage) = refusing.await? {
            self.run.report_outage(object.resource(), outage);
        }
        Ok(Settlement { refused: true, ..Settlement::default() })
    }

    async fn conclude(&mut self, confirmation: Confirmation<'_>, guard: RemovalGuard) -> Result<Settlement, SyncError> {
        let (object, steady, now) = (self.object, self.run.steady_time(), self.run.now());
        let Confirmation { gone, unproven, .. } = confirmation;
        let ids = gone.ids().to_vec();
        let decided = self.run.write(move |tx| {
            let decision = tx.records().remove_confirmed(&gone, &guard, steady, now)?;
            let mut edits = Vec::new();
            if let RemovalDecision::Removed(_) = decision {
                edits = tx.edits().reject_edits_of_removed(object, gone.ids(), now)?;
                tx.claims().unset(Goal::RefusedRemovals(object))?;
            }
            Ok((decision, edits))
        });
        let (decision, edits) = decided.await?;
        self.run.edits_ended_by_removal(object, &edits);
        match decision {
            RemovalDecision::Removed(removed) => {
                self.run.count(&Tally { removed, ..Default::default() });
                self.run.withdraw_outage(object.resource());
                self.leave_undecided(unproven).await?;
                Ok(Settlement { gone: ids, ..Settlement::default() })
            }
            RemovalDecision::Refused(share) => {
                if guard.allows(share.going, share.of) {
                    let all = [&ids[..], &unproven[..]].concat();
                    self.run.write(move |tx| tx.knowledge().were_looked_up(object, &all, steady)).await?;
                }
                Ok(Settlement { gone: ids, ..self.refuse().await? })
            }
        }
    }

    /// Compares records that exist, which ends their nominations.
    pub(in crate::sync) async fn keep_found(&mut self, found: Vec<FoundRecords>) -> Result<(), SyncError> {
        for FoundRecords { pages, answer, .. } in found {
            for page in pages {
                self.compare_answer(page, answer, true).await?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_person_has_refused_removals_looked_up_again() {
        let full = Job { full: true, ..Job::verify() };
        for (job, by_person, by_schedule) in [
            (Job::sync(), false, false),
            (Job::push(), false, false),
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
