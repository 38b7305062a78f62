//! How soon to ask for changes again, where `sync.schedule` is "auto". Pure.
//!
//! What polling may still spend in the window is spread over what is left of the window. Soon after a change polls come more
//! often than that, and the longer nothing changes the less often: what a night saves is there for the day.
//!
//! # Always true
//! - Polling never uses up the window: each decision spreads what is left at that moment, and what polling may spend is at
//!   most its share of the budget, less what is kept for other work.
//! - An interval is at least `sync.min_interval`, and above [`MAX_POLL`] only where that or the budget requires it.

use std::time::Duration;

use crate::model::{Instant, Ru};

pub const MAX_POLL: Duration = Duration::from_secs(15 * 60);

/// The share of a window's budget for polling. Audits, sweeps, edits and details have the rest.
const POLLING_SHARE: f64 = 0.5;

const RECENT: Duration = Duration::from_secs(5 * 60);

/// The interval is at least the time without a change divided by this.
const SETTLED: u32 = 32;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PollingBudget {
    pub refills_at: Instant,
    pub left: Ru,
    /// What is reserved for scheduled runs in it.
    pub reserve: Ru,
    /// What may be spent in a whole window.
    pub limit: Ru,
    pub polled: Ru,
    /// What a poll costs that finds nothing.
    pub idle_cost: Ru,
}

impl PollingBudget {
    /// What polling may still spend. Whatever is kept for other work, that is enough for the longest interval, as far as
    /// half of what is left goes: other work is worth little where changes are not seen.
    fn allowance(&self, now: Instant) -> f64 {
        let share = (self.limit.get() as f64 * POLLING_SHARE - self.polled.get() as f64).max(0.0);
        let polls = self.refills_at.since(now).as_secs_f64() / MAX_POLL.as_secs_f64();
        let least = (polls * self.idle_cost.get() as f64).min(self.left.get() as f64 / 2.0);
        share.min(self.left.saturating_sub(self.reserve).get() as f64).max(least)
    }
}

/// The interval from the end of one run to the beginning of the next. `last_change` is when a run last found one; `None` if that is not known.
pub fn decide_poll(
    budget: &PollingBudget,
    last_change: Option<Instant>,
    min_interval: Duration,
    now: Instant,
) -> Duration {
    let polls = budget.allowance(now) / budget.idle_cost.get().max(1) as f64;
    let window_left = budget.refills_at.since(now);
    let fair = window_left.div_f64(polls.max(1.0));
    if window_left >= MAX_POLL.mul_f64(polls) {
        return fair.max(MAX_POLL).max(min_interval);
    }
    let wanted = match last_change.map(|changed| now.since(changed)) {
        Some(since) if since <= RECENT => fair.mul_f64(0.6),
        since => fair.mul_f64(0.8).max((since.unwrap_or_default() / SETTLED).min(MAX_POLL)),
    };
    wanted.max(min_interval)
}

#[cfg(test)]
#[path = "poll_interval_tests.rs"]
mod tests;
