//! What an answer means for what comes next: one table, and how long the service asks to wait.

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::model::Instant;

/// No wait that a service asks for is believed beyond this: a typo there must not stop a mirror for a year.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// What a failure means for what the caller does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// Every request of this process waits, and the next process too.
    Hold,
    /// The same request may succeed later; the client's own retries are used up.
    Retry,
    /// The record is not there any more.
    Gone,
    /// The record changed meanwhile: read it, reconsider, send under a new idempotency key.
    Rebase,
    /// The key may not do this to this object; the rest goes on.
    SkipObject,
    /// This one record cannot be asked for; the rest goes on.
    SkipRecord,
    /// The key is refused: nothing else will be answered either.
    StopAll,
    /// The request is refused as it stands. A walk that sent a cursor restarts without it.
    BadRequest,
    /// The budget, a hold or the end of the program came first: what is stored so far is resumed later.
    Pause,
    /// Nothing above: the run ends with this error.
    StopRun,
}

/// What an HTTP status means (reference, *Errors*). A status that is not in this table is not retried.
pub const fn class(status: u16) -> ErrorClass {
    match status {
        429 => ErrorClass::Hold,
        500 | 502 | 503 | 504 => ErrorClass::Retry,
        404 => ErrorClass::Gone,
        412 => ErrorClass::Rebase,
        403 => ErrorClass::SkipObject,
        401 => ErrorClass::StopAll,
        400 => ErrorClass::BadRequest,
        _ => ErrorClass::StopRun,
    }
}

/// How long an error answer asks to wait: its `retryAfter` (reference, *Errors*) or its `Retry-After` header, whichever
/// is longer; `None` if it names neither. `now` is what an HTTP date is measured from: the answer's own `Date`, if any.
pub fn wait_asked(body: &[u8], header: Option<&str>, now: Instant) -> Option<Duration> {
    #[derive(Deserialize)]
    struct Body<'a> {
        #[serde(borrow, rename = "retryAfter")]
        retry_after: &'a RawValue,
    }
    let of_body = serde_json::from_slice::<Body<'_>>(body)
        .ok()
        .and_then(|body| seconds(body.retry_after.get().trim_matches('"')));
    let of_header = header
        .and_then(|text| seconds(text).or_else(|| Instant::from_http_date(text.trim()).map(|until| until.since(now))));
    of_body.max(of_header).map(|wait| wait.min(LONGEST_WAIT))
}

/// Seconds, rounded up: half a second too early is another refusal.
fn seconds(text: &str) -> Option<Duration> {
    let seconds: f64 = text.trim().parse().ok()?;
    (seconds >= 0.0).then(|| Duration::from_secs(seconds.ceil().min(LONGEST_WAIT.as_secs_f64()) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table() {
        for (status, meaning) in [
            (400, ErrorClass::BadRequest),
            (401, ErrorClass::StopAll),
            (403, ErrorClass::SkipObject),
            (404, ErrorClass::Gone),
            (409, ErrorClass::StopRun),
            (412, ErrorClass::Rebase),
            (418, ErrorClass::StopRun),
            (422, ErrorClass::StopRun),
            (428, ErrorClass::StopRun),
            (429, ErrorClass::Hold),
            (500, ErrorClass::Retry),
            (501, ErrorClass::StopRun),
            (502, ErrorClass::Retry),
            (503, ErrorClass::Retry),
            (504, ErrorClass::Retry),
        ] {
            assert_eq!(class(status), meaning, "{status}");
        }
    }

    #[test]
    fn the_longer_of_both_waits_wins() {
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
            ("<html>", Some("Sun, 06 Nov 1994 08:40:37 GMT"), Some(0)),
            ("<html>", Some("Sat, 06 Nov 2094 08:40:37 GMT"), Some(day)),
            ("{}", Some("soon"), None),
            ("", None, None),
        ] {
            let asked = wait_asked(body.as_bytes(), header, now);
            assert_eq!(asked, wait.map(Duration::from_secs), "{body} {header:?}");
        }
    }
}
