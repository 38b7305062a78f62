//! The daemon's state machine in simulated time: its next job, and how the end of a run is reported to it.

use crm_mirror::api::ErrorClass;
use crm_mirror::config::{Config, Environment, Sources};
use crm_mirror::daemon::Timetable;
use crm_mirror::daemon::inputs_and_effects::{DaemonRequest, Effect, Input};
use crm_mirror::daemon::job::{FailureKind, QueuedJob, RunEnd, RunEnding, scheduled};
use crm_mirror::daemon::state_machine::{PastRuns, StateMachine};
use crm_mirror::daemon::timetable::ScheduleKind;
use crm_mirror::exit::Exit;
use crm_mirror::model::{Instant, Ru};
use crm_mirror::sync::{Job, RunReport, SyncError};

use crate::script::Script;

/// A daemon between two runs.
pub struct Daemon {
    state: StateMachine,
    timetable: Timetable,
    looked: Instant,
    start: Option<QueuedJob>,
    /// Since when the schedule is paused, as the mirror's file says.
    paused_since: Option<Instant>,
    /// Whether the hold is to be cleared in the open mirror before anything begins.
    clears_hold: bool,
}

/// The timetable of a script: changes on its schedule, an audit and a sweep every night, or four audits a day.
fn timetable(script: &Script) -> Timetable {
    let checks = if script.is_calm { ["0 15 1,7,13,19 * * *", "off"] } else { ["0 15 1 * * *", "0 30 2 * * *"] };
    with_schedules(script, [script.schedule, checks[0], checks[1]])
}

fn with_schedules(script: &Script, [changes, audit, sweep]: [&str; 3]) -> Timetable {
    let flags = vec![
        ("sync.time_zone", script.zone.into()),
        ("sync.schedule", changes.into()),
        ("sync.audit_schedule", audit.into()),
        ("sync.sweep_schedule", sweep.into()),
    ];
    let sources = Sources { file: None, default_file: "/nowhere".into(), environment: Environment::default(), flags };
    Timetable::new(&Config::load(&sources).unwrap().sync, 0.0)
}

/// Every kind has run up to then.
fn past(until: Instant, paused_since: Option<Instant>) -> PastRuns {
    PastRuns {
        part: 0.0,
        covered: [until; 3],
        unended: [None; 3],
        paused_since,
        is_empty: false,
        last_change: None,
        polled: (0, Ru::ZERO),
    }
}

impl Daemon {
    pub fn new(script: &Script, now: Instant) -> Daemon {
        let timetable = timetable(script);
        let state = StateMachine::new(timetable.clone(), past(now, None), now);
        let (start, paused_since, clears_hold) = (None, None, false);
        let mut daemon = Daemon { state, timetable, looked: now, start, paused_since, clears_hold };
        daemon.ask(first(script), now);
        daemon
    }

    /// Replaces the process by a new one; everything that became due in between is due now.
    pub fn restart(&mut self, now: Instant) {
        let past = past(self.looked.min(now), self.paused_since);
        self.state = StateMachine::new(self.timetable.clone(), past, now);
        (self.start, self.clears_hold) = (None, false);
    }

    fn on(&mut self, event: Input, now: Instant) {
        self.looked = now;
        for effect in self.state.on(event, now) {
            match effect {
                Effect::Start(job) => self.start = Some(job),
                Effect::StorePause(since) => self.paused_since = since,
                Effect::ClearHold => self.clears_hold = true,
                _ => {}
            }
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Instant) {
        self.on(Input::Tick, now);
    }

    /// The clock was set.
    pub fn clock_moved(&mut self, now: Instant) {
        self.on(Input::ClockMoved, now);
    }

    /// A user requests a job.
    pub fn ask(&mut self, job: Job, now: Instant) {
        self.request(DaemonRequest::Run(job), now);
    }

    /// A person asks for something else.
    pub fn request(&mut self, request: DaemonRequest, now: Instant) {
        self.on(Input::Asked(request), now);
    }

    /// The configuration switches the schedule off, or on again: only edits and requests begin a run meanwhile.
    pub fn schedule(&mut self, script: &Script, on: bool, now: Instant) {
        self.timetable = if on { timetable(script) } else { with_schedules(script, ["off"; 3]) };
        self.on(Input::Reloaded(Some(self.timetable.clone())), now);
    }

    /// Whether nothing is sent now: the schedule is paused, or a hold lasts.
    pub fn is_quiet(&self, now: Instant) -> bool {
        self.state.paused_since.is_some() || self.state.hold(now).is_some()
    }

    /// The daemon has another key.
    pub fn new_key(&mut self, now: Instant) {
        self.on(Input::NewKey, now);
    }

    /// Whether the hold is to be cleared in the open mirror now; [`Daemon::maintained`] reports that it is done.
    pub fn clears_hold(&mut self) -> bool {
        std::mem::take(&mut self.clears_hold)
    }

    pub fn maintained(&mut self, now: Instant) {
        self.on(Input::Maintained, now);
    }

    /// Edits wait in the mirror.
    pub fn edited(&mut self, now: Instant) {
        self.on(Input::EditsDue, now);
    }

    /// The job to start now.
    pub fn next_job(&mut self) -> Option<QueuedJob> {
        self.start.take()
    }

    /// When the next run for changes is due by the schedule.
    pub fn next_changes(&self, now: Instant) -> Option<Instant> {
        self.state.next_due(ScheduleKind::Changes, now)
    }

    /// The time of the next change that depends on time alone.
    pub fn wakes_at(&self, now: Instant) -> Option<Instant> {
        let due =
            ScheduleKind::ALL.into_iter().filter_map(|kind| self.state.next_due(kind, now)).filter(|at| *at > now);
        due.chain(self.state.wakes_at(now)).min()
    }

    /// The run under way ended. `failed_steps` says when the steps that failed are attempted again, and whether
    /// they failed alone.
    pub fn ended(
        &mut self,
        job: &Job,
        result: &Result<RunReport, SyncError>,
        empty_until: Option<Instant>,
        failed_steps: Option<(Instant, bool)>,
        (began, now): (bool, Instant),
    ) {
        let end = match result {
            Ok(report) => report.suspension.map_or(RunEnd::Done, RunEnd::Suspended),
            Err(error) => {
                let kind = kind(job, error, failed_steps);
                RunEnd::Failed { kind, reason: error.to_string(), exit: Exit::of_sync(error).code() }
            }
        };
        let requested = result.as_ref().map_or(true, |report| report.tally.ru.get() > 0);
        self.on(Input::Ended(RunEnding { end, empty_until, requested, began, polled: None }), now);
    }
}

/// The kind of a failure, as the daemon's runner tells it.
fn kind(job: &Job, error: &SyncError, failed_steps: Option<(Instant, bool)>) -> FailureKind {
    match error {
        SyncError::OtherWorkspace { .. } | SyncError::NoScope { .. } => FailureKind::Key,
        other if other.class() == Some(ErrorClass::StopAll) => FailureKind::Key,
        other if !job.is_push() && other.concerns_one_resource() => {
            let attempted = !matches!(other, SyncError::NotDue { .. });
            failed_steps.map_or(FailureKind::Passing, |(next_try, alone)| match alone {
                true => FailureKind::Partial { next_try, attempted },
                false => FailureKind::Service { next_try },
            })
        }
        _ => FailureKind::Passing,
    }
}

/// The first run. The workspace of the frozen file is not the simulated one, and a person confirms that.
pub fn first(script: &Script) -> Job {
    Job { accept_workspace: script.frozen, ..Job::sync() }
}

/// A manual verification with repair.
pub fn repair() -> Job {
    scheduled(ScheduleKind::Audit)
}

/// A manual whole copy.
pub fn resync() -> Job {
    scheduled(ScheduleKind::Sweep)
}
