//! The hold: how long the service asked to wait. It binds every request of this process, and of the next one.
//!
//! It ends at an instant of the [`ElapsedClock`](crate::model::ElapsedClock): setting the wall clock does not move it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::Instant;

/// The first wait after a 429 without `Retry-After`; doubled after each further one.
const FIRST: Duration = Duration::from_secs(5);

/// The longest wait that is chosen here.
const MAX_OWN: Duration = Duration::from_secs(300);
/// The longest wait that is accepted from the service: a wrong value must not stop a mirror for a year.
pub const LONGEST_HOLD: Duration = Duration::from_secs(24 * 3600);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Hold {
    /// No request is sent before this time of the elapsed clock.
    until: Instant,
    /// Refusals since the last good answer.
    pub streak: u32,
}

impl Hold {
    /// The hold after an answer at `now` that asked for `wait`, or a 429 without. It never ends before the last one.
    #[must_use]
    pub fn after(before: Option<Hold>, now: Instant, wait: Option<Duration>) -> Hold {
        let streak = before.map_or(0, |hold| hold.streak);
        let wait = match wait {
            Some(wait) => wait.min(LONGEST_HOLD),
            None => FIRST.saturating_mul(2_u32.saturating_pow(streak)).min(MAX_OWN),
        };
        let left = before.and_then(|hold| hold.left(now)).unwrap_or_default();
        // Never zero: a wait of zero would cause a tight loop of requests.
        let until = now.plus(wait.max(left).max(Duration::from_secs(1)));
        Hold { until, streak: streak.saturating_add(1) }
    }

    /// How long it still lasts at `now`, by the elapsed clock; `None` once it is over.
    pub fn left(&self, now: Instant) -> Option<Duration> {
        let left = self.until.since(now);
        (!left.is_zero()).then_some(left.min(LONGEST_HOLD))
    }

    /// The same hold if it can be one of this clock. If the clock was lost, and began at a wall clock that shows an
    /// earlier time, the hold would last for the difference.
    #[must_use]
    pub fn by_clock(self, now: Instant) -> Hold {
        Hold { until: self.until.min(now.plus(LONGEST_HOLD)), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ClockReading, ElapsedClock, MonotonicReading};

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
        for (asked, lasts) in [(0, 1), (1, 1), (2, 2), (86_400, 86_400), (86_401, 86_400), (u64::MAX, 86_400)] {
            let hold = Hold::after(None, now, Some(Duration::from_secs(asked)));
            assert_eq!(hold.until, now.plus(Duration::from_secs(lasts)), "{asked}");
        }
    }

    #[test]
    fn hold_lasts_as_requested_whatever_the_wall_clock_shows() {
        let reading = |boot, hours: u64, wall| ClockReading {
            wall: at(wall),
            monotonic: Some(MonotonicReading { boot, micros: hours * 3_600_000_000 }),
        };
        let hour = |hours: u64| Some(Duration::from_secs(hours * 3600));
        let clock = ElapsedClock::default().at(reading(1, 0, "2026-01-01T10:00:00Z"));
        let day = Hold::after(None, clock.time(), Some(Duration::from_secs(86_400)));
        for (now, left) in [
            (reading(1, 0, "2026-01-01T09:59:30Z"), hour(24)),
            (reading(1, 4, "2026-01-01T14:00:00Z"), hour(20)),
            (reading(1, 4, "2025-06-01T00:00:00Z"), hour(20)),
            (reading(1, 4, "2027-06-01T00:00:00Z"), hour(20)),
            (reading(1, 24, "2025-06-01T00:00:00Z"), None),
            (reading(2, 0, "2026-01-01T14:00:00Z"), hour(20)),
            (reading(2, 0, "2025-06-01T00:00:00Z"), hour(24)),
        ] {
            assert_eq!(day.left(clock.at(now).time()), left, "{now:?}");
        }
        // After a restart with an earlier time, the rest passes all the same.
        let restarted = clock.at(reading(2, 0, "2025-06-01T00:00:00Z"));
        assert_eq!(day.left(restarted.at(reading(2, 5, "2025-06-01T05:00:00Z")).time()), hour(19));
        assert_eq!(day.left(restarted.at(reading(3, 0, "2025-06-02T00:00:00Z")).time()), None);
        let without = clock.at(at("2025-06-01T00:00:00Z").into());
        let later = without.at(at("2025-06-01T05:00:00Z").into());
        assert_eq!(day.left(later.time()), hour(19), "a machine without a monotonic clock");
    }

    #[test]
    fn hold_of_a_lost_clock_lasts_a_day_at_most() {
        let hold = Hold::after(None, at("2027-01-01T00:00:00Z"), Some(Duration::from_secs(60)));
        let now = at("2026-01-01T00:00:00Z");
        assert_eq!(hold.by_clock(now).left(now.plus(Duration::from_secs(86_399))), Some(Duration::from_secs(1)));
        assert_eq!(hold.by_clock(now).left(now.plus(Duration::from_secs(86_400))), None);
    }
}
