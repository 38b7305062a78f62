//! What scheduled runs will still need in the budget's window.

use super::settings::MirrorSettings;
use crate::budget;
use crate::model::{Instant, Ru};
use crate::store::{Reader, StoreError, report};
use crate::sync::BudgetMeter;

/// Runs that the forecast of a run's cost is the median of.
pub const RUNS_OF_FORECAST: u32 = 20;

/// What scheduled runs will still need in this window. `driven` says that the schedule is certain to run; else it counts
/// where it has run in the last window.
///
/// # Errors
/// When the mirror cannot be read.
pub(super) fn for_schedule(
    settings: &MirrorSettings,
    meter: &BudgetMeter,
    driven: bool,
    now: Instant,
) -> Result<Ru, StoreError> {
    let Some((cron, zone)) = &settings.schedule else { return Ok(Ru::ZERO) };
    let limits = meter.limits();
    let reader = Reader::open(&settings.database)?;
    let (costs, scheduled) = report::cost_of_runs(&reader.begin()?, RUNS_OF_FORECAST, now.minus(limits.window))?;
    if !driven && !scheduled {
        return Ok(Ru::ZERO);
    }
    let window_ends = meter.ledger().refills_at(limits);
    Ok(budget::reserve(cron.due_after(now, zone), window_ends, budget::forecast(&costs), limits.limit))
}
