//! The class of an error answer: one table, and the wait that the service requests.
//!
//! The class depends on the status and on whether the body is the service's own error envelope (reference, *Errors*).
//! Gateways, proxies and captive portals answer 401, 403 and 404 as well; their pages say nothing about the key or the
//! record, so they count as temporary failures. A requested wait holds every request, whatever the status.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::model::Instant;

/// The longest wait that is accepted from a service: a wrong value must not stop a mirror for a year.
pub const MAX_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// The service asked to wait: every request of this process and of the next one waits.
    Hold,
    /// The same request may succeed later; the client's own retries are exhausted.
    Retry,
    /// The service cannot be reached as configured (unknown host, invalid certificate): an immediate retry would not
    /// help.
    Unavailable,
    /// The service reports that the record does not exist. That nominates it for removal, and proves nothing.
    Gone,
    /// The record changed meanwhile: read it, decide again, send under a new idempotency key.
    PreconditionFailed,
    /// The key may not do this to this object; the rest of the run continues.
    SkipObject,
    /// This one record cannot be requested; the rest of the run continues.
    SkipRecord,
    /// The key is refused: every other request will be refused too.
    StopAll,
    /// The request is refused in this form. A walk that sent a cursor restarts without it; an id list is halved.
    BadRequest,
    /// This request fails, now and when it is repeated; others may succeed.
    Failed,
    /// The configured address is not that of the service: a person must correct it.
    Configuration,
    /// The budget, a hold or shutdown ends the run: what is stored so far is resumed later.
    Pause,
    /// None of the above: the run ends with this error.
    StopRun,
}

/// Statuses, their class with the service's error envelope, and their class without it. The first row that contains the
/// status applies; a status in no row fails only its request.
const TABLE: &[(RangeInclusive<u16>, ErrorClass, ErrorClass)] = &[
    (301..=301, ErrorClass::Configuration, ErrorClass::Configuration),
    (302..=304, ErrorClass::Retry, ErrorClass::Retry),
    (307..=307, ErrorClass::Retry, ErrorClass::Retry),
    (308..=308, ErrorClass::Configuration, ErrorClass::Configuration),
    (400..=400, ErrorClass::BadRequest, ErrorClass::BadRequest),
    (401..=401, ErrorClass::StopAll, ErrorClass::Retry),
    (403..=403, ErrorClass::SkipObject, ErrorClass::Retry),
    (404..=404, ErrorClass::Gone, ErrorClass::Retry),
    (407..=407, ErrorClass::Configuration, ErrorClass::Configuration),
    (408..=408, ErrorClass::Retry, ErrorClass::Retry),
    (412..=412, ErrorClass::PreconditionFailed, ErrorClass::PreconditionFailed),
    // The address or the headers are too long for a server in between: a shorter request may pass.
    (414..=414, ErrorClass::BadRequest, ErrorClass::BadRequest),
    (425..=425, ErrorClass::Retry, ErrorClass::Retry),
    (429..=429, ErrorClass::Hold, ErrorClass::Hold),
    (431..=431, ErrorClass::BadRequest, ErrorClass::BadRequest),
    (501..=501, ErrorClass::Failed, ErrorClass::Failed),
    (505..=505, ErrorClass::Failed, ErrorClass::Failed),
    (500..=599, ErrorClass::Retry, ErrorClass::Retry),
];

/// The class of an error status. `envelope`: the body is the service's error envelope.
pub fn classify(status: u16, envelope: bool) -> ErrorClass {
    let row = TABLE.iter().find(|(statuses, ..)| statuses.contains(&status));
    row.map_or(ErrorClass::Failed, |(_, with, without)| if envelope { *with } else { *without })
}

/// The wait that an error answer requests: its `retryAfter` (reference, *Errors*) or its `Retry-After` header,
/// whichever is longer; `None` if it has neither. An HTTP date is measured from `now`: the answer's own `Date`, if it
/// has one.
pub fn requested_wait(body: &[u8], header: Option<&str>, now: Instant) -> Option<Duration> {
    #[derive(Deserialize)]
    struct WaitBody<'a> {
        #[serde(borrow, rename = "retryAfter")]
        retry_after: &'a RawValue,
    }
    let of_body = serde_json::from_slice::<WaitBody<'_>>(body)
        .ok()
        .and_then(|body| seconds(body.retry_after.get().trim_matches('"')));
    let of_header = header
        .and_then(|text| seconds(text).or_else(|| Instant::from_http_date(text.trim()).map(|until| until.since(now))));
    of_body.max(of_header).map(|wait| wait.min(MAX_WAIT))
}

/// Seconds, rounded up: half a second too early would cause another 429.
fn seconds(text: &str) -> Option<Duration> {
    let seconds: f64 = text.trim().parse().ok()?;
    (seconds >= 0.0).then(|| Duration::from_secs(seconds.ceil().min(MAX_WAIT.as_secs_f64()) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_its_class() {
        for (status, envelope) in (100..=599).flat_map(|status| [(status, true), (status, false)]) {
            let expected = match status {
                302..=304 | 307 | 408 | 425 => ErrorClass::Retry,
                401 | 403 | 404 if !envelope => ErrorClass::Retry,
                501 | 505 => ErrorClass::Failed,
                500..=599 => ErrorClass::Retry,
                429 => ErrorClass::Hold,
                301 | 308 | 407 => ErrorClass::Configuration,
                400 | 414 | 431 => ErrorClass::BadRequest,
                401 => ErrorClass::StopAll,
                403 => ErrorClass::SkipObject,
                404 => ErrorClass::Gone,
                412 => ErrorClass::PreconditionFailed,
                _ => ErrorClass::Failed,
            };
            assert_eq!(classify(status, envelope), expected, "{status}, envelope: {envelope}");
        }
    }

    #[test]
    fn longer_of_both_waits_applies() {
        let now: Instant = "1994-11-06T08:49:37Z".parse().unwrap();
        let day = 24 * 60 * 60;
        for (body, header, wait) in [
            (r#"{"retryAfter":5}"#, None, Some(5)),
            (r#"{"retryAfter":"5"}"#, Some("7"), Some(7)),
            (r#"{"retryAfter":4.2}"#, Some("3"), Some(5)),
            (r#"{"retryAfter":0}"#, None, Some(0)),
            (r#"{"retryAfter":-3}"#, None, None),
            (r#"{"retryAfter":null}"#, Some(" 2 "), Some(2)),
            (r#"{"retryAfter":1e300}"#, None, Some(day)),
            (r#"{"retryAfter":"NaN"}"#, None, None),
            (r#"{"retryAfter":[5]}"#, None, None),
            ("<html>", Some("Sun, 06 Nov 1994 08:50:37 GMT"), Some(60)),
            ("<html>", Some("Sunday, 06-Nov-94 08:50:37 GMT"), Some(60)),
            ("<html>", Some("Sun Nov  6 08:50:37 1994"), Some(60)),
            ("<html>", Some("Sun, 06 Nov 1994 08:40:37 GMT"), Some(0)),
            ("<html>", Some("Sat, 06 Nov 2094 08:40:37 GMT"), Some(day)),
            ("{}", Some("soon"), None),
            ("", None, None),
        ] {
            let wait_read = requested_wait(body.as_bytes(), header, now);
            assert_eq!(wait_read, wait.map(Duration::from_secs), "{body} {header:?}");
        }
    }
}
