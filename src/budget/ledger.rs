//! The RU ledger: how much of the window's budget is spent, and whether a purpose may spend more.
//!
//! # Why windows do not begin when the wall clock says so
//! A wall clock that jumps a day ahead would begin a window whose budget the service has not granted yet. So a window
//! ends when its length has passed by the monotonic clock; the wall clock only says when the first one began, and bridges
//! a restart of the machine, where nothing else is known. When the wall clock is set, the window moves with it: what is
//! spent stays spent, and the rest of the window takes as long as before.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::{ClockReading, Instant, MonotonicReading, Purpose, Ru};

/// A difference between the wall clock and the time that has passed, below which the wall clock was not set.
const SET_CLOCK: Duration = Duration::from_secs(60);

/// What may be spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Request units per window.
    pub limit: Ru,
    /// The length of a window; windows begin at whole multiples of it since the epoch (days begin at midnight UTC).
    pub window: Duration,
    /// Whether a request that failed counts, since what it costs is not documented (reference, *Limits*, rule 4).
    pub charge_failed: bool,
}

impl Limits {
    fn window(&self) -> Duration {
        self.window.max(Duration::from_secs(1))
    }

    /// The first aligned beginning at or after `at`, so that no window is cut short; `at` itself where that is as good as
    /// a beginning already.
    fn aligned(&self, at: Instant) -> Instant {
        let window = i64::try_from(self.window().as_secs()).unwrap_or(i64::MAX);
        let into = Duration::from_secs(at.as_secs().rem_euclid(window).unsigned_abs()) + at.since(at.whole_second());
        if into < SET_CLOCK.min(self.window() / 2) { at } else { at.plus(self.window().saturating_sub(into)) }
    }
}

/// What has been spent in the window, and ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// The beginning of the window, as the wall clock shows it now.
    pub since: Instant,
    /// Spent in the window.
    pub used: Ru,
    /// Spent since the mirror was made.
    pub total: Ru,
    /// Which window this is: a charge is only given back to its own.
    #[serde(default)]
    pub window: u32,
    /// Both clocks when the ledger was last brought up to date: wall microseconds, start of the machine, and
    /// microseconds since then. Short, because the ledger is noted before every request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<(i64, Option<(u32, u64)>)>,
}

/// A charge that was entered, to be given back if the request cost nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// What was charged.
    pub cost: Ru,
    /// The window that it was charged to.
    pub window: u32,
}

impl Default for Ledger {
    fn default() -> Ledger {
        Ledger { since: Instant::EPOCH, used: Ru::ZERO, total: Ru::ZERO, window: 0, clock: None }
    }
}

impl Ledger {
    /// Both clocks when the ledger was last brought up to date; a ledger of an older version knows only its window.
    fn last_reading(&self) -> ClockReading {
        let (wall, monotonic) = match self.clock {
            Some((micros, monotonic)) => (Instant::from_micros(micros).unwrap_or(self.since), monotonic),
            None => (self.since, None),
        };
        ClockReading { wall, monotonic: monotonic.map(|(boot, micros)| MonotonicReading { boot, micros }) }
    }

    /// The ledger at `now`: a window whose length has passed is followed by an empty one.
    #[must_use]
    pub fn at(self, now: impl Into<ClockReading>, limits: &Limits) -> Ledger {
        let (now, before) = (now.into(), self.last_reading());
        let passed = before.wall.plus(now.since(&before));
        let mut ledger = self;
        if passed >= self.since.plus(limits.window()) {
            // Windows follow each other without a gap, however many went by unused.
            let into = Duration::from_nanos(
                (passed.since(self.since).as_nanos() % limits.window().as_nanos()).try_into().unwrap_or(0),
            );
            ledger = Ledger { since: passed.minus(into), used: Ru::ZERO, window: self.window.wrapping_add(1), ..self };
            if !now.is_comparable(&before) {
                ledger.since = limits.aligned(ledger.since);
            }
        }
        let (ahead, behind) = (now.wall.since(passed), passed.since(now.wall));
        let wall = if ahead.max(behind) >= SET_CLOCK {
            ledger.since = ledger.since.plus(ahead).minus(behind);
            now.wall
        } else {
            passed
        };
        ledger.clock = Some((wall.as_micros(), now.monotonic.map(|monotonic| (monotonic.boot, monotonic.micros))));
        ledger
    }

    /// When the window ends and the budget refills.
    pub fn refills_at(&self, limits: &Limits) -> Instant {
        self.since.plus(limits.window())
    }

    /// What a purpose may still spend in this window. `reserve` is what runs still to come will need: sweeps and
    /// details leave it alone.
    pub fn left_for(&self, purpose: Purpose, limits: &Limits, reserve: Ru) -> Ru {
        let left = limits.limit.saturating_sub(self.used);
        if purpose >= Purpose::Sweep { left.saturating_sub(reserve) } else { left }
    }

    /// Enters a request that is about to be sent.
    ///
    /// # Errors
    /// When the budget refills, if the purpose may not spend that much now.
    pub fn charge(
        self,
        now: impl Into<ClockReading>,
        cost: Ru,
        purpose: Purpose,
        limits: &Limits,
        reserve: Ru,
    ) -> Result<(Ledger, Charge), Instant> {
        let ledger = self.at(now, limits);
        if cost > ledger.left_for(purpose, limits, reserve) {
            return Err(ledger.refills_at(limits));
        }
        let charge = Charge { cost, window: ledger.window };
        Ok((Ledger { used: ledger.used + cost, total: ledger.total + cost, ..ledger }, charge))
    }

    /// Takes back a charge for a request that cost nothing. A window that has begun since has nothing to give back.
    #[must_use]
    pub fn refund(self, charge: Charge) -> Ledger {
        let used = if charge.window == self.window { self.used.saturating_sub(charge.cost) } else { self.used };
        Ledger { used, total: self.total.saturating_sub(charge.cost), ..self }
    }
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
