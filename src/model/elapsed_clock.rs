//! The one clock for whatever lasts: windows of the budget, holds, delays, "within a day", the age of the history.
//!
//! A wall clock may be set at any moment, so it measures nothing here. The elapsed clock began at the wall clock's time and
//! advances by the time that passes: by the monotonic clock while the machine is up, and across a restart of the machine by
//! the wall clock, which is all that there is. It never goes back. What lasts is stored as an instant of this clock, so
//! setting the wall clock neither ends it nor prolongs it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::clock::{ClockReading, MonotonicReading};
use super::instant::Instant;

/// If the wall clock and the passed time differ by less than this, the wall clock was not set.
pub const SET_CLOCK: Duration = Duration::from_secs(60);

/// The elapsed clock at its last reading, in microseconds: it is stored with the ledger before every request, so its
/// form is short. The default is a clock that was never read: its first reading shows the wall clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ElapsedClock(i64, u64, i64, Option<(u32, u64)>);

impl ElapsedClock {
    #[must_use]
    pub fn at(self, now: ClockReading) -> ElapsedClock {
        let before = self.reading();
        let passed = now.since(&before);
        let measured = now.measured_since(&before).unwrap_or_default();
        let expected = before.wall.plus(passed);
        let was_set = expected.since(now.wall).max(now.wall.since(expected)) >= SET_CLOCK;
        ElapsedClock(
            self.time().plus(passed).as_micros(),
            self.1.saturating_add(u64::try_from(measured.as_micros()).unwrap_or(u64::MAX)),
            if was_set { now.wall } else { expected }.as_micros(),
            now.monotonic.map(|monotonic| (monotonic.boot, monotonic.micros)),
        )
    }

    pub fn time(&self) -> Instant {
        Instant::from_micros(self.0).unwrap_or(Instant::EPOCH)
    }

    /// How much of it the monotonic clock measured: no wall clock was trusted for that.
    pub fn measured(&self) -> Duration {
        Duration::from_micros(self.1)
    }

    /// Both clocks at the last reading; the wall clock as it would be had it not been set by less than [`SET_CLOCK`].
    pub fn reading(&self) -> ClockReading {
        ClockReading {
            wall: Instant::from_micros(self.2).unwrap_or(Instant::EPOCH),
            monotonic: self.3.map(|(boot, micros)| MonotonicReading { boot, micros }),
        }
    }

    /// By how much the wall clock was set back since the last reading; zero if the monotonic clock was lost meanwhile.
    pub fn set_back_by(&self, now: ClockReading) -> Duration {
        let before = self.reading();
        let by = now.measured_since(&before).map(|passed| before.wall.plus(passed).since(now.wall));
        by.filter(|by| *by >= SET_CLOCK).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600;

    fn reading(boot: u32, hours: u64, wall: &str) -> ClockReading {
        let monotonic = Some(MonotonicReading { boot, micros: hours * HOUR * 1_000_000 });
        ClockReading { wall: wall.parse().unwrap(), monotonic }
    }

    #[test]
    fn time_passes_by_the_monotonic_clock_and_across_a_restart_by_the_wall_clock() {
        let clock = ElapsedClock::default().at(reading(1, 10, "2026-01-01T00:00:00Z"));
        assert_eq!(clock.time(), "2026-01-01T00:00:00Z".parse().unwrap());
        for (now, shows, measured) in [
            (reading(1, 13, "2026-01-01T03:00:00Z"), "2026-01-01T03:00:00Z", 3),
            // The wall clock was set.
            (reading(1, 13, "2027-01-01T00:00:00Z"), "2026-01-01T03:00:00Z", 3),
            (reading(1, 13, "2020-01-01T00:00:00Z"), "2026-01-01T03:00:00Z", 3),
            // The machine was restarted; and its clock was set back meanwhile.
            (reading(2, 0, "2026-01-01T05:00:00Z"), "2026-01-01T05:00:00Z", 0),
            (reading(2, 0, "2020-01-01T00:00:00Z"), "2026-01-01T00:00:00Z", 0),
        ] {
            let clock = clock.at(now);
            assert_eq!(clock.time(), shows.parse().unwrap(), "{now:?}");
            assert_eq!(clock.measured(), Duration::from_secs(measured * HOUR), "{now:?}");
        }
    }
}
