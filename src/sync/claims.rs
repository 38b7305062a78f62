//! What is said to be here as of a time, where the clock that dated it turned out to be wrong.

use std::time::Duration;

use super::checkpoints::{Changes, Completeness, Evidence, LastRead};
use super::walks::closing_counts::OwedCounts;
use crate::model::{Instant, Object};
use crate::store::{MirrorTx, StoreError};

/// Dates everything that is said to be complete earlier, after the clock was set back by so much: what was read while it was
/// ahead is older than it says. What was read before that becomes too old, which is true as well.
pub(super) fn set_back_claims(tx: &MirrorTx<'_>, by: Duration) -> Result<(), StoreError> {
    let of_objects = Object::ALL.into_iter().flat_map(|object| [LastRead::changes(object), LastRead::sweep(object)]);
    for entry in of_objects.chain([LastRead::DEFINITIONS, LastRead::TEAM]) {
        let fresh: Option<LastRead> = tx.state(&entry)?;
        if let Some(fresh) = fresh.filter(|fresh| fresh.began > Instant::EPOCH) {
            tx.set_state(&entry, &fresh.earlier(by))?;
        }
    }
    for object in Object::ALL {
        let entry = Evidence::entry(object);
        if let Some(known) = tx.state::<Evidence>(&entry)? {
            let earlier = |complete: Completeness| Completeness { as_of: complete.as_of.minus(by), ..complete };
            let complete = known.complete.map(earlier);
            tx.set_state(&entry, &Evidence { as_of: known.as_of.minus(by), complete, ..known })?;
        }
        Changes::date_walk(tx, object, |at| Some(at.minus(by)))?;
        OwedCounts::date_claim(tx, object, |fresh| Some(fresh.earlier(by)))?;
    }
    Ok(())
}

/// Withdraws what is said to be complete as of a time after `now`: the clock that dated it was ahead, so it would become
/// a wrong claim as time passes. The next changes walk and the next audit or sweep state it again.
pub(super) fn withdraw_future_claims(tx: &MirrorTx<'_>, now: Instant) -> Result<(), StoreError> {
    for object in Object::ALL {
        Changes::date_walk(tx, object, |at| Some(at).filter(|at| *at <= now))?;
        OwedCounts::date_claim(tx, object, |fresh| Some(fresh).filter(|fresh| fresh.began <= now))?;
        let is_future = |fresh: &LastRead| fresh.began > now;
        let caught_up: Option<LastRead> = tx.state(&LastRead::changes(object))?;
        if caught_up.as_ref().is_some_and(is_future) {
            tx.clear_state(&LastRead::changes(object))?;
        }
        let swept: Option<LastRead> = tx.state(&LastRead::sweep(object))?;
        let evidence: Option<Evidence> = tx.state(&Evidence::entry(object))?;
        let of_sweep = || swept.map(|fresh| Evidence::after(None, fresh.began, true, 0));
        if let Some(known) = evidence.or_else(of_sweep).filter(|known| known.until(now) != *known) {
            tx.set_state(&Evidence::entry(object), &known.until(now))?;
        }
        if swept.as_ref().is_some_and(is_future) {
            // The object stays copied; nobody knows when it was.
            let unknown = LastRead::between(Instant::EPOCH, Instant::EPOCH);
            tx.set_state(&LastRead::sweep(object), &unknown)?;
        }
    }
    Ok(())
}
