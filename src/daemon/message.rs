//! What reaches the daemon's loop from elsewhere in the process.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::error::DaemonError;
use super::input::{DaemonAnswer, DaemonRequest};
use super::job::{FailureKind, RunEnd, RunEnding};
use super::status_reply::{DaemonStatus, PageStatus};
use crate::config::Config;
use crate::exit::Exit;
use crate::model::Object;
use crate::sync::{Findings, Summary};

/// A message to the daemon's loop.
#[derive(Debug)]
pub enum LoopMessage {
    /// Look at the timetable.
    Tick,
    /// A person asks.
    Ask(DaemonRequest, oneshot::Sender<DaemonAnswer>),
    /// Somebody asks for the daemon's status.
    Status(oneshot::Sender<DaemonStatus>),
    /// Edits wait in the mirror.
    Edited,
    /// The run under way ended.
    Ended(Box<JobRunEnd>),
    /// Whether the schedule is paused was stored, or could not be; the number is for the answer.
    PauseStored(u64, DaemonAnswer),
    /// The sweeps were forgotten, or the hold was cleared.
    Maintained,
    /// The configuration was read again, or is invalid.
    Reloaded(Box<Result<Arc<Config>, DaemonError>>),
    /// A changed key is active.
    KeyChanged,
    /// Where the status page is, or why it is not served.
    Page(PageStatus),
}

/// How a run ended.
#[derive(Debug)]
pub struct JobRunEnd {
    /// As far as the daemon has to decide by it.
    pub ending: RunEnding,
    /// What it did; `None` where it failed.
    pub summary: Option<Summary>,
    /// What a verification found.
    pub found: Vec<(Object, Findings)>,
    /// The exit code that the verb has for such an end.
    pub exit: u8,
    /// Why it failed.
    pub error: Option<String>,
    /// The command or setting that fixes it.
    pub hint: Option<String>,
}

impl JobRunEnd {
    /// The end of a run that panicked. The panic's own words are in the log already.
    pub fn panicked() -> JobRunEnd {
        let reason = "internal error: the run panicked; please report it as a bug".into();
        JobRunEnd::failed(FailureKind::Passing, reason, Exit::Internal, Some("the log shows where"))
    }

    /// The end of a run that failed, or could not begin.
    pub fn failed(kind: FailureKind, reason: String, exit: Exit, hint: Option<&str>) -> JobRunEnd {
        JobRunEnd {
            ending: RunEnding {
                end: RunEnd::Failed { kind, reason: reason.clone(), exit: exit.code() },
                empty_until: None,
            },
            summary: None,
            found: Vec::new(),
            exit: exit.code(),
            error: Some(reason),
            hint: hint.map(String::from),
        }
    }
}
