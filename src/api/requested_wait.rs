//! The wait that the service requests: `retryAfter` or `Retry-After`. It holds every request, whatever the status.

use std::time::Duration;

use super::error::members;
use crate::model::Instant;

/// The wait where the service requests one without saying for how many seconds.
const UNCLEAR: Duration = Duration::from_secs(60);

/// The wait that an error answer requests: its `retryAfter` (reference, *Errors*) or its `Retry-After` header,
/// whichever is longer; `None` if it has neither. An HTTP date is measured from `now`: the answer's own `Date`, if it
/// has one. The hold limits it.
pub fn requested_wait(body: &[u8], header: Option<&str>, now: Instant) -> Option<Duration> {
    let of_body = members(body).remove("retryAfter");
    let of_body = of_body.as_ref().map(|source| source.get()).filter(|source| *source != "null");
    let of_body = of_body.map(|source| seconds(source.trim_matches('"')).unwrap_or(UNCLEAR));
    let date = |text: &str| Instant::from_http_date(text.trim()).map(|until| until.since(now));
    let of_header = header.map(|text| seconds(text).or_else(|| date(text)).unwrap_or(UNCLEAR));
    of_body.max(of_header)
}

/// Seconds, rounded up: half a second too early would cause another 429.
fn seconds(text: &str) -> Option<Duration> {
    let seconds: f64 = text.trim().parse().ok()?;
    // A cast of a larger number gives the largest.
    (seconds.is_finite() && seconds >= 0.0).then(|| Duration::from_secs(seconds.ceil() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_of_both_waits_applies() {
        let now: Instant = "1994-11-06T08:49:37Z".parse().unwrap();
        for (body, header, wait) in [
            (r#"{"retryAfter":5}"#, None, Some(5)),
            (r#"{"retryAfter":"5"}"#, Some("7"), Some(7)),
            (r#"{"retryAfter":4.2}"#, Some("3"), Some(5)),
            (r#"{"retryAfter":0}"#, None, Some(0)),
            (r#"{"retryAfter":null}"#, Some(" 2 "), Some(2)),
            (r#"{"retryAfter":null}"#, None, None),
            (r#"{"retryAfter":1e300}"#, None, Some(u64::MAX)),
            (r#"{"retryAfter":1e999}"#, None, Some(60)),
            (r#"{"retryAfter":-3}"#, None, Some(60)),
            (r#"{"retryAfter":"NaN"}"#, None, Some(60)),
            (r#"{"message":"cut \ud83d","retryAfter":5,"retryAfter":6}"#, None, Some(6)),
            (r#"{"retryAfter":[5]}"#, Some("90"), Some(90)),
            ("<html>", Some("Sun, 06 Nov 1994 08:50:37 GMT"), Some(60)),
            ("<html>", Some("Sunday, 06-Nov-94 08:50:37 GMT"), Some(60)),
            ("<html>", Some("Sun Nov  6 08:50:37 1994"), Some(60)),
            ("<html>", Some("Sun, 06 Nov 1994 08:40:37 GMT"), Some(0)),
            ("{}", Some("soon"), Some(60)),
            ("{}", Some(""), Some(60)),
            ("", None, None),
        ] {
            let wait_read = requested_wait(body.as_bytes(), header, now);
            assert_eq!(wait_read, wait.map(Duration::from_secs), "{body} {header:?}");
        }
    }
}
