//! The daemon's queue: jobs, who asked for them, in which order they run, and how a run of one ended.

use serde::{Deserialize, Serialize};

use super::timetable::ScheduleKind;
use crate::model::Instant;
use crate::sync::{Acceptance, Job, Suspension};

/// Who asked for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Trigger {
    /// The timetable.
    Schedule,
    /// A person.
    Manual,
}

impl Trigger {
    /// The text in `sync_runs`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Trigger::Schedule => "schedule",
            Trigger::Manual => "manual",
        }
    }
}

/// A job in the queue or under way, in one run or in several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedJob {
    /// Its number, since the daemon began.
    pub id: u64,
    /// What it does.
    pub job: Job,
    /// Who asked for it.
    pub trigger: Trigger,
}

impl QueuedJob {
    /// The place in the queue: lower runs first, and those of one rank in the order in which they came. Edits before
    /// people, people before the schedule.
    pub(super) const fn rank(&self) -> u8 {
        match (&self.job, self.trigger) {
            (Job::Push, _) => 0,
            (_, Trigger::Manual) => 1,
            (_, Trigger::Schedule) => 2,
        }
    }
}

/// The job that is due when a kind of the schedule is.
pub fn scheduled(kind: ScheduleKind) -> Job {
    match kind {
        ScheduleKind::Changes => Job::sync(),
        ScheduleKind::Audit => Job::audit(),
        ScheduleKind::Sweep => Job::resync(),
    }
}

/// Whether a run of a job can end at a page's boundary and be resumed later for free.
pub(super) const fn can_be_preempted(job: &Job) -> bool {
    matches!(job, Job::Sync { .. } | Job::Resync { .. })
}

/// What is left of a job after a run of it was preempted. A sweep that has begun, or was asked for, is stored in the
/// mirror: whatever brings the changes resumes it too, so that one run serves both.
pub(super) fn remainder(job: &Job) -> Job {
    sync_accepting(job.accept())
}

/// A sync with what a person allowed.
pub(super) fn sync_accepting(accept: Acceptance) -> Job {
    Job::sync().accepting(accept)
}

/// How a run ended, as far as the daemon has to decide by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunEnding {
    /// How.
    pub end: RunEnd,
    /// When the budget refills, if nothing of it is left.
    pub empty_until: Option<Instant>,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// It did what it was to do, or found what only a person can decide.
    Done,
    /// It stopped early and can be resumed.
    Suspended(Suspension),
    /// It failed.
    Failed {
        /// What kind of failure it was.
        kind: FailureKind,
        /// What happened, in a line.
        reason: String,
        /// The exit code that the verb has for such an end.
        exit: u8,
    },
}

/// What kind of failure it was: how soon another try is worth it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The key is refused, may do nothing of what was asked, or belongs to another workspace: a person has to act.
    Key,
    /// The service, the disk, or an internal error: it may pass.
    Passing,
}
