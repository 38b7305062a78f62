//! When a failed attempt is made again: bounded in tries, in time, and in refusals in a row.
//!
//! Waits that an answer asked for are not here: the meter holds the next attempt, and everybody else's.
//!
//! The delays are `backoff`'s exponential policy with jitter; the bounds are ours, because that policy counts no
//! attempts and would measure real time, while our time is the injected clock's.

use std::time::Duration;

use backoff::backoff::Backoff;
use backoff::exponential::ExponentialBackoff;

use super::error::ApiError;
use super::error_class::ErrorClass;

/// 429s in a row before a request is given up: the meter waits out the hold between them.
const MOST_HOLDS: u32 = 8;

/// A clock that never advances. The policy asks for one, but with no time limit of its own it never measures.
#[derive(Clone, Copy, Debug)]
struct FrozenClock(std::time::Instant);

impl backoff::Clock for FrozenClock {
    fn now(&self) -> std::time::Instant {
        self.0
    }
}

/// What is left of one request's patience.
#[derive(Debug)]
pub(crate) struct Retries {
    delays: ExponentialBackoff<FrozenClock>,
    made: u32,
    tries: u32,
    holds: u32,
    left: Duration,
}

impl Retries {
    /// At most `tries` attempts, within `patience` of trying and waiting.
    pub fn new(tries: u32, patience: Duration) -> Retries {
        let start = std::time::Instant::now();
        Retries {
            delays: ExponentialBackoff {
                current_interval: Duration::from_millis(500),
                initial_interval: Duration::from_millis(500),
                randomization_factor: 0.5,
                multiplier: 2.0,
                max_interval: Duration::from_secs(30),
                start_time: start,
                max_elapsed_time: None,
                clock: FrozenClock(start),
            },
            made: 0,
            tries,
            holds: 0,
            left: patience,
        }
    }

    /// How many attempts failed so far, refusals with 429 left out.
    pub fn made(&self) -> u32 {
        self.made
    }

    /// After a failed attempt that took `took`: how long to wait before the next; `None` if there is none.
    pub fn after(&mut self, error: &ApiError, took: Duration) -> Option<Duration> {
        match error.class() {
            ErrorClass::Hold => {
                self.holds += 1;
                // The hold itself is the meter's to wait out. The pause keeps "wait 0 seconds" from being a hot loop.
                (self.holds < MOST_HOLDS).then(|| self.delay())
            }
            ErrorClass::Retry => {
                self.holds = 0;
                self.made += 1;
                self.left = self.left.saturating_sub(took);
                let delay = self.delay();
                let again = self.made < self.tries && delay <= self.left;
                self.left = self.left.saturating_sub(delay);
                again.then_some(delay)
            }
            _ => {
                self.made += 1;
                None
            }
        }
    }

    fn delay(&mut self) -> Duration {
        self.delays.next_backoff().unwrap_or(self.delays.max_interval)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::error::Rejection;
    use crate::api::key::ApiKey;

    fn status(status: u16) -> ApiError {
        let key = ApiKey::new("k").unwrap();
        ApiError::Status(Box::new(Rejection::read(status, br#"{"error":"E","message":"m"}"#, &key)))
    }

    #[test]
    fn tries_are_counted_and_delays_grow_with_jitter() {
        let mut retries = Retries::new(5, Duration::from_secs(120));
        let mut base = 0.5;
        for _ in 0..4 {
            let delay = retries.after(&status(503), Duration::ZERO).unwrap().as_secs_f64();
            assert!((base * 0.5..=base * 1.5 + 0.001).contains(&delay), "{delay} for {base}");
            base *= 2.0;
        }
        assert_eq!(retries.after(&status(503), Duration::ZERO), None);
        assert_eq!(retries.made(), 5);
    }

    #[test]
    fn time_spent_trying_counts() {
        let mut retries = Retries::new(100, Duration::from_secs(61));
        assert!(retries.after(&status(500), Duration::from_secs(30)).is_some());
        assert_eq!(retries.after(&status(500), Duration::from_secs(30)), None);
    }

    #[test]
    fn holds_are_bounded_in_a_row_and_do_not_use_up_tries() {
        let mut retries = Retries::new(2, Duration::from_secs(120));
        for _ in 0..7 {
            assert!(retries.after(&status(429), Duration::ZERO).unwrap() > Duration::ZERO);
        }
        assert_eq!(retries.after(&status(429), Duration::ZERO), None);
        let mut retries = Retries::new(2, Duration::from_secs(120));
        assert!(retries.after(&status(429), Duration::ZERO).is_some());
        assert!(retries.after(&status(503), Duration::ZERO).is_some());
        assert_eq!(retries.after(&status(404), Duration::ZERO), None);
    }
}
