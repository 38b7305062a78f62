//! The request bodies of the control socket: small JSON documents.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::StatusCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::daemon::http_server::{Problem, problem};
use crate::model::{Etag, Object, RecordId, Resource};
use crate::outbox::{EditRequest, Given, Members};
use crate::sync::{Acceptance, Job, Selection};

/// The body of `POST /sync` and `POST /resync`; a missing body is an empty one.
#[derive(Clone, Debug, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct SyncBody {
    objects: Vec<Resource>,
    accept_removals: bool,
}

impl SyncBody {
    pub fn of(&self, job: Job) -> Job {
        job.of(&self.objects).accepting(accepting(self.accept_removals))
    }
}

#[derive(Clone, Debug, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct VerifyBody {
    objects: Vec<Resource>,
    full: bool,
    repair: bool,
    accept_removals: bool,
}

impl VerifyBody {
    pub fn job(&self) -> Job {
        Job::Verify {
            objects: Selection::named(&self.objects),
            full: self.full,
            repair: self.repair,
            accept: accepting(self.accept_removals),
        }
    }
}

/// The body of `POST /edits`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EditBody {
    object: Object,
    id: RecordId,
    /// New values of columns of the `_full` view, as the service writes values.
    fields: Members,
    if_match: Option<Etag>,
}

impl EditBody {
    pub fn request(self) -> EditRequest {
        let Members(fields) = self.fields;
        EditRequest {
            object: self.object,
            record: self.id,
            changes: fields.into_iter().map(|(column, value)| (column, Given::Json(value))).collect(),
            if_match: self.if_match,
        }
    }
}

fn accepting(removals: bool) -> Acceptance {
    Acceptance { removals, ..Acceptance::default() }
}

pub(super) type SentBody = Result<Bytes, BytesRejection>;

pub(super) fn bytes(body: SentBody) -> Result<Bytes, Problem> {
    body.map_err(|refused| problem(refused.status(), &format!("the body was refused: {}", refused.body_text()), None))
}

/// Parses the bytes of a body; a missing one is an empty document.
pub fn parse<T: DeserializeOwned + Default>(body: &[u8]) -> serde_json::Result<T> {
    if body.is_empty() { Ok(T::default()) } else { serde_json::from_slice(body) }
}

pub(super) fn invalid(error: &serde_json::Error, hint: &str) -> Problem {
    problem(StatusCode::BAD_REQUEST, &format!("the body is invalid: {error}"), Some(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_that_is_given_twice_is_refused() {
        let body =
            |fields| serde_json::from_str::<EditBody>(&format!(r#"{{"object":"contact","id":"a","fields":{fields}}}"#));
        body(r#"{"notes":"first"}"#).unwrap();
        let refused = body(r#"{"notes":"first","notes":"last"}"#).unwrap_err();
        assert!(refused.to_string().contains("`notes` is there twice"), "{refused}");
    }
}
