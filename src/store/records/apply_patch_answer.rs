//! Applies the answer to an update to the mirror at once.
//!
//! # Why the detail may stay current
//! An update names the version that it replaces, and is applied to no other. So only our update lies between that
//! version and the new one: a detail that was read at the replaced version is valid for the new one, if the answer
//! contains every submitted field. If it does not (`notes` changes `notesAt`, which no confirmation contains), the
//! detail keeps its old version and is due again.
//!
//! A replayed answer may be old, so it is applied only to a row that still has the replaced version: any other row is
//! newer. To that row it is applied whatever its `updatedAt`: the clocks of app servers differ, and the etag proves that
//! it follows.

use crate::model::{Etag, Extra, FieldProjection, FieldValue, Object, Record, RequestStamp};
use crate::store::records::upsert::WrittenAnswer;
use crate::store::{Applied, RecordsTx, Result, Shape, Shows, Source, Statements};

const CUSTOM: &str = "customFields";

impl RecordsTx<'_> {
    /// Writes the compact answer to an update; fields that it does not contain are unchanged. `complete` says whether
    /// it contains everything that the update changed. Returns the effect; `None` if the row did not have the version
    /// `replaced`. Then it has the new version, or none is known until an answer shows one.
    pub fn apply_confirmation(
        &self,
        object: Object,
        record: &Record,
        replaced: &Etag,
        complete: bool,
        asked: &RequestStamp,
    ) -> Result<Option<Applied>> {
        let (list, detail) = (self.tx.shapes().list(object), self.tx.shapes().detail(object));
        let Some((etag, old_list, _)) = self.version(&list, record)? else {
            return Ok(None);
        };
        if etag.as_deref() != Some(replaced.as_str()) {
            if let Some(etag) = etag.filter(|etag| record.version(object) != Some(etag)) {
                self.forget_version(object, &record.id, &Etag::new(etag))?;
            }
            return Ok(None);
        }
        let old_list = old_list.map(|text| Extra::from_json(object, &text)).unwrap_or_default();
        let mut extra = self.without_fields_of(object, record, FieldProjection::List, old_list.clone());
        extra.sources.extend(record.extra.sources.clone());
        // Unknown fields are updated if a list contained them.
        for (name, source) in &record.detail_extra.sources {
            extra.sources.entry(name.clone()).and_modify(|kept| kept.clone_from(source));
        }
        let answer = WrittenAnswer::from(asked);
        let applied = self.write(object, &list, record, &extra, WrittenAnswer { follows: true, ..answer })?;
        self.tx.unread().mark_unshown(object, record, Shows::Nothing)?;
        let found = self.version(&detail, record)?;
        let Some((detail_etag, old_detail, fetched_at)) = found else {
            return Ok(Some(applied));
        };
        let carried = complete
            && !record.custom.contains(&FieldValue::Withheld)
            && detail_etag.as_deref() == Some(replaced.as_str());
        let of_detail = if carried { record.clone() } else { record.with_field(object, "etag", FieldValue::Absent) };
        let old_detail = old_detail.map(|text| Extra::from_json(object, &text)).unwrap_or_default();
        let mut extra = self.without_fields_of(object, record, FieldProjection::Detail, old_detail);
        let unknown = record.detail_extra.sources.iter().filter(|(name, _)| !old_list.sources.contains_key(*name));
        extra.sources.extend(unknown.map(|(name, source)| (name.clone(), source.clone())));
        // The detail was not read again: its age is unchanged.
        let read_at = fetched_at.parse().unwrap_or(asked.at);
        self.write(object, &detail, &of_detail, &extra, WrittenAnswer { read_at, ..answer })?;
        Ok(Some(applied))
    }

    #[allow(clippy::type_complexity, reason = "three columns of one row")]
    pub(in crate::store) fn version(
        &self,
        Shape { table, key, stamp, .. }: &Shape,
        record: &Record,
    ) -> Result<Option<(Option<String>, Option<String>, String)>> {
        self.find_tuple(&format!("SELECT etag, extra, {stamp} FROM {table} WHERE {key} = ?1"), [record.id.as_str()])
    }

    pub(in crate::store) fn without_fields_of(
        &self,
        object: Object,
        record: &Record,
        shown: FieldProjection,
        mut extra: Extra,
    ) -> Extra {
        for (field, value) in object.fields().iter().zip(&record.fields) {
            if field.projection != shown || *value == FieldValue::Absent {
                continue;
            }
            extra.remove("", field.wire);
            if let Some((group, name)) = field.wire.split_once('.') {
                extra.remove("", group);
                extra.remove(group, name);
            }
        }
        let layout = self.tx.layout();
        for (field, value) in layout.of(object).fields().iter().zip(&record.custom) {
            if field.data_type.detail_only() == (shown == FieldProjection::Detail) && *value != FieldValue::Absent {
                extra.remove("", CUSTOM);
                extra.remove(CUSTOM, field.key.as_str());
            }
        }
        extra
    }

    /// In the form of the column; `None` if the answer does not show the column, or shows what the column cannot hold.
    pub fn shown_value(&self, object: Object, record: &Record, column: &str) -> Option<serde_json::Value> {
        let value = match self.tx.shapes().source(object, column)?.0 {
            Source::Slot(slot) => record.custom.get(slot)?,
            Source::Field(index) => record.fields.get(index)?,
            _ => return None,
        };
        match value {
            FieldValue::Null => Some(serde_json::Value::Null),
            FieldValue::Exact(value) | FieldValue::Truncated(value) => Some(value.into()),
            FieldValue::Absent | FieldValue::Omitted | FieldValue::Withheld | FieldValue::Unrepresentable => None,
        }
    }
}
