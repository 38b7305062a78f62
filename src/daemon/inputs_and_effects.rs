//! The inputs and effects of the daemon's state machine ([`super::state_machine`]).

use super::job::{QueuedJob, RunEnding};
use super::timetable::Timetable;
use crate::model::Instant;
use crate::sync::Job;

/// A request by a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DaemonRequest {
    /// One job now.
    Run(Job),
    /// Stop the sweeps in progress, and discard their checkpoints.
    StopSweeps,
    /// Suspend the schedule.
    Pause,
    /// Resume the schedule.
    Resume,
    /// End the hold early.
    ClearHold,
}

/// An input.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// Time has passed.
    Tick,
    /// The clock was set, or the machine slept: every stored time is checked again.
    ClockMoved,
    /// A user sent a request; the number identifies the answer.
    Asked(u64, DaemonRequest),
    /// Edits are due: queued, or waiting for a delay that is over.
    EditsDue,
    /// The running job ended.
    Ended(RunEnding),
    /// The configuration is to be reloaded.
    Reload,
    /// The configuration was reloaded; `None` if it is invalid and the old one stays active.
    Reloaded(Option<Timetable>),
    /// The sweeps were discarded, or the hold was cleared.
    Maintained,
    /// The API key changed: requests that were refused may succeed.
    NewKey,
    /// The daemon is to stop.
    Stop,
}

/// An effect to execute.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Start a run of this job.
    Start(QueuedJob),
    /// Stop the running job at a page boundary.
    Preempt,
    /// Discard the sweeps in progress; nothing starts before [`Input::Maintained`].
    ForgetSweeps,
    /// End the hold; nothing starts before [`Input::Maintained`].
    ClearHold,
    /// Publish that a job was queued.
    Queued(QueuedJob),
    /// Publish that a job was preempted and continues later.
    Preempted(QueuedJob),
    /// Publish that a job ended.
    Finished(QueuedJob),
    /// Publish that a job was withdrawn.
    Withdrawn(QueuedJob),
    /// Answer a request.
    Answer(u64, DaemonAnswer),
    /// Store whether the schedule is paused, then answer the request.
    StorePause(u64, Option<Instant>),
    /// Reload the configuration; nothing starts before [`Input::Reloaded`].
    Reload,
    /// Configure the scheduler for the timetable.
    Reschedule,
    /// Exit the process.
    Exit,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DaemonAnswer {
    /// The job was accepted with this number.
    Accepted {
        /// The job.
        job: u64,
        /// When its wait ends, if it has to wait.
        waits_until: Option<Instant>,
    },
    /// Done, and stored if necessary.
    Done,
    /// In effect in this process, but not stored: a restart may lose it.
    NotStored {
        /// Why.
        reason: String,
    },
    /// The daemon cannot do this now.
    Unavailable {
        /// Why.
        reason: String,
    },
}
