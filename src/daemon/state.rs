//! The daemon's decisions: events in, effects out. Nothing here awaits, reads a clock or touches a file.
//!
//! # Always true
//! - One run at a time. A long run gives way to changes and edits at a page's boundary, and goes on after them.
//! - A tick that comes while its kind waits already is one job, not two; ticks missed in a suspend or a downtime are one.
//! - During a hold and with an empty budget nothing starts; what came due meanwhile starts at its end.
//! - After a failure the schedule waits, longer each time up to a bound; a person need not wait.
//! - Asked to stop, nothing new starts, and the end comes at a page's boundary.

use std::time::Duration;

use super::event::{Answer, Effect, Event, Request};
use super::job::{End, Failing, Job, Outcome, Trigger, Work};
use super::timetable::{Kind, Timetable};
use crate::model::Instant;
use crate::sync::Suspension;

/// How long a run has to itself before it gives way to the changes that are due.
pub const TURN: Duration = Duration::from_secs(60);

/// How long a run has to itself before it gives way to an edit: people wait for edits.
pub const TURN_FOR_EDITS: Duration = Duration::from_secs(2);

/// The first and the longest wait after failures in a row, doubled in between: the service, or the disk.
const PASSING: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(3600));

/// Likewise where the key is refused: that only a person mends.
const KEY: (Duration, Duration) = (Duration::from_secs(900), Duration::from_secs(6 * 3600));

/// Why the run under way was asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LetEnd {
    /// Changes are due.
    Changes,
    /// Edits wait.
    Edits,
    /// The sweep is to be forgotten.
    Forget,
    /// The schedule rests.
    Rest,
    /// The configuration was read again.
    Reload,
}

#[derive(Clone, Debug, PartialEq)]
struct Running {
    job: Job,
    since: Instant,
    let_end: Option<LetEnd>,
}

/// A time in which nothing is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quiet {
    /// `hold` or `budget`.
    pub why: &'static str,
    /// Until when.
    pub until: Instant,
}

/// Failures in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// When the first failed.
    pub since: Instant,
    /// What the last ended with.
    pub why: String,
    /// How many.
    pub runs: u32,
    /// When the schedule tries again.
    pub next_try: Instant,
    failing: Failing,
}

/// The daemon, between two events.
#[derive(Clone, Debug)]
pub struct State {
    timetable: Timetable,
    looked: [Instant; 3],
    /// When each kind is due after the last look: reckoned once, since that takes a cron line to be read.
    due_at: [Option<Instant>; 3],
    queue: Vec<Job>,
    running: Option<Running>,
    paused_since: Option<Instant>,
    quiet: Option<Quiet>,
    trouble: Option<Trouble>,
    go_on: Option<(Instant, bool)>,
    settles_at: Instant,
    reload: bool,
    stopping: bool,
    exited: bool,
    next_id: u64,
}

impl State {
    /// A daemon that begins. `looked` says up to when each kind has run before: what came due since then is due now.
    /// What the schedule brings waits for this mirror's delay first: a fleet that starts at once does not ask at once.
    pub fn new(timetable: Timetable, looked: [Instant; 3], paused_since: Option<Instant>, now: Instant) -> State {
        State {
            settles_at: now.plus(timetable.delay),
            reload: false,
            due_at: due_at(&timetable, looked),
            timetable,
            looked,
            queue: Vec::new(),
            running: None,
            paused_since,
            quiet: None,
            trouble: None,
            go_on: None,
            stopping: false,
            exited: false,
            next_id: 1,
        }
    }

    /// Takes an event and says what is to be done.
    pub fn on(&mut self, event: Event, now: Instant) -> Vec<Effect> {
        let mut effects = Vec::new();
        match event {
            Event::Tick => {}
            Event::ClockMoved => self.clock_moved(now, &mut effects),
            Event::Asked(reply, request) => self.asked(reply, request, now, &mut effects),
            Event::Edited => {
                // Those that are being sent were chosen before these came.
                self.enter(Work::Push, Trigger::Manual, &mut effects);
            }
            Event::Ended(outcome) => self.ended(outcome, now, &mut effects),
            Event::Reload => {
                self.reload = true;
                // What runs was made from the old configuration; the rest of it is done with the new one.
                self.let_end(LetEnd::Reload, &mut effects);
            }
            Event::Reloaded(timetable) => {
                self.timetable = timetable;
                self.due_at = due_at(&self.timetable, self.looked);
                self.trouble = None;
                // The budget may be larger now. The engine knows; if it still binds, the next run says so and asks nothing.
                self.quiet.take_if(|quiet| quiet.why == "budget");
                if let (None, Some((at, _))) = (self.quiet, &mut self.go_on) {
                    *at = (*at).min(now);
                }
                effects.push(Effect::Reschedule);
            }
            Event::NewKey => {
                self.trouble.take_if(|trouble| trouble.failing == Failing::Key);
            }
            Event::Stop => {
                self.stopping = true;
                match self.running {
                    Some(_) => effects.push(Effect::LetEnd),
                    None => self.exit(&mut effects),
                }
            }
        }
        self.look(now, &mut effects);
        self.start(now, &mut effects);
        effects
    }

    /// When time alone changes something next; what the timetable brings is the scheduler's to tell.
    pub fn wakes_at(&self, now: Instant) -> Option<Instant> {
        let quiet = self.quiet.map(|quiet| quiet.until);
        quiet
            .into_iter()
            .chain(self.trouble.as_ref().map(|trouble| trouble.next_try))
            .chain(self.go_on.map(|(at, _)| at))
            .chain([self.settles_at])
            .chain(self.running.as_ref().map(|running| running.since.plus(TURN_FOR_EDITS)))
            .filter(|at| *at > now)
            .min()
    }

    /// The job under way, and since when.
    pub fn running(&self) -> Option<(&Job, Instant)> {
        self.running.as_ref().map(|running| (&running.job, running.since))
    }

    /// The jobs that wait, the next one first.
    pub fn waiting(&self) -> &[Job] {
        &self.queue
    }

    /// Since when the schedule rests.
    pub fn paused_since(&self) -> Option<Instant> {
        self.paused_since
    }

    /// The quiet that is kept.
    pub fn quiet(&self, now: Instant) -> Option<Quiet> {
        self.quiet.filter(|quiet| quiet.until > now)
    }

    /// What keeps runs from succeeding.
    pub fn trouble(&self) -> Option<&Trouble> {
        self.trouble.as_ref()
    }

    /// Whether runs fail since the key is refused: another one may be there by now.
    pub fn key_is_refused(&self) -> bool {
        self.trouble.as_ref().is_some_and(|trouble| trouble.failing == Failing::Key)
    }

    /// The timetable.
    pub fn timetable(&self) -> &Timetable {
        &self.timetable
    }

    /// When a kind is next due by the schedule.
    pub fn next_due(&self, kind: Kind, now: Instant) -> Option<Instant> {
        self.timetable.next(kind, now)
    }

    /// Enters jobs that have come due.
    fn look(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        for (place, kind) in Kind::ALL.into_iter().enumerate() {
            if self.due_at[place].is_none_or(|due| due > now) {
                continue;
            }
            self.looked[place] = now;
            self.due_at[place] = self.timetable.next(kind, now);
            if self.paused_since.is_none() {
                self.due(kind, now, effects);
            }
        }
        if let Some((_, accept_removals)) = self.go_on.take_if(|(at, _)| *at <= now) {
            self.quiet.take_if(|quiet| quiet.until <= now);
            let work = Work::Sync { objects: Vec::new(), accept_removals };
            self.enter(work, Trigger::Schedule, effects);
        }
    }

    fn due(&mut self, kind: Kind, now: Instant, effects: &mut Vec<Effect>) {
        let work = Work::of(kind);
        let under_way = self.running.as_ref().map(|running| (running.job.work.as_str(), running.since));
        match under_way {
            // The run under way is young, or of this kind: what it brings is as new as what another would.
            Some((word, since)) if word == work.as_str() && since.plus(TURN) > now => return,
            // A sweep under way is the sweep that is due.
            Some(("resync", _)) if kind == Kind::Sweep => return,
            _ => {}
        }
        if kind == Kind::Changes
            && under_way.is_some_and(|(_, since)| since.plus(TURN) <= now)
            && self.let_end(LetEnd::Changes, effects)
        {
            // What is left of the run under way begins with the changes.
            return;
        }
        self.enter(work, Trigger::Schedule, effects);
    }

    /// Puts a job into the queue, or finds the one that does the same. Gives its number.
    fn enter(&mut self, work: Work, trigger: Trigger, effects: &mut Vec<Effect>) -> u64 {
        if let Some(known) = self.queue.iter_mut().find(|job| job.work == work) {
            if trigger == Trigger::Manual {
                known.trigger = trigger;
            }
            let id = known.id;
            self.queue.sort_by_key(Job::rank);
            return id;
        }
        let job = Job { id: self.next_id, work, trigger };
        self.next_id += 1;
        let id = job.id;
        effects.push(Effect::Queued(job.clone()));
        self.queue.push(job);
        self.queue.sort_by_key(Job::rank);
        id
    }

    fn asked(&mut self, reply: u64, request: Request, now: Instant, effects: &mut Vec<Effect>) {
        let answer = match request {
            _ if self.stopping => Answer::Ending,
            Request::Run(work) => {
                let job = self.enter(work, Trigger::Manual, effects);
                Answer::Accepted { job, waits_until: self.quiet(now).map(|quiet| quiet.until) }
            }
            Request::StopSweeps => {
                let taken_back = self.queue.extract_if(.., |job| matches!(job.work, Work::Resync { .. }));
                effects.extend(taken_back.map(Effect::Dropped));
                // A verification and a push touch no sweep: one that was interrupted is forgotten beside them.
                if !self.let_end(LetEnd::Forget, effects) {
                    effects.push(Effect::ForgetSweeps);
                }
                Answer::Done
            }
            Request::Pause => {
                if self.paused_since.is_none() {
                    self.paused_since = Some(now);
                    effects.push(Effect::Remember(self.paused_since));
                }
                let taken_back = self.queue.extract_if(.., |job| job.trigger == Trigger::Schedule);
                effects.extend(taken_back.map(Effect::Dropped));
                if self.running.as_ref().is_some_and(|r| r.job.trigger == Trigger::Schedule) {
                    self.let_end(LetEnd::Rest, effects);
                }
                Answer::Done
            }
            Request::ClearHold => {
                self.quiet.take_if(|quiet| quiet.why == "hold");
                if let (None, Some((at, _))) = (self.quiet, &mut self.go_on) {
                    *at = (*at).min(now);
                }
                effects.push(Effect::ClearHold);
                Answer::Done
            }
            Request::Resume => {
                if self.paused_since.take().is_some() {
                    effects.push(Effect::Remember(None));
                    // What came due in the meantime is one run.
                    self.enter(Work::SYNC, Trigger::Schedule, effects);
                }
                Answer::Done
            }
        };
        effects.push(Effect::Answer(reply, answer));
    }

    /// Asks the run under way to end, if it can. Gives whether it does.
    fn let_end(&mut self, why: LetEnd, effects: &mut Vec<Effect>) -> bool {
        let Some(running) = &mut self.running else {
            return false;
        };
        if !running.job.work.can_yield() {
            return false;
        }
        if running.let_end.is_none() {
            effects.push(Effect::LetEnd);
        }
        // What ends it for good counts more than what lets another go first, and changes more than edits.
        running.let_end = match (running.let_end, why) {
            (Some(known @ (LetEnd::Forget | LetEnd::Rest)), _) => Some(known),
            (Some(LetEnd::Changes), LetEnd::Edits | LetEnd::Reload) => Some(LetEnd::Changes),
            _ => Some(why),
        };
        true
    }

    fn ended(&mut self, outcome: Outcome, now: Instant, effects: &mut Vec<Effect>) {
        let Some(Running { job, let_end, .. }) = self.running.take() else {
            return;
        };
        if let Some(until) = outcome.empty_until {
            self.quiet = Some(Quiet { why: "budget", until });
        }
        match outcome.end {
            End::Paused(Suspension::Shutdown)
                if matches!(let_end, Some(LetEnd::Changes | LetEnd::Edits | LetEnd::Reload)) =>
            {
                self.trouble = None;
                // One run brings the changes that are due and what is left of this one.
                let rest = job.work.rest();
                self.queue.retain(|waiting| waiting.trigger == Trigger::Manual || waiting.work != Work::SYNC);
                effects.push(Effect::Yielded(job.clone()));
                self.queue.push(Job { work: rest, ..job });
                self.queue.sort_by_key(Job::rank);
            }
            End::Paused(Suspension::Shutdown) => {
                if let_end == Some(LetEnd::Forget) {
                    effects.push(Effect::ForgetSweeps);
                }
                effects.push(Effect::Finished(job));
            }
            End::Paused(Suspension::Budget(until)) => {
                self.trouble = None;
                self.go_on = Some((until, job.work.accepts_removals()));
                effects.push(Effect::Finished(job));
            }
            End::Paused(Suspension::Hold(until)) => {
                self.quiet = Some(Quiet { why: "hold", until });
                self.go_on = Some((until, job.work.accepts_removals()));
                effects.push(Effect::Finished(job));
            }
            End::Done => {
                self.trouble = None;
                if let_end == Some(LetEnd::Forget) {
                    effects.push(Effect::ForgetSweeps);
                }
                effects.push(Effect::Finished(job));
            }
            End::Failed { failing, why } => {
                self.failed(failing, why, now);
                let again = job.trigger == Trigger::Schedule && self.paused_since.is_none() && !self.stopping;
                let work = job.work.clone();
                effects.push(Effect::Finished(job));
                if failing == Failing::Config {
                    self.exit(effects);
                } else if again {
                    // Tried again when the wait is over, not only when the schedule comes round: that may be a week.
                    self.enter(work, Trigger::Schedule, effects);
                }
            }
        }
        if let_end == Some(LetEnd::Changes) && !self.queue.iter().any(|job| matches!(job.work, Work::Sync { .. })) {
            // It came to its end before it gave way: the changes are still due.
            self.enter(Work::SYNC, Trigger::Schedule, effects);
        }
        if self.stopping {
            self.exit(effects);
        }
    }

    fn failed(&mut self, failing: Failing, why: String, now: Instant) {
        let (since, runs) = self.trouble.as_ref().map_or((now, 0), |known| (known.since, known.runs));
        let (first, longest) = match failing {
            Failing::Key => KEY,
            Failing::Passing | Failing::Config => PASSING,
        };
        let wait = first.saturating_mul(1 << runs.min(16)).min(longest);
        self.trouble = Some(Trouble { since, why, runs: runs + 1, next_try: now.plus(wait), failing });
    }

    fn clock_moved(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        for looked in &mut self.looked {
            // Set back, the clock shows times that were looked at already; they are to come again.
            *looked = (*looked).min(now);
        }
        self.due_at = due_at(&self.timetable, self.looked);
        // The engine knows the hold and the budget; if they still bind, the next run says so and asks nothing.
        self.quiet = None;
        if let Some(trouble) = &mut self.trouble {
            trouble.next_try = trouble.next_try.min(now.plus(PASSING.1));
            trouble.since = trouble.since.min(now);
        }
        if let Some((at, _)) = &mut self.go_on {
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
        self.quiet.take_if(|quiet| quiet.until <= now);
        if let Some(running) = &self.running {
            let push_waits = self.queue.first().is_some_and(|job| job.work == Work::Push);
            if push_waits && running.since.plus(TURN_FOR_EDITS) <= now {
                self.let_end(LetEnd::Edits, effects);
            }
            return;
        }
        if std::mem::take(&mut self.reload) {
            // What comes of it is an event of its own.
            effects.push(Effect::Reload);
            return;
        }
        if self.quiet.is_some() {
            return;
        }
        let early = self.settles_at > now;
        let resting = self.trouble.as_ref().is_some_and(|trouble| trouble.next_try > now);
        let may = |job: &Job| match job.trigger {
            // An edit that the key was refused for is not sent again and again.
            Trigger::Manual => job.work != Work::Push || !resting,
            Trigger::Schedule => !resting && !early && self.paused_since.is_none(),
        };
        let Some(place) = self.queue.iter().position(may) else {
            return;
        };
        let job = self.queue.remove(place);
        self.running = Some(Running { job: job.clone(), since: now, let_end: None });
        effects.push(Effect::Start(job));
    }
}

fn due_at(timetable: &Timetable, looked: [Instant; 3]) -> [Option<Instant>; 3] {
    [0, 1, 2].map(|place| timetable.next(Kind::ALL[place], looked[place]))
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
