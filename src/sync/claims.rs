//! What is said to be here as of a time, where the clock that dated it turned out to be wrong. The rows of `goals` know how
//! to; a changes walk in progress carries its date with it.

use std::time::Duration;

use super::checkpoints::Changes;
use crate::model::{Instant, Object};
use crate::store::{MirrorTx, StoreError};

/// Dates everything that is said to be complete earlier, after the clock was set back by so much.
pub(super) fn set_back_claims(tx: &MirrorTx<'_>, by: Duration) -> Result<(), StoreError> {
    Object::ALL.into_iter().try_for_each(|object| Changes::date_walk(tx, object, |at| Some(at.minus(by))))?;
    tx.claims().date_claims_back(by)
}

/// Withdraws what is said to be complete as of a time after `now`. The next changes walk and the next audit or sweep state it
/// again.
pub(super) fn withdraw_future_claims(tx: &MirrorTx<'_>, now: Instant) -> Result<(), StoreError> {
    Object::ALL
        .into_iter()
        .try_for_each(|object| Changes::date_walk(tx, object, |at| Some(at).filter(|at| *at <= now)))?;
    tx.claims().withdraw_future_claims(now)
}
