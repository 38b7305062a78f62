//! What failed details of one object may cost. Pure: time is an argument.
//!
//! A detail that cannot be read affects its record only, which waits longer each time
//! ([`KnowledgeTx::detail_failed`](crate::store::KnowledgeTx)). Even if all of them fail permanently, the rate is bounded:
//!
//! | bound | value |
//! |---|---|
//! | requests for one record | 5 an hour (7 in an hour in which the kind of failure changes); from the fifth failure on, 5 a day |
//! | failed requests of one object | 60 an hour: 30 that may come at once, and 30 that the hour earns |
//! | failed requests of both objects | a twentieth of the budget, and as many more as the hour allows at once |
//! | consecutive records that fail without a success | 20 in a run |

use std::time::Duration;

use crate::budget::Limits;
use crate::model::{Instant, Ru};
use crate::sync::engine::Share;

/// What an hour may have spent before it is paid for.
const HOUR: Duration = Duration::from_secs(3600);
/// How long a request is paid for at least.
const EARNED_IN: Duration = Duration::from_secs(2 * 60);

/// Until when failed requests are paid for: each one moves that on by what it takes to earn it.
#[derive(Clone, Copy, Debug)]
pub(super) struct FailedDetails {
    pub(super) paid_at: Instant,
    per_request: Duration,
}

impl FailedDetails {
    /// As stored. A time that lies further ahead than can be was stored by a clock that was lost.
    pub(super) fn stored(paid_at: Option<Instant>, limits: &Limits, now: Instant) -> FailedDetails {
        let per_request = Share::FAILING_DETAILS.time_to_earn(Ru::GET, limits).max(EARNED_IN);
        let longest = HOUR + per_request.saturating_mul(u32::from(u8::MAX));
        let paid_at = paid_at.filter(|at| at.since(now) <= longest).unwrap_or(Instant::MIN);
        FailedDetails { paid_at, per_request }
    }

    /// Counts requests that failed.
    pub(super) fn failed(&mut self, requests: u32, now: Instant) {
        self.paid_at = self.paid_at.max(now).plus(self.per_request.saturating_mul(requests));
    }

    /// Whether so many requests could not be paid for within the hour if all of them fail. What is not in debt may make
    /// one attempt, however small the budget is.
    pub(super) fn exhausted(&self, most: u32, is_first: bool, now: Instant) -> bool {
        let debt = self.paid_at.since(now);
        let is_free = is_first && debt.is_zero();
        !is_free && debt.saturating_add(self.per_request.saturating_mul(most)) > HOUR
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn limits(limit: u64) -> Limits {
        Limits { limit: Ru::new(limit), window: DAY, charge_failed: true }
    }

    fn at(minutes: u64) -> Instant {
        Instant::EPOCH.plus(Duration::from_secs(minutes * 60))
    }

    /// How many attempts of so many requests can be made in `minutes`.
    fn attempts(limits: &Limits, requests: u32, minutes: u64) -> u32 {
        let (mut made, mut paid_at) = (0, None);
        for now in (0..minutes).map(at) {
            let mut failed = FailedDetails::stored(paid_at, limits, now);
            while !failed.exhausted(requests, true, now) {
                failed.failed(requests, now);
                made += 1;
            }
            paid_at = Some(failed.paid_at);
        }
        made
    }

    #[test]
    fn failures_use_only_a_part_of_the_budget() {
        let small = limits(200);
        let of_day = attempts(&small, 1, DAY.as_secs() / 60);
        assert!((1..=6).contains(&of_day), "{of_day} of two hundred");
        assert!(attempts(&limits(1), 5, 60) == 1, "one attempt, however small the budget is");
    }

    #[test]
    fn a_clock_that_was_lost_stops_nothing() {
        let far = FailedDetails::stored(Some(at(1_000_000)), &limits(1_000_000), at(0));
        assert!(!far.exhausted(30, true, at(0)));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        /// A service whose details all fail permanently, with runs at random times.
        #[test]
        fn rate_of_failed_requests_is_bounded(
            runs in proptest::collection::vec((0u64..90, 1u32..60), 1..200),
            requests in 1u32..=5,
        ) {
            let (limits, mut made, mut now, mut paid_at) = (limits(1_000_000), Vec::new(), 0, None);
            for (minutes, tried) in runs {
                now += minutes;
                let mut failed = FailedDetails::stored(paid_at, &limits, at(now));
                for _ in 0..tried {
                    if failed.exhausted(requests, true, at(now)) {
                        break;
                    }
                    failed.failed(requests, at(now));
                    made.extend((0..requests).map(|_| now));
                }
                paid_at = Some(failed.paid_at);
            }
            // The requests are in the order of time: each hour that begins with one is a slice of them.
            for (first, begin) in made.iter().enumerate() {
                let end = made.partition_point(|at| *at < begin + 60);
                prop_assert!(end - first <= 60, "the object in an hour");
            }
        }
    }
}
