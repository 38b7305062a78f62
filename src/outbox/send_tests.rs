//! What each failure of an update says about it.

use super::*;
use crate::api::admission::AdmissionError;
use crate::api::{ApiKey, Rejection};

fn status(status: u16, envelope: bool) -> ApiError {
    let own = format!(r#"{{"error":"E","message":"M","code":{status}}}"#);
    let body = if envelope { own.as_str() } else { "<html>" };
    let rejection = Rejection::read(status, body.as_bytes(), &ApiKey::new("a-key").unwrap());
    assert_eq!(rejection.envelope, envelope);
    ApiError::Status(Box::new(rejection))
}

#[test]
fn every_failure_of_an_update_has_its_outcome() {
    let broken = || ApiError::Broken { tries: 1, why: String::new() };
    for (error, unanswered, expected) in [
        (status(422, true), false, PatchOutcome::Refused(422)),
        (status(422, false), true, PatchOutcome::Silence),
        (status(404, true), false, PatchOutcome::Refused(404)),
        (status(404, false), true, PatchOutcome::Silence),
        (status(425, true), true, PatchOutcome::Refused(425)),
        (status(503, true), true, PatchOutcome::Refused(503)),
        (status(503, false), true, PatchOutcome::Silence),
        (status(429, false), false, PatchOutcome::Refused(429)),
        (ApiError::Redirected { status: 302 }, false, PatchOutcome::Refused(302)),
        (ApiError::NotAdmitted(AdmissionError::Stopping), false, PatchOutcome::NotAdmitted),
        (ApiError::Unsendable { what: "etag" }, false, PatchOutcome::NotSent),
        (broken(), true, PatchOutcome::Silence),
        (broken(), false, PatchOutcome::NotSent),
    ] {
        assert_eq!(PatchOutcome::of(&error, unanswered), expected, "{error:?}, unanswered: {unanswered}");
    }
}
