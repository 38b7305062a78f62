//! The RU that scheduled runs will still need in the budget's window.
//!
//! A manual run reserves as much as a run of the daemon, even if no daemon is running: the daemon may be started again
//! at any time, or a timer may run the schedule.

use super::settings::{MirrorSettings, ReservedRuns};
use crate::budget::{self, Ledger, Limits};
use crate::model::{Instant, Object, Ru};
use crate::store::{Phase, ReadTx, Reader, StoreError, report};
use crate::sync::BudgetMeter;

/// The likely cost of an audit, before there was one.
const AUDIT: Ru = Ru::new(20);

/// The number of runs whose median cost is the forecast.
pub const RUNS_OF_FORECAST: u32 = 20;

/// The units that scheduled runs still need in this window.
pub(super) fn for_schedule(settings: &MirrorSettings, meter: &BudgetMeter, now: Instant) -> Result<Ru, StoreError> {
    let reader = Reader::open(&settings.database)?;
    reserved(&reader.begin()?, &settings.schedule, &meter.ledger(), meter.limits(), now)
}

pub(super) fn reserved(
    tx: &ReadTx<'_>,
    runs: &ReservedRuns,
    ledger: &Ledger,
    limits: &Limits,
    now: Instant,
) -> Result<Ru, StoreError> {
    let refills = ledger.refills_at(limits);
    let mut units = Ru::ZERO;
    if let Some(due) = runs.changes.due_after(now, &runs.zone) {
        let costs = report::cost_of_runs(tx, "sync", RUNS_OF_FORECAST)?;
        units += budget::reserve(due, refills, budget::forecast(&costs), limits.limit);
    }
    // An audit compares what is copied: those that fall into a first copy are left out.
    let phases = Object::ALL.into_iter().map(|object| tx.phase(object)).collect::<Result<Vec<_>, _>>()?;
    let is_copied = phases.into_iter().all(|phase| phase == Phase::Kept);
    if let Some(audits) = runs.audits.as_ref().filter(|_| is_copied) {
        let costs = report::cost_of_runs(tx, "verify", RUNS_OF_FORECAST)?;
        let forecast = if costs.is_empty() { AUDIT } else { budget::forecast(&costs) };
        units += budget::reserve(audits.due_after(now, &runs.zone), refills, forecast, limits.limit);
    }
    Ok(units.min(budget::most_reserved(limits.limit)))
}
