//! How new an answer is, and when it decides about a record. Pure.
//!
//! # The rule
//! An answer decides about a record if it is as new as the record: if it shows some record whose `updatedAt` or `createdAt`
//! is not earlier than the one that the record has here, times in the future aside. Without that, only the same answer at
//! two moments decides that are at least a quarter of an hour apart, by a clock that measures elapsed time.
//!
//! So a replica that lags behind decides nothing about the newest records, neither that they were removed nor that an
//! earlier version of them is valid; and a service that was restored from a backup, which can never show anything as new,
//! is followed after a quarter of an hour.

use std::time::Duration;

use super::instant::Instant;

pub const MOMENTS_APART: Duration = Duration::from_secs(15 * 60);

#[derive(Clone, Copy, Debug)]
pub struct AnswerTime {
    /// The latest `updatedAt` or `createdAt` that it shows, times in the future aside.
    pub shows: Option<Instant>,
    /// The ledger's steady clock.
    pub steady: Instant,
}

impl AnswerTime {
    /// How new a record without any time is, no answer shows.
    pub fn is_as_new_as(&self, record: Option<Instant>) -> bool {
        record.is_some_and(|record| self.shows.is_some_and(|shows| shows >= record))
    }

    /// Whether the same answer was first seen at another moment.
    pub fn is_second_moment(&self, first_seen: Option<Instant>) -> bool {
        first_seen.is_some_and(|first| first <= self.steady && self.steady.since(first) >= MOMENTS_APART)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minutes: u64) -> Instant {
        Instant::EPOCH.plus(Duration::from_secs((100_000 + minutes) * 60))
    }

    #[test]
    fn an_answer_is_as_new_as_what_is_not_later_than_what_it_shows() {
        for (shows, record, is_as_new) in [
            (Some(1), Some(1), true),
            (Some(2), Some(1), true),
            (Some(0), Some(1), false),
            (None, Some(1), false),
            (Some(1), None, false),
            (None, None, false),
        ] {
            let answer = AnswerTime { shows: shows.map(at), steady: at(0) };
            assert_eq!(answer.is_as_new_as(record.map(at)), is_as_new, "{shows:?} {record:?}");
        }
    }

    #[test]
    fn two_moments_are_a_quarter_of_an_hour_apart() {
        let answer = AnswerTime { shows: None, steady: at(20) };
        for (first, is_second) in [(None, false), (Some(5), true), (Some(6), false), (Some(21), false), (Some(0), true)]
        {
            assert_eq!(answer.is_second_moment(first.map(at)), is_second, "{first:?}");
        }
    }
}
