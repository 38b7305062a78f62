//! Messages to the daemon's loop from other tasks.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::error::DaemonError;
use super::inputs_and_effects::{DaemonAnswer, DaemonRequest, Input};
use super::job::{FailureKind, RunEnd, RunEnding};
use super::status_reply::{DaemonStatus, PageStatus};
use crate::app::Summary;
use crate::config::Config;
use crate::error_chain::error_chain;
use crate::exit::Exit;
use crate::model::Object;
use crate::sync::{Findings, Suspension};

#[derive(Debug)]
pub(super) enum LoopMessage {
    /// What needs no conversion.
    Input(Input),
    Ask(DaemonRequest, oneshot::Sender<DaemonAnswer>),
    Status(oneshot::Sender<DaemonStatus>),
    Ended(Box<JobRunEnd>),
    /// Whether the schedule is paused was stored, or could not be stored; the number identifies the answer.
    PauseStored(u64, DaemonAnswer),
    Reloaded(Box<Result<Arc<Config>, DaemonError>>),
    Page(PageStatus),
    Failed(DaemonError),
}

#[derive(Debug)]
pub(super) struct JobRunEnd {
    pub ending: RunEnding,
    pub summary: Option<Summary>,
    pub found: Vec<(Object, Findings)>,
    pub exit: u8,
    pub error: Option<String>,
    pub hint: Option<String>,
    pub is_logged: bool,
}

impl JobRunEnd {
    /// The result of a run that panicked. The panic message is already in the log.
    pub(super) fn panicked() -> JobRunEnd {
        let reason = "internal error: the run panicked; please report it as a bug".into();
        JobRunEnd::failed(FailureKind::Passing, reason, Exit::Internal, Some("the log shows where"))
    }

    /// The result of a run that another program's lock on the mirror ended, or did not let start.
    pub(super) fn locked(error: &dyn std::error::Error) -> JobRunEnd {
        let suspended = RunEnd::Suspended(Suspension::Locked);
        let ended = JobRunEnd::failed(FailureKind::Passing, error_chain(error), Exit::Paused, None);
        JobRunEnd { ending: RunEnding { end: suspended, ..ended.ending }, ..ended }
    }

    pub(super) fn failed(kind: FailureKind, reason: String, exit: Exit, hint: Option<&str>) -> JobRunEnd {
        JobRunEnd {
            ending: RunEnding {
                end: RunEnd::Failed { kind, reason: reason.clone(), exit: exit.code() },
                empty_until: None,
                requested: true,
                polled: None,
            },
            summary: None,
            found: Vec::new(),
            exit: exit.code(),
            error: Some(reason),
            hint: hint.map(String::from),
            is_logged: false,
        }
    }
}
