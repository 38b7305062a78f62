//! How soon to ask for changes again, where `sync.schedule` is "auto": as often as the budget allows, and most often when
//! something changes. Pure.
//!
//! What polling may still spend in the window is spread over what is left of the window: an hour of the week in which
//! nothing changed for weeks gets one poll every [`MAX_POLL`], and all that this saves goes to the other hours. After a
//! change polls come somewhat more often, and after an hour without one less often.
//!
//! # Always true
//! - Polling never uses up the window: each decision spreads what is left at that moment, and what polling may spend is at
//!   most its share of the budget, less what is kept for other work.
//! - An interval is never shorter than `sync.min_interval`, and longer than [`MAX_POLL`] only where the budget requires it.

use std::time::Duration;

use crate::model::{Instant, Ru};

pub const MAX_POLL: Duration = Duration::from_secs(15 * 60);

/// The share of a window's budget for polling. Audits, sweeps, edits and details have the rest.
pub const POLLING_SHARE: f64 = 0.5;

const RECENT: Duration = Duration::from_secs(5 * 60);

/// After how long without a change polls come less often.
const SETTLED: Duration = Duration::from_secs(3600);

const HOUR: u64 = 3600;
const HOURS: usize = 7 * 24;

/// How long must be known of before an hour counts as one in which nothing changes.
const LEARNT: Duration = Duration::from_secs(14 * 24 * HOUR);

/// The hours of the week, in UTC, in which changes were found lately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveHours {
    since: Instant,
    last_changed: Box<[Option<Instant>]>,
    last: Option<Instant>,
}

impl ActiveHours {
    pub const REMEMBERED: Duration = Duration::from_secs(28 * 24 * HOUR);

    /// Nothing was found yet; it is known since then.
    pub fn known_since(since: Instant) -> ActiveHours {
        ActiveHours { since, last_changed: Box::new([None; HOURS]), last: None }
    }

    fn place(at: Instant) -> usize {
        at.as_secs().div_euclid(HOUR as i64).rem_euclid(HOURS as i64) as usize
    }

    pub fn changed(&mut self, at: Instant) {
        let place = &mut self.last_changed[ActiveHours::place(at)];
        *place = (*place).max(Some(at));
        self.last = self.last.max(Some(at));
    }

    pub fn last_change(&self) -> Option<Instant> {
        self.last
    }

    /// Whether nothing ever changes in the hour of this instant, as far as `now` knows.
    pub fn is_quiet(&self, at: Instant, now: Instant) -> bool {
        let recent = |changed: Instant| now.since(changed) <= ActiveHours::REMEMBERED;
        now.since(self.since) >= LEARNT && !self.last_changed[ActiveHours::place(at)].is_some_and(recent)
    }

    /// Seconds until `until` in which something may change, and in which nothing ever does.
    fn seconds(&self, now: Instant, until: Instant) -> (f64, f64) {
        let (mut active, mut quiet) = (0.0, 0.0);
        let mut at = now;
        // A window of years is judged by its next weeks.
        for _ in 0..8 * HOURS {
            if until.since(at).is_zero() {
                break;
            }
            let end = hour(at).plus(Duration::from_secs(HOUR)).min(until);
            let seconds = end.since(at).as_secs_f64();
            if self.is_quiet(at, now) {
                quiet += seconds
            } else {
                active += seconds
            }
            at = end;
        }
        let beyond = until.since(at).as_secs_f64();
        (active + beyond, quiet)
    }
}

fn hour(at: Instant) -> Instant {
    Instant::from_secs(at.as_secs().div_euclid(HOUR as i64) * HOUR as i64).unwrap_or(at)
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PollingBudget {
    pub refills_at: Instant,
    pub left: Ru,
    /// What is kept for audits, sweeps, edits and details in it.
    pub reserve: Ru,
    /// What may be spent in a whole window.
    pub limit: Ru,
    /// The share of that for polling, 0 to 1.
    pub share: f64,
    pub polled: Ru,
    /// What a poll costs that finds nothing.
    pub idle_cost: Ru,
}

impl PollingBudget {
    /// What polling may still spend. Whatever is kept for other work, that is enough for the longest interval, as far as
    /// half of what is left goes: other work is worth little where changes are not seen.
    fn allowance(&self, now: Instant) -> f64 {
        let share = (self.limit.get() as f64 * self.share - self.polled.get() as f64).max(0.0);
        let polls = self.refills_at.since(now).as_secs_f64() / MAX_POLL.as_secs_f64();
        let least = (polls * self.idle_cost.get() as f64).min(self.left.get() as f64 / 2.0);
        share.min(self.left.saturating_sub(self.reserve).get() as f64).max(least)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum PollReason {
    Changing,
    Budget,
    Settled,
    QuietHour,
    MinInterval,
}

impl PollReason {
    pub const fn sentence(self) -> &'static str {
        match self {
            PollReason::Changing => "changes were found in the last five minutes",
            PollReason::Budget => "this is what the budget allows for the rest of the window",
            PollReason::Settled => "nothing changed in the last hour",
            PollReason::QuietHour => "nothing changed in this hour of the week for four weeks",
            PollReason::MinInterval => "`sync.min_interval` allows no shorter one",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollDecision {
    /// From the end of one run to the beginning of the next.
    pub interval: Duration,
    pub reason: PollReason,
}

pub fn decide_poll(budget: &PollingBudget, hours: &ActiveHours, min_interval: Duration, now: Instant) -> PollDecision {
    let cost = budget.idle_cost.get().max(1) as f64;
    let polls = budget.allowance(now) / cost;
    let (active, quiet) = hours.seconds(now, budget.refills_at);
    let in_quiet_hours = quiet / MAX_POLL.as_secs_f64();
    // Where the budget does not even reach for the longest interval, all hours are treated alike.
    let scarce = (active + quiet) / MAX_POLL.as_secs_f64() >= polls;
    if scarce {
        let interval = Duration::from_secs_f64((active + quiet) / polls.max(1.0));
        return PollDecision { interval: interval.max(MAX_POLL).max(min_interval), reason: PollReason::Budget };
    }
    if hours.is_quiet(now, now) {
        // Not beyond the end of the hour where something may change in the next one.
        let next = hour(now).plus(Duration::from_secs(HOUR));
        let interval = if hours.is_quiet(next, now) { MAX_POLL } else { next.since(now).min(MAX_POLL) };
        return PollDecision { interval: interval.max(min_interval), reason: PollReason::QuietHour };
    }
    let fair = Duration::from_secs_f64(active / (polls - in_quiet_hours).max(1.0));
    let since_change = hours.last_change().map(|changed| now.since(changed));
    let (wanted, reason) = match since_change {
        Some(since) if since <= RECENT => (fair.mul_f64(0.8), PollReason::Changing),
        Some(since) if since < SETTLED => (fair, PollReason::Budget),
        _ => (fair.mul_f64(1.5), PollReason::Settled),
    };
    if wanted <= min_interval {
        return PollDecision { interval: min_interval, reason: PollReason::MinInterval };
    }
    PollDecision { interval: wanted.min(MAX_POLL), reason }
}

#[cfg(test)]
#[path = "poll_interval_tests.rs"]
mod tests;
