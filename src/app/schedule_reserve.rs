//! The RU that scheduled runs will still need in the budget's window.
//!
//! A manual run reserves as much as a run of the daemon, even if no daemon is running: the daemon may be started again
//! at any time, or a timer may run the schedule.

use super::settings::MirrorSettings;
use crate::budget;
use crate::model::{Instant, Ru};
use crate::store::{Reader, StoreError, report};
use crate::sync::BudgetMeter;

/// The number of runs whose median cost is the forecast.
pub const RUNS_OF_FORECAST: u32 = 20;

/// The units that scheduled runs still need in this window.
pub(super) fn for_schedule(settings: &MirrorSettings, meter: &BudgetMeter, now: Instant) -> Result<Ru, StoreError> {
    let (schedule, zone) = &settings.schedule;
    let Some(due) = schedule.due_after(now, zone) else { return Ok(Ru::ZERO) };
    let limits = meter.limits();
    let reader = Reader::open(&settings.database)?;
    let costs = report::cost_of_runs(&reader.begin()?, RUNS_OF_FORECAST)?;
    let window_ends = meter.ledger().refills_at(limits);
    Ok(budget::reserve(due, window_ends, budget::forecast(&costs), limits.limit))
}
