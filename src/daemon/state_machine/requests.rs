//! Handles users' requests on the control socket.

use super::{HoldReason, Preemption, StateMachine};
use crate::daemon::inputs_and_effects::{DaemonAnswer, DaemonRequest, Effect};
use crate::daemon::job::Trigger;
use crate::model::Instant;
use crate::sync::Job;

impl StateMachine {
    /// Processes a request; each is answered exactly once.
    pub(super) fn asked(&mut self, reply: u64, request: DaemonRequest, now: Instant, effects: &mut Vec<Effect>) {
        let answer = match request {
            _ if self.stopping => DaemonAnswer::Unavailable { reason: "the daemon is stopping".into() },
            DaemonRequest::Run(job) => {
                let job = self.enqueue(job, Trigger::Manual, effects);
                DaemonAnswer::Accepted { job, waits_until: self.hold(now).map(|hold| hold.until) }
            }
            DaemonRequest::StopSweeps => {
                let withdrawn = self.queue.extract_if(.., |queued| matches!(queued.job, Job::Resync { .. }));
                effects.extend(withdrawn.map(Effect::Withdrawn));
                // Verifications and pushes do not use sweeps: an interrupted sweep is discarded while they run.
                if !self.preempt(Preemption::Forget, effects) {
                    self.forget_sweeps(effects);
                }
                DaemonAnswer::Done
            }
            DaemonRequest::Pause => {
                self.paused_since.get_or_insert(now);
                let withdrawn = self.queue.extract_if(.., |queued| queued.trigger == Trigger::Schedule);
                effects.extend(withdrawn.map(Effect::Withdrawn));
                if self.running.as_ref().is_some_and(|running| running.job.trigger == Trigger::Schedule) {
                    self.preempt(Preemption::Pause, effects);
                }
                effects.push(Effect::StorePause(reply, self.paused_since));
                return;
            }
            DaemonRequest::ClearHold => {
                self.hold.take_if(|hold| hold.reason == HoldReason::RateLimit);
                if let (None, Some((at, _))) = (self.hold, &mut self.resume_at) {
                    *at = (*at).min(now);
                }
                self.maintenance += 1;
                effects.push(Effect::ClearHold);
                DaemonAnswer::Done
            }
            DaemonRequest::Resume => {
                if self.paused_since.take().is_some() {
                    // Everything that became due in the meantime is one run.
                    self.enqueue(Job::sync(), Trigger::Schedule, effects);
                }
                effects.push(Effect::StorePause(reply, None));
                return;
            }
        };
        effects.push(Effect::Answer(reply, answer));
    }
}
