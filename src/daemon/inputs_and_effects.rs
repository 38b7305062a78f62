//! The inputs and effects of the daemon's state machine ([`super::state_machine`]).

use serde::{Deserialize, Serialize};

use super::job::{QueuedJob, RunEnding};
use super::timetable::Timetable;
use crate::model::Instant;
use crate::sync::Job;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DaemonRequest {
    Run(Job),
    Pause,
    Resume,
    ClearHold,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    Tick,
    /// The clock was set, or the machine slept: every stored time is checked again.
    ClockMoved,
    /// A user sent a request, which is answered by one of the effects.
    Asked(DaemonRequest),
    /// Edits are due: queued, or waiting for a delay that is over.
    EditsDue,
    Ended(RunEnding),
    Reload,
    /// The configuration was reloaded; `None` if the old one stays active.
    Reloaded(Option<Timetable>),
    /// The hold was cleared.
    Maintained,
    /// The API key changed: requests that were refused may succeed.
    NewKey,
    Stop,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    Start(QueuedJob),
    Preempt,
    /// End the hold; nothing starts before [`Input::Maintained`].
    ClearHold,
    Queued(QueuedJob),
    Preempted(QueuedJob),
    Finished(QueuedJob),
    Answer(DaemonAnswer),
    /// Store whether the schedule is paused, then answer the request.
    StorePause(Option<Instant>),
    /// Reload the configuration; nothing starts before [`Input::Reloaded`].
    Reload,
    Reschedule,
    Exit,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DaemonAnswer {
    Accepted(AcceptedJob),
    Done,
    Unavailable(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptedJob {
    pub job: u64,
    pub waits_until: Option<Instant>,
}
