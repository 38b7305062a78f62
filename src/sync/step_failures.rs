//! Steps that failed although the service answered other requests of the run, or whose requests had no good answer before
//! the budget ended; where nothing was answered, the first step, which all others wait for. Pure, but for its entry.
//!
//! An endpoint that fails for ever must neither slow down what works nor be requested in every run. So the schedule
//! continues, and a scheduled run that comes to such a step before its next attempt is due lets it fail at once: with the
//! error of the last attempt, and without a request. A run of a person attempts it, and so does the first run with another key
//! or address: what fails has the delays of the key and address that saw it.
//!
//! # Invariants
//! - A step that keeps failing is attempted at most 24 times a day by the schedule, after the first hours, and takes no more
//!   than its share of the budget: other steps have the rest.
//! - A run that left a step out has failed: what was not read is not reported as read.
//! - What a failure cost is stored in RU, and paid by the budget of today; time is that of the ledger's steady clock.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::engine::FAILING_SHARE;
use super::error::SyncError;
use super::job::Job;
use super::plan::Step;
use crate::budget::{LONGEST_HOLD, Limits};
use crate::model::{Instant, Resource, Ru, growing};
use crate::store::{MirrorTx, ReadTx, StateKey, StoreError};

/// The first and the longest delay; it doubles in between.
const DELAYS: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(3600));
/// After so many failures in a row, the next attempt waits until the budget has paid for the last one.
const PASSING: u32 = 2;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StepFailures(Vec<StepFailure>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepFailure {
    pub(super) step: Step,
    /// The key and address, entered when it is stored.
    #[serde(default)]
    seen_by: String,
    failures: u32,
    /// The last one, by the ledger's steady clock, or the end of the hold that it met.
    failed_at: Instant,
    cost: Ru,
    pub(super) error: String,
    /// Whether the last run came to the step. A step behind another failure is not attempted before that one succeeds,
    /// and a step that is no longer needed never is.
    reached: bool,
}

/// What pays for the failure of everything that a job meets: for edits nothing, as their own delays know no budget.
pub fn limits_of(job: &Job, limits: &Limits) -> Limits {
    if job.is_push() { Limits { limit: Ru::new(u64::MAX), ..*limits } } else { *limits }
}

impl StepFailure {
    /// How long the next attempt still waits; `None` if it is due. A failure that is later than the end of a hold was stored
    /// by a clock that was lost.
    pub(super) fn wait(&self, steady: Instant, limits: &Limits) -> Option<Duration> {
        // A fault of minutes delays little, whatever the budget.
        // What a run may spend: one window, and the next if it begins meanwhile. A smaller budget pays for no more than that.
        let cost = self.cost.min(Ru::new(limits.limit.get().saturating_mul(2)));
        let paid = (self.failures > PASSING).then(|| limits.time_to_earn(cost, FAILING_SHARE));
        let wait = self.failed_at.plus(growing(DELAYS, self.failures).max(paid.unwrap_or_default())).since(steady);
        (!wait.is_zero() && self.failed_at <= steady.plus(LONGEST_HOLD)).then_some(wait)
    }
}

/// What a run has learnt of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StepEnd {
    /// It was completed, or interrupted while it made progress.
    Answered,
    /// It failed before, and its next attempt was not due.
    NotDue,
    /// It failed alone, at this cost, which the share of the budget for steps that fail is to pay: others were answered.
    Failed { error: String, cost: Ru },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StepCost {
    pub(super) spent: Ru,
    /// Those that had a good answer.
    pub(super) answered: Ru,
}

impl StepCost {
    pub(super) fn since(self, before: StepCost) -> StepCost {
        StepCost {
            spent: self.spent.saturating_sub(before.spent),
            answered: self.answered.saturating_sub(before.answered),
        }
    }

    /// The cost of requests without a good answer.
    pub(super) fn wasted(self) -> Ru {
        self.spent.saturating_sub(self.answered)
    }

    /// What a step that failed took for nothing: what a short list has read before that is read again, and the pages of a list
    /// that does not advance were answered.
    pub(super) fn of_failed(self, step: Step, error: &SyncError) -> Ru {
        let is_in_vain = step.begins_again() || matches!(error, SyncError::NotAdvancing { .. });
        if is_in_vain { self.spent } else { self.wasted() }
    }

    /// Whether a step that was interrupted made progress: most of it was answered. Requests that were refused for a while may
    /// cost nothing.
    pub(super) fn is_progress(self, refusals: u32) -> bool {
        self.answered > self.wasted().max(Ru::new(u64::from(refusals)))
    }
}

impl StepFailures {
    pub fn load(tx: &ReadTx<'_>) -> Result<StepFailures, StoreError> {
        Ok(tx.state(&StateKey::StepFailures)?.unwrap_or_default())
    }

    /// Those that a key and address have seen.
    pub(super) fn load_seen_by(tx: &ReadTx<'_>, seen_by: &str) -> Result<StepFailures, StoreError> {
        let mut known = StepFailures::load(tx)?;
        known.0.retain(|failure| failure.seen_by == seen_by);
        Ok(known)
    }

    /// Stores the failures, of this key and address only.
    pub(super) fn store(mut self, tx: &MirrorTx<'_>, seen_by: &str) -> Result<(), StoreError> {
        self.0.iter_mut().for_each(|failure| failure.seen_by = seen_by.to_string());
        match self.0.is_empty() {
            true => tx.clear_state(&StateKey::StepFailures),
            false => tx.set_state(&StateKey::StepFailures, &self),
        }
    }

    pub(super) fn of(&self, step: Step) -> Option<&StepFailure> {
        self.0.iter().find(|failure| failure.step == step)
    }

    /// The failures of steps at a resource because the key lacks its scope.
    pub(super) fn of_scope(&self, resource: Resource) -> impl Iterator<Item = &StepFailure> {
        let why = format!("the key lacks {}", resource.read_scope());
        self.0.iter().filter(move |failure| failure.step.resource() == Some(resource) && failure.error == why)
    }

    /// Whether the service answered nothing in the last attempt.
    pub fn are_of_everything(&self) -> bool {
        self.of(Step::Identity).is_some_and(|failure| failure.reached)
    }

    /// How long the first of the next attempts still waits, of the steps at which the last run failed; `None` if there
    /// are none. Other steps do not count: the same run would not come to them, and be repeated without end.
    pub fn shortest_wait(&self, steady: Instant, limits: &Limits) -> Option<Duration> {
        let reached = self.0.iter().filter(|failure| failure.reached);
        reached.map(|failure| failure.wait(steady, limits).unwrap_or_default()).min()
    }

    /// The failures after a run whose steps ended so.
    pub(super) fn after_run(mut self, steps: &BTreeMap<Step, StepEnd>, steady: Instant) -> StepFailures {
        self.0.iter_mut().for_each(|known| known.reached = steps.get(&known.step) == Some(&StepEnd::NotDue));
        for (step, end) in steps.iter().filter(|(_, end)| **end != StepEnd::NotDue) {
            let failures = self.of(*step).map_or(0, |known| known.failures).saturating_add(1);
            self.0.retain(|known| known.step != *step);
            if let StepEnd::Failed { error, cost } = end {
                let (step, seen_by, error, cost) = (*step, String::new(), error.clone(), *cost);
                self.0.push(StepFailure { step, seen_by, failures, failed_at: steady, cost, error, reached: true });
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Object;

    const FIRST: Duration = DELAYS.0;
    const STEP: Step = Step::Changes(Object::Company);

    fn failing(step: Step, cost: u64) -> BTreeMap<Step, StepEnd> {
        BTreeMap::from([(step, StepEnd::Failed { error: "500".to_string(), cost: Ru::new(cost) })])
    }

    fn a_day(limit: u64) -> Limits {
        Limits { limit: Ru::new(limit), window: Duration::from_secs(86_400), charge_failed: true }
    }

    fn at(minutes: u64) -> Instant {
        Instant::EPOCH.plus(Duration::from_secs(1_000_000 + minutes * 60))
    }

    #[test]
    fn failing_step_waits_longer_each_time_and_a_completed_one_is_forgotten() {
        let failed = failing(STEP, 0);
        let (mut failures, mut now, mut waits) = (StepFailures::default(), 0, Vec::new());
        for _ in 0..8 {
            failures = failures.after_run(&failed, at(now));
            let wait = failures.of(STEP).unwrap().wait(at(now), &a_day(100)).unwrap();
            assert_eq!(failures.shortest_wait(at(now), &a_day(100)), Some(wait));
            waits.push(wait.as_secs() / 60);
            now += wait.as_secs() / 60;
            assert_eq!(failures.of(STEP).unwrap().wait(at(now), &a_day(100)), None, "it is due");
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert!(failures.of(STEP).unwrap().wait(Instant::EPOCH, &a_day(100)).is_none(), "of a clock that was lost");
        assert_eq!(failures.of(Step::Changes(Object::Contact)), None);
        let text = serde_json::to_string(&failures).unwrap();
        assert_eq!(serde_json::from_str::<StepFailures>(&text).unwrap(), failures, "{text}");
        let after = failures.after_run(&BTreeMap::from([(STEP, StepEnd::Answered)]), at(now));
        assert_eq!(after, StepFailures::default());
    }

    #[test]
    fn third_failure_waits_until_its_share_of_the_budget_has_paid_for_it() {
        let failed = failing(STEP, 100);
        let once = StepFailures::default().after_run(&failed, at(0));
        assert_eq!(once.shortest_wait(at(0), &a_day(100)), Some(FIRST));
        let twice = once.after_run(&failed, at(1));
        assert_eq!(twice.shortest_wait(at(1), &a_day(100)), Some(2 * FIRST));
        let often = twice.after_run(&failed, at(1));
        let days =
            |now, limit| often.of(STEP).unwrap().wait(at(now), &a_day(limit)).map(|wait| wait.as_secs() / 86_400);
        assert_eq!((days(1, 100), days(1 + 4 * 1_440, 100)), (Some(4), None));
        assert_eq!((days(1, 200), days(1 + 2 * 1_440, 200)), (Some(2), None), "a larger budget pays sooner");
        assert_eq!(days(1, 13), Some(8), "a smaller one pays for what it lets a run spend");
        let edits = often.shortest_wait(at(1), &limits_of(&Job::push(), &a_day(100)));
        assert_eq!(edits, Some(4 * FIRST), "edits wait for no budget");
    }

    #[test]
    fn interrupted_step_made_progress_if_most_of_it_was_answered() {
        let cost = |spent, answered| StepCost { spent: Ru::new(spent), answered: Ru::new(answered) };
        for (spent, answered, progress, wasted) in
            [(0, 0, false, 0), (1, 1, true, 0), (2, 1, false, 1), (5, 3, true, 2)]
        {
            let step = cost(10 + spent, 7 + answered).since(cost(10, 7));
            assert_eq!((step.is_progress(0), step.wasted().get()), (progress, wasted), "{step:?}");
        }
        assert_eq!([1, 2].map(|refusals| cost(2, 2).is_progress(refusals)), [true, false]);
    }

    #[test]
    fn only_the_steps_that_the_last_run_came_to_say_when_it_is_repeated() {
        let failing = |step| failing(step, 0);
        let (first, second) = (Step::Sweep(Object::Company), STEP);
        let failures = StepFailures::default().after_run(&failing(first), at(0));
        assert_eq!(failures.shortest_wait(at(0), &a_day(100)), Some(FIRST));
        // The second stops the next run before it comes to the first, which has been due since the first minute.
        let failures = failures.after_run(&failing(second), at(5));
        assert_eq!(failures.shortest_wait(at(5), &a_day(100)), Some(FIRST));
        assert_eq!(failures.of(first).unwrap().wait(at(5), &a_day(100)), None, "it is due, and is not reached");
        let failures = failures.after_run(&failing(second), at(6));
        assert_eq!(failures.shortest_wait(at(6), &a_day(100)), Some(2 * FIRST));
        // Neither fails alone: the run says which is not due.
        let failures = failures.after_run(&BTreeMap::from([(second, StepEnd::NotDue)]), at(7));
        assert_eq!(failures.shortest_wait(at(7), &a_day(100)), Some(FIRST));
        assert!(failures.of(first).is_some(), "its number of failures is kept");
        let failures = failures.after_run(&BTreeMap::new(), at(8));
        assert_eq!(failures.shortest_wait(at(8), &a_day(100)), None, "no step failed in the last run");
    }
}
