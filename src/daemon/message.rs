//! What reaches the daemon's loop.

use tokio::sync::oneshot;

use super::error::DaemonError;
use super::event::{Answer, Request};
use super::job::{End, Failing, Outcome};
use super::told::DaemonStatus;
use crate::exit::Exit;
use crate::model::Object;
use crate::sync::{Findings, Summary};

/// What reaches the daemon's loop from elsewhere in the process.
#[derive(Debug)]
pub enum Message {
    /// Look at the timetable.
    Tick,
    /// A person asks.
    Ask(Request, oneshot::Sender<Answer>),
    /// Somebody wants to know how it stands.
    Status(oneshot::Sender<DaemonStatus>),
    /// Edits wait in the mirror.
    Edited,
    /// The run under way ended.
    Ended(Box<RunEnded>),
}

/// How a run ended.
#[derive(Debug)]
pub struct RunEnded {
    /// As far as the daemon has to decide by it.
    pub outcome: Outcome,
    /// What it did; `None` where it failed.
    pub summary: Option<Summary>,
    /// What a verification found.
    pub found: Vec<(Object, Findings)>,
    /// The exit code that the verb has for such an end.
    pub exit: u8,
    /// Why it failed.
    pub error: Option<String>,
    /// A next move for a person.
    pub hint: Option<String>,
}

impl RunEnded {
    /// The end of a run that could not even begin.
    pub fn could_not_begin(error: &DaemonError) -> RunEnded {
        RunEnded::failed(error.to_string(), error.exit(), error.hint())
    }

    /// The end of a run that broke down. The panic's own words are in the log already.
    pub fn broke_down() -> RunEnded {
        RunEnded::failed("the run broke down".into(), Exit::Internal, Some("the log tells where"))
    }

    fn failed(why: String, exit: Exit, hint: Option<&'static str>) -> RunEnded {
        RunEnded {
            outcome: Outcome { end: End::Failed { failing: Failing::Passing, why: why.clone() }, empty_until: None },
            summary: None,
            found: Vec::new(),
            exit: exit.code(),
            error: Some(why),
            hint: hint.map(String::from),
        }
    }
}
