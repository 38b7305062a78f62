//! Durations in settings and flags: a number and a unit; and delays that grow.

use std::time::Duration;

use jiff::{Span, SpanRelativeTo};

/// Reads `30s`, `5m`, `1d`, `1h30m`; `0` needs no unit.
pub fn duration(text: &str) -> Result<Duration, &'static str> {
    const WRONG: &str = "must be a number and a unit, such as \"30s\", \"5m\", \"12h\" or \"1d\"";
    let text = text.trim();
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    // The calendar library reads signs, fractions and words, too.
    let is_plain = text.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_lowercase());
    let span: Option<Span> = text.parse().ok().filter(|_| is_plain);
    let duration = span.and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()).ok());
    duration.and_then(|duration| duration.try_into().ok()).ok_or(WRONG)
}

/// The delay after so many failures in a row: twice as long each time, up to the longest.
pub fn growing((first, longest): (Duration, Duration), failures: u32) -> Duration {
    first.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_numbers_with_units() {
        for (text, millis) in [
            ("30s", Some(30_000)),
            ("5m", Some(300_000)),
            ("1d", Some(86_400_000)),
            ("60s", Some(60_000)),
            (" 1h30m ", Some(5_400_000)),
            ("250ms", Some(250)),
            ("0", Some(0)),
            ("0s", Some(0)),
            ("30", None),
            ("s", None),
            ("", None),
            ("-5s", None),
            ("1.5h", None),
            ("5 m", None),
            ("5é", None),
            ("1y", None),
            ("99999999999999999999d", None),
            ("9999999999999d", None),
        ] {
            assert_eq!(duration(text).ok(), millis.map(Duration::from_millis), "{text}");
        }
    }

    #[test]
    fn delay_grows_up_to_the_longest() {
        let delays = (Duration::from_secs(5), Duration::from_secs(600));
        assert_eq!([1, 2, 3, 8, 60].map(|failures| growing(delays, failures).as_secs()), [5, 10, 20, 600, 600]);
    }
}
