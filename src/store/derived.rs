//! What is derived from rows and built in bulk at the end of a first copy: multi-select rows and secondary indexes.
//!
//! A first copy writes plain rows only; building these once at its end is several times cheaper than keeping them page
//! by page. A kill in between is a state like any other: the object is still in its first copy and builds again.

use super::batch::Batch;
use super::error::{Doing, StoreError};
use super::upsert::Phase;
use crate::model::catalogue::Object;
use crate::model::custom::DataType;

const INDEXES: &str = include_str!("../../schema/deferred/indexes.sql");

/// The state entry that says an object's first copy is finished.
fn entry(object: Object) -> String {
    format!("copied:{object}")
}

impl Batch<'_> {
    /// How far the mirror is with an object.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn phase(&self, object: Object) -> Result<Phase, StoreError> {
        let copied: Option<bool> = self.state(&entry(object))?;
        Ok(if copied == Some(true) {
            Phase::Kept
        } else {
            Phase::FirstCopy
        })
    }

    /// Ends an object's first copy: builds what is derived from its rows, and keeps it with every page from now on.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn finish_first_copy(&self, object: Object) -> Result<(), StoreError> {
        if self.phase(object)? == Phase::Kept {
            return Ok(());
        }
        self.rebuild_multi_values(object)?;
        self.tx.execute_batch(INDEXES).doing("build the indexes")?;
        self.set_state(&entry(object), &true)
    }

    pub(super) fn rebuild_multi_values(&self, object: Object) -> Result<(), StoreError> {
        let doing = "build the rows of multi-selects";
        self.tx
            .execute(
                "DELETE FROM custom_multi_values WHERE object_type = ?1",
                [object.word()],
            )
            .doing(doing)?;
        for field in self
            .layout()
            .of(object)
            .fields()
            .iter()
            .filter(|f| f.data_type == DataType::MultiSelect)
        {
            let sql = format!(
                "INSERT INTO custom_multi_values (object_type, record_id, field_key, position, value)
                 SELECT ?1, r.id, ?2, v.key, v.value FROM {table} AS r, json_each(r.{column}) AS v
                 WHERE r.{column} IS NOT NULL ORDER BY r.id",
                table = object.table(),
                column = field.column,
            );
            self.tx
                .execute(&sql, [object.word(), field.key.as_str()])
                .doing(doing)?;
        }
        Ok(())
    }
}
