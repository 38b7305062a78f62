//! What is sent to the control socket: small JSON documents.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::daemon::reply::problem;
use crate::model::Resource;
use crate::sync::{Acceptance, Job, Selection};

/// The body of `POST /sync` and `POST /resync`; none is an empty one.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct SyncBody {
    objects: Vec<Resource>,
    accept_removals: bool,
}

impl SyncBody {
    /// The job about what was named.
    pub fn of(&self, job: Job) -> Job {
        job.of(&self.objects).accepting(accepting(self.accept_removals))
    }
}

/// The body of `POST /verify`.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct VerifyBody {
    objects: Vec<Resource>,
    full: bool,
    repair: bool,
    accept_removals: bool,
}

impl VerifyBody {
    /// The job.
    pub fn job(&self) -> Job {
        Job::Verify {
            objects: Selection::named(&self.objects),
            full: self.full,
            repair: self.repair,
            accept: accepting(self.accept_removals),
        }
    }
}

fn accepting(removals: bool) -> Acceptance {
    Acceptance { removals, ..Acceptance::default() }
}

/// A body as it came, or why it was not read.
pub type SentBody = Result<Bytes, BytesRejection>;

/// The bytes of a body.
///
/// # Errors
/// The answer to one that was refused.
pub fn bytes(body: &SentBody) -> Result<&Bytes, Box<Response>> {
    body.as_ref().map_err(|refused| {
        let reason = format!("the body was refused: {}", refused.body_text());
        Box::new(problem(refused.status(), &reason, None))
    })
}

/// Reads a body; none is an empty document.
///
/// # Errors
/// The answer to one that is not understood.
pub fn read<T: DeserializeOwned + Default>(body: &SentBody) -> Result<T, Box<Response>> {
    let body = bytes(body)?;
    if body.is_empty() {
        return Ok(T::default());
    }
    serde_json::from_slice(body).map_err(|error| {
        let reason = format!("the body is not understood: {error}");
        Box::new(problem(StatusCode::BAD_REQUEST, &reason, Some("it is a JSON object, or nothing")))
    })
}
