//! The records that a back-fill has read. A restored column has the values of the time when it was archived; a record
//! that the back-fill does not read may have lost its value since. A back-fill may take several runs, so its progress
//! is stored in the file.

use crate::model::catalogue::Object;
use crate::model::custom::CustomField;
use crate::model::ids::RecordId;
use crate::store::error::{Doing, StoreError};
use crate::store::reader::ReadTx;
use crate::store::statements::{Statements, fits_a_list};
use crate::store::tx::CustomTx;

const DOING: &str = "fill a custom column";

impl ReadTx<'_> {
    /// Records that have a value here and were not read.
    pub fn not_filled(&self, object: Object, field: &CustomField) -> Result<Vec<RecordId>, StoreError> {
        let (table, key) = if field.data_type.detail_only() {
            (object.detail_table(), object.detail_key())
        } else {
            (object.table(), "id")
        };
        let sql = format!(
            "SELECT {key} FROM {table} WHERE {} IS NOT NULL
             AND {key} NOT IN (SELECT id FROM filled_records WHERE object_type = ?1)
             ORDER BY NOT {}, {key}",
            field.column,
            fits_a_list(key)
        );
        self.conn.column(&sql, [object], DOING)
    }

    /// Those of these records that have a value in the column of a field that lists contain.
    pub fn with_value(
        &self,
        object: Object,
        field: &CustomField,
        ids: &[RecordId],
    ) -> Result<Vec<RecordId>, StoreError> {
        let sql = format!("SELECT 1 FROM {} WHERE id = ?1 AND {} IS NOT NULL", object.table(), field.column);
        let mut stmt = self.conn.prepare_cached(&sql).doing(DOING)?;
        let mut with_value = Vec::new();
        for id in ids {
            if stmt.exists([id]).doing(DOING)? {
                with_value.push(id.clone());
            }
        }
        Ok(with_value)
    }
}

impl CustomTx<'_> {
    /// Forgets which records were read.
    pub fn clear_filled(&self, object: Object) -> Result<(), StoreError> {
        self.tx.conn.run("DELETE FROM filled_records WHERE object_type = ?1", [object], DOING)
    }

    pub fn mark_filled(&self, object: Object, ids: &[RecordId]) -> Result<(), StoreError> {
        let sql = "INSERT OR IGNORE INTO filled_records VALUES (?1, ?2)";
        ids.iter().try_for_each(|id| self.tx.conn.run(sql, (object, id), DOING))
    }
}
