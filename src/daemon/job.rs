//! The daemon's queue: jobs, their triggers and order, and the result of a run.

use serde::{Deserialize, Serialize};

use super::timetable::ScheduleKind;
use crate::app::Summary;
use crate::budget::PollingBudget;
use crate::error_chain::error_chain;
use crate::exit::Exit;
use crate::model::{Instant, Object};
use crate::sync::{Findings, Job, JobKind, Suspension};

/// The text is that in `sync_runs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, strum::VariantNames)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Trigger {
    Schedule,
    Manual,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedJob {
    pub id: u64,
    pub job: Job,
    pub trigger: Trigger,
}

impl QueuedJob {
    /// The rank in the queue, the lowest first: edits, manual jobs, scheduled ones; within a rank the order of arrival.
    pub(super) const fn rank(&self) -> u8 {
        match (self.job.kind, self.trigger) {
            (JobKind::Push, _) => 0,
            (_, Trigger::Manual) => 1,
            (_, Trigger::Schedule) => 2,
        }
    }
}

pub fn scheduled(kind: ScheduleKind) -> Job {
    match kind {
        ScheduleKind::Changes => Job::sync(),
        ScheduleKind::Audit => Job::audit(),
        ScheduleKind::Sweep => Job::resync(),
    }
}

/// What is left of a job whose run was interrupted. Once it has begun, its sweeps are stored in the mirror, and are resumed
/// by the next sync, so that one run does both. The rest, and what a person accepted, is stored nowhere else.
pub(super) fn rest(job: &Job, began: bool) -> Job {
    match job.kind {
        JobKind::Resync if began && job.accept_removals => Job { kind: JobKind::Sync, ..job.clone() },
        JobKind::Resync if began => Job::sync(),
        // Lists that were asked for by name are read by no other sync.
        JobKind::Sync if !job.accept_removals && !job.accept_workspace && (began || !job.is_named) => Job::sync(),
        _ => job.clone(),
    }
}

/// Whether a job does at least what is due.
pub(super) fn serves(job: &Job, kind: ScheduleKind) -> bool {
    let due = scheduled(kind);
    job.kind == due.kind && (job.repair || !due.repair) && !job.is_named
}

/// The result of a run, as far as the state machine needs it.
#[derive(Clone, Debug, PartialEq)]
pub struct RunEnding {
    pub end: RunEnd,
    /// When the budget refills, if nothing of it is left.
    pub empty_until: Option<Instant>,
    /// Whether it made requests: a run without one says nothing about the service.
    pub requested: bool,
    /// Whether it read rows, or its sweeps are stored: the next sync goes on with them.
    pub began: bool,
    pub polled: Option<PollFacts>,
}

/// What a run showed about how often changes are worth asking for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PollFacts {
    pub window: u32,
    pub changed: bool,
    /// Without what was polled in the window, which the state machine adds up.
    pub budget: PollingBudget,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// It completed, or found something that only the user can decide.
    Done,
    Suspended(Suspension),
    Failed {
        kind: FailureKind,
        reason: String,
        exit: u8,
    },
}

/// The kind of failure, which determines the delay before the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The key is refused, has no scope, or seems to belong to a different workspace: the user has to act.
    Key,
    /// The disk, the network, or an internal error: it may be temporary.
    Passing,
    /// The service, whatever it was asked for: the run itself delays the next attempt.
    Service { next_try: Instant },
    /// A part of the mirror: the schedule continues for the rest, and the run itself delays the attempts of that part.
    Partial {
        next_try: Instant,
        /// Whether this run made one.
        attempted: bool,
    },
}

/// What those who wait for a job learn of its end.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JobResult {
    pub exit: u8,
    pub summary: Option<Box<Summary>>,
    pub found: Vec<(Object, Findings)>,
    pub error: Option<String>,
    pub hint: Option<String>,
}

#[derive(Debug)]
pub(super) struct JobRunEnd {
    pub ending: RunEnding,
    pub result: JobResult,
}

impl JobRunEnd {
    /// The result of a run that another program's lock on the mirror ended, or did not let start.
    pub(super) fn locked(error: &dyn std::error::Error, requested: bool) -> JobRunEnd {
        let mut ended = JobRunEnd::failed(FailureKind::Passing, error_chain(error), Exit::Paused, None);
        ended.ending = RunEnding { end: RunEnd::Suspended(Suspension::Locked), requested, ..ended.ending };
        ended
    }

    /// Logs a failure that no run has logged.
    pub(super) fn log(self) -> JobRunEnd {
        if let JobResult { error: Some(reason), hint, .. } = &self.result {
            let hint = hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
            tracing::error!("A run failed: {reason}{hint}");
        }
        self
    }

    pub(super) fn failed(kind: FailureKind, reason: String, exit: Exit, hint: Option<&str>) -> JobRunEnd {
        let (exit, hint) = (exit.code(), hint.map(String::from));
        let end = RunEnd::Failed { kind, reason: reason.clone(), exit };
        JobRunEnd {
            ending: RunEnding { end, empty_until: None, requested: true, began: false, polled: None },
            result: JobResult { exit, summary: None, found: Vec::new(), error: Some(reason), hint },
        }
    }
}
