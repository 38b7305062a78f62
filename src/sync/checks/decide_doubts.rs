//! Decides the doubts about records that are due: those that were missed, and those that were shown in an earlier version.
//!
//! One lookup by id for all of them. What it proves is the rule of [`AnswerTime`](crate::model::AnswerTime); what may be
//! removed, that of the gate.

use super::compare::Audit;
use super::decide_missing::{self, Confirmation, MAX_IN_VAIN, split_lookup};
use super::removal_gate::{Settlement, retries_refusals};
use crate::model::RecordId;
use crate::sync::error::SyncError;

impl Audit<'_> {
    /// Looks up the records in doubt whose lookup is due, and removes those that the service does not have. Those that it has
    /// are compared for the current audit.
    pub(in crate::sync) async fn decide_doubts(&mut self) -> Result<Settlement, SyncError> {
        let (object, guard, steady) = (self.object, self.run.removal_guard(), self.run.steady_time());
        let (at_once, by_person) = (retries_refusals(self.run.job, self.run.by_person), self.run.by_person);
        let reading = self.run.read(move |tx| {
            let nominated = tx.nominated(object)?;
            let share = tx.removal_share(object, nominated.len() as u64, steady)?;
            let refusal = tx.refused_removals(object)?;
            Ok((nominated, tx.due_doubts(object, steady, at_once, by_person)?, share, refusal))
        });
        let (nominated, mut due, share, refusal) = reading.await?;
        let mut settlement = Settlement::default();
        match refusal {
            Some(_) if nominated.is_empty() => {
                self.run.write(move |tx| tx.claims().set_refused_removals(object, None)).await?;
            }
            Some(refusal) if !at_once => {
                settlement = self.sample_refused(refusal, &nominated).await?;
                due.missed.clear();
            }
            _ => settlement.unproven = nominated.len() as u64,
        }
        self.look_at_older(due.older).await?;
        if due.missed.is_empty() {
            return Ok(settlement);
        }
        let mut confirmation = Confirmation::new(self.run, object);
        let mut rest = &due.missed[..];
        let allowed = guard.allows(share.going, share.of);
        if !allowed {
            // A service with unordered lists causes nominations of existing records: a sample distinguishes that from
            // an outage.
            let (few, others) = split_lookup(rest);
            confirmation.confirm(few).await;
            if confirmation.ended.is_ok() && !confirmation.has_found(few) {
                return self.refuse(share).await;
            }
            rest = others;
        }
        confirmation.confirm(rest).await;
        let ended = std::mem::replace(&mut confirmation.ended, Ok(()));
        let nothing = confirmation.found.is_empty() && confirmation.gone.ids().is_empty();
        if ended.is_err() && nothing && !confirmation.unproven.is_empty() {
            // The others wait with these, or each window would look up the same ones.
            self.leave_undecided(due.missed).await?;
            return ended.map(|()| settlement);
        }
        if ended.is_err() && !allowed {
            // A part of too many removals may be allowed by itself: only all of them together show what it is.
            self.keep_found(confirmation.found).await?;
            return ended.map(|()| settlement);
        }
        let concluded = self.conclude(confirmation, guard).await?;
        let refused = concluded.refused || settlement.refused;
        let left = self.run.read(move |tx| tx.count_nominated(object)).await?;
        ended.map(|()| Settlement { gone: concluded.gone, refused, unproven: if refused { 0 } else { left } })
    }

    /// Looks up records that were shown in an earlier version; nothing else is decided about the others once a few lookups
    /// in a row were in vain.
    async fn look_at_older(&mut self, older: Vec<RecordId>) -> Result<(), SyncError> {
        let (object, steady) = (self.object, self.run.steady_time());
        let (mut rest, mut in_vain, mut ended) = (&older[..], 0, Ok(()));
        while !rest.is_empty() && in_vain < MAX_IN_VAIN && ended.is_ok() {
            let (some, others) = split_lookup(rest);
            let mut confirmation = Confirmation::new(self.run, object);
            confirmation.confirm(some).await;
            let (looked_up, gone) = (some.to_vec(), confirmation.gone.ids().to_vec());
            let missed = gone.clone();
            // First: what the answers refute keeps its delay, and those that are not there any more are decided about as any
            // that were missed.
            let noted = self.run.write(move |tx| {
                tx.knowledge().were_looked_up(object, &looked_up, steady)?;
                tx.knowledge().forget_versions(object, &gone)
            });
            noted.await?;
            decide_missing::nominate(self.run, object, missed).await?;
            let has_seen = confirmation.found.iter().any(|found| found.records().next().is_some());
            self.keep_found(confirmation.found).await?;
            let is_decided = some.iter().any(|id| !self.older.contains(id));
            in_vain = if has_seen && is_decided { 0 } else { in_vain + 1 };
            (rest, ended) = (others, confirmation.ended);
        }
        let rest = rest.to_vec();
        self.run.write(move |tx| tx.knowledge().were_looked_up(object, &rest, steady)).await?;
        ended
    }
}
