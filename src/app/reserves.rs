//! What the runs of the schedule cost: the RU that they will still need in the budget's window, and what they leave for edits.
//!
//! A manual run reserves as much as a run of the daemon, even if no daemon is running: the daemon may be started again
//! at any time, or a timer may run the schedule.

use std::ops::Range;

use super::ages::next_changes;
use super::settings::limits;
use crate::budget::{self, Ledger, Limits};
use crate::config::{ChangesSchedule, Config, SyncConfig};
use crate::model::{Instant, Object, Purpose, Ru};
use crate::store::{ReadTx, Reader, StoreError, lock, report};
use crate::sync::BudgetMeter;
use crate::sync::budget_meter::{self, LEDGER};
use crate::sync::forecast::of_audit;

/// What scheduled runs will need in this window and in the next.
pub(super) fn for_schedule(config: &Config, meter: &BudgetMeter, now: Instant) -> Result<[Ru; 2], StoreError> {
    reserves(&Reader::open(&config.database)?.begin()?, config, &meter.ledger(), now)
}

/// What scheduled runs other than those for changes will need in this window: polling has the rest.
pub(super) fn beside_changes(config: &Config, meter: &BudgetMeter, now: Instant) -> Result<Ru, StoreError> {
    let mut config = config.clone();
    config.sync.schedule = ChangesSchedule::Off;
    Ok(for_schedule(&config, meter, now)?[0])
}

fn reserves(tx: &ReadTx<'_>, config: &Config, ledger: &Ledger, now: Instant) -> Result<[Ru; 2], StoreError> {
    let (sync, limits) = (&config.sync, &limits(&config.budget));
    let refills = ledger.refills_at(limits);
    let next = refills..refills.plus(limits.window());
    Ok([reserved(tx, sync, limits, now..refills)?, reserved(tx, sync, limits, next)?])
}

/// What a purpose may spend in this window, and in the whole next one: the rest is spent, or reserved for scheduled runs.
pub(super) fn left_for(
    purpose: Purpose,
    tx: &ReadTx<'_>,
    config: &Config,
    ledger: &Ledger,
    now: Instant,
) -> Result<[Ru; 2], StoreError> {
    let limits = limits(&config.budget);
    let kept = |reserve| match purpose {
        Purpose::Outbox => reserve,
        _ if config.write_back.enabled => budget::kept_with_edits(reserve, Ru::ZERO, limits.limit),
        _ => reserve,
    };
    let [now, next] = reserves(tx, config, ledger, now)?.map(kept);
    Ok([ledger.left_for(purpose, &limits, now), Ledger::default().left_for(purpose, &limits, next)])
}

/// What scheduled runs will spend in a time within one window.
fn reserved(tx: &ReadTx<'_>, sync: &SyncConfig, limits: &Limits, time: Range<Instant>) -> Result<Ru, StoreError> {
    let Range { start: now, end: refills } = time;
    let changes = |at: &Instant| next_changes(sync, *at, None);
    let runs = std::iter::successors(changes(&now), changes);
    let mut units = budget::reserve(runs, refills, cost_of_changes(tx)?, limits.limit);
    // An audit compares what is copied: those that fall into a first copy are left out.
    let is_copied = tx.is_copied(Object::Contact)? && tx.is_copied(Object::Company)?;
    if let Some(audits) = sync.audit_schedule.as_ref().filter(|_| is_copied) {
        let costs = Object::ALL.into_iter().map(|object| Ok(of_audit(report::holds(tx, object)?.rows)));
        let cost = costs.sum::<Result<Ru, StoreError>>()?;
        let audit = |at: &Instant| audits.next_after(*at, &sync.time_zone);
        units += budget::reserve(std::iter::successors(audit(&now), audit), refills, cost, limits.limit);
    }
    Ok(units.min(budget::most_reserved(limits.limit)))
}

pub(super) fn cost_of_changes(tx: &ReadTx<'_>) -> Result<Ru, StoreError> {
    Ok(budget::forecast(&report::cost_of_changes(tx)?))
}

pub(super) fn ledger(tx: &ReadTx<'_>, config: &Config) -> Result<Ledger, StoreError> {
    let stored: Option<Ledger> = tx.state(&LEDGER)?;
    let note = lock::note_beside(&config.database);
    Ok(budget_meter::later(stored.unwrap_or_default(), note.as_deref()))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct EditBudget {
    pub left: u64,
    pub limit: u64,
    pub refills_at: Instant,
}

pub fn edit_budget(config: &Config, now: Instant) -> Result<EditBudget, StoreError> {
    let limits = limits(&config.budget);
    let reader = Reader::open(&config.database)?;
    let tx = reader.begin()?;
    let ledger = ledger(&tx, config)?.at(now, &limits);
    let [left, _] = left_for(Purpose::Outbox, &tx, config, &ledger, now)?.map(Ru::get);
    Ok(EditBudget { left, limit: limits.limit.get(), refills_at: ledger.refills_at(&limits) })
}
