//! What reaches the daemon's state machine, and what it wants done: the words between the loop and [`super::state`].

use super::job::{QueuedJob, RunEnding};
use super::timetable::Timetable;
use crate::model::Instant;
use crate::sync::Job;

/// What a person can ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DaemonRequest {
    /// One job now.
    Run(Job),
    /// End the sweeps that are under way, and forget their checkpoints.
    StopSweeps,
    /// Suspend the schedule.
    Pause,
    /// Resume the schedule.
    Resume,
    /// End the hold before its time.
    ClearHold,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// Time has passed.
    Tick,
    /// The clock was set, or the machine slept: every stored time is checked again.
    ClockMoved,
    /// A person asked; the number is for the answer.
    Asked(u64, DaemonRequest),
    /// Edits wait in the mirror.
    Edited,
    /// The run under way ended.
    Ended(RunEnding),
    /// The configuration is to be read again.
    Reload,
    /// It was read; `None` if it is invalid and the one before stays active.
    Reloaded(Option<Timetable>),
    /// The sweeps were forgotten, or the hold was cleared.
    Maintained,
    /// The API key changed: what was refused may pass.
    NewKey,
    /// The daemon is to end.
    Stop,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Begin a run of this job.
    Start(QueuedJob),
    /// Let the run under way end at a page's boundary.
    Preempt,
    /// Forget the sweeps under way; nothing starts before [`Input::Maintained`].
    ForgetSweeps,
    /// End the hold; nothing starts before [`Input::Maintained`].
    ClearHold,
    /// Publish that a job waits.
    Queued(QueuedJob),
    /// Publish that a job was preempted and continues later.
    Preempted(QueuedJob),
    /// Publish that a job ended.
    Finished(QueuedJob),
    /// Publish that a job was withdrawn.
    Withdrawn(QueuedJob),
    /// Answer a person.
    Answer(u64, DaemonAnswer),
    /// Store whether the schedule is paused, then answer the person who asked.
    StorePause(u64, Option<Instant>),
    /// Read the configuration again; nothing starts before [`Input::Reloaded`].
    Reload,
    /// Set the scheduler to the timetable.
    Reschedule,
    /// End the process.
    Exit,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DaemonAnswer {
    /// The job waits or runs, under this number.
    Accepted {
        /// The job.
        job: u64,
        /// Until when it waits, if it does.
        waits_until: Option<Instant>,
    },
    /// Done, and stored where it has to be.
    Done,
    /// In force in this process, and not stored: a restart may not know it.
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
