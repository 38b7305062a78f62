//! Decides after the end of a run: what continues, what waits, and how long.

use super::{CurrentRun, DaemonHold, FLOOR, HoldReason, KEY, LOCKED, PASSING, Preemption, StateMachine, Trouble};
use crate::budget::{PollingBudget, decide_poll};
use crate::daemon::inputs_and_effects::Effect;
use crate::daemon::job::{self, FailureKind, PollFacts, QueuedJob, RunEnd, RunEnding, Trigger};
use crate::daemon::timetable::ScheduleKind;
use crate::model::{Instant, Ru, growing};
use crate::sync::{Job, JobKind, Suspension};

impl StateMachine {
    pub(super) fn ended(&mut self, ending: RunEnding, now: Instant, effects: &mut Vec<Effect>) {
        let Some(CurrentRun { job, preemption, .. }) = self.running.take() else {
            return;
        };
        if let Some(polled) = ending.polled {
            self.decide_next_poll(&polled, ending.requested, now);
        }
        if let Some(until) = ending.empty_until {
            self.hold = Some(DaemonHold { reason: HoldReason::Budget, until });
        }
        let locked = self.locked.take();
        let rest = job::rest(&job.job, ending.began);
        // What a person accepted is not what the service lacks in another window, or after an outage.
        let plain = Job { accept_removals: false, ..job.job.clone() };
        let later = job::rest(&plain, ending.began);
        // It stores no position: each further hold would have it spend from the beginning.
        let begins_anew = ending.requested && rest.full;
        // A push does not attempt what other runs failed at, and any run may need no request at all.
        let attempts = |trouble: &Trouble| ending.requested && (!job.job.is_push() || trouble.only_pushes);
        let continues = ending.end == RunEnd::Suspended(Suspension::Shutdown)
            && matches!(preemption, Some(Preemption::Changes | Preemption::Edits | Preemption::Reload));
        if !continues {
            effects.push(Effect::Finished(job.clone()));
        }
        match ending.end {
            RunEnd::Suspended(Suspension::Shutdown) if continues => {
                self.trouble.take_if(|trouble| attempts(trouble) && !trouble.partial);
                self.continues(&job, rest, effects);
            }
            RunEnd::Suspended(Suspension::Shutdown) if preemption == Some(Preemption::Pause) => {
                self.resume_at(now, later);
            }
            RunEnd::Suspended(Suspension::Shutdown) => {}
            RunEnd::Suspended(Suspension::Budget(until)) => {
                self.trouble.take_if(|trouble| attempts(trouble) && !trouble.partial);
                // A verification would start from the beginning, and spend the next budget, too.
                if rest.kind != JobKind::Verify {
                    self.resume_at(until, later);
                }
                if job.job.is_push() {
                    self.edits_wait_until = Some(until);
                }
            }
            RunEnd::Suspended(Suspension::Hold(until)) => {
                self.hold = Some(DaemonHold { reason: HoldReason::RateLimit, until });
                if !begins_anew {
                    self.resume_at(until, rest);
                }
            }
            RunEnd::Suspended(Suspension::Locked) => {
                // Whoever has the lock may be done at any time.
                let (since, runs) = locked.map_or((now, 1), |(since, runs)| (since, runs + 1));
                self.locked = Some((since, runs));
                if !begins_anew {
                    self.resume_at(now.plus(growing(LOCKED, runs)), rest);
                }
            }
            // The next run of the schedule goes on.
            RunEnd::Done | RunEnd::Suspended(Suspension::Changes) => {
                self.resumed.retain(|(_, known)| *known != job.job);
                self.trouble.take_if(|trouble| attempts(trouble) || trouble.only_pushes);
            }
            RunEnd::Failed { kind, reason, exit } => {
                self.failed(&job.job, kind, reason, exit, now);
                if job.trigger == Trigger::Schedule && !self.stopping {
                    self.resume_failed(&plain, later, kind, now);
                }
            }
        }
        let waits = |queued: &QueuedJob| job::serves(&queued.job, ScheduleKind::Changes);
        if preemption == Some(Preemption::Changes) && !self.queue.iter().any(waits) {
            // It ended before it was preempted: the changes are still due.
            self.enqueue(Job::sync(), Trigger::Schedule, effects);
        }
        if self.stopping {
            effects.push(Effect::Exit);
        }
    }

    /// Notes what a run that asked for changes showed, and decides when the next is due where that is automatic.
    fn decide_next_poll(&mut self, facts: &PollFacts, requested: bool, now: Instant) {
        if facts.changed {
            self.last_change = Some(now);
        }
        let before = if self.polled.0 == facts.window { self.polled.1 } else { Ru::ZERO };
        self.polled = (facts.window, before + if requested { facts.budget.idle_cost } else { Ru::ZERO });
        if self.timetable.poll.is_none() {
            return;
        }
        let budget = PollingBudget { polled: self.polled.1, ..facts.budget };
        let interval = decide_poll(&budget, self.last_change, self.timetable.sync.min_interval, now);
        self.timetable.poll = Some(interval);
        self.covered[0] = now;
        self.due_at[0] = self.timetable.next_tick(ScheduleKind::Changes, now).map(|due| due.max(now.plus(FLOOR)));
    }

    fn resume_failed(&mut self, job: &Job, rest: Job, kind: FailureKind, now: Instant) {
        if let FailureKind::Partial { next_try, .. } = kind {
            // The first delay is the shortest, whatever a run says. Scheduled jobs update the rest meanwhile.
            self.resume_at(next_try.max(now.plus(PASSING.0)), job::rest(job, true));
        } else if !job.is_push() {
            // Retried when the delay is over, not at the next scheduled time, which may be a week away. Edits are due again
            // when their stored delays say so.
            self.resume_at(now, rest);
        }
    }

    /// Has a job run at a time, or earlier if it is resumed earlier anyway.
    pub(super) fn resume_at(&mut self, at: Instant, job: Job) {
        match self.resumed.iter_mut().find(|(_, known)| *known == job) {
            Some((known, _)) => *known = at.min(*known),
            None => self.resumed.push((at, job)),
        }
    }

    /// The job was preempted: one run fetches the due changes and continues the job.
    fn continues(&mut self, job: &QueuedJob, rest: Job, effects: &mut Vec<Effect>) {
        let is_done_too = |waiting: &QueuedJob| waiting.trigger == Trigger::Schedule && waiting.job == rest;
        self.queue.retain(|waiting| !is_done_too(waiting));
        effects.push(Effect::Preempted(job.clone()));
        self.queue.push(QueuedJob { job: rest, ..job.clone() });
        self.queue.sort_by_key(QueuedJob::rank);
    }

    fn failed(&mut self, job: &Job, kind: FailureKind, reason: String, exit: u8, now: Instant) {
        let is_push = job.is_push() && kind != FailureKind::Key;
        if let (true, FailureKind::Service { next_try }) = (is_push, kind) {
            self.edits_wait_until = Some(next_try);
        }
        if let Some(known) = self.trouble.as_mut().filter(|known| is_push && !known.only_pushes) {
            // Edits have delays of their own, and move none of other runs.
            known.runs += 1;
            return;
        }
        let known = self.trouble.as_ref();
        let (since, runs) = known.map_or((now, 1), |known| (known.since, known.runs + 1));
        let only_pushes = job.is_push() && known.is_none_or(|known| known.only_pushes);
        let mut delayed = known.map_or([0; 2], |known| known.delayed);
        let mut after = |of: usize, delays| {
            delayed[of] += 1;
            now.plus(growing(delays, delayed[of]))
        };
        let next_try = match kind {
            FailureKind::Partial { next_try, attempted } => {
                // The service answered, as in a run that ends well.
                delayed = if attempted { [0; 2] } else { delayed };
                next_try
            }
            FailureKind::Key => after(0, KEY),
            FailureKind::Passing => after(1, PASSING),
            FailureKind::Service { next_try } => next_try.max(now.plus(FLOOR)),
        };
        let (partial, is_of_key) = (matches!(kind, FailureKind::Partial { .. }), kind == FailureKind::Key);
        self.trouble = Some(Trouble { since, reason, exit, runs, delayed, next_try, partial, is_of_key, only_pushes });
    }
}
