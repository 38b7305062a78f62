//! When a failed attempt is retried: bounded in number, in time, and in consecutive 429s.
//!
//! The delays are `backoff`'s exponential policy. The bounds and the jitter are implemented here: the policy counts no
//! attempts, measures real time instead of the injected clock's, and takes its random numbers from nobody.

use std::time::Duration;

use backoff::SystemClock;
use backoff::backoff::Backoff;
use backoff::exponential::ExponentialBackoff;

use super::error::ApiError;
use super::error_class::ErrorClass;
use super::settings::Jitter;

/// Consecutive 429s before a request fails: the meter waits for the end of the hold between them.
const MAX_HOLDS: u32 = 8;

pub(crate) struct Retries {
    delays: ExponentialBackoff<SystemClock>,
    jitter: Jitter,
    made: u32,
    tries: u32,
    holds: u32,
    left: Duration,
}

impl Retries {
    pub(super) fn new(tries: u32, patience: Duration, jitter: Jitter) -> Retries {
        let delays = ExponentialBackoff {
            current_interval: Duration::from_millis(500),
            randomization_factor: 0.0,
            multiplier: 2.0,
            max_interval: Duration::from_secs(30),
            // Without a limit its own clock decides nothing.
            max_elapsed_time: None,
            ..ExponentialBackoff::default()
        };
        Retries { delays, jitter, made: 0, tries, holds: 0, left: patience }
    }

    /// The number of attempts that failed so far.
    pub(super) fn made(&self) -> u32 {
        self.made + self.holds
    }

    /// The number of attempts that failed and that no hold explains.
    pub(super) const fn failed(&self) -> u32 {
        self.made
    }

    /// After a failed attempt that took `took`: the delay before the next; `None` if there is none.
    pub(super) fn after(&mut self, error: &ApiError, took: Duration) -> Option<Duration> {
        match error.class() {
            ErrorClass::Hold => {
                self.holds += 1;
                // The meter waits for the hold itself. The pause prevents a hot loop if the wait is zero.
                (self.holds < MAX_HOLDS).then(|| self.delay())
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

    /// Half of the policy's delay to one and a half times as much, in whole milliseconds.
    fn delay(&mut self) -> Duration {
        let delay = self.delays.next_backoff().unwrap_or(self.delays.max_interval);
        let fraction = (self.jitter)().clamp(0.0, 1.0);
        Duration::from_millis((delay.as_millis() as f64 * (0.5 + fraction)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use crate::api::error::Rejection;
    use crate::api::key::ApiKey;

    fn of_system(tries: u32, patience: Duration) -> Retries {
        Retries::new(tries, patience, Arc::new(fastrand::f64))
    }

    fn status(status: u16) -> ApiError {
        let key = ApiKey::new("k").unwrap();
        ApiError::Status(Box::new(Rejection::read(status, br#"{"error":"E","message":"m"}"#, &key)))
    }

    #[test]
    fn delays_are_spread_by_half_around_that_of_the_policy() {
        let first = |fraction| {
            let mut retries = Retries::new(5, Duration::from_secs(120), Arc::new(move || fraction));
            retries.after(&status(503), Duration::ZERO).unwrap().as_millis()
        };
        assert_eq!([0.0, 0.25, 0.5, 1.0].map(first), [250, 375, 500, 750]);
        // A source that breaks its promise causes no hot loop.
        assert_eq!([-7.0, 9.0, f64::INFINITY].map(first), [250, 750, 750]);
    }

    #[test]
    fn attempts_are_counted_and_delays_grow_with_jitter() {
        let mut retries = of_system(5, Duration::from_secs(120));
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
    fn delays_follow_the_given_source_alone() {
        let delays = |fraction| {
            let mut retries = Retries::new(9, Duration::from_secs(3600), Arc::new(move || fraction));
            let delay = |_| retries.after(&status(503), Duration::ZERO).unwrap().as_millis();
            (0..8).map(delay).collect::<Vec<_>>()
        };
        assert_eq!(delays(0.5), [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
        assert_eq!(delays(0.0), [250, 500, 1000, 2000, 4000, 8000, 15_000, 15_000]);
    }

    #[test]
    fn duration_of_attempts_counts() {
        // The second attempt ends after the patience whatever the random delay between the two.
        let mut retries = of_system(100, Duration::from_secs(60));
        assert!(retries.after(&status(500), Duration::from_secs(30)).is_some());
        assert_eq!(retries.after(&status(500), Duration::from_secs(30)), None);
    }

    #[test]
    fn consecutive_holds_are_bounded_and_do_not_count_as_attempts() {
        let mut retries = of_system(2, Duration::from_secs(120));
        for _ in 0..7 {
            assert!(retries.after(&status(429), Duration::ZERO).unwrap() > Duration::ZERO);
        }
        assert_eq!(retries.after(&status(429), Duration::ZERO), None);
        let mut retries = of_system(2, Duration::from_secs(120));
        assert!(retries.after(&status(429), Duration::ZERO).is_some());
        assert!(retries.after(&status(503), Duration::ZERO).is_some());
        assert_eq!(retries.after(&status(404), Duration::ZERO), None);
    }
}
