//! The types between the socket and the service: a request with its headers, and an answer with its cost and fault.

use std::time::Duration;

use crate::model::Ru;

use super::error_answer::ErrorAnswer;
use super::fault::{DateHeader, Fault};
use super::request_line::RequestLine;

#[derive(Clone, Debug)]
pub(crate) struct IncomingRequest {
    pub(crate) asked: RequestLine,
    pub(crate) authorization: Option<String>,
    pub(crate) if_match: Option<String>,
    pub(crate) idempotency_key: Option<String>,
    pub(crate) content_type: Option<String>,
    pub(crate) body: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Success {
    pub(crate) body: String,
    pub(crate) etag: Option<String>,
    /// For a PATCH: whether this is a stored answer.
    pub(crate) replayed: Option<bool>,
    /// The number of records in the body.
    pub(crate) rows: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Served {
    pub(crate) result: Result<Success, ErrorAnswer>,
    pub(crate) retry_after_header: Option<u64>,
    /// What happens to the answer on its way.
    pub(crate) fault: Option<Fault>,
    pub(crate) date: DateHeader,
    pub(crate) key: Option<usize>,
    pub(crate) ru: Ru,
    pub(crate) slow: Duration,
    pub(crate) drag: Duration,
}

impl Served {
    /// The status that the client sees; `None` if no answer reaches it.
    pub(crate) fn status(&self) -> Option<u16> {
        match (&self.fault, &self.result) {
            (Some(Fault::Reset | Fault::ResetAfterApply), _) => None,
            (Some(Fault::Html(status) | Fault::StatusAfterApply(status) | Fault::ErrorAfterApply(status)), _) => {
                Some(*status)
            }
            (Some(Fault::Redirect { status, .. }), _) => Some(*status),
            (Some(Fault::NotJson), _) | (_, Ok(_)) => Some(200),
            (_, Err(refusal)) => Some(refusal.status),
        }
    }

    /// Whether the answer is lost or truncated on its way.
    pub(crate) fn is_cut(&self) -> bool {
        use Fault::{Reset, ResetAfterApply, Truncated, TruncatedChunked, TruncatedGzip};
        matches!(self.fault, Some(Reset | ResetAfterApply | Truncated | TruncatedChunked | TruncatedGzip))
    }
}
