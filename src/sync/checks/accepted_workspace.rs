//! Another workspace that a person accepts: what is known of the one before is forgotten, and its rows are replaced.
//!
//! An accepted workspace is copied over the rows of the one before, so that tables, views and history remain. Until a
//! whole sweep of an object has ended, some of its rows may be of the workspace before: *former rows*.
//!
//! # Invariants
//! - The acceptance, the hold of the edits and the marks of former rows are one transaction: wherever the run is
//!   interrupted, the next ones replace the rows that are left.
//! - While there are former rows, nothing claims that an object is up to date, its removals are accepted, and no edit of it
//!   is sent that no person released.

use crate::model::{Instant, Object};
use crate::store::{MirrorTx, Phase, ReadTx, StateKey, StoreError};
use crate::sync::checkpoints::{Changes, Sweep};
use crate::sync::walks::back_fill::wanted_sweep;

/// Whether rows of an object may still be of the workspace before an accepted one.
///
/// # Errors
/// If SQLite refuses.
pub(in crate::sync) fn has_former_rows(tx: &ReadTx<'_>, object: Object) -> Result<bool, StoreError> {
    tx.has_state(&StateKey::FormerRows(object))
}

/// Begins to replace the rows of the workspace before. Returns how many edits are held. Write it durably.
///
/// # Errors
/// If SQLite refuses.
pub(in crate::sync) fn accept(tx: &MirrorTx<'_>, now: Instant) -> Result<u64, StoreError> {
    for key in StateKey::all().into_iter().filter(StateKey::is_of_workspace) {
        tx.clear_state(&key)?;
    }
    for object in Object::ALL {
        // The slices that are left are discarded by the sweep that begins.
        tx.clear_fill_walks(object)?;
        tx.clear_filled(object)?;
        tx.clear_nominations(object)?;
        if tx.is_empty(object)? {
            continue;
        }
        tx.set_state(&StateKey::FormerRows(object), &true)?;
        tx.set_state(&wanted_sweep(object), &true)?;
        // A record with the same id may have the same version, too.
        tx.make_details_due(object, None)?;
    }
    // The same id may be another record there, and its fields may have the values that the edit was based on.
    tx.hold_for_another_workspace(now)
}

/// Ends the replacement with a whole sweep. Returns how many edits are held that were made meanwhile.
///
/// # Errors
/// If SQLite refuses.
pub(in crate::sync) fn end_replacement(
    tx: &MirrorTx<'_>,
    object: Object,
    sweep: &Sweep,
    phase: Phase,
    now: Instant,
) -> Result<u64, StoreError> {
    if !has_former_rows(tx, object)? {
        return Ok(0);
    }
    let held = tx.hold_edits_of_former_rows(object, now)?;
    if phase == Phase::FirstCopy {
        // It has replaced rows, but nominated none for removal.
        tx.set_state(&wanted_sweep(object), &true)?;
        return Ok(held);
    }
    tx.clear_state(&StateKey::FormerRows(object))?;
    Changes { watermark: sweep.high, served_at: sweep.served_at, walk: None }.store(tx, object)?;
    Ok(held)
}
