//! The change history since the first full copy, and removed records.

use rusqlite::types::Value;
use rusqlite::{OptionalExtension, params};
use serde_json::Map;

use crate::model::catalogue::Object;
use crate::model::ids::RecordId;
use crate::model::instant::Instant;
use crate::store::error::{Doing, StoreError};
use crate::store::records::compare::json;
use crate::store::records::shape::owned;
use crate::store::records::upsert::Phase;
use crate::store::statements::Statements;
use crate::store::tx::RecordsTx;

impl RecordsTx<'_> {
    /// Whether the history saw the record come.
    pub(in crate::store) fn was_inserted(&self, object: Object, id: &RecordId) -> Result<bool, StoreError> {
        self.tx.conn.value(
            "SELECT EXISTS (SELECT 1 FROM changes WHERE object_type = ?1 AND record_id = ?2 AND kind = 'insert')",
            params![object, id],
            "look up a change",
        )
    }

    /// Moves a record that the service no longer has to `removed_records`. Returns whether it was mirrored. Only the
    /// removal gate calls it.
    pub(super) fn remove(
        &self,
        object: Object,
        id: &RecordId,
        removed_at: Instant,
        phase: Phase,
    ) -> Result<bool, StoreError> {
        let doing = "move a removed record";
        let Some(mut record) = self.row(object.table(), "id", id)? else {
            return Ok(false);
        };
        self.count_before(object, id.as_str())?;
        self.tx.feed().mark_changed(object, id.as_str());
        if let Some(detail) = self.row(object.detail_table(), object.detail_key(), id)? {
            let own = [object.detail_key(), "etag", "fetched_at"];
            let detail = detail.into_iter().filter(|(column, _)| !own.contains(&column.as_str()));
            record.extend(detail.map(|(column, value)| match column.as_str() {
                "extra" => ("detail_extra".into(), value),
                _ => (column, value),
            }));
        }
        let differences: Vec<_> = record
            .iter()
            .filter(|(column, value)| *value != Value::Null && column != "synced_at" && column != "id")
            .map(|(column, value)| (column.clone(), value.clone(), Value::Null))
            .collect();
        if phase == Phase::Kept {
            self.tx.feed().remember(object, id.as_str(), "remove", &differences, removed_at)?;
        }
        let members: Map<String, serde_json::Value> =
            record.iter().map(|(column, value)| (column.clone(), json(value))).collect();
        let text = serde_json::Value::from(members).to_string();
        let execute = |sql: &str, params: &[&dyn rusqlite::ToSql]| self.tx.conn.change(sql, params, doing);
        execute(
            "INSERT OR REPLACE INTO removed_records (object_type, id, removed_at, record) VALUES (?1, ?2, ?3, ?4)",
            &[&object.as_str(), &id.as_str(), &removed_at.to_string(), &text],
        )?;
        execute(
            "DELETE FROM custom_multi_values WHERE object_type = ?1 AND record_id = ?2",
            &[&object.as_str(), &id.as_str()],
        )?;
        execute(&format!("DELETE FROM {} WHERE {} = ?1", object.detail_table(), object.detail_key()), &[&id.as_str()])?;
        self.tx.derived().unsearch(object, id.as_str(), phase);
        self.tx.knowledge().forget_doubts(object, id.as_str())?;
        execute(&format!("DELETE FROM {} WHERE id = ?1", object.table()), &[&id.as_str()])?;
        Ok(true)
    }

    /// A whole row by column names.
    fn row(&self, table: &str, key: &str, id: &RecordId) -> Result<Option<Vec<(String, Value)>>, StoreError> {
        let doing = "read a record";
        // Not cached: `*` depends on columns that are added and removed.
        let mut stmt = self.tx.conn.prepare(&format!("SELECT * FROM {table} WHERE {key} = ?1")).doing(doing)?;
        let names: Vec<String> = stmt.column_names().map(String::from).collect();
        stmt.query_row([id], |row| {
            names.iter().enumerate().map(|(i, name)| Ok((name.clone(), row.get_ref::<_>(i).map(owned)?))).collect()
        })
        .optional()
        .doing(doing)
    }
}
