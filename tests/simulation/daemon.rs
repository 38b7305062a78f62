//! The daemon's state machine in simulated time: what it wants done next, and how a run's end is reported to it.

use crm_mirror::config::{Config, Environment, Sources};
use crm_mirror::daemon::Timetable;
use crm_mirror::daemon::event::{Effect, Event, Request};
use crm_mirror::daemon::job::{End, Failing, Job, Outcome, Work};
use crm_mirror::daemon::state::State;
use crm_mirror::daemon::timetable::Kind;
use crm_mirror::exit::Exit;
use crm_mirror::model::Instant;
use crm_mirror::sync::{Job as SyncJob, RunReport, SyncError};

use crate::script::Script;

/// A daemon between two runs.
pub struct Daemon {
    state: State,
    timetable: Timetable,
    looked: Instant,
    start: Option<Job>,
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

impl Daemon {
    pub fn new(script: &Script, now: Instant) -> Daemon {
        let timetable = timetable(script);
        let state = State::new(timetable.clone(), [now; 3], None, now);
        let mut daemon = Daemon { state, timetable, looked: now, start: None };
        daemon.ask(Work::SYNC, now);
        daemon
    }

    /// The process ended and another begins; what came due in between is due now.
    pub fn restart(&mut self, now: Instant) {
        self.state = State::new(self.timetable.clone(), [self.looked.min(now); 3], None, now);
        self.start = None;
    }

    fn on(&mut self, event: Event, now: Instant) {
        self.looked = now;
        for effect in self.state.on(event, now) {
            if let Effect::Start(job) = effect {
                self.start = Some(job);
            }
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Instant) {
        self.on(Event::Tick, now);
    }

    /// The clock was set.
    pub fn clock_moved(&mut self, now: Instant) {
        self.on(Event::ClockMoved, now);
    }

    /// A person asks for a job.
    pub fn ask(&mut self, work: Work, now: Instant) {
        self.on(Event::Asked(0, Request::Run(work)), now);
    }

    /// Edits wait in the mirror.
    pub fn edited(&mut self, now: Instant) {
        self.on(Event::Edited, now);
    }

    /// The job to begin now.
    pub fn next_job(&mut self) -> Option<SyncJob> {
        Some(match self.start.take()?.work {
            Work::Sync { .. } => SyncJob::sync(),
            Work::Resync { .. } => SyncJob::resync(),
            Work::Verify { .. } => SyncJob::audit(),
            Work::Push => SyncJob::Push,
        })
    }

    /// When time alone changes something next.
    pub fn wakes_at(&self, now: Instant) -> Option<Instant> {
        let due = Kind::ALL.into_iter().filter_map(|kind| self.state.next_due(kind, now));
        due.chain(self.state.wakes_at(now)).min()
    }

    /// The run under way ended.
    pub fn ended(&mut self, result: &Result<RunReport, SyncError>, now: Instant) {
        let end = match result {
            Ok(report) => report.suspension.map_or(End::Done, End::Paused),
            Err(error) => {
                let failing = if Exit::of_sync(error) == Exit::KeyRefused { Failing::Key } else { Failing::Passing };
                End::Failed { failing, why: error.to_string() }
            }
        };
        self.on(Event::Ended(Outcome { end, empty_until: None }), now);
    }
}

/// A verification with repair, as a person asks for it.
pub fn repair() -> Work {
    Work::of(Kind::Audit)
}

/// A whole copy, as a person asks for it.
pub fn resync() -> Work {
    Work::of(Kind::Sweep)
}
