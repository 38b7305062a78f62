//! How long an edit that did not get through waits before its next request: pure.
//!
//! A delay belongs to a record, or, where a refusal concerns more than one record, to an object or to an object's custom
//! fields. It is stored, and it is claimed before the request is sent, in the transaction that decides on the request:
//! a process that is killed, a schedule that is off and a person who pushes again and again change nothing about it.
//!
//! # Always true
//! - A record makes at most [`MOST_PER_HOUR`] requests within any hour for edits that do not come to an end.
//! - An object whose updates are refused as a whole, or whose records fail one after the other, is tried by one request
//!   per delay.
//! - No delay is longer than [`LONGEST`], whatever the clock says: one that ends later than that was stored under another
//!   clock, and is over.

use std::time::Duration;

use crate::model::{DelayScope, Instant, RetryDelay};

/// The most requests within any hour for a record whose edits do not come to an end.
pub const MOST_PER_HOUR: u32 = 5;

/// The time that is looked at.
const HOUR: Duration = Duration::from_secs(3600);

/// The longest delay.
pub const LONGEST: Duration = Duration::from_secs(6 * 3600);

/// Whether a request may be made now.
pub fn is_over(not_before: Instant, now: Instant) -> bool {
    not_before <= now || not_before > now.plus(LONGEST)
}

/// When the first of some edits may be sent, by the ends of the delays that each waits for; `None` where there is none.
pub fn next_due(waiting: &[Vec<Instant>], now: Instant) -> Option<Instant> {
    let due = |ends: &Vec<Instant>| ends.iter().copied().filter(|end| !is_over(*end, now)).max().unwrap_or(now);
    waiting.iter().map(due).min()
}

/// The delay after one more request, which is made now.
#[must_use]
pub fn after_request(known: Option<RetryDelay>, scope: DelayScope, now: Instant) -> RetryDelay {
    let requests = known.map_or(0, |delay| delay.requests).saturating_add(1);
    let paused = known.is_none_or(|delay| now.since(delay.last_at) >= HOUR);
    let recent = if paused { 1 } else { known.map_or(0, |delay| delay.recent).saturating_add(1) };
    RetryDelay { requests, recent, last_at: now, not_before: now.plus(wait(scope, requests)) }
}

/// The delay after an answer that asks for more at once: a version that moved on, edits that are sent one by one.
/// `following` requests are needed to make use of it; where they would be too many within the hour, the delay stays.
#[must_use]
pub fn after_progress(delay: RetryDelay, following: u32, now: Instant) -> RetryDelay {
    match delay.recent + following <= MOST_PER_HOUR {
        true => RetryDelay { not_before: now, ..delay },
        false => delay,
    }
}

/// The delay after a record was read: the request that follows belongs to the same try, which the wait before it has
/// allowed for.
#[must_use]
pub fn after_read(delay: RetryDelay, now: Instant) -> RetryDelay {
    RetryDelay { not_before: now, ..delay }
}

/// The delay without the request that was claimed last: it was not made. What kept it back says when there is a next one, so
/// the delay ended some time ago and wakes nobody.
#[must_use]
pub fn without_request(delay: RetryDelay, now: Instant) -> RetryDelay {
    RetryDelay {
        requests: delay.requests.saturating_sub(1),
        recent: delay.recent.saturating_sub(1),
        not_before: now.minus(Duration::from_secs(60)),
        ..delay
    }
}

/// The wait after so many requests without success. A read and the request that follows from it are one try: after four
/// requests, no further try fits into the hour.
pub fn wait(scope: DelayScope, requests: u32) -> Duration {
    let seconds = match (scope, requests) {
        (_, 0) => 0,
        (DelayScope::Record, 1) => 10,
        (DelayScope::Record, 2) => 60,
        (DelayScope::Record, 3) => 10 * 60,
        (DelayScope::Record, 4..=6) => 3600,
        (DelayScope::Record, 7..=10) => 2 * 3600,
        (DelayScope::Object | DelayScope::CustomFields, 1) => 60,
        (DelayScope::Object | DelayScope::CustomFields, 2) => 5 * 60,
        (DelayScope::Object | DelayScope::CustomFields, 3..=4) => 15 * 60,
        (DelayScope::Object | DelayScope::CustomFields, 5..=8) => 3600,
        _ => LONGEST.as_secs(),
    };
    Duration::from_secs(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What becomes of a request: it fails, perhaps after it was carried out; or its version is refused.
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
        /// However the answers mix and however eagerly it is tried, an hour never sees more requests than allowed.
        #[test]
        fn an_hour_holds_five_requests_of_a_record(
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
                prop_assert!(within <= MOST_PER_HOUR as usize, "{within} requests within an hour: {sent:?}");
            }
        }
    }

    #[test]
    fn waits_grow_up_to_the_longest() {
        for scope in [DelayScope::Record, DelayScope::Object, DelayScope::CustomFields] {
            let waits: Vec<Duration> = (0..30).map(|requests| wait(scope, requests)).collect();
            assert!(waits.is_sorted(), "{scope:?}: {waits:?}");
            assert_eq!(waits.last(), Some(&LONGEST));
        }
    }

    #[test]
    fn a_delay_that_another_clock_stored_is_over() {
        let now = Instant::EPOCH.plus(Duration::from_secs(1_000_000));
        assert!(is_over(now, now));
        assert!(!is_over(now.plus(LONGEST), now));
        assert!(is_over(now.plus(LONGEST * 2), now), "the clock was set back");
    }

    #[test]
    fn the_next_edit_is_due_when_the_last_of_its_delays_ends() {
        let now = Instant::EPOCH.plus(Duration::from_secs(1_000_000));
        let after = |seconds| now.plus(Duration::from_secs(seconds));
        assert_eq!(next_due(&[], now), None);
        assert_eq!(next_due(&[vec![]], now), Some(now));
        assert_eq!(next_due(&[vec![after(60), after(90)], vec![after(100)]], now), Some(after(90)));
        assert_eq!(next_due(&[vec![after(60)], vec![now.minus(HOUR)]], now), Some(now));
    }
}
