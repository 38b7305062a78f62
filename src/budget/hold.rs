//! The hold: how long the service asked for quiet. It binds every request of this process, and of the next one.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::Instant;

/// The first wait after a 429 that names none; doubled with each further one.
const FIRST: Duration = Duration::from_secs(5);

/// The longest wait that is chosen here, and the longest that is taken from the service.
const LONGEST_OWN: Duration = Duration::from_secs(300);
const LONGEST_ASKED: Duration = Duration::from_secs(24 * 3600);

/// A hold, and how often in a row the service asked for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// No request before this.
    pub until: Instant,
    /// Refusals since the last good answer.
    pub streak: u32,
}

impl Hold {
    /// The hold after a 429 at `now` that asked for `wait`. It never ends earlier than the hold before it.
    #[must_use]
    pub fn after(before: Option<Hold>, now: Instant, wait: Option<Duration>) -> Hold {
        let streak = before.map_or(0, |hold| hold.streak);
        let wait = match wait {
            Some(asked) => asked.min(LONGEST_ASKED),
            None => FIRST.saturating_mul(1 << streak.min(10)).min(LONGEST_OWN),
        };
        // Never zero: a service that says "now" would be asked in a tight loop.
        let until = now.plus(wait.max(Duration::from_secs(1)));
        Hold { until: before.map_or(until, |hold| hold.until.max(until)), streak: streak + 1 }
    }

    /// How long it still lasts; `None` once it is over. A hold longer than any is one that a clock jump left behind.
    pub fn left(&self, now: Instant) -> Option<Duration> {
        let left = self.until.since(now);
        (!left.is_zero() && left <= LONGEST_ASKED).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_is_obeyed_and_a_silent_refusal_waits_longer_each_time() {
        let now: Instant = "2026-01-01T00:00:00Z".parse().unwrap();
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
    fn a_shorter_hold_never_cuts_a_longer_one() {
        let now: Instant = "2026-01-01T00:00:00Z".parse().unwrap();
        let long = Hold::after(None, now, Some(Duration::from_secs(60)));
        let short = Hold::after(Some(long), now, Some(Duration::ZERO));
        assert_eq!(short.until, long.until);
    }
}
