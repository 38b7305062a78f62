//! The RU ledger: how much of the window's budget is spent, and whether a purpose may spend more.
//!
//! # Why windows do not follow the wall clock
//! A wall clock that jumps a day ahead would begin a window whose budget the service has not granted yet. So a window
//! ends when its length has passed by the monotonic clock. The wall clock only determines when the first window begins,
//! and bridges a restart of the machine. When the wall clock is set, the window moves with it: the spent RU stay spent,
//! and the rest of the window lasts as long as before.
//!
//! The ledger holds the [`ElapsedClock`] by which everything else is measured too, since it is stored before every request.
//!
//! # Requests under way
//! The service may count a request that is under way while a window ends in either window, since when it counts is not
//! documented (reference, *Limits*). So such a request counts in both, until its outcome is known.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Hold;
use crate::model::elapsed_clock::SET_CLOCK;
use crate::model::{ClockReading, ElapsedClock, Instant, Purpose, Ru};

/// Clocks that were not set differ by less than this: they are read one after the other, and rounded.
const READ_APART: Duration = Duration::from_millis(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub limit: Ru,
    /// The length of a window; windows begin at whole multiples of it since the epoch (days begin at midnight UTC).
    pub window: Duration,
    /// Whether a request that failed counts, since what it costs is not documented (reference, *Limits*, rule 4).
    pub charge_failed: bool,
}

impl Limits {
    pub fn window(&self) -> Duration {
        self.window.max(Duration::from_secs(1))
    }

    /// How long a share of the budget, one part in `parts`, takes to pay a cost.
    pub fn time_to_earn(&self, cost: Ru, parts: u32) -> Duration {
        let seconds = self.window().as_secs().saturating_mul(cost.get()).saturating_mul(u64::from(parts));
        Duration::from_secs(seconds / self.limit.get().max(1))
    }

    /// The first aligned beginning at or after `at`, or `at` itself if it is close to one: no window is cut short.
    fn aligned(&self, at: Instant) -> Instant {
        let window = i64::try_from(self.window().as_secs()).unwrap_or(i64::MAX);
        let into = Duration::from_secs(at.as_secs().rem_euclid(window).unsigned_abs()) + at.since(at.whole_second());
        if into < SET_CLOCK.min(self.window() / 2) { at } else { at.plus(self.window().saturating_sub(into)) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// The beginning of the window, as the wall clock shows it now.
    pub since: Instant,
    pub used: Ru,
    /// Spent since the mirror was made.
    pub total: Ru,
    pub window: u32,
    /// The clock at the last update of the ledger.
    pub clock: ElapsedClock,
    /// By how much the wall clock was set back, as far as no claim was dated back by it. It is stored wherever the clock is: who
    /// reads that clock sees no more that it was set.
    pub set_back: Duration,
    /// A file of which another copy is restored, or none, has to know both.
    #[serde(default)]
    pub hold: Option<Hold>,
    /// What the requests cost that are under way; part of `used`. It is not stored: no request outlives its process.
    #[serde(skip)]
    pub under_way: Ru,
}

impl Default for Ledger {
    fn default() -> Ledger {
        let (since, none, clock, set_back) = (Instant::EPOCH, Ru::ZERO, ElapsedClock::default(), Duration::ZERO);
        Ledger { since, used: none, total: none, window: 0, clock, set_back, hold: None, under_way: none }
    }
}

impl Ledger {
    /// The ledger at `now`: if the window's length has passed, one follows in which only what is under way is spent.
    #[must_use]
    pub fn at(self, now: impl Into<ClockReading>, limits: &Limits) -> Ledger {
        let (now, before) = (now.into(), self.clock.reading());
        let passed = before.wall.plus(now.since(&before));
        let mut ledger = self;
        if passed >= self.since.plus(limits.window()) {
            // Windows follow each other without a gap, also if some were unused.
            let into = Duration::from_nanos_u128(passed.since(self.since).as_nanos() % limits.window().as_nanos());
            let (since, window) = (passed.minus(into), self.window.wrapping_add(1));
            ledger = Ledger { since, used: self.under_way, window, ..self };
            if now.measured_since(&before).is_none() {
                ledger.since = limits.aligned(ledger.since);
            }
        }
        ledger.set_back = self.set_back.saturating_add(self.clock.set_back_by(now));
        ledger.clock = self.clock.at(now);
        let wall = ledger.clock.reading().wall;
        if wall.since(passed).max(passed.since(wall)) >= SET_CLOCK {
            ledger.since = ledger.since.plus(wall.since(passed)).minus(passed.since(wall));
        }
        ledger
    }

    pub fn steady_time(&self) -> Instant {
        self.clock.time()
    }

    /// How long no request is sent; `None` if there is no hold.
    pub fn hold_left(&self) -> Option<Duration> {
        self.hold?.left(self.steady_time())
    }

    pub fn refills_at(&self, limits: &Limits) -> Instant {
        self.since.plus(limits.window())
    }

    /// The same as a wall clock will show it that shows `wall` at the last update. A clock that was set by less than a
    /// minute does not move the window, so without this a waiting process would try again until the minute is over.
    pub fn refills_at_by(&self, limits: &Limits, wall: Instant) -> Instant {
        let last = self.clock.reading().wall;
        if wall.since(last).max(last.since(wall)) < READ_APART {
            return self.refills_at(limits);
        }
        wall.plus(self.refills_at(limits).since(last))
    }

    /// What a purpose may still spend in this window. Edits, sweeps and details leave the `reserve` to later runs.
    pub fn left_for(&self, purpose: Purpose, limits: &Limits, reserve: Ru) -> Ru {
        let left = limits.limit.saturating_sub(self.used);
        let uses_reserve = (Purpose::Changes..Purpose::Sweep).contains(&purpose);
        if uses_reserve { left } else { left.saturating_sub(reserve) }
    }

    /// Records a request that is about to be sent, and is under way from then on.
    pub fn charge(
        self,
        now: impl Into<ClockReading>,
        cost: Ru,
        purpose: Purpose,
        limits: &Limits,
        reserve: Ru,
    ) -> Result<Ledger, Instant> {
        let now = now.into();
        let ledger = self.at(now, limits);
        if cost > ledger.left_for(purpose, limits, reserve) {
            return Err(ledger.refills_at_by(limits, now.wall));
        }
        let (used, total, under_way) = (ledger.used + cost, ledger.total + cost, ledger.under_way + cost);
        Ok(Ledger { used, total, under_way, ..ledger })
    }

    /// A request that was charged is no longer under way. The ledger must be that of the current moment ([`Ledger::at`]).
    #[must_use]
    pub fn ended(self, cost: Ru) -> Ledger {
        Ledger { under_way: self.under_way.saturating_sub(cost), ..self }
    }

    /// Refunds the charge of a request that ended just now at no cost. It counts in the current window in any case.
    #[must_use]
    pub fn refund(self, cost: Ru) -> Ledger {
        Ledger { used: self.used.saturating_sub(cost), total: self.total.saturating_sub(cost), ..self }
    }
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
