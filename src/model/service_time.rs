//! A lower bound of the service's time that no single clock can push forward. Pure.
//!
//! A changes walk takes as settled what is older than the service's time when it began, less the overlap. A time that is
//! too early costs rows that are read again; one that is too late hides changes. So the bound is made of what the service
//! itself showed and of time that has certainly passed:
//!
//! - **A `Date` raises it**, but not beyond the local wall clock, nor beyond the `Date` before it plus the time since.
//! - **An `updatedAt` raises it** if neither `Date` nor wall clock are behind it: a row dated 2099 does not.
//! - **Time that passes raises it**, by the monotonic clock within one start of the machine, less a thousandth for drift.
//! - **A wall clock that is set ahead** counts only as far as the time that has passed, until a `Date` agrees with it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::clock::{ClockReading, MonotonicReading};
use super::instant::Instant;

/// Two clocks that differ by less than this agree.
const AGREEMENT: Duration = Duration::from_secs(120);

/// How far ahead of all clocks an `updatedAt` may be and still be plausible.
const PLAUSIBLY_AHEAD: Duration = Duration::from_secs(86_400);

/// By how much clocks that are right may differ; a `Date` is in whole seconds.
const MOMENT: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceTime {
    /// The service's time at the last reading was at least this.
    at_least: Option<Instant>,
    /// The service's last `Date`, and the time that passed since.
    date: Option<Instant>,
    /// The wall clock at the last reading, as far as it is believed.
    wall: Option<Instant>,
    monotonic: Option<MonotonicReading>,
}

impl ServiceTime {
    pub fn at_least(&self) -> Option<Instant> {
        self.at_least
    }

    /// Takes in an answer that was asked for at `asked` and was dated `date`.
    pub fn observe(&mut self, asked: ClockReading, date: Option<Instant>) {
        let passed = self.passed(asked);
        let expected = |before: Option<Instant>| Some(before?.plus(passed?));
        let (expected_wall, expected_date) = (expected(self.wall), expected(self.date));
        let certain = passed.map_or(Duration::ZERO, |passed| passed - passed / 1000);
        self.at_least = self.at_least.map(|at| at.plus(certain));
        let agrees = date.is_some_and(|date| date.since(asked.wall).max(asked.wall.since(date)) < AGREEMENT);
        let wall = if agrees { asked.wall } else { expected_wall.map_or(asked.wall, |wall| wall.min(asked.wall)) };
        if let Some(date) = date {
            let earliest = date.min(wall);
            self.at_least = self.at_least.max(Some(expected_date.map_or(earliest, |expected| expected.min(earliest))));
        }
        self.date = date.or(expected_date);
        (self.wall, self.monotonic) = (Some(wall), asked.monotonic);
    }

    /// Takes in that an answer was dated `date` when the clock read `seen`, unless a later answer is known already: a
    /// `Date` is evidence of its own moment only, however often it is repeated.
    pub fn observe_once(&mut self, seen: ClockReading, date: Instant) {
        let then = self.wall.map(|wall| ClockReading { wall, monotonic: self.monotonic });
        if then.is_none_or(|then| seen.since(&then) > Duration::ZERO) {
            self.observe(seen, Some(date));
        }
    }

    /// Takes in an `updatedAt` that the service has just shown. Says whether it is plausible.
    pub fn observe_update(&mut self, updated_at: Instant) -> bool {
        let earliest = self.wall.map(|wall| self.date.map_or(wall, |date| date.min(wall)));
        let plausible = earliest.is_some_and(|earliest| updated_at <= earliest);
        if plausible {
            self.at_least = self.at_least.max(Some(updated_at));
        }
        plausible
    }

    /// Takes an `updatedAt` for the bound although no clock supports it: for want of anything better.
    pub fn assume(&mut self, updated_at: Instant) {
        self.at_least = self.at_least.or(Some(updated_at));
    }

    /// Whether an `updatedAt` is plausible, as opposed to dated in the future; `None` if nothing is known yet. A row that
    /// is not plausible moves no watermark, and its version prevents no change that is dated before it.
    pub fn is_plausible(&self, updated_at: Instant) -> Option<bool> {
        let latest = self.wall.max(self.date).max(self.at_least)?;
        Some(updated_at <= latest.plus(PLAUSIBLY_AHEAD))
    }

    /// Whether a time has passed, as far as is known: one that an answer shows says how new the answer is. App servers and
    /// the clocks here differ by a moment.
    pub fn is_past(&self, at: Instant) -> bool {
        self.latest().is_some_and(|latest| at <= latest)
    }

    /// The latest time that counts as past.
    pub fn latest(&self) -> Option<Instant> {
        Some(self.wall.max(self.date).max(self.at_least)?.plus(MOMENT))
    }

    /// The time since the last reading, where it is certain.
    fn passed(&self, now: ClockReading) -> Option<Duration> {
        now.measured_since(&ClockReading { wall: self.wall?, monotonic: self.monotonic })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(second: i64) -> Instant {
        Instant::from_secs(1_700_000_000 + second).unwrap()
    }

    fn reading(passed: i64, wall: i64) -> ClockReading {
        let micros = u64::try_from(passed).unwrap() * 1_000_000;
        ClockReading { wall: at(wall), monotonic: Some(MonotonicReading { boot: 1, micros }) }
    }

    #[test]
    fn clocks_that_agree_are_believed_at_once() {
        let mut time = ServiceTime::default();
        time.observe(reading(0, 0), Some(at(1)));
        assert_eq!(time.at_least(), Some(at(0)), "the earlier of both");
        time.observe(reading(1_000, 1_000), Some(at(1_000)));
        assert_eq!(time.at_least(), Some(at(1_000)));
        // After a restart of the machine as well.
        time.observe(at(5_000).into(), Some(at(5_000)));
        assert_eq!(time.at_least(), Some(at(5_000)));
    }

    #[test]
    fn without_a_date_the_bound_is_what_the_service_showed_and_the_time_since() {
        let mut time = ServiceTime::default();
        time.observe(reading(0, 0), None);
        assert_eq!(time.at_least(), None);
        assert!(!time.observe_update(at(70 * 365 * 86_400)), "dated 2099");
        assert!(time.observe_update(at(-3_000)));
        time.observe(reading(10_000, 10_000), None);
        assert_eq!(time.at_least(), Some(at(-3_000 + 10_000 - 10)));
    }

    #[derive(Clone, Copy, Debug)]
    enum Wrong {
        Wall,
        Date,
        /// Either of them, one at a time.
        Either,
    }

    proptest! {
        /// The truth passes; one clock shows anything at any moment, the other is right, or the service has no `Date` and
        /// the wall clock was right at first. Rows are dated up to now, or far in the future.
        #[test]
        fn no_single_clock_and_no_row_pushes_the_bound_past_the_truth(
            wrong in prop_oneof![Just(Wrong::Wall), Just(Wrong::Date), Just(Wrong::Either)],
            dated in any::<bool>(),
            days in any::<bool>(),
            steps in prop::collection::vec((0_i64..40_000, -200_000_i64..200_000, 0_u8..8, -50_000_i64..50_000), 1..40),
        ) {
            let mut time = ServiceTime::default();
            let mut truth = 0;
            let mut last = None;
            time.observe(reading(0, 0), None);
            for (passed, error, date, row) in steps {
                truth += passed;
                // Two clocks that are wrong by the same agree, if both are believed.
                let error = if days { error.signum() * 86_400 } else { error };
                let (wall, shown) = match wrong {
                    Wrong::Wall => (truth + error, truth),
                    Wrong::Date => (truth, truth + error),
                    Wrong::Either if date >= 4 => (truth + error, truth),
                    Wrong::Either => (truth, truth + error),
                };
                let has_date = matches!(wrong, Wrong::Date) || dated && date % 4 > 0;
                if has_date {
                    last = Some((reading(truth, wall), at(shown)));
                }
                // What was seen last is shown again, before what is seen now.
                if let Some((seen, date)) = last {
                    time.observe_once(seen, date);
                }
                time.observe(reading(truth, wall), has_date.then(|| at(shown)));
                prop_assert!(time.at_least().is_none_or(|bound| bound <= at(truth)), "{time:?} at {truth}");
                let row = if row > 0 { truth + 100 * 86_400 } else { truth + row };
                time.observe_update(at(row));
                prop_assert!(time.at_least().is_none_or(|bound| bound <= at(truth)), "{time:?} at {truth}");
            }
        }
    }
}
