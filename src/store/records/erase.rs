//! Erases what is still stored of a record that the service no longer has: history, edits and their history.

use rusqlite::params;
use serde::Serialize;

use crate::model::catalogue::Object;
use crate::store::error::{Doing, StoreError};
use crate::store::statements::Statements;
use crate::store::tx::FeedTx;

const DOING: &str = "erase a removed record";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Erasure {
    /// The service still has the record, as far as is known.
    StillHere,
    Unknown,
    Erased(ErasedCounts),
}

/// The numbers of erased entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ErasedCounts {
    /// Whether its last contents were stored.
    pub record: bool,
    /// Entries of the history.
    pub changes: u64,
    pub edits: u64,
}

impl FeedTx<'_> {
    /// Erases a record that is no longer mirrored from all tables, and overwrites its contents. Published copies
    /// follow.
    pub fn erase_removed(&self, object: Object, id: &str) -> Result<Erasure, StoreError> {
        let exists = format!("SELECT EXISTS (SELECT 1 FROM {} WHERE id = ?1)", object.table());
        if self.tx.conn.value(&exists, [id], DOING)? {
            return Ok(Erasure::StillHere);
        }
        // Deleted contents are overwritten with zeros, not only freed.
        self.tx.conn.pragma_update(None, "secure_delete", true).doing(DOING)?;
        let erase = |sql: &str| self.tx.conn.execute(sql, params![object, id]).doing(DOING);
        let record = erase("DELETE FROM removed_records WHERE object_type = ?1 AND id = ?2")? > 0;
        let changes = erase("DELETE FROM changes WHERE object_type = ?1 AND record_id = ?2")? as u64;
        erase(
            "DELETE FROM outbox_events WHERE outbox_id IN
                 (SELECT id FROM outbox WHERE object_type = ?1 AND record_id = ?2)",
        )?;
        erase("DELETE FROM doubts WHERE object_type = ?1 AND record_id = ?2")?;
        erase("DELETE FROM unshown_columns WHERE object_type = ?1 AND record_id = ?2")?;
        erase("DELETE FROM outbox_delays WHERE object_type = ?1 AND record_id = ?2")?;
        let edits = erase("DELETE FROM outbox WHERE object_type = ?1 AND record_id = ?2")? as u64;
        if !record && changes == 0 && edits == 0 {
            return Ok(Erasure::Unknown);
        }
        self.publish_erasure(object, id)?;
        Ok(Erasure::Erased(ErasedCounts { record, changes, edits }))
    }
}
