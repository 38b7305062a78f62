//! The hold: how long the service asked to wait. It binds every request of this process, and of the next one.
//!
//! The rest of a hold is measured by the monotonic clock. After a restart of the machine the wall clock measures it; if
//! that was set back, the hold lasts no longer than what was left of it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::{ClockReading, Instant, MonotonicReading};

/// The first wait after a 429 without `Retry-After`; doubled after each further one.
const FIRST: Duration = Duration::from_secs(5);

/// The longest wait that is chosen here. [`LONGEST_ASKED`] is the longest that is accepted from the service.
const LONGEST_OWN: Duration = Duration::from_secs(300);
const LONGEST_ASKED: Duration = Duration::from_secs(24 * 3600);

/// A hold, and how often in a row the service asked for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// No request is sent before this time, by the wall clock at the moment when the hold began.
    pub until: Instant,
    /// Refusals since the last good answer.
    pub streak: u32,
    /// The wall clock when the hold began; absent in a hold written by an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    from: Option<Instant>,
    /// The monotonic clock when the hold began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    monotonic: Option<MonotonicReading>,
}

impl Hold {
    /// The hold after an answer at `now` that asked for `wait`, or a 429 without a wait. It never ends earlier than the
    /// previous hold.
    #[must_use]
    pub fn after(before: Option<Hold>, now: impl Into<ClockReading>, wait: Option<Duration>) -> Hold {
        let now = now.into();
        let streak = before.map_or(0, |hold| hold.streak);
        let wait = match wait {
            Some(wait) => wait.min(LONGEST_ASKED),
            None => FIRST.saturating_mul(2_u32.saturating_pow(streak)).min(LONGEST_OWN),
        };
        let left = before.and_then(|hold| hold.left(now)).unwrap_or_default();
        // Never zero: a wait of zero would cause a tight loop of requests.
        let until = now.wall.plus(wait.max(left).max(Duration::from_secs(1)));
        Hold { until, streak: streak.saturating_add(1), from: Some(now.wall), monotonic: now.monotonic }
    }

    /// How long it still lasts; `None` once it is over.
    pub fn left(&self, now: impl Into<ClockReading>) -> Option<Duration> {
        let now = now.into();
        let left = match self.from {
            Some(from) => {
                let passed = now.since(&ClockReading { wall: from, monotonic: self.monotonic });
                let expected = from.plus(passed);
                let agree = expected.since(now.wall).max(now.wall.since(expected)) < Duration::from_millis(1);
                // If the clocks agree, the wall clock is more precise.
                if agree { self.until.since(now.wall) } else { self.until.since(from).saturating_sub(passed) }
            }
            None => self.until.since(now.wall),
        };
        (!left.is_zero()).then_some(left.min(LONGEST_ASKED))
    }

    /// This hold measured from now on, if it was measured by the clocks of another boot. A wall clock that was set back
    /// meanwhile would otherwise show it with the same rest for as long as it was ahead.
    #[must_use]
    pub fn measured_from(self, now: impl Into<ClockReading>) -> Hold {
        let now = now.into();
        let both = now.monotonic.zip(self.monotonic);
        let advanced = both.is_some_and(|(now, began)| now.boot == began.boot && now.micros >= began.micros);
        match self.left(now) {
            Some(left) if !advanced => {
                Hold { until: now.wall.plus(left), from: Some(now.wall), monotonic: now.monotonic, ..self }
            }
            _ => self,
        }
    }

    /// The end of the hold as the wall clock at `now` will show it; `None` once it is over.
    pub fn ends_at(&self, now: impl Into<ClockReading>) -> Option<Instant> {
        let now = now.into();
        self.left(now).map(|left| now.wall.plus(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Instant {
        text.parse().unwrap()
    }

    #[test]
    fn retry_after_is_obeyed_and_a_429_without_it_waits_longer_each_time() {
        let now = at("2026-01-01T00:00:00Z");
        let asked = Hold::after(None, now, Some(Duration::from_secs(7)));
        assert_eq!(asked.left(now), Some(Duration::from_secs(7)));
        assert_eq!(asked.left(now.plus(Duration::from_secs(7))), None);
        let mut hold = None;
        let mut waits = vec![];
        let mut at = now;
        for _ in 0..8 {
            let next = Hold::after(hold, at, None);
            waits.push(next.until.since(at).as_secs());
            at = next.until;
            hold = Some(next);
        }
        assert_eq!(waits, [5, 10, 20, 40, 80, 160, 300, 300]);
    }

    #[test]
    fn shorter_hold_never_shortens_a_longer_one() {
        let now = at("2026-01-01T00:00:00Z");
        let long = Hold::after(None, now, Some(Duration::from_secs(60)));
        let short = Hold::after(Some(long), now, Some(Duration::ZERO));
        assert_eq!(short.until, long.until);
    }

    #[test]
    fn hold_lasts_at_least_a_second_and_at_most_a_day() {
        let now = at("2026-01-01T00:00:00Z");
        for (asked, lasts) in [(0, 1), (1, 1), (2, 2), (86_400, 86_400), (86_401, 86_400)] {
            let hold = Hold::after(None, now, Some(Duration::from_secs(asked)));
            assert_eq!(hold.until, now.plus(Duration::from_secs(lasts)), "{asked}");
        }
    }

    #[test]
    fn wall_clock_measures_the_rest_where_both_clocks_agree_within_a_millisecond() {
        let reading = |hours: u64, wall| ClockReading {
            wall: at(wall),
            monotonic: Some(MonotonicReading { boot: 1, micros: hours * 3_600_000_000 }),
        };
        let day = Hold::after(None, reading(0, "2026-01-01T10:00:00Z"), Some(Duration::from_secs(86_400)));
        for (wall, micros) in [
            ("2026-01-01T14:00:00.0005Z", 72_000_000_000 - 500),
            ("2026-01-01T13:59:59.9995Z", 72_000_000_000 + 500),
            ("2026-01-01T14:00:00.001Z", 72_000_000_000),
            ("2026-01-01T13:59:59.999Z", 72_000_000_000),
        ] {
            assert_eq!(day.left(reading(4, wall)), Some(Duration::from_micros(micros)), "{wall}");
        }
        assert_eq!(day.measured_from(reading(0, "2025-06-01T00:00:00Z")), day, "the monotonic clock did not go back");
    }

    #[test]
    fn hold_lasts_as_requested_whatever_the_wall_clock_shows() {
        let reading = |boot, hours: u64, wall| ClockReading {
            wall: at(wall),
            monotonic: Some(MonotonicReading { boot, micros: hours * 3_600_000_000 }),
        };
        let hour = |hours: u64| Some(Duration::from_secs(hours * 3600));
        let day = Hold::after(None, reading(1, 0, "2026-01-01T10:00:00Z"), Some(Duration::from_secs(86_400)));
        for (now, left) in [
            (reading(1, 0, "2026-01-01T09:59:30Z"), hour(24)),
            (reading(1, 4, "2026-01-01T14:00:00Z"), hour(20)),
            (reading(1, 4, "2025-06-01T00:00:00Z"), hour(20)),
            (reading(1, 4, "2027-06-01T00:00:00Z"), hour(20)),
            (reading(1, 24, "2025-06-01T00:00:00Z"), None),
            (reading(2, 0, "2026-01-01T14:00:00Z"), hour(20)),
            (reading(2, 0, "2025-06-01T00:00:00Z"), hour(24)),
        ] {
            assert_eq!(day.left(now), left, "{now:?}");
            assert_eq!(day.ends_at(now), left.map(|left| now.wall.plus(left)));
        }
        // After a restart with an earlier time, the rest passes all the same.
        let restarted = reading(2, 0, "2025-06-01T00:00:00Z");
        let measured = day.measured_from(restarted);
        assert_eq!(measured.left(reading(2, 5, "2025-06-01T05:00:00Z")), hour(19));
        assert_eq!(measured.left(reading(3, 0, "2025-06-02T00:00:00Z")), None);
        assert_eq!(day.measured_from(reading(1, 4, "2025-06-01T00:00:00Z")), day, "these clocks are comparable");
        let impossible = Hold { monotonic: Some(MonotonicReading { boot: 2, micros: u64::MAX }), ..day };
        assert_eq!(impossible.measured_from(restarted).left(reading(2, 25, "2025-06-02T01:00:00Z")), None);
        let without = ClockReading { wall: at("2025-06-01T00:00:00Z"), monotonic: None };
        let measured = day.measured_from(without);
        assert_eq!(measured.left(at("2025-06-01T05:00:00Z")), hour(19), "a machine without a monotonic clock");
        assert_eq!(measured.measured_from(restarted).left(reading(2, 25, "2025-06-02T01:00:00Z")), None);
        let older: Hold = serde_json::from_str(r#"{"until":"2026-01-02T10:00:00.000000000Z","streak":1}"#).unwrap();
        assert_eq!(older.left(at("2026-01-01T09:59:30Z")), hour(24));
    }
}
