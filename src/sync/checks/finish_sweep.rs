//! What follows a sweep that was read completely, and details that were not found: records that they missed are decided on.

use super::compare::Audit;
use crate::error_chain::error_chain;
use crate::model::{Object, Ru};
use crate::store::Phase;
use crate::sync::error::SyncError;
use crate::sync::job::Job;
use crate::sync::plan::Step;
use crate::sync::run::Run;
use crate::sync::walks::closing_counts;
use crate::sync::walks::sweep::end_sweep;

impl Run<'_> {
    /// Finishes a sweep that was read completely: decides on the records that it missed, and counts what it read. While
    /// removals are refused or undecided, it is not finished. A first copy is: it has missed no record, and changes are
    /// not read before it is finished.
    pub(in crate::sync) async fn finish_sweep(&self, object: Object) -> Result<(), SyncError> {
        let is_settled = self.decide_nominations(object).await?;
        self.end_replacement(object).await?;
        let phase = self.read(move |tx| tx.phase(object)).await?;
        if !is_settled && phase != Phase::FirstCopy {
            return Ok(());
        }
        let unread = self.unread(object).await?;
        let finished = self.now();
        let ending = self.write(move |tx| {
            let open = unread + tx.count_nominated(object)? + tx.count_older(object)?;
            end_sweep(tx, object, finished, open)
        });
        ending.await?;
        if let Err(error) = self.carry_out_counts(object).await {
            if !error.concerns_one_resource() {
                return Err(error);
            }
            // They stay owed, and the sweep has read every record all the same.
            self.record_failure(Step::Counts(object), error_chain(&error), Ru::GET);
            self.results().failures_within.insert(Step::Counts(object), error);
        }
        self.decide_nominations(object).await?;
        Ok(())
    }

    /// Decides on an object's nominations outside of a verification, and reads the values that the answers omitted. Returns
    /// whether no nomination is left.
    pub(in crate::sync) async fn decide_nominations(&self, object: Object) -> Result<bool, SyncError> {
        let settled = Audit::new(self, object).decide_doubts().await?;
        if !matches!(self.job, Job::Push) {
            self.read_omitted(object).await?;
        }
        Ok(settled.is_settled())
    }

    /// Decides on the nominations that were made outside of a sweep: the details of these records were not found.
    ///
    /// If one of them was removed while a walk of this run was under way, the walk may have missed another record at the
    /// edge of a page, and the counts were equal because that one was missing and this one was still there. They are owed
    /// again.
    pub(in crate::sync) async fn decide_not_found(&self, object: Object) -> Result<(), SyncError> {
        let before = self.results().tally.removed;
        let settled = self.decide_nominations(object).await.map(drop);
        let mut counted = {
            let results = self.results();
            if results.tally.removed == before {
                return settled;
            }
            results.counted.clone()
        };
        counted.retain(|(of, _), _| *of == object);
        let owing = self.write(move |tx| {
            counted.into_iter().try_for_each(|((object, by), owed)| closing_counts::owe_again(tx, object, by, owed))
        });
        owing.await?;
        settled
    }
}
