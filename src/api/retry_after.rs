//! The wait that the service requests: `retryAfter` or `Retry-After`. It holds every request, whatever the status.

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::model::Instant;

/// The longest wait that is accepted from a service: a wrong value must not stop a mirror for a year.
pub const MAX_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

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
