//! The RU that scheduled runs will still need in the budget's window, and what they leave for edits.
//!
//! A manual run reserves as much as a run of the daemon, even if no daemon is running: the daemon may be started again
//! at any time, or a timer may run the schedule.

use super::settings::{MirrorSettings, RUNS_OF_FORECAST, limits};
use super::status;
use crate::budget::{self, Ledger, Limits};
use crate::config::{Config, SyncConfig};
use crate::model::{Instant, Object, Purpose, Ru};
use crate::store::{ReadTx, Reader, StoreError, report};
use crate::sync::BudgetMeter;

/// The likely cost of an audit, before there was one.
const AUDIT: Ru = Ru::new(20);

pub(super) fn for_schedule(settings: &MirrorSettings, meter: &BudgetMeter, now: Instant) -> Result<Ru, StoreError> {
    let reader = Reader::open(&settings.config.database)?;
    reserved(&reader.begin()?, &settings.config.sync, &meter.ledger(), meter.limits(), now)
}

/// What scheduled runs will still spend in the window of the ledger.
pub fn reserved(
    tx: &ReadTx<'_>,
    sync: &SyncConfig,
    ledger: &Ledger,
    limits: &Limits,
    now: Instant,
) -> Result<Ru, StoreError> {
    let refills = ledger.refills_at(limits);
    let mut units = Ru::ZERO;
    if let Some(due) = sync.schedule.due_after(now, &sync.time_zone) {
        let costs = report::cost_of_runs(tx, "sync", RUNS_OF_FORECAST)?;
        units += budget::reserve(due, refills, budget::forecast(&costs), limits.limit);
    }
    // An audit compares what is copied: those that fall into a first copy are left out.
    let is_copied = tx.is_copied(Object::Contact)? && tx.is_copied(Object::Company)?;
    if let Some(audits) = sync.audit_schedule.as_ref().filter(|_| is_copied) {
        let costs = report::cost_of_runs(tx, "verify", RUNS_OF_FORECAST)?;
        let forecast = if costs.is_empty() { AUDIT } else { budget::forecast(&costs) };
        units += budget::reserve(audits.due_after(now, &sync.time_zone), refills, forecast, limits.limit);
    }
    Ok(units.min(budget::most_reserved(limits.limit)))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct EditBudget {
    /// What is left for edits in this window: the rest is spent, or reserved for scheduled runs.
    pub left: u64,
    pub limit: u64,
    #[serde(serialize_with = "crate::model::instant::utc_always")]
    pub refills_at: Instant,
}

/// What edits may still spend, as the mirror's file shows it.
pub fn edit_budget(config: &Config, now: Instant) -> Result<EditBudget, StoreError> {
    let limits = limits(&config.budget);
    let reader = Reader::open(&config.database)?;
    let tx = reader.begin()?;
    let ledger = status::ledger(&tx, config)?.at(now, &limits);
    let reserve = reserved(&tx, &config.sync, &ledger, &limits, now)?;
    let left = ledger.left_for(Purpose::Outbox, &limits, reserve).get();
    Ok(EditBudget { left, limit: limits.limit.get(), refills_at: ledger.refills_at(&limits) })
}
