//! Applies the answer to an update to the mirror at once.
//!
//! # What an answer to an update shows
//! It is no detail (reference, *PATCH /contacts/{id}*): it shows what lists show, and what was submitted. Whatever it has in
//! place of other fields of a detail is no value, and the update may have changed them, too. So the detail keeps the version
//! that it was read at, and is due.
//!
//! A replayed answer may be old, so it is applied only to a row that still has the replaced version: any other row is
//! newer. To that row it is applied whatever its `updatedAt`: the clocks of app servers differ, and the etag proves that
//! it follows.

use crate::model::{Etag, Extra, FieldProjection, FieldValue, Object, Record, RequestStamp};
use crate::store::records::upsert::WrittenAnswer;
use crate::store::{Applied, RecordsTx, Result, Shape, Shows, Statements, StoredTime};

impl RecordsTx<'_> {
    /// Writes the compact answer to an update of the `submitted` columns; fields that it does not show are unchanged.
    /// Returns the effect; `None` if the row did not have the version `replaced`. Then it has the new version, or none is
    /// known until an answer shows one.
    pub fn apply_confirmation(
        &self,
        object: Object,
        record: &Record,
        replaced: &Etag,
        submitted: &[&str],
        asked: &RequestStamp,
    ) -> Result<Option<Applied>> {
        let (list, detail) = (self.tx.shapes().list(object), self.tx.shapes().detail(object));
        let record = &self.shown_by_update(object, record, submitted);
        let Some((etag, old_list, _)) = self.version(object, &list, record)? else { return Ok(None) };
        if etag.as_deref() != Some(replaced.as_str()) {
            if let Some(etag) = etag.filter(|etag| record.version(object) != Some(etag)) {
                self.forget_version(object, &record.id, &Etag::new(etag))?;
            }
            return Ok(None);
        }
        let mut extra = self.without_fields_of(object, record, false, old_list);
        extra.sources.extend(record.extra.sources.clone());
        // Unknown fields are updated if a list contained them.
        for (name, source) in &record.detail_extra.sources {
            extra.sources.entry(name.clone()).and_modify(|kept| kept.clone_from(source));
        }
        let answer = WrittenAnswer::from(asked);
        let applied = self.write(object, &list, record, &extra, WrittenAnswer { follows: true, ..answer })?;
        self.tx.unread().mark_unshown(object, record, Shows::Nothing)?;
        let Some((_, old, StoredTime(fetched_at))) = self.version(object, &detail, record)? else {
            return Ok(Some(applied));
        };
        let of_detail = record.with_field(object, "etag", FieldValue::Absent);
        let extra = self.without_fields_of(object, record, true, old);
        // The detail was not read again: its age is unchanged.
        let read_at = fetched_at.unwrap_or(asked.at.wall);
        self.write(object, &detail, &of_detail, &extra, WrittenAnswer { read_at, ..answer })?;
        Ok(Some(applied))
    }

    /// The values that the answer to an update shows. As in a list, null in place of a group clears nothing.
    fn shown_by_update(&self, object: Object, record: &Record, submitted: &[&str]) -> Record {
        let (mut shown, layout) = (record.clone(), self.tx.layout());
        let standard = object.fields().iter();
        let standard = standard.map(|f| (f.column, f.projection == FieldProjection::Detail, f.wire.contains('.')));
        let custom = layout.of(object).fields().iter().map(|f| (f.column.as_str(), f.data_type.detail_only(), false));
        let values = shown.fields.iter_mut().chain(&mut shown.custom);
        for ((column, of_detail, is_in_group), value) in standard.chain(custom).zip(values) {
            if of_detail && !submitted.contains(&column) {
                *value = FieldValue::Absent;
            } else if *value == FieldValue::Withheld || is_in_group && *value == FieldValue::Null {
                *value = FieldValue::Omitted;
            }
        }
        shown
    }

    pub(in crate::store) fn version(
        &self,
        object: Object,
        Shape { table, key, stamp, .. }: &Shape,
        record: &Record,
    ) -> Result<Option<(Option<String>, Extra, StoredTime)>> {
        let sql = format!("SELECT etag, coalesce(extra, ''), {stamp} FROM {table} WHERE {key} = ?1");
        let row: Option<(_, String, _)> = self.find_tuple(&sql, [&record.id])?;
        Ok(row.map(|(etag, extra, read_at)| (etag, Extra::from_json(object, &extra), read_at)))
    }

    /// Without what the record shows of the fields of lists, or of those of details.
    fn without_fields_of(&self, object: Object, record: &Record, of_details: bool, mut extra: Extra) -> Extra {
        let layout = self.tx.layout();
        let standard = object.fields().iter().map(|f| (f.projection == FieldProjection::Detail, f.wire.to_string()));
        let custom = layout.of(object).fields().iter();
        let custom = custom.map(|f| (f.data_type.detail_only(), format!("customFields.{}", f.key)));
        let values = record.fields.iter().chain(&record.custom);
        for ((of_detail, wire), value) in standard.chain(custom).zip(values) {
            if of_detail != of_details || matches!(value, FieldValue::Absent | FieldValue::Omitted) {
                continue;
            }
            extra.remove("", &wire);
            if let Some((group, name)) = wire.split_once('.') {
                extra.remove("", group);
                extra.remove(group, name);
            }
        }
        extra
    }

    /// In the form of the column; `None` if the answer does not show the column, or shows what the column cannot hold.
    pub fn shown_value(&self, object: Object, record: &Record, column: &str) -> Option<serde_json::Value> {
        match self.tx.shapes().source(object, column)?.0.field(record)? {
            FieldValue::Null => Some(serde_json::Value::Null),
            FieldValue::Exact(value) | FieldValue::Truncated(value) => Some(value.into()),
            FieldValue::Absent | FieldValue::Omitted | FieldValue::Withheld | FieldValue::Unrepresentable => None,
        }
    }
}
