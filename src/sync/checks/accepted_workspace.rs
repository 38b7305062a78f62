//! Another workspace that a person accepts: what is known of the one before is forgotten, and its rows are replaced.
//!
//! An accepted workspace is copied over the rows of the one before, so that tables, views and history remain. Until an
//! answer has shown a record, its row may be of the workspace before: a *former row*. Once a sweep has read every record of
//! an object, the rest are records that the accepted workspace does not have, or did not show.
//!
//! # Invariants
//! - The acceptance, the hold of the edits and the marks of former rows are one transaction: wherever the run is
//!   interrupted, the next ones replace the rows that are left.
//! - Until that sweep ends, nothing claims that an object is up to date, and no edit of it is sent that no person released.
//!   An edit of a former row is not sent later either.
//! - Records of the workspace before are removed as any record is: with a confirmation, and within the guard.

use crate::model::{Instant, Object};
use crate::outbox::former_edits;
use crate::store::{Goal, MirrorTx, StateKey, StoreError};
use crate::sync::error::SyncError;
use crate::sync::run::Run;
use crate::sync::walks::sweep::Sweep;

/// Begins to replace the rows of the workspace before. Returns how many edits are held. Write it durably.
pub(in crate::sync) fn accept(tx: &MirrorTx<'_>, now: Instant) -> Result<u64, StoreError> {
    for key in StateKey::OF_WORKSPACE {
        tx.clear_state(&key)?;
    }
    tx.claims().forget_goals_of_workspace()?;
    tx.knowledge().clear_unlisted()?;
    for object in Object::ALL {
        tx.custom().clear_filled(object)?;
        tx.knowledge().clear_doubts(object)?;
        if tx.is_empty(object)? {
            continue;
        }
        tx.claims().set(Goal::FormerRows(object))?;
        tx.records().make_rows_former(object)?;
        tx.claims().set(Goal::WantedSweep(object))?;
        // A record with the same id may have the same version, too.
        tx.knowledge().make_details_due(object, None)?;
    }
    // The same id may be another record there, and its fields may have the values that the edit was based on.
    tx.edits().hold_for_another_workspace(now)
}

impl Run<'_> {
    /// Ends the replacement once a sweep has read every record: what is left of the workspace before are records that this
    /// one does not have, on which is decided as on any. Edits that were made meanwhile are held.
    pub(in crate::sync) async fn end_replacement(&self, object: Object) -> Result<(), SyncError> {
        let now = self.now();
        let held = self.write(move |tx| {
            if !tx.goals().is_set(Goal::FormerRows(object))? {
                return Ok(0);
            }
            let held = tx.records().hold_edits_of_former_rows(object, None, now)?;
            tx.claims().unset(Goal::FormerRows(object))?;
            if let Some(sweep) = Sweep::load(tx, object)? {
                // As after a first copy.
                tx.claims().know_changes(object, sweep.known_changes())?;
            }
            Ok(held)
        });
        match held.await? {
            0 => {}
            held => self.warn(former_edits(object, held)),
        }
        Ok(())
    }
}
