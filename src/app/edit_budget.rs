//! What edits may still spend: they leave what scheduled runs will need.

use super::schedule_reserve::reserved;
use super::settings::{ReservedRuns, limits};
use super::status;
use crate::config::Config;
use crate::model::{Instant, Purpose};
use crate::store::{Reader, StoreError};

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct EditBudget {
    /// What is left for edits in this window: the rest is spent, or reserved for scheduled runs.
    pub left: u64,
    pub limit: u64,
    /// When the window ends, UTC.
    #[serde(serialize_with = "crate::model::instant::utc_always")]
    pub refills_at: Instant,
}

/// What edits may still spend, as the mirror's file shows it.
pub fn edit_budget(config: &Config, now: Instant) -> Result<EditBudget, StoreError> {
    let limits = limits(&config.budget);
    let reader = Reader::open(&config.database)?;
    let tx = reader.begin()?;
    let ledger = status::ledger(&tx, config)?.at(now, &limits);
    let reserve = reserved(&tx, &ReservedRuns::of(config), &ledger, &limits, now)?;
    let left = ledger.left_for(Purpose::Outbox, &limits, reserve).get();
    Ok(EditBudget { left, limit: limits.limit.get(), refills_at: ledger.refills_at(&limits) })
}
