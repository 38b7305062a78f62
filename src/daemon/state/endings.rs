//! What the end of a run means: what continues, what waits, and how long.

use super::{CurrentRun, DaemonHold, HoldReason, KEY, PASSING, Preemption, StateMachine, Trouble};
use crate::daemon::input::Effect;
use crate::daemon::job::{self, FailureKind, QueuedJob, RunEnd, RunEnding, Trigger};
use crate::model::Instant;
use crate::sync::{Job, Suspension};

impl StateMachine {
    /// Takes the end of the run under way.
    pub(super) fn ended(&mut self, ending: RunEnding, now: Instant, effects: &mut Vec<Effect>) {
        let Some(CurrentRun { job, preemption, .. }) = self.running.take() else {
            return;
        };
        if let Some(until) = ending.empty_until {
            self.hold = Some(DaemonHold { reason: HoldReason::Budget, until });
        }
        match ending.end {
            RunEnd::Suspended(Suspension::Shutdown)
                if matches!(preemption, Some(Preemption::Changes | Preemption::Edits | Preemption::Reload)) =>
            {
                self.continues(&job, effects);
            }
            RunEnd::Suspended(Suspension::Shutdown) => self.finished(job, preemption, effects),
            RunEnd::Suspended(Suspension::Budget(until)) => {
                self.trouble = None;
                self.resume_at = Some((until, job.job.accept()));
                effects.push(Effect::Finished(job));
            }
            RunEnd::Suspended(Suspension::Hold(until)) => {
                self.hold = Some(DaemonHold { reason: HoldReason::RateLimit, until });
                self.resume_at = Some((until, job.job.accept()));
                effects.push(Effect::Finished(job));
            }
            RunEnd::Done => {
                self.trouble = None;
                self.finished(job, preemption, effects);
            }
            RunEnd::Failed { kind, reason, exit } => {
                self.failed(kind, reason, exit, now);
                let again = job.trigger == Trigger::Schedule && self.paused_since.is_none() && !self.stopping;
                let same = job.job.clone();
                effects.push(Effect::Finished(job));
                if again {
                    // Tried again when the delay is over, not only when the schedule comes round: that may be a week.
                    self.enqueue(same, Trigger::Schedule, effects);
                }
            }
        }
        let waits = |queued: &QueuedJob| matches!(queued.job, Job::Sync { .. });
        if preemption == Some(Preemption::Changes) && !self.queue.iter().any(waits) {
            // It ended before it was preempted: the changes are still due.
            self.enqueue(Job::sync(), Trigger::Schedule, effects);
        }
        if self.stopping {
            self.exit(effects);
        }
    }

    fn finished(&mut self, job: QueuedJob, preemption: Option<Preemption>, effects: &mut Vec<Effect>) {
        if preemption == Some(Preemption::Forget) {
            self.forget_sweeps(effects);
        }
        effects.push(Effect::Finished(job));
    }

    /// The job was preempted: one run brings the changes that are due and what is left of it.
    fn continues(&mut self, job: &QueuedJob, effects: &mut Vec<Effect>) {
        self.trouble = None;
        let remainder = job::remainder(&job.job);
        self.queue.retain(|waiting| waiting.trigger == Trigger::Manual || waiting.job != Job::sync());
        effects.push(Effect::Preempted(job.clone()));
        self.queue.push(QueuedJob { job: remainder, id: job.id, trigger: job.trigger });
        self.queue.sort_by_key(QueuedJob::rank);
    }

    fn failed(&mut self, kind: FailureKind, reason: String, exit: u8, now: Instant) {
        let (since, runs) = self.trouble.as_ref().map_or((now, 0), |known| (known.since, known.runs));
        let (first, longest) = match kind {
            FailureKind::Key => KEY,
            FailureKind::Passing => PASSING,
        };
        let delay = first.saturating_mul(1 << runs.min(16)).min(longest);
        self.trouble = Some(Trouble { since, reason, exit, runs: runs + 1, next_try: now.plus(delay), kind });
    }
}
