//! The RU ledger: how much of the window's budget is spent, and whether a purpose may spend more.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::{Instant, Purpose, Ru};

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
    fn window_secs(&self) -> i64 {
        i64::try_from(self.window.as_secs()).unwrap_or(i64::MAX).max(1)
    }

    /// The beginning of the window that `now` falls into.
    fn window_of(&self, now: Instant) -> Instant {
        let secs = now.as_secs();
        Instant::from_secs(secs - secs.rem_euclid(self.window_secs())).unwrap_or(now)
    }
}

/// What has been spent in the window, and ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// The beginning of the window.
    pub since: Instant,
    /// Spent in the window.
    pub used: Ru,
    /// Spent since the mirror was made.
    pub total: Ru,
}

impl Default for Ledger {
    fn default() -> Ledger {
        Ledger { since: Instant::EPOCH, used: Ru::ZERO, total: Ru::ZERO }
    }
}

impl Ledger {
    /// The ledger as it stands at `now`: a new window begins empty.
    ///
    /// A clock that was set back does not open a new window: what was spent stays spent. A window that then lies wholly
    /// in the future is moved to now with what it holds, so that the schedule goes on after the time of one window.
    #[must_use]
    pub fn at(self, now: Instant, limits: &Limits) -> Ledger {
        let window = limits.window_of(now);
        if window > self.since {
            Ledger { since: window, used: Ru::ZERO, ..self }
        } else {
            Ledger { since: window, ..self }
        }
    }

    /// When the window ends and the budget refills.
    pub fn refills_at(&self, limits: &Limits) -> Instant {
        self.since.plus(Duration::from_secs(limits.window_secs().unsigned_abs()))
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
        now: Instant,
        cost: Ru,
        purpose: Purpose,
        limits: &Limits,
        reserve: Ru,
    ) -> Result<Ledger, Instant> {
        let ledger = self.at(now, limits);
        if cost > ledger.left_for(purpose, limits, reserve) {
            return Err(ledger.refills_at(limits));
        }
        Ok(Ledger { used: ledger.used + cost, total: ledger.total + cost, ..ledger })
    }

    /// Takes back a charge for a request that costs nothing. A window that has begun since has nothing to give back.
    #[must_use]
    pub fn refund(self, cost: Ru) -> Ledger {
        Ledger { used: self.used.saturating_sub(cost), total: self.total.saturating_sub(cost), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Limits = Limits { limit: Ru::new(10), window: Duration::from_secs(86_400), charge_failed: true };

    fn at(text: &str) -> Instant {
        text.parse().unwrap()
    }

    fn spend(ledger: Ledger, now: &str, units: u64) -> Ledger {
        (0..units).fold(ledger, |l, _| l.charge(at(now), Ru::GET, Purpose::Changes, &DAY, Ru::ZERO).unwrap())
    }

    #[test]
    fn a_window_never_spends_more_than_its_limit() {
        let full = spend(Ledger::default(), "2026-01-01T10:00:00Z", 10);
        let refused = full.charge(at("2026-01-01T23:59:59Z"), Ru::GET, Purpose::Outbox, &DAY, Ru::ZERO);
        assert_eq!(refused, Err(at("2026-01-02T00:00:00Z")));
        let next = spend(full, "2026-01-02T00:00:00Z", 1);
        assert_eq!((next.used, next.total), (Ru::new(1), Ru::new(11)));
    }

    #[test]
    fn sweeps_and_details_leave_the_reserve_alone() {
        let ledger = spend(Ledger::default(), "2026-01-01T10:00:00Z", 6);
        let now = at("2026-01-01T11:00:00Z");
        for (purpose, may) in [
            (Purpose::Outbox, true),
            (Purpose::Changes, true),
            (Purpose::Audit, true),
            (Purpose::Definitions, true),
            (Purpose::Sweep, false),
            (Purpose::Details, false),
            (Purpose::Refresh, false),
        ] {
            assert_eq!(ledger.charge(now, Ru::GET, purpose, &DAY, Ru::new(4)).is_ok(), may, "{purpose:?}");
        }
    }

    #[test]
    fn a_clock_that_jumps_neither_refills_twice_nor_stops_the_schedule() {
        let today = spend(Ledger::default(), "2026-01-02T10:00:00Z", 10);
        let back = today.at(at("2026-01-01T10:00:00Z"), &DAY);
        assert_eq!(back.used, Ru::new(10), "set back a day: what was spent stays spent");
        assert_eq!(back.refills_at(&DAY), at("2026-01-02T00:00:00Z"), "and the wait is one window at most");
    }

    #[test]
    fn a_refund_takes_a_charge_back() {
        let spent = spend(Ledger::default(), "2026-01-01T10:00:00Z", 2);
        assert_eq!((spent.refund(Ru::GET).used, spent.refund(Ru::GET).total), (Ru::new(1), Ru::new(1)));
        assert_eq!(spent.refund(Ru::new(9)).used, Ru::ZERO);
    }
}
