//! The daemon's state machine in simulated time: what it wants done next, and how a run's end is reported to it.

use crm_mirror::config::{Config, Environment, Sources};
use crm_mirror::daemon::Timetable;
use crm_mirror::daemon::input::{DaemonRequest, Effect, Input};
use crm_mirror::daemon::job::{FailureKind, QueuedJob, RunEnd, RunEnding, scheduled};
use crm_mirror::daemon::state::{PastRuns, StateMachine};
use crm_mirror::daemon::timetable::ScheduleKind;
use crm_mirror::exit::Exit;
use crm_mirror::model::Instant;
use crm_mirror::sync::{Job, RunReport, SyncError};

use crate::script::Script;

/// A daemon between two runs.
pub struct Daemon {
    state: StateMachine,
    timetable: Timetable,
    looked: Instant,
    start: Option<QueuedJob>,
}

/// The timetable of a script: changes by its schedule, an audit and a sweep each night.
fn timetable(script: &Script) -> Timetable {
    let flags = vec![
        ("sync.time_zone", script.zone.into()),
        ("sync.schedule", script.schedule.into()),
        ("sync.audit_schedule", "0 15 1 * * *".into()),
        ("sync.sweep_schedule", "0 30 2 * * *".into()),
        ("sync.jitter", "0s".into()),
    ];
    let sources = Sources { file: None, default_file: "/nowhere".into(), environment: Environment::default(), flags };
    Timetable::new(&Config::load(&sources).unwrap().sync, 0.0)
}

/// Every kind has run up to then.
fn past(until: Instant) -> PastRuns {
    PastRuns { covered: [until; 3], paused_since: None, is_empty: false }
}

impl Daemon {
    pub fn new(script: &Script, now: Instant) -> Daemon {
        let timetable = timetable(script);
        let state = StateMachine::new(timetable.clone(), past(now), now);
        let mut daemon = Daemon { state, timetable, looked: now, start: None };
        daemon.ask(Job::sync(), now);
        daemon
    }

    /// The process ended and another begins; what came due in between is due now.
    pub fn restart(&mut self, now: Instant) {
        self.state = StateMachine::new(self.timetable.clone(), past(self.looked.min(now)), now);
        self.start = None;
    }

    fn on(&mut self, event: Input, now: Instant) {
        self.looked = now;
        for effect in self.state.on(event, now) {
            if let Effect::Start(job) = effect {
                self.start = Some(job);
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

    /// A person asks for a job.
    pub fn ask(&mut self, job: Job, now: Instant) {
        self.on(Input::Asked(0, DaemonRequest::Run(job)), now);
    }

    /// Edits wait in the mirror.
    pub fn edited(&mut self, now: Instant) {
        self.on(Input::Edited, now);
    }

    /// The job to begin now.
    pub fn next_job(&mut self) -> Option<Job> {
        Some(self.start.take()?.job)
    }

    /// When time alone changes something next.
    pub fn wakes_at(&self, now: Instant) -> Option<Instant> {
        let due = ScheduleKind::ALL.into_iter().filter_map(|kind| self.state.next_due(kind, now));
        due.chain(self.state.wakes_at(now)).min()
    }

    /// The run under way ended.
    pub fn ended(&mut self, result: &Result<RunReport, SyncError>, now: Instant) {
        let end = match result {
            Ok(report) => report.suspension.map_or(RunEnd::Done, RunEnd::Suspended),
            Err(error) => {
                let exit = Exit::of_sync(error);
                let kind = if exit == Exit::KeyRefused { FailureKind::Key } else { FailureKind::Passing };
                RunEnd::Failed { kind, reason: error.to_string(), exit: exit.code() }
            }
        };
        self.on(Input::Ended(RunEnding { end, empty_until: None }), now);
    }
}

/// A verification with repair, as a person asks for it.
pub fn repair() -> Job {
    scheduled(ScheduleKind::Audit)
}

/// A whole copy, as a person asks for it.
pub fn resync() -> Job {
    scheduled(ScheduleKind::Sweep)
}
