//! The values that a new or restored column lacks: those stored in `extra` because their field was unknown when they were read,
//! and the records that a back-fill has read. A restored column has the values of the time when it was archived; a record
//! that the back-fill does not read may have lost its value since. A back-fill may take several runs, so its progress
//! is stored in the file.

use rusqlite::params;

use crate::model::{CustomField, Extra, FieldProjection, Object, Record, RecordId, RequestStamp};
use crate::store::custom::rows::table;
use crate::store::records::upsert::WrittenAnswer;
use crate::store::{CustomTx, ReadTx, Result, Statements, fits_a_list, json_list};

impl ReadTx<'_> {
    pub fn rows_with_custom_extra(
        &self,
        object: Object,
        of_details: bool,
        after: Option<&RecordId>,
        most: usize,
    ) -> Result<Vec<(RecordId, Extra)>> {
        let (table, key) = table(object, of_details);
        let sql = format!(
            "SELECT {key}, extra FROM {table} WHERE extra IS NOT NULL AND {key} > ?1
               AND instr(extra, '\"customFields\"') > 0 ORDER BY {key} LIMIT ?2"
        );
        let after = after.map_or("", RecordId::as_str);
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, Extra::from_json(object, &row.get::<_, String>(1)?)));
        self.rows(&sql, params![after, most as i64], row)
    }

    pub fn count_values(&self, object: Object, field: &CustomField) -> Result<u64> {
        let (table, _) = table(object, field.data_type.detail_only());
        let sql = format!("SELECT count({}) FROM {table}", field.column);
        self.count(&sql, [])
    }

    /// Records that have a value here and were not read.
    pub fn not_filled(&self, object: Object, field: &CustomField) -> Result<Vec<RecordId>> {
        let (table, key) = table(object, field.data_type.detail_only());
        let sql = format!(
            "SELECT {key} FROM {table} WHERE {} IS NOT NULL
             AND {key} NOT IN (SELECT id FROM filled_records WHERE object_type = ?1)
             ORDER BY NOT {}, {key}",
            field.column,
            fits_a_list(key)
        );
        self.column(&sql, [object])
    }

    /// Those of these records that have a value in the column of a field that lists contain.
    pub fn with_value(&self, object: Object, field: &CustomField, ids: &[RecordId]) -> Result<Vec<RecordId>> {
        let sql = format!(
            "SELECT r.id FROM json_each(?1) AS ids CROSS JOIN {} AS r ON r.id = ids.value WHERE r.{} IS NOT NULL",
            object.table(),
            field.column
        );
        self.column(&sql, [json_list(ids)])
    }
}

impl CustomTx<'_> {
    /// Moves values of a row from its `extra` into their columns; what does not fit its column stays there.
    pub fn fill_from_extra(
        &self,
        object: Object,
        record: &Record,
        of_details: bool,
        asked: &RequestStamp,
    ) -> Result<()> {
        let (shape, shown) = if of_details {
            (self.tx.shapes().detail(object), FieldProjection::Detail)
        } else {
            (self.tx.shapes().list(object), FieldProjection::List)
        };
        let Some((_, old, stamped_at)) = self.tx.records().version(&shape, record)? else {
            return Ok(());
        };
        let old = old.map(|text| Extra::from_json(object, &text)).unwrap_or_default();
        let mut extra = self.tx.records().without_fields_of(object, record, shown, old);
        let kept = if of_details { &record.detail_extra } else { &record.extra };
        extra.sources.extend(kept.sources.clone().into_iter().chain(record.extra.sources.clone()));
        // Nothing was read: the row is as old as before.
        let read_at = stamped_at.parse().unwrap_or(asked.at);
        let answer = WrittenAnswer { read_at, ..asked.into() };
        self.tx.records().write(object, &shape, record, &extra, answer).map(drop)
    }

    pub fn clear_filled(&self, object: Object) -> Result<()> {
        self.run("DELETE FROM filled_records WHERE object_type = ?1", [object])
    }

    pub fn mark_filled(&self, object: Object, ids: &[RecordId]) -> Result<()> {
        let sql = "INSERT OR IGNORE INTO filled_records VALUES (?1, ?2)";
        ids.iter().try_for_each(|id| self.run(sql, (object, id)))
    }
}
