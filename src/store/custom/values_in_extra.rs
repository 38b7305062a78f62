//! The values that a new or restored column lacks: those stored in `extra` because their field was unknown when they were read,
//! and the records that a back-fill has read. A restored column has the values of the time when it was archived; a record
//! that the back-fill does not read may have lost its value since. A back-fill may take several runs, so its progress
//! is stored in the file.

use rusqlite::params;

use crate::model::{CustomField, Extra, Object, Record, RecordId, RequestStamp};
use crate::store::custom::rows::table;
use crate::store::records::shape::with_details;
use crate::store::records::upsert::WrittenAnswer;
use crate::store::{CustomTx, ReadTx, Result, Statements, StoredTime, fits_a_list, json_list};

impl ReadTx<'_> {
    /// The records with custom values in either `extra`, and whether the detail is of the version of the row.
    pub fn rows_with_custom_extra(
        &self,
        object: Object,
        after: Option<&RecordId>,
        most: usize,
    ) -> Result<Vec<(RecordId, [Extra; 2], bool)>> {
        let sql = format!(
            "SELECT r.id, r.extra, d.extra, d.etag IS r.etag FROM {}
             WHERE r.id > ?1 AND (instr(r.extra, '\"customFields\"') > 0 OR instr(d.extra, '\"customFields\"') > 0)
             ORDER BY r.id LIMIT ?2",
            with_details(object)
        );
        let of = |text: Option<String>| text.map(|text| Extra::from_json(object, &text)).unwrap_or_default();
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, [of(row.get(1)?), of(row.get(2)?)], row.get(3)?));
        self.rows(&sql, params![after.map_or("", RecordId::as_str), most as i64], row)
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

    /// Those of these records, and of the missed ones, that have a value in the column of a field that lists contain.
    pub fn with_value(&self, object: Object, field: &CustomField, ids: &[RecordId]) -> Result<Vec<RecordId>> {
        let missed = format!("SELECT record_id FROM doubts WHERE object_type = '{object}' AND why = 'missed'");
        let sql = format!(
            "SELECT r.id FROM (SELECT value FROM json_each(?1) UNION {missed}) AS ids
             CROSS JOIN {} AS r ON r.id = ids.value WHERE r.{} IS NOT NULL",
            object.table(),
            field.column
        );
        self.column(&sql, [json_list(ids)])
    }
}

impl CustomTx<'_> {
    /// Moves the values of these fields from both `extra` into their columns; what does not fit stays beside its column.
    pub fn fill_from_extra(
        &self,
        object: Object,
        fields: &[CustomField],
        record: &Record,
        asked: &RequestStamp,
    ) -> Result<()> {
        for (shape, of_details) in [(self.tx.shapes().list(object), false), (self.tx.shapes().detail(object), true)] {
            let version = self.tx.records().version(object, &shape, record)?;
            let Some((_, mut extra, StoredTime(read_at))) = version else { continue };
            for field in fields {
                let (name, is_beside) = (field.key.as_str(), field.data_type.detail_only() == of_details);
                extra.remove("customFields", name);
                let unfit = record.extra.get("customFields", name).filter(|_| is_beside);
                let unfit = unfit.map(|source| (("customFields".into(), name.into()), source.clone()));
                extra.sources.extend(unfit);
            }
            // Nothing was read: the row is as old as before.
            let answer = WrittenAnswer { read_at: read_at.unwrap_or(asked.at.wall), is_shown: false, ..asked.into() };
            self.tx.records().write(object, &shape, record, &extra, answer)?;
        }
        Ok(())
    }

    pub fn clear_filled(&self, object: Object) -> Result<()> {
        self.run("DELETE FROM filled_records WHERE object_type = ?1", [object])
    }

    pub fn mark_filled(&self, object: Object, ids: &[RecordId]) -> Result<()> {
        let sql = "INSERT OR IGNORE INTO filled_records VALUES (?1, ?2)";
        ids.iter().try_for_each(|id| self.run(sql, (object, id)))
    }
}
