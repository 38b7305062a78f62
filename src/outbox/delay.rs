//! How long a failed edit waits before its next request. Pure.
//!
//! A delay belongs to a record, or, if a refusal concerns more than one record, to an object or to an object's custom
//! fields. It is stored before the request is sent, in the transaction that decides on the request, so neither a kill,
//! nor a disabled schedule, nor repeated pushes by a person shorten it.
//!
//! # Invariants
//! - A record makes at most [`MAX_PER_HOUR`] requests within any hour for edits that do not finish.
//! - If updates of an object are refused as a whole, or its records fail one after the other, one request is made per
//!   delay.
//! - No delay is longer than [`MAX_DELAY`], whatever the clock shows: a delay that ends later was stored under a
//!   different clock, and is over.

use std::time::Duration;

use crate::model::{DelayScope, Instant, RetryDelay};

/// The maximum number of requests within any hour for a record whose edits do not finish.
pub const MAX_PER_HOUR: u32 = 5;

const HOUR: Duration = Duration::from_secs(3600);

pub const MAX_DELAY: Duration = Duration::from_secs(6 * 3600);

pub fn is_over(not_before: Instant, now: Instant) -> bool {
    not_before <= now || not_before > now.plus(MAX_DELAY)
}

/// When the first of some edits may be sent, given the ends of the delays of each; `None` if there are no edits.
pub fn next_due(waiting: &[Vec<Instant>], now: Instant) -> Option<Instant> {
    let due = |ends: &Vec<Instant>| ends.iter().copied().filter(|end| !is_over(*end, now)).max().unwrap_or(now);
    waiting.iter().map(due).min()
}

/// The delay after one more request, which is made now.
#[must_use]
pub fn after_request(known: Option<RetryDelay>, scope: DelayScope, now: Instant) -> RetryDelay {
    let requests = known.map_or(0, |delay| delay.requests).saturating_add(1);
    let within_the_hour = known.filter(|delay| now.since(delay.last_at) < HOUR);
    let recent = within_the_hour.map_or(0, |delay| delay.recent).saturating_add(1);
    RetryDelay { requests, recent, last_at: now, not_before: now.plus(wait(scope, requests)) }
}

/// The delay after an answer that calls for another request at once: a newer version, or edits that are sent one by
/// one. `following` requests are needed for that; if they would exceed the limit of the hour, the delay stays.
#[must_use]
pub fn after_progress(delay: RetryDelay, following: u32, now: Instant) -> RetryDelay {
    match delay.recent.saturating_add(following) <= MAX_PER_HOUR {
        true => RetryDelay { not_before: now, ..delay },
        false => delay,
    }
}

/// The delay after a record was read: the request that follows belongs to the same attempt, and waits no more.
#[must_use]
pub fn after_read(delay: RetryDelay, now: Instant) -> RetryDelay {
    RetryDelay { not_before: now, ..delay }
}

/// The delay after a request that the service refuses for a while: it begins when a request may be made again.
#[must_use]
pub fn after_hold(delay: RetryDelay, scope: DelayScope, over: Instant) -> RetryDelay {
    // Both clocks are read one after the other: it must not seem to be longer than any delay.
    let wait = wait(scope, delay.requests).min(MAX_DELAY - Duration::from_secs(60));
    RetryDelay { not_before: over.plus(wait), ..delay }
}

/// Whether a 404 is followed by a request for the record by id, after this many unsuccessful requests: at first, and
/// with each attempt after an hour. In between, the attempts alone use up the hourly limit.
pub const fn may_confirm(requests: u32) -> bool {
    requests <= 2 || requests > MAX_PER_HOUR - 1
}

/// The delay without the request that was claimed last, because it was not sent. The reason that it was not sent
/// determines when the next one is, so the delay has already ended and triggers nothing.
#[must_use]
pub fn without_request(delay: RetryDelay, now: Instant) -> RetryDelay {
    RetryDelay {
        requests: delay.requests.saturating_sub(1),
        recent: delay.recent.saturating_sub(1),
        not_before: now.minus(Duration::from_secs(60)),
        ..delay
    }
}

/// The wait after so many failed requests. A read and the request that follows from it are one attempt: after four
/// requests, no further attempt fits into the hour.
pub fn wait(scope: DelayScope, requests: u32) -> Duration {
    let seconds = match (scope, requests) {
        (_, 0) => 0,
        (DelayScope::Record, 1) => 10,
        (DelayScope::Record, 2) => 60,
        (DelayScope::Record, 3) => 10 * 60,
        (DelayScope::Record, 4..=6) => 3600,
        (DelayScope::Record, 7..=10) => 2 * 3600,
        (DelayScope::Object | DelayScope::Missed | DelayScope::CustomFields, 1) => 60,
        (DelayScope::Object | DelayScope::Missed | DelayScope::CustomFields, 2) => 5 * 60,
        (DelayScope::Object | DelayScope::Missed | DelayScope::CustomFields, 3..=4) => 15 * 60,
        (DelayScope::Object | DelayScope::Missed | DelayScope::CustomFields, 5..=8) => 3600,
        _ => MAX_DELAY.as_secs(),
    };
    Duration::from_secs(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The result of a request: it fails, perhaps after it was applied; or its version is refused.
    #[derive(Clone, Copy, Debug)]
    enum Answer {
        Fails { doubt: bool },
        OtherVersion,
        Read,
    }

    fn answer() -> impl Strategy<Value = Answer> {
        prop_oneof![
            any::<bool>().prop_map(|doubt| Answer::Fails { doubt }),
            Just(Answer::OtherVersion),
            Just(Answer::Read),
        ]
    }

    proptest! {
        /// Whatever the answers and however often it is tried, an hour never has more requests than allowed.
        #[test]
        fn record_has_at_most_five_requests_per_hour(
            answers in prop::collection::vec((answer(), 0_u64..4000), 1..80),
        ) {
            let mut now = Instant::EPOCH.plus(HOUR);
            let (mut delay, mut reads_first): (Option<RetryDelay>, bool) = (None, false);
            let mut sent: Vec<Instant> = Vec::new();
            for (answer, later) in answers {
                now = delay.map_or(now, |delay| now.max(delay.not_before)).plus(Duration::from_secs(later % 7 * (later % 600)));
                sent.push(now);
                let claimed = after_request(delay, DelayScope::Record, now);
                delay = Some(match (reads_first, answer) {
                    (true, Answer::Read | Answer::OtherVersion) => after_read(claimed, now),
                    (true, Answer::Fails { .. }) => claimed,
                    (false, Answer::OtherVersion | Answer::Read) => after_progress(claimed, 2, now),
                    (false, Answer::Fails { .. }) => claimed,
                });
                reads_first = match (reads_first, answer) {
                    (true, Answer::Fails { .. }) | (false, Answer::OtherVersion | Answer::Read) => true,
                    (true, _) => false,
                    (false, Answer::Fails { doubt }) => doubt,
                };
                let within = sent.iter().filter(|at| now.since(**at) < HOUR).count();
                prop_assert!(within <= MAX_PER_HOUR as usize, "{within} requests within an hour: {sent:?}");
            }
        }
    }

    #[test]
    fn waits_grow_up_to_the_longest() {
        for scope in [DelayScope::Record, DelayScope::Object, DelayScope::CustomFields] {
            let waits: Vec<Duration> = (0..30).map(|requests| wait(scope, requests)).collect();
            assert!(waits.is_sorted(), "{scope:?}: {waits:?}");
            assert_eq!(waits.last(), Some(&MAX_DELAY));
        }
    }

    #[test]
    fn waits_are_the_documented_ones() {
        let waits = |scope| (0..12).map(|requests| wait(scope, requests).as_secs()).collect::<Vec<_>>();
        assert_eq!(waits(DelayScope::Record), [0, 10, 60, 600, 3600, 3600, 3600, 7200, 7200, 7200, 7200, 21_600]);
        for scope in [DelayScope::Object, DelayScope::Missed, DelayScope::CustomFields] {
            assert_eq!(waits(scope), [0, 60, 300, 900, 900, 3600, 3600, 3600, 3600, 21_600, 21_600, 21_600]);
        }
    }

    #[test]
    fn not_found_is_followed_by_a_request_by_id_at_first_and_after_an_hour() {
        let confirmed: Vec<u32> = (0..8).filter(|requests| may_confirm(*requests)).collect();
        assert_eq!(confirmed, [0, 1, 2, 5, 6, 7]);
    }

    #[test]
    fn requests_of_the_last_hour_limit_what_follows_at_once() {
        let at = |seconds: u64| Instant::EPOCH.plus(Duration::from_secs(10_000 + seconds));
        let known = RetryDelay { requests: 3, recent: 3, last_at: at(0), not_before: at(600) };
        for (seconds, recent) in [(3599, 4), (3600, 1), (7200, 1)] {
            let next = after_request(Some(known), DelayScope::Record, at(seconds));
            assert_eq!((next.requests, next.recent), (4, recent), "{seconds}");
        }
        let first = after_request(None, DelayScope::Record, at(0));
        assert_eq!((first.requests, first.recent), (1, 1));
        assert_eq!(after_progress(known, 2, at(60)).not_before, at(60), "five requests are allowed");
        assert_eq!(after_progress(known, 1, at(60)).not_before, at(60), "and fewer");
        assert_eq!(after_progress(known, 3, at(60)), known);
        let largest = RetryDelay { recent: u32::MAX, ..known };
        assert_eq!(after_progress(largest, 2, at(60)), largest, "anybody can write a delay");
    }

    #[test]
    fn request_that_was_not_sent_does_not_count() {
        let at = |seconds: u64| Instant::EPOCH.plus(Duration::from_secs(10_000 + seconds));
        for (requests, left) in [(0, 0), (1, 0), (4, 3)] {
            let delay = RetryDelay { requests, recent: requests, last_at: at(0), not_before: at(3600) };
            let expected = RetryDelay { requests: left, recent: left, last_at: at(0), not_before: at(40) };
            assert_eq!(without_request(delay, at(100)), expected);
        }
    }

    #[test]
    fn delay_stored_under_a_different_clock_is_over() {
        let now = Instant::EPOCH.plus(Duration::from_secs(1_000_000));
        assert!(is_over(now, now));
        assert!(!is_over(now.plus(MAX_DELAY), now));
        assert!(is_over(now.plus(MAX_DELAY + Duration::from_secs(1)), now), "the clock was set back");
    }

    #[test]
    fn next_edit_is_due_when_the_last_of_its_delays_ends() {
        let now = Instant::EPOCH.plus(Duration::from_secs(1_000_000));
        let after = |seconds| now.plus(Duration::from_secs(seconds));
        assert_eq!(next_due(&[], now), None);
        assert_eq!(next_due(&[vec![]], now), Some(now));
        assert_eq!(next_due(&[vec![after(60), after(90)], vec![after(100)]], now), Some(after(90)));
        assert_eq!(next_due(&[vec![after(60)], vec![now.minus(HOUR)]], now), Some(now));
    }
}
