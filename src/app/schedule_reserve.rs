//! The RU that scheduled runs will still need in the budget's window.
//!
//! A manual run reserves as much as a run of the daemon, even if no daemon is running: the daemon may be started again
//! at any time, or a timer may run the schedule.

use jiff::tz::TimeZone;

use super::settings::MirrorSettings;
use crate::budget::{self, Ledger, Limits};
use crate::config::ChangesSchedule;
use crate::model::{Instant, Ru};
use crate::store::{ReadTx, Reader, StoreError, report};
use crate::sync::BudgetMeter;

/// The number of runs whose median cost is the forecast.
pub const RUNS_OF_FORECAST: u32 = 20;

/// The units that scheduled runs still need in this window.
pub(super) fn for_schedule(settings: &MirrorSettings, meter: &BudgetMeter, now: Instant) -> Result<Ru, StoreError> {
    let reader = Reader::open(&settings.database)?;
    reserved(&reader.begin()?, &settings.schedule, &meter.ledger(), meter.limits(), now)
}

pub(super) fn reserved(
    tx: &ReadTx<'_>,
    (schedule, zone): &(ChangesSchedule, TimeZone),
    ledger: &Ledger,
    limits: &Limits,
    now: Instant,
) -> Result<Ru, StoreError> {
    let Some(due) = schedule.due_after(now, zone) else { return Ok(Ru::ZERO) };
    let costs = report::cost_of_runs(tx, RUNS_OF_FORECAST)?;
    Ok(budget::reserve(due, ledger.refills_at(limits), budget::forecast(&costs), limits.limit))
}
