//! The daemon's state machine: inputs in, effects out. It does not await, read a clock or touch a file.
//!
//! # Invariants
//! - One run at a time. A long run is preempted for changes and edits at a page boundary, and resumed after them.
//! - A tick whose job is already queued adds no second one; ticks missed while paused, suspended or stopped become one.
//! - Whatever the timetable, two scheduled runs of a kind start at least [`FLOOR`] apart.
//! - During a hold and with an exhausted budget nothing starts; missed jobs start at its end.
//! - After a failure of everything the schedule waits, longer after each one of its kind up to a bound, until the service
//!   answers; manual jobs do not wait.
//! - A trouble of runs is over when a run that asked the service ends well, or with another configuration or key.
//! - Once asked to stop, nothing new starts, and the running job stops at a page boundary.

mod after_run;
#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::inputs_and_effects::{AcceptedJob, DaemonAnswer, DaemonRequest, Effect, Input};
use super::job::{self, QueuedJob, Trigger};
use super::timetable::{ScheduleKind, Timetable};
use crate::model::{Instant, Ru, growing};
use crate::sync::{Job, JobKind};

/// How long a run is not preempted for due changes.
pub const RUN_BEFORE_CHANGES: Duration = Duration::from_secs(60);

/// How long a run is not preempted for an edit: users wait for edits.
pub const RUN_BEFORE_EDITS: Duration = Duration::from_secs(2);

/// The minimum time between two scheduled runs of a kind, in case the timetable is wrong.
pub const FLOOR: Duration = Duration::from_secs(5);

/// The first and the longest delay after consecutive failures of the service or the disk; the delay doubles in between.
const PASSING: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(3600));

/// The same for a refused key, which only the user can change.
const KEY: (Duration, Duration) = (Duration::from_secs(900), Duration::from_secs(6 * 3600));

/// The same for a locked mirror: each run has waited before it gave up, and may have spent what it cannot store.
const LOCKED: (Duration, Duration) = (FLOOR, Duration::from_secs(300));

/// Why a run gives way, the weakest reason first: those that end the job take precedence over those that let another go
/// first, and changes over edits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Preemption {
    Edits,
    Reload,
    Changes,
    Pause,
}

#[derive(Clone, Debug, PartialEq)]
struct CurrentRun {
    job: QueuedJob,
    since: Instant,
    preemption: Option<Preemption>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HoldReason {
    RateLimit,
    Budget,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonHold {
    pub reason: HoldReason,
    pub until: Instant,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    pub since: Instant,
    #[serde(rename = "why")]
    pub reason: String,
    pub exit: u8,
    pub runs: u32,
    /// Those that a refused key ended, and those that another failure of everything did, since the service answered.
    #[serde(skip)]
    pub(super) delayed: [u32; 2],
    pub next_try: Instant,
    /// Whether only a part of the mirror fails: the schedule continues for the rest.
    pub partial: bool,
    #[serde(skip)]
    pub(super) is_of_key: bool,
    #[serde(skip)]
    pub(super) only_pushes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PastRuns {
    /// A number from 0 to 1 that stays the same for a mirror.
    pub part: f64,
    /// The time up to which each kind has run, in the order of [`ScheduleKind::ALL`].
    pub covered: [Instant; 3],
    /// When the last run of each kind began, where it did not end, and how many have failed in a row.
    pub unended: [Option<(Instant, u32)>; 3],
    pub paused_since: Option<Instant>,
    pub is_empty: bool,
    /// When a run last found a change.
    pub last_change: Option<Instant>,
    /// The number of the budget window, and what runs for changes had spent in it.
    pub polled: (u32, Ru),
}

#[derive(Clone, Debug)]
pub struct StateMachine {
    pub timetable: Timetable,
    covered: [Instant; 3],
    last_change: Option<Instant>,
    polled: (u32, Ru),
    /// When each kind is next due: cached, because it takes a search.
    due_at: [Option<Instant>; 3],
    pub(super) queue: Vec<QueuedJob>,
    running: Option<CurrentRun>,
    /// How often the configuration is being reloaded, and holds are being cleared; nothing starts meanwhile.
    maintenance: u32,
    pub paused_since: Option<Instant>,
    hold: Option<DaemonHold>,
    pub trouble: Option<Trouble>,
    /// Since when another program keeps the mirror locked, and the runs in a row that gave up for it.
    pub(super) locked: Option<(Instant, u32)>,
    /// When the budget allows edits again, or a key that nothing answered, after a push that ended so.
    edits_wait_until: Option<Instant>,
    /// What is left of suspended runs and failed ones, and when it is resumed: each job once.
    resumed: Vec<(Instant, Job)>,
    settles_at: Instant,
    reload: bool,
    stopping: bool,
    next_id: u64,
}

impl StateMachine {
    /// A daemon that starts: jobs missed since the past runs are due now. Scheduled ones first wait for this mirror's delay,
    /// so that a fleet that starts at once does not send requests at once; an empty mirror does not wait.
    pub fn new(timetable: Timetable, past: PastRuns, now: Instant) -> StateMachine {
        StateMachine {
            settles_at: if past.is_empty { now } else { now.plus(timetable.delay) },
            due_at: due_at(&timetable, past.covered, past.unended),
            timetable,
            covered: past.covered,
            last_change: Some(past.last_change.unwrap_or(now)),
            polled: past.polled,
            queue: Vec::new(),
            running: None,
            maintenance: 0,
            paused_since: past.paused_since,
            hold: None,
            trouble: None,
            locked: None,
            edits_wait_until: None,
            resumed: Vec::new(),
            reload: false,
            stopping: false,
            next_id: 1,
        }
    }

    pub fn on(&mut self, input: Input, now: Instant) -> Vec<Effect> {
        let mut effects = Vec::new();
        match input {
            Input::Tick => {}
            Input::ClockMoved => self.clock_moved(now, &mut effects),
            Input::Asked(request) => self.asked(request, now, &mut effects),
            Input::EditsDue => {
                // After a pause, and at the end of the budget window, a run sends what was not sent meanwhile. The edits of
                // a running push were chosen before the new ones were queued, so it does not count.
                if self.paused_since.is_none() && self.edits_wait_until.is_none_or(|until| until <= now) {
                    self.enqueue(Job::push(), Trigger::Schedule, &mut effects);
                }
            }
            Input::Ended(ending) => self.ended(ending, now, &mut effects),
            Input::Reload => {
                self.reload = true;
                // The running job uses the old configuration; the rest of it runs with the new one.
                self.preempt(Preemption::Reload, &mut effects);
            }
            Input::Reloaded(timetable) => {
                self.maintenance = self.maintenance.saturating_sub(1);
                if let Some(timetable) = timetable {
                    self.reloaded(timetable, now, &mut effects);
                }
            }
            Input::Maintained => self.maintenance = self.maintenance.saturating_sub(1),
            Input::NewKey => {
                let was_refused = self.trouble.take_if(|trouble| trouble.is_of_key).is_some();
                // A manual job that failed is not queued again, and the next scheduled one may be hours away.
                if was_refused && self.running.is_none() && self.paused_since.is_none() {
                    self.enqueue(Job::sync(), Trigger::Schedule, &mut effects);
                }
            }
            Input::Stop => {
                let was_stopping = std::mem::replace(&mut self.stopping, true);
                match self.running {
                    Some(_) => effects.push(Effect::Preempt),
                    None if was_stopping => {}
                    None => effects.push(Effect::Exit),
                }
            }
        }
        self.check_schedule(now, &mut effects);
        self.start(now, &mut effects);
        effects
    }

    pub fn wakes_at(&self, now: Instant) -> Option<Instant> {
        let hold = self.hold.map(|hold| hold.until);
        let scheduled = self.due_at.into_iter().flatten().chain(self.resumed.iter().map(|(at, _)| *at));
        hold.into_iter()
            .chain(self.trouble.as_ref().map(|trouble| trouble.next_try))
            .chain([self.settles_at])
            .chain(self.running.as_ref().map(|running| running.since.plus(RUN_BEFORE_EDITS)))
            .chain(scheduled.filter(|_| self.paused_since.is_none()))
            .filter(|at| *at > now)
            .min()
    }

    pub fn running(&self) -> Option<(&QueuedJob, Instant)> {
        self.running.as_ref().map(|running| (&running.job, running.since))
    }

    pub fn hold(&self, now: Instant) -> Option<DaemonHold> {
        self.hold.filter(|hold| hold.until > now)
    }

    /// When a kind runs next: what a killed run or a pause has left is due before its next tick.
    pub fn next_due(&self, kind: ScheduleKind, now: Instant) -> Option<Instant> {
        self.due_at[kind as usize].map(|due| due.max(now))
    }

    fn reloaded(&mut self, timetable: Timetable, now: Instant, effects: &mut Vec<Effect>) {
        self.timetable = timetable;
        self.due_at = due_at(&self.timetable, self.covered, [None; 3]);
        self.trouble = None;
        self.edits_wait_until = None;
        // The budget may be larger now. If it is still exhausted, the next run ends at once without a request.
        self.hold.take_if(|hold| hold.reason == HoldReason::Budget);
        if self.hold.is_none() {
            self.resume_by(now);
        }
        effects.push(Effect::Reschedule);
    }

    /// Processes a request; each is answered exactly once.
    fn asked(&mut self, request: DaemonRequest, now: Instant, effects: &mut Vec<Effect>) {
        let answer = match request {
            _ if self.stopping => DaemonAnswer::Unavailable("the daemon is stopping".into()),
            DaemonRequest::Run(job) => {
                let job = self.enqueue(job, Trigger::Manual, effects);
                DaemonAnswer::Accepted(AcceptedJob { job, waits_until: self.hold(now).map(|hold| hold.until) })
            }
            DaemonRequest::Pause => {
                self.paused_since.get_or_insert(now);
                if self.running.as_ref().is_some_and(|running| running.job.trigger == Trigger::Schedule) {
                    self.preempt(Preemption::Pause, effects);
                }
                effects.push(Effect::StorePause(self.paused_since));
                return;
            }
            DaemonRequest::ClearHold => {
                self.hold.take_if(|hold| hold.reason == HoldReason::RateLimit);
                if self.hold.is_none() {
                    self.resume_by(now);
                }
                self.maintenance += 1;
                effects.push(Effect::ClearHold);
                DaemonAnswer::Done
            }
            DaemonRequest::Resume => {
                if self.paused_since.take().is_some() {
                    // Whatever became due in the meantime, changes are read at once.
                    let first = self.enqueue(Job::sync(), Trigger::Schedule, effects);
                    self.queue.sort_by_key(|queued| (queued.rank(), queued.id != first));
                }
                effects.push(Effect::StorePause(None));
                return;
            }
        };
        effects.push(Effect::Answer(answer));
    }

    /// Enqueues what is due. In a pause it stays due, and for the next process if this one stops.
    fn check_schedule(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        if self.paused_since.is_some() || self.stopping {
            return;
        }
        for (place, kind) in ScheduleKind::ALL.into_iter().enumerate() {
            if self.due_at[place].is_none_or(|due| due > now) {
                continue;
            }
            self.covered[place] = now;
            self.due_at[place] = self.timetable.next_tick(kind, now).map(|due| due.max(now.plus(FLOOR)));
            self.due(kind, now, effects);
        }
        let running = self.running.as_ref().map(|running| &running.job.job);
        let due = |(at, job): &mut (Instant, Job)| *at <= now && running != Some(&*job);
        for (_, job) in self.resumed.extract_if(.., due).collect::<Vec<_>>() {
            self.enqueue(job, Trigger::Schedule, effects);
        }
    }

    fn resume_by(&mut self, latest: Instant) {
        self.resumed.iter_mut().for_each(|(at, _)| *at = latest.min(*at));
    }

    fn due(&mut self, kind: ScheduleKind, now: Instant, effects: &mut Vec<Effect>) {
        let is_young = |running: &CurrentRun| running.since.plus(RUN_BEFORE_CHANGES) > now;
        let current = self.running.as_ref().map(|running| (job::serves(&running.job.job, kind), is_young(running)));
        match current {
            // The running job's data is as recent as that of another run. A running sweep is the sweep that is due.
            Some((true, is_young)) if is_young || kind == ScheduleKind::Sweep => {}
            // The rest of the running job begins with the changes.
            Some((_, false)) if kind == ScheduleKind::Changes && self.preempt(Preemption::Changes, effects) => {}
            _ => drop(self.enqueue(job::scheduled(kind), Trigger::Schedule, effects)),
        }
    }

    /// Enqueues a job, or finds an equivalent one. Returns its number.
    fn enqueue(&mut self, job: Job, trigger: Trigger, effects: &mut Vec<Effect>) -> u64 {
        let mut id = self.next_id;
        if let Some(known) = self.queue.iter_mut().find(|queued| queued.job == job) {
            id = known.id;
            if trigger == Trigger::Manual {
                known.trigger = trigger;
            }
        } else {
            let queued = QueuedJob { id, job, trigger };
            self.next_id += 1;
            effects.push(Effect::Queued(queued.clone()));
            self.queue.push(queued);
        }
        self.queue.sort_by_key(QueuedJob::rank);
        id
    }

    /// Tells the running job to stop at a page boundary, if it can be resumed without extra cost. Returns whether it does.
    fn preempt(&mut self, reason: Preemption, effects: &mut Vec<Effect>) -> bool {
        let can_stop = |running: &&mut CurrentRun| match running.job.job.kind {
            JobKind::Sync | JobKind::Resync => true,
            // It stops only for what ends the sending: for no other job.
            JobKind::Push => matches!(reason, Preemption::Pause | Preemption::Reload),
            JobKind::Verify => false,
        };
        let Some(running) = self.running.as_mut().filter(can_stop) else { return false };
        if running.preemption.is_none() {
            effects.push(Effect::Preempt);
        }
        running.preemption = running.preemption.max(Some(reason));
        true
    }

    fn clock_moved(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        for covered in &mut self.covered {
            // A clock that was set back repeats times that were already processed; they are due again.
            *covered = (*covered).min(now);
        }
        self.last_change = self.last_change.map(|at| at.min(now));
        self.due_at = due_at(&self.timetable, self.covered, [None; 3]);
        // The engine checks the hold and the budget; if they still apply, the next run ends at once without a request.
        self.hold = None;
        self.edits_wait_until = None;
        if let Some(trouble) = &mut self.trouble {
            trouble.next_try = trouble.next_try.min(now.plus(PASSING.1));
            trouble.since = trouble.since.min(now);
        }
        self.resume_by(now.plus(PASSING.1));
        if let Some((since, _)) = &mut self.locked {
            *since = (*since).min(now);
        }
        if let Some(running) = &mut self.running {
            running.since = running.since.min(now);
        }
        self.settles_at = self.settles_at.min(now.plus(self.timetable.delay));
        effects.push(Effect::Reschedule);
    }

    fn start(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        if self.stopping {
            return;
        }
        self.hold.take_if(|hold| hold.until <= now);
        if let Some(running) = &self.running {
            let push_waits = |queued: &QueuedJob| queued.job.is_push() && self.may_run(queued, now);
            if self.queue.first().is_some_and(push_waits) && running.since.plus(RUN_BEFORE_EDITS) <= now {
                self.preempt(Preemption::Edits, effects);
            }
            return;
        }
        if self.maintenance > 0 {
            return;
        }
        if std::mem::take(&mut self.reload) {
            self.maintenance += 1;
            effects.push(Effect::Reload);
            return;
        }
        if self.hold.is_some() {
            return;
        }
        let Some(place) = self.queue.iter().position(|queued| self.may_run(queued, now)) else {
            return;
        };
        let job = self.queue.remove(place);
        self.running = Some(CurrentRun { job: job.clone(), since: now, preemption: None });
        effects.push(Effect::Start(job));
    }

    /// Whether a job may begin now, if no other is running.
    fn may_run(&self, queued: &QueuedJob, now: Instant) -> bool {
        let backing_off = self.trouble.as_ref().filter(|trouble| !trouble.partial && trouble.next_try > now);
        match (queued.trigger, queued.job.kind) {
            (Trigger::Manual, _) => true,
            (Trigger::Schedule, _) if self.paused_since.is_some() => false,
            // Failed edits have delays of their own: only what a push itself failed at, and a refused key, delay the others.
            // The start is delayed to spread the load on the service, but not for edits, because a user waits.
            (Trigger::Schedule, JobKind::Push) => {
                !backing_off.is_some_and(|trouble| trouble.is_of_key || trouble.only_pushes)
            }
            (Trigger::Schedule, _) => backing_off.is_none() && self.settles_at <= now,
        }
    }
}

/// When each kind is due. What did not end is due again, after the delay of its failures and before the next tick: a daemon that is
/// restarted over and over asks no more often than one that runs on, except with a refused key.
fn due_at(timetable: &Timetable, covered: [Instant; 3], unended: [Option<(Instant, u32)>; 3]) -> [Option<Instant>; 3] {
    [0, 1, 2].map(|place| {
        let next = |after| timetable.next_tick(ScheduleKind::ALL[place], after);
        let due = next(covered[place])?;
        let Some((begun, failed)) = unended[place] else { return Some(due) };
        Some(due.max(begun.plus(growing(PASSING, failed))).min(next(begun)?))
    })
}
