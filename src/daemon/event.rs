//! What happens to the daemon, and what it is to do about it: the words between the loop and [`super::state`].

use super::job::{Job, Outcome, Work};
use super::timetable::Timetable;
use crate::model::Instant;

/// What a person can ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// One job now.
    Run(Work),
    /// End the sweeps that are under way, and forget how far they came.
    StopSweeps,
    /// Let the schedule rest.
    Pause,
    /// Let the schedule go on.
    Resume,
    /// End the hold before its time.
    ClearHold,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Time has passed.
    Tick,
    /// The clock was set, or the machine slept; what waits by the clock is looked at anew.
    ClockMoved,
    /// A person asked; the number is for the answer.
    Asked(u64, Request),
    /// Edits wait in the mirror.
    Edited,
    /// The run under way ended.
    Ended(Outcome),
    /// The configuration is to be read again.
    Reload,
    /// It was read.
    Reloaded(Timetable),
    /// The key is another now: what was refused may pass.
    NewKey,
    /// The daemon is to end.
    Stop,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Begin a run of this job.
    Start(Job),
    /// Let the run under way end at a page's boundary.
    LetEnd,
    /// Forget the sweeps under way; before anything starts.
    ForgetSweeps,
    /// End the hold; before anything starts.
    ClearHold,
    /// Tell that a job waits.
    Queued(Job),
    /// Tell that a job was interrupted and goes on later.
    Yielded(Job),
    /// Tell that a job ended.
    Finished(Job),
    /// Tell that a job was taken back before it began.
    Dropped(Job),
    /// Answer a person.
    Answer(u64, Answer),
    /// Remember beyond this process whether the schedule rests.
    Remember(Option<Instant>),
    /// Read the configuration again.
    Reload,
    /// Set the scheduler anew.
    Reschedule,
    /// End the process.
    Exit,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The job goes on, under this number.
    Accepted {
        /// The job.
        job: u64,
        /// Until when it waits, where it does.
        waits_until: Option<Instant>,
    },
    /// It is so.
    Done,
    /// The daemon is ending.
    Ending,
}
