//! What failed details of one object may cost. Pure: time is an argument.
//!
//! A detail that cannot be read affects its record only, which waits longer each time
//! ([`KnowledgeTx::detail_failed`](crate::store::KnowledgeTx)). Even if all of them fail permanently, the rate is bounded:
//!
//! | bound | value |
//! |---|---|
//! | requests for one record | 5 an hour (7 in an hour in which the kind of failure changes, 8 in two hours if each is refused for a moment); from the fifth failure on, 8 a day |
//! | failed requests of one object, those of details that are answered at the third attempt or later too | 60 an hour: 45 that may come at once, and 15 that the hour pays for |
//! | failed requests of both objects | a tenth of the budget window |
//! | consecutive records that fail without a success | 20 in a run |

use std::time::Duration;

use crate::budget::Limits;
use crate::model::{Instant, Ru};
use crate::sync::engine::FAILING_DETAILS_SHARE;

/// How many failed requests may wait for being paid.
const UNPAID: u32 = 45;
/// How long it takes to pay for a failed request, at least: fifteen an hour.
const EARNED_IN: Duration = Duration::from_secs(4 * 60);

/// Until when failed requests are paid for: each one moves that on by what it takes to earn it.
#[derive(Clone, Copy, Debug)]
pub(super) struct FailedDetails {
    paid_at: Instant,
    per_request: Duration,
    /// The longest debt.
    most: Duration,
}

impl FailedDetails {
    /// As stored: requests, which are paid for as fast as the present budget allows, and no more than it lets fail, with so
    /// many tries for a detail. What is owed since a time that is not over was stored by a clock that was lost.
    pub(super) fn stored(owed: Option<(Instant, u32)>, limits: &Limits, tries: u32, now: Instant) -> FailedDetails {
        let per_request = limits.time_to_earn(Ru::GET, FAILING_DETAILS_SHARE).max(EARNED_IN);
        let share = u32::try_from(limits.limit.get() / u64::from(FAILING_DETAILS_SHARE)).unwrap_or(UNPAID);
        let unpaid = share.clamp(1, UNPAID);
        let most = per_request.saturating_mul(unpaid);
        let owed = owed.filter(|(since, _)| *since <= now);
        let paid_at = owed.map_or(Instant::MIN, |(since, requests)| {
            since.plus(per_request.saturating_mul(requests.min(unpaid.max(tries))))
        });
        FailedDetails { paid_at, per_request, most }
    }

    pub(super) fn failed(&mut self, requests: u32, now: Instant) {
        self.paid_at = self.paid_at.max(now).plus(self.per_request.saturating_mul(requests));
    }

    /// How many requests are still to be paid for, and since when.
    pub(super) fn owed(&self, now: Instant) -> (Instant, u32) {
        let requests = self.paid_at.since(now).as_micros().div_ceil(self.per_request.as_micros().max(1));
        let requests = u32::try_from(requests).unwrap_or(u32::MAX);
        (self.paid_at.minus(self.per_request.saturating_mul(requests)), requests)
    }

    /// Whether the debt would be too long if so many fail. Without debt one attempt is made, however small the budget.
    pub(super) fn exhausted(&self, most: u32, is_first: bool, now: Instant) -> bool {
        let debt = self.paid_at.since(now);
        let is_free = is_first && debt.is_zero();
        !is_free && debt.saturating_add(self.per_request.saturating_mul(most)) > self.most
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
        let (mut made, mut owed) = (0, None);
        for now in (0..minutes).map(at) {
            let mut failed = FailedDetails::stored(owed, limits, requests, now);
            while !failed.exhausted(requests, true, now) {
                failed.failed(requests, now);
                made += 1;
            }
            owed = Some(failed.owed(now));
        }
        made
    }

    #[test]
    fn failures_use_only_a_part_of_the_budget() {
        let small = limits(200);
        let of_day = attempts(&small, 1, DAY.as_secs() / 60);
        assert!((5..=10).contains(&of_day), "{of_day} of two hundred, and as many for the other object");
        assert!(attempts(&limits(1), 5, 60) == 1, "one attempt, however small the budget is");
    }

    #[test]
    fn nothing_failed_and_eight_requests_with_five_attempts_each_may_be_under_way() {
        let ready = FailedDetails::stored(None, &limits(10_000), 5, at(0));
        assert!(!ready.exhausted(8 * 5, false, at(0)));
    }

    #[test]
    fn a_clock_that_was_lost_stops_nothing() {
        let far = FailedDetails::stored(Some((at(1_000_000), 1_000)), &limits(1_000_000), 5, at(0));
        assert!(!far.exhausted(30, true, at(0)));
    }

    #[test]
    fn what_is_owed_is_paid_by_the_budget_of_today() {
        let mut small = FailedDetails::stored(None, &limits(13), 5, at(0));
        small.failed(4, at(0));
        assert!(small.exhausted(1, true, at(60)), "a fortieth of thirteen a day is one in three days");
        let larger = FailedDetails::stored(Some(small.owed(at(0))), &limits(1_000_000), 5, at(16));
        assert_eq!(larger.owed(at(16)).1, 0, "four in four minutes each");
        let same = FailedDetails::stored(Some(small.owed(at(90))), &limits(13), 5, at(90));
        assert_eq!(same.paid_at, small.paid_at);
        // A smaller budget, or a number that nobody stored.
        for owed in [45, u32::MAX] {
            let smaller = FailedDetails::stored(Some((at(0), owed)), &limits(13), 5, at(0));
            assert_eq!(smaller.owed(at(0)).1, 5, "no more than one detail costs that fails");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        /// A service whose details all fail permanently, with runs at random times.
        #[test]
        fn rate_of_failed_requests_is_bounded(
            runs in proptest::collection::vec((0u64..90, 1u32..60), 1..200),
            requests in 1u32..=5,
        ) {
            let (limits, mut made, mut now, mut owed) = (limits(1_000_000), Vec::new(), 0, None);
            for (minutes, tried) in runs {
                now += minutes;
                let mut failed = FailedDetails::stored(owed, &limits, requests, at(now));
                for _ in 0..tried {
                    if failed.exhausted(requests, true, at(now)) {
                        break;
                    }
                    failed.failed(requests, at(now));
                    made.extend((0..requests).map(|_| now));
                }
                owed = Some(failed.owed(at(now)));
            }
            // The requests are in the order of time: each hour that begins with one is a slice of them.
            for (first, begin) in made.iter().enumerate() {
                let end = made.partition_point(|at| *at < begin + 60);
                prop_assert!(end - first <= 60, "the object in an hour");
            }
        }
    }
}
