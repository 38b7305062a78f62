//! The daemon's decisions: inputs in, effects out. Nothing here awaits, reads a clock or touches a file.
//!
//! [`StateMachine::on`] takes an input; `requests` decides what people ask for, `endings` what the end of a run means.
//!
//! # Always true
//! - One run at a time. A long run is preempted for changes and edits at a page's boundary, and resumed after them.
//! - A tick that comes while its kind waits already is one job, not two; ticks missed in a suspend or a downtime are one.
//! - Whatever the timetable says, two scheduled runs of a kind begin at least [`FLOOR`] apart.
//! - During a hold and with an empty budget nothing starts; what came due meanwhile starts at its end.
//! - After a failure the schedule waits, longer each time up to a bound; a person need not wait.
//! - Asked to stop, nothing new starts, and the end comes at a page's boundary.

mod endings;
mod requests;
#[cfg(test)]
mod tests;

use std::time::Duration;

use super::input::{Effect, Input};
use super::job::{self, FailureKind, QueuedJob, Trigger};
use super::timetable::{ScheduleKind, Timetable};
use crate::model::Instant;
use crate::sync::{Acceptance, Job};

/// How long a run has to itself before it is preempted for the changes that are due.
pub const RUN_BEFORE_CHANGES: Duration = Duration::from_secs(60);

/// How long a run has to itself before it is preempted for an edit: people wait for edits.
pub const RUN_BEFORE_EDITS: Duration = Duration::from_secs(2);

/// The least time between two scheduled runs of a kind: the second line of defence behind a timetable that is wrong.
pub const FLOOR: Duration = Duration::from_secs(5);

/// The first and the longest delay after failures in a row, doubled in between: the service, or the disk.
const PASSING: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(3600));

/// Likewise where the key is refused: only a person can change that.
const KEY: (Duration, Duration) = (Duration::from_secs(900), Duration::from_secs(6 * 3600));

/// Why the run under way was asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Preemption {
    /// Changes are due.
    Changes,
    /// Edits wait.
    Edits,
    /// The sweep is to be forgotten.
    Forget,
    /// The schedule was paused.
    Pause,
    /// The configuration is to be read again.
    Reload,
}

#[derive(Clone, Debug, PartialEq)]
struct CurrentRun {
    job: QueuedJob,
    since: Instant,
    preemption: Option<Preemption>,
}

/// Why nothing is sent for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldReason {
    /// The service set a rate limit.
    RateLimit,
    /// The budget of the window is spent.
    Budget,
}

impl HoldReason {
    /// The text in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            HoldReason::RateLimit => "rate-limit",
            HoldReason::Budget => "budget",
        }
    }
}

/// A time in which nothing is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DaemonHold {
    /// Why.
    pub reason: HoldReason,
    /// Until when.
    pub until: Instant,
}

/// Failures in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// When the first failed.
    pub since: Instant,
    /// What the last ended with.
    pub reason: String,
    /// The exit code that the verb has for such an end.
    pub exit: u8,
    /// How many.
    pub runs: u32,
    /// When the schedule tries again.
    pub next_try: Instant,
    kind: FailureKind,
}

/// What earlier processes did and decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastRuns {
    /// Up to when each kind has run, in the order of [`ScheduleKind::ALL`].
    pub covered: [Instant; 3],
    /// Since when the schedule is paused.
    pub paused_since: Option<Instant>,
    /// Whether nothing was ever copied.
    pub is_empty: bool,
}

/// The daemon, between two inputs.
#[derive(Clone, Debug)]
pub struct StateMachine {
    timetable: Timetable,
    covered: [Instant; 3],
    /// When each kind is due after that: computed once, as it takes a search.
    due_at: [Option<Instant>; 3],
    queue: Vec<QueuedJob>,
    running: Option<CurrentRun>,
    /// The configuration is being read again; nothing starts meanwhile.
    reloading: bool,
    /// Sweeps and holds that are being cleared; nothing starts meanwhile.
    maintenance: u32,
    paused_since: Option<Instant>,
    hold: Option<DaemonHold>,
    trouble: Option<Trouble>,
    /// When a suspended run is resumed, and with what a person allowed.
    resume_at: Option<(Instant, Acceptance)>,
    settles_at: Instant,
    reload: bool,
    stopping: bool,
    exited: bool,
    next_id: u64,
}

impl StateMachine {
    /// A daemon that begins. What came due since the past runs is due now. What the schedule brings waits for this
    /// mirror's delay first, so that a fleet that starts at once does not ask at once; an empty mirror does not wait.
    pub fn new(timetable: Timetable, past: PastRuns, now: Instant) -> StateMachine {
        StateMachine {
            settles_at: if past.is_empty { now } else { now.plus(timetable.delay) },
            due_at: due_at(&timetable, past.covered),
            timetable,
            covered: past.covered,
            queue: Vec::new(),
            running: None,
            reloading: false,
            maintenance: 0,
            paused_since: past.paused_since,
            hold: None,
            trouble: None,
            resume_at: None,
            reload: false,
            stopping: false,
            exited: false,
            next_id: 1,
        }
    }

    /// Takes an input and says what is to be done.
    pub fn on(&mut self, input: Input, now: Instant) -> Vec<Effect> {
        let mut effects = Vec::new();
        match input {
            Input::Tick => {}
            Input::ClockMoved => self.clock_moved(now, &mut effects),
            Input::Asked(reply, request) => self.asked(reply, request, now, &mut effects),
            Input::Edited => {
                // Those that are being sent were chosen before these came.
                self.enqueue(Job::Push, Trigger::Manual, &mut effects);
            }
            Input::Ended(ending) => self.ended(ending, now, &mut effects),
            Input::Reload => {
                self.reload = true;
                // What runs was made from the old configuration; the rest of it is done with the new one.
                self.preempt(Preemption::Reload, &mut effects);
            }
            Input::Reloaded(timetable) => {
                self.reloading = false;
                if let Some(timetable) = timetable {
                    self.reloaded(timetable, now, &mut effects);
                }
            }
            Input::Maintained => self.maintenance = self.maintenance.saturating_sub(1),
            Input::NewKey => {
                self.trouble.take_if(|trouble| trouble.kind == FailureKind::Key);
            }
            Input::Stop => {
                self.stopping = true;
                match self.running {
                    Some(_) => effects.push(Effect::Preempt),
                    None => self.exit(&mut effects),
                }
            }
        }
        self.look(now, &mut effects);
        self.start(now, &mut effects);
        effects
    }

    /// When time alone changes something next.
    pub fn wakes_at(&self, now: Instant) -> Option<Instant> {
        let hold = self.hold.map(|hold| hold.until);
        hold.into_iter()
            .chain(self.trouble.as_ref().map(|trouble| trouble.next_try))
            .chain(self.resume_at.map(|(at, _)| at))
            .chain([self.settles_at])
            .chain(self.running.as_ref().map(|running| running.since.plus(RUN_BEFORE_EDITS)))
            .chain(self.due_at.into_iter().flatten())
            .filter(|at| *at > now)
            .min()
    }

    /// The job under way, and since when.
    pub fn running(&self) -> Option<(&QueuedJob, Instant)> {
        self.running.as_ref().map(|running| (&running.job, running.since))
    }

    /// The jobs that wait, the next one first.
    pub fn waiting(&self) -> &[QueuedJob] {
        &self.queue
    }

    /// Since when the schedule is paused.
    pub fn paused_since(&self) -> Option<Instant> {
        self.paused_since
    }

    /// The hold in force.
    pub fn hold(&self, now: Instant) -> Option<DaemonHold> {
        self.hold.filter(|hold| hold.until > now)
    }

    /// What keeps runs from succeeding.
    pub fn trouble(&self) -> Option<&Trouble> {
        self.trouble.as_ref()
    }

    /// Whether runs fail because the key is refused: another one may be there by now.
    pub fn key_is_refused(&self) -> bool {
        self.trouble.as_ref().is_some_and(|trouble| trouble.kind == FailureKind::Key)
    }

    /// The timetable.
    pub fn timetable(&self) -> &Timetable {
        &self.timetable
    }

    /// When a kind is next due by the schedule.
    pub fn next_due(&self, kind: ScheduleKind, now: Instant) -> Option<Instant> {
        self.timetable.next(kind, now)
    }

    fn reloaded(&mut self, timetable: Timetable, now: Instant, effects: &mut Vec<Effect>) {
        self.timetable = timetable;
        self.due_at = due_at(&self.timetable, self.covered);
        self.trouble = None;
        // The budget may be larger now. The engine knows; if it is still spent, the next run says so and sends nothing.
        self.hold.take_if(|hold| hold.reason == HoldReason::Budget);
        if let (None, Some((at, _))) = (self.hold, &mut self.resume_at) {
            *at = (*at).min(now);
        }
        effects.push(Effect::Reschedule);
    }

    /// Enqueues what has come due.
    fn look(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        for (place, kind) in ScheduleKind::ALL.into_iter().enumerate() {
            if self.due_at[place].is_none_or(|due| due > now) {
                continue;
            }
            self.covered[place] = now;
            self.due_at[place] = self.timetable.next(kind, now).map(|due| due.max(now.plus(FLOOR)));
            if self.paused_since.is_none() {
                self.due(kind, now, effects);
            }
        }
        if let Some((_, accept)) = self.resume_at.take_if(|(at, _)| *at <= now) {
            self.hold.take_if(|hold| hold.until <= now);
            self.enqueue(job::sync_accepting(accept), Trigger::Schedule, effects);
        }
    }

    fn due(&mut self, kind: ScheduleKind, now: Instant, effects: &mut Vec<Effect>) {
        let job = job::scheduled(kind);
        let current = self.running.as_ref().map(|running| (running.job.job.kind(), running.since));
        match current {
            // The run under way is young, or of this kind: what it brings is as new as what another would.
            Some((kind, since)) if kind == job.kind() && since.plus(RUN_BEFORE_CHANGES) > now => return,
            // A sweep under way is the sweep that is due.
            Some(("resync", _)) if kind == ScheduleKind::Sweep => return,
            _ => {}
        }
        if kind == ScheduleKind::Changes
            && current.is_some_and(|(_, since)| since.plus(RUN_BEFORE_CHANGES) <= now)
            && self.preempt(Preemption::Changes, effects)
        {
            // What is left of the run under way begins with the changes.
            return;
        }
        self.enqueue(job, Trigger::Schedule, effects);
    }

    /// Puts a job into the queue, or finds the one that does the same. Gives its number.
    fn enqueue(&mut self, job: Job, trigger: Trigger, effects: &mut Vec<Effect>) -> u64 {
        if let Some(known) = self.queue.iter_mut().find(|queued| queued.job == job) {
            if trigger == Trigger::Manual {
                known.trigger = trigger;
            }
            let id = known.id;
            self.queue.sort_by_key(QueuedJob::rank);
            return id;
        }
        let queued = QueuedJob { id: self.next_id, job, trigger };
        self.next_id += 1;
        let id = queued.id;
        effects.push(Effect::Queued(queued.clone()));
        self.queue.push(queued);
        self.queue.sort_by_key(QueuedJob::rank);
        id
    }

    /// Asks the run under way to end, if it can be resumed. Gives whether it does.
    fn preempt(&mut self, reason: Preemption, effects: &mut Vec<Effect>) -> bool {
        let Some(running) = &mut self.running else {
            return false;
        };
        if !job::can_be_preempted(&running.job.job) {
            return false;
        }
        if running.preemption.is_none() {
            effects.push(Effect::Preempt);
        }
        // What ends it for good counts more than what lets another go first, and changes more than edits.
        running.preemption = match (running.preemption, reason) {
            (Some(known @ (Preemption::Forget | Preemption::Pause)), _) => Some(known),
            (Some(Preemption::Changes), Preemption::Edits | Preemption::Reload) => Some(Preemption::Changes),
            _ => Some(reason),
        };
        true
    }

    fn forget_sweeps(&mut self, effects: &mut Vec<Effect>) {
        self.maintenance += 1;
        effects.push(Effect::ForgetSweeps);
    }

    fn clock_moved(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        for covered in &mut self.covered {
            // Set back, the clock shows times that were looked at already; they are to come again.
            *covered = (*covered).min(now);
        }
        self.due_at = due_at(&self.timetable, self.covered);
        // The engine knows the hold and the budget; if they still bind, the next run says so and sends nothing.
        self.hold = None;
        if let Some(trouble) = &mut self.trouble {
            trouble.next_try = trouble.next_try.min(now.plus(PASSING.1));
            trouble.since = trouble.since.min(now);
        }
        if let Some((at, _)) = &mut self.resume_at {
            *at = (*at).min(now.plus(PASSING.1));
        }
        if let Some(running) = &mut self.running {
            running.since = running.since.min(now);
        }
        self.settles_at = self.settles_at.min(now.plus(self.timetable.delay));
        effects.push(Effect::Reschedule);
    }

    fn exit(&mut self, effects: &mut Vec<Effect>) {
        self.stopping = true;
        if !std::mem::replace(&mut self.exited, true) {
            effects.push(Effect::Exit);
        }
    }

    /// Starts the first job that may run now.
    fn start(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        if self.stopping {
            return;
        }
        self.hold.take_if(|hold| hold.until <= now);
        if let Some(running) = &self.running {
            let push_waits = self.queue.first().is_some_and(|queued| queued.job == Job::Push);
            if push_waits && running.since.plus(RUN_BEFORE_EDITS) <= now {
                self.preempt(Preemption::Edits, effects);
            }
            return;
        }
        if self.reloading || self.maintenance > 0 {
            return;
        }
        if std::mem::take(&mut self.reload) {
            self.reloading = true;
            effects.push(Effect::Reload);
            return;
        }
        if self.hold.is_some() {
            return;
        }
        let early = self.settles_at > now;
        let backing_off = self.trouble.as_ref().is_some_and(|trouble| trouble.next_try > now);
        let may_run = |queued: &QueuedJob| match queued.trigger {
            // An edit that the key was refused for is not sent again and again.
            Trigger::Manual => queued.job != Job::Push || !backing_off,
            Trigger::Schedule => !backing_off && !early && self.paused_since.is_none(),
        };
        let Some(place) = self.queue.iter().position(may_run) else {
            return;
        };
        let job = self.queue.remove(place);
        self.running = Some(CurrentRun { job: job.clone(), since: now, preemption: None });
        effects.push(Effect::Start(job));
    }
}

fn due_at(timetable: &Timetable, covered: [Instant; 3]) -> [Option<Instant>; 3] {
    [0, 1, 2].map(|place| timetable.next(ScheduleKind::ALL[place], covered[place]))
}
