//! Back-fills: which records one has met. A column that comes back from the archive holds what was there when it was
//! parked; a record that the back-fill does not meet may have lost its value since.

use crate::model::catalogue::Object;
use crate::model::custom::CustomField;
use crate::model::ids::RecordId;
use crate::store::error::{Doing, StoreError};
use crate::store::reader::ReadTx;
use crate::store::tx::MirrorTx;

const DOING: &str = "fill a custom column";

impl ReadTx<'_> {
    /// Records that have a value here and were not met.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn not_refilled(&self, object: Object, field: &CustomField) -> Result<Vec<RecordId>, StoreError> {
        let (table, key) = if field.data_type.detail_only() {
            (object.detail_table(), object.detail_key())
        } else {
            (object.table(), "id")
        };
        let sql = format!(
            "SELECT {key} FROM {table} WHERE {} IS NOT NULL AND {key} NOT IN (SELECT id FROM temp.refilled)
             ORDER BY instr({key}, ',') > 0, {key}",
            field.column
        );
        let mut stmt = self.conn.prepare(&sql).doing(DOING)?;
        stmt.query_map([], |row| Ok(RecordId::new(row.get::<_, String>(0)?))).and_then(Iterator::collect).doing(DOING)
    }
}

impl MirrorTx<'_> {
    /// Forgets which records were met.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn begin_refill(&self) -> Result<(), StoreError> {
        self.conn
            .execute_batch(
                "CREATE TEMP TABLE IF NOT EXISTS refilled (id TEXT PRIMARY KEY) WITHOUT ROWID;
                 DELETE FROM temp.refilled;",
            )
            .doing(DOING)
    }

    /// Notes records that were met.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn note_refilled(&self, ids: &[RecordId]) -> Result<(), StoreError> {
        let mut stmt = self.conn.prepare_cached("INSERT OR IGNORE INTO temp.refilled VALUES (?1)").doing(DOING)?;
        for id in ids {
            stmt.execute([id.as_str()]).doing(DOING)?;
        }
        Ok(())
    }
}
