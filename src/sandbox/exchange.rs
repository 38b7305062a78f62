//! The types between the socket and the service: a request with its headers, and an answer with its cost and delivery.

use std::time::Duration;

use crate::model::Ru;

use super::error_answer::ErrorAnswer;
use super::fault::DateHeader;
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

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Delivery {
    #[default]
    Whole,
    Lost,
    Truncated,
    TruncatedChunked,
    TruncatedGzip,
    /// A page of HTML with this status replaces the answer.
    Html(u16),
    /// An error envelope with this status replaces the answer.
    Envelope(u16),
    /// A redirect replaces the answer.
    Redirect {
        status: u16,
        location: String,
    },
    /// So many bytes of white space are added.
    Padded(u64),
}

#[derive(Clone, Debug)]
pub(crate) struct Served {
    pub(crate) result: Result<Success, ErrorAnswer>,
    pub(crate) retry_after_header: Option<u64>,
    pub(crate) delivery: Delivery,
    pub(crate) date: Option<DateHeader>,
    pub(crate) key: Option<usize>,
    pub(crate) ru: Ru,
    pub(crate) slow: Duration,
    pub(crate) drag: Duration,
}

impl Served {
    /// The status that the client sees; `None` if no answer reaches it.
    pub(crate) fn status(&self) -> Option<u16> {
        match (&self.delivery, &self.result) {
            (Delivery::Lost, _) => None,
            (Delivery::Html(status) | Delivery::Envelope(status) | Delivery::Redirect { status, .. }, _) => {
                Some(*status)
            }
            (_, Ok(_)) => Some(200),
            (_, Err(refusal)) => Some(refusal.status),
        }
    }

    /// Whether the answer is lost or truncated on its way.
    pub(crate) fn is_cut(&self) -> bool {
        use Delivery::{Lost, Truncated, TruncatedChunked, TruncatedGzip};
        matches!(self.delivery, Lost | Truncated | TruncatedChunked | TruncatedGzip)
    }
}
