//! The stored data for the limit on new edits: how many edits are new, and which of them a person has to release.

use rusqlite::{ToSql, params};

use crate::model::{EditState, Instant, Object};
use crate::store::error::StoreError;
use crate::store::outbox::NEW;
use crate::store::outbox::steps::EditStep;
use crate::store::statements::Statements;
use crate::store::tx::EditsTx;

const DOING: &str = "count new edits";

impl EditsTx<'_> {
    /// The number of edits that were never sent, held ones included, or were first sent at this time or later by the steady
    /// clock; counted up to `most` + 1.
    pub fn new_edits(&self, since: Instant, most: u64) -> Result<u64, StoreError> {
        let most = i64::try_from(most).unwrap_or(i64::MAX).saturating_add(1);
        let sql = format!(
            "SELECT (SELECT count(*) FROM (SELECT 1 FROM outbox WHERE {NEW} LIMIT ?2))
          + (SELECT count(*) FROM (SELECT 1 FROM outbox
             WHERE tried_at IS NOT NULL AND tried_at >= ?1 LIMIT ?2))"
        );
        self.tx.conn.count(&sql, params![since, most], DOING)
    }

    /// Whether any of these edits was neither sent nor released.
    pub fn any_unreleased(&self, edits: &[i64]) -> Result<bool, StoreError> {
        for edit in edits {
            let unreleased: bool = self.tx.conn.value(
                "SELECT EXISTS (SELECT 1 FROM outbox WHERE id = ?1 AND tried_at IS NULL AND released_at IS NULL)",
                [edit],
                DOING,
            )?;
            if unreleased {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Holds every edit of an object, or of both, that was neither sent nor released. Returns their number.
    pub fn hold_new_edits(&self, of: Option<Object>, why: &str, now: Instant) -> Result<u64, StoreError> {
        self.hold_new_edits_where("object_type = coalesce(?1, object_type)", params![of.map(Object::as_str)], why, now)
    }

    /// Holds every edit that meets a condition and was neither sent nor released. Returns their number.
    pub(in crate::store) fn hold_new_edits_where(
        &self,
        condition: &str,
        values: &[&dyn ToSql],
        why: &str,
        now: Instant,
    ) -> Result<u64, StoreError> {
        let sql = format!(
            "SELECT id FROM outbox WHERE {NEW} AND state = 'queued' AND released_at IS NULL AND {condition} ORDER BY id"
        );
        let ids: Vec<i64> = self.tx.conn.column(&sql, values, DOING)?;
        for id in &ids {
            self.take_step(*id, &EditStep::new(EditState::Queued, EditState::Held, why), now)?;
        }
        Ok(ids.len() as u64)
    }

    pub fn mark_released(&self, edit: i64, now: Instant) -> Result<(), StoreError> {
        self.tx.conn.run("UPDATE outbox SET released_at = ?2 WHERE id = ?1", params![edit, now], "release an edit")
    }
}
