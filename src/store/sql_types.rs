//! The forms of the model's values as parameters of statements and in rows.

use rusqlite::Result;
use rusqlite::types::{FromSql, FromSqlResult, ToSql, ToSqlOutput, ValueRef};

use crate::model::{DelayScope, EditState, Etag, Instant, Object, RecordId, SqlValue};

impl ToSql for Object {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        Ok(self.as_str().into())
    }
}

impl ToSql for EditState {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        Ok(self.as_str().into())
    }
}

impl ToSql for DelayScope {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        Ok(self.as_str().into())
    }
}

impl ToSql for RecordId {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        Ok(self.as_str().into())
    }
}

impl FromSql for RecordId {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<RecordId> {
        String::column_result(value).map(RecordId::from)
    }
}

impl ToSql for Etag {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        Ok(self.as_str().into())
    }
}

impl FromSql for Etag {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Etag> {
        String::column_result(value).map(Etag::from)
    }
}

/// Its canonical form.
impl ToSql for Instant {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        Ok(self.to_string().into())
    }
}

/// A time in a row; one that cannot be parsed is none.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct StoredTime(pub(in crate::store) Option<Instant>);

impl FromSql for StoredTime {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<StoredTime> {
        Ok(StoredTime(value.as_str().ok().and_then(|text| text.parse().ok())))
    }
}

impl<'v> From<&'v SqlValue> for ValueRef<'v> {
    fn from(value: &'v SqlValue) -> ValueRef<'v> {
        match value {
            SqlValue::Null => ValueRef::Null,
            SqlValue::Int(i) => ValueRef::Integer(*i),
            SqlValue::Real(r) => ValueRef::Real(*r),
            SqlValue::Text(text) => ValueRef::Text(text.as_bytes()),
        }
    }
}

impl ToSql for SqlValue {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(self.into()))
    }
}

impl FromSql for SqlValue {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<SqlValue> {
        Ok(match value {
            ValueRef::Null => SqlValue::Null,
            ValueRef::Integer(i) => SqlValue::Int(i),
            ValueRef::Real(r) => SqlValue::Real(r),
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => SqlValue::Text(String::from_utf8_lossy(bytes).into()),
        })
    }
}

/// Identifiers as a JSON array, for `json_each`.
pub(in crate::store) fn json_list<'i>(ids: impl IntoIterator<Item = &'i RecordId>) -> String {
    serde_json::Value::from(ids.into_iter().map(RecordId::as_str).collect::<Vec<_>>()).to_string()
}
