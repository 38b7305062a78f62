//! `sweep_missing`: records that are nominated for removal; only the service can confirm the removal.
//!
//! The record of undecided nominations is cleared when one of them is withdrawn, because the service has shown a
//! record.

use rusqlite::types::Value;
use rusqlite::{params, params_from_iter};

use crate::model::catalogue::Object;
use crate::model::ids::RecordId;
use crate::model::instant::Instant;
use crate::store::error::{Doing, StoreError};
use crate::store::reader::ReadTx;
use crate::store::state_keys::StateKey;
use crate::store::tx::MirrorTx;

const DOING: &str = "compare a page with the mirror";

impl ReadTx<'_> {
    /// The nominated records, those that fit a list first.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn nominated(&self, object: Object) -> Result<Vec<RecordId>, StoreError> {
        let mut stmt = self
            .conn
            .prepare_cached("SELECT id FROM sweep_missing WHERE object_type = ?1 ORDER BY instr(id, ',') > 0, id")
            .doing(DOING)?;
        stmt.query_map([object.as_str()], |row| Ok(RecordId::new(row.get::<_, String>(0)?)))
            .and_then(Iterator::collect)
            .doing(DOING)
    }
}

impl MirrorTx<'_> {
    /// Nominates the records created between two instants (each with whether it is included) that are not among `ids`,
    /// a JSON array.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn nominate_between(
        &self,
        object: Object,
        low: Option<(Instant, bool)>,
        high: Option<(Instant, bool)>,
        ids: &str,
    ) -> Result<(), StoreError> {
        let mut sql = format!(
            "INSERT OR IGNORE INTO sweep_missing (object_type, id) SELECT ?1, id FROM {} WHERE created_at IS NOT NULL",
            object.table()
        );
        let mut values: Vec<Value> = vec![object.as_str().to_string().into(), ids.to_string().into()];
        if let Some((low, inside)) = low {
            values.push(low.to_string().into());
            sql.push_str(&format!(" AND created_at {} ?{}", if inside { ">=" } else { ">" }, values.len()));
        }
        if let Some((high, inside)) = high {
            values.push(high.to_string().into());
            sql.push_str(&format!(" AND created_at {} ?{}", if inside { "<=" } else { "<" }, values.len()));
        }
        sql.push_str(" AND id NOT IN (SELECT value FROM json_each(?2))");
        self.conn.prepare_cached(&sql).and_then(|mut stmt| stmt.execute(params_from_iter(values))).doing(DOING)?;
        Ok(())
    }

    /// Nominates the records without a creation date that are not among `ids`, a JSON array.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn nominate_dateless(&self, object: Object, ids: &str) -> Result<(), StoreError> {
        let sql = format!(
            "INSERT OR IGNORE INTO sweep_missing (object_type, id) SELECT ?1, id FROM {}
             WHERE created_at IS NULL AND id NOT IN (SELECT value FROM json_each(?2))",
            object.table()
        );
        self.conn.prepare_cached(&sql).and_then(|mut stmt| stmt.execute(params![object.as_str(), ids])).doing(DOING)?;
        Ok(())
    }

    /// Withdraws the nominations of records that were seen; `ids` is a JSON array.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn withdraw_nominations(&self, object: Object, ids: &str) -> Result<(), StoreError> {
        let none = "SELECT NOT EXISTS (SELECT 1 FROM sweep_missing)";
        if self.conn.prepare_cached(none).and_then(|mut stmt| stmt.query_row([], |row| row.get(0))).doing(DOING)? {
            return Ok(());
        }
        let withdrawn = self
            .conn
            .prepare_cached(
                "DELETE FROM sweep_missing WHERE object_type = ?1 AND id IN (SELECT value FROM json_each(?2))",
            )
            .and_then(|mut stmt| stmt.execute(params![object.as_str(), ids]))
            .doing(DOING)?;
        if withdrawn > 0 { self.clear_state(&StateKey::UndecidedRemovals(object)) } else { Ok(()) }
    }

    /// Withdraws all nominations of an object.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn clear_nominations(&self, object: Object) -> Result<(), StoreError> {
        self.conn.execute("DELETE FROM sweep_missing WHERE object_type = ?1", [object.as_str()]).doing(DOING)?;
        self.clear_state(&StateKey::UndecidedRemovals(object))
    }
}
