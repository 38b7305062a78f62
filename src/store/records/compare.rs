//! Compares a record with its row, without writing.

use rusqlite::types::{Value, ValueRef};
use serde::{Deserialize, Serialize};

use crate::model::answer_time::AnswerTime;
use crate::model::catalogue::Object;
use crate::model::record::Record;
use crate::store::error::{Doing, StoreError};
use crate::store::records::shape::{owned, value_of};
use crate::store::records::versions::is_coarser;
use crate::store::tx::RecordsTx;

/// A column whose value differs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FieldDifference {
    pub column: String,
    pub here: serde_json::Value,
    pub there: serde_json::Value,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Compared {
    Missing,
    Same,
    /// These columns differ.
    Differs(Vec<FieldDifference>),
}

impl Compared {
    /// Whether the record was shown in an earlier version than the row has, by an answer that does not decide about it.
    pub fn shows_older(&self, answer: AnswerTime) -> bool {
        let Compared::Differs(fields) = self else { return false };
        let version = fields.iter().find(|field| field.column == "updated_at");
        let times = version.and_then(|version| version.there.as_str().zip(version.here.as_str()));
        times.is_some_and(|(there, here)| there < here && !answer.is_as_new_as(here.parse().ok()))
    }
}

pub(in crate::store) fn json(value: &Value) -> serde_json::Value {
    match value {
        Value::Integer(i) => (*i).into(),
        Value::Real(r) => (*r).into(),
        Value::Text(text) => text.as_str().into(),
        Value::Null | Value::Blob(_) => serde_json::Value::Null,
    }
}

impl RecordsTx<'_> {
    /// Compares a list item with its row, column by column.
    pub fn compare_list(&self, object: Object, record: &Record) -> Result<Compared, StoreError> {
        let doing = "compare a record";
        let shape = self.tx.shapes().list(object);
        let extra = record.extra.to_json();
        let mut stmt = self.tx.conn.prepare_cached(&shape.select).doing(doing)?;
        let mut rows = stmt.query([record.id.as_str()]).doing(doing)?;
        let Some(row) = rows.next().doing(doing)? else {
            return Ok(Compared::Missing);
        };
        let etag = shape.place("etag");
        let told = |place: usize| value_of(shape.columns[place].source, record, extra.as_deref());
        let shows_its_etag = |etag: usize| told(etag).is_none_or(|new| row.get_ref(etag).is_ok_and(|old| old == new));
        let is_one_version = etag.is_none_or(shows_its_etag);
        let mut fields = Vec::new();
        for (index, column) in shape.columns.iter().enumerate() {
            let Some(new) = told(index) else {
                continue;
            };
            let old: ValueRef<'_> = row.get_ref(index).doing(doing)?;
            if old != new && !(is_one_version && column.is_instant && is_coarser(new, old)) {
                let (here, there) = (json(&owned(old)), json(&owned(new)));
                fields.push(FieldDifference { column: column.name.clone(), here, there });
            }
        }
        Ok(if fields.is_empty() { Compared::Same } else { Compared::Differs(fields) })
    }
}
