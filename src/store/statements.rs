//! Prepared statements: one call prepares, runs, and says what failed. And the forms of the model's values as their parameters and
//! in rows.

use rusqlite::types::{FromSql, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, Params, Result, Row};

use crate::model::ids::MAX_PREDICATE;
use crate::model::{DelayScope, EditState, Etag, Instant, Object, RecordId, SqlValue};
use crate::store::{Doing, StoreError};

/// Statements that stay prepared; `doing` says what fails.
pub(in crate::store) trait Statements {
    fn connection(&self) -> &Connection;

    /// Returns how many rows it changed.
    fn change(&self, sql: &str, values: impl Params, doing: &'static str) -> Result<usize, StoreError> {
        self.connection().prepare_cached(sql).and_then(|mut stmt| stmt.execute(values)).doing(doing)
    }

    fn run(&self, sql: &str, values: impl Params, doing: &'static str) -> Result<(), StoreError> {
        self.change(sql, values, doing).map(drop)
    }

    /// The first column of the one row.
    fn value<T: FromSql>(&self, sql: &str, values: impl Params, doing: &'static str) -> Result<T, StoreError> {
        self.connection().prepare_cached(sql).and_then(|mut stmt| stmt.query_row(values, |row| row.get(0))).doing(doing)
    }

    /// The first column of the one row, a number of things.
    fn count(&self, sql: &str, values: impl Params, doing: &'static str) -> Result<u64, StoreError> {
        Ok(self.value::<i64>(sql, values, doing)?.unsigned_abs())
    }

    /// The first column of the first row, if there is any.
    fn find_value<T: FromSql>(
        &self,
        sql: &str,
        values: impl Params,
        doing: &'static str,
    ) -> Result<Option<T>, StoreError> {
        self.find(sql, values, doing, |row| row.get(0))
    }

    /// The first row, if there is any.
    fn find<T>(
        &self,
        sql: &str,
        values: impl Params,
        doing: &'static str,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, StoreError> {
        self.connection().prepare_cached(sql).and_then(|mut stmt| stmt.query_row(values, read).optional()).doing(doing)
    }

    /// The columns of the first row, if there is any.
    fn find_tuple<T: OfRow>(
        &self,
        sql: &str,
        values: impl Params,
        doing: &'static str,
    ) -> Result<Option<T>, StoreError> {
        self.find(sql, values, doing, |row| row.try_into())
    }

    /// The time in the first column of the first row, if there is any that can be parsed.
    fn find_time(&self, sql: &str, values: impl Params, doing: &'static str) -> Result<Option<Instant>, StoreError> {
        Ok(self.find_value(sql, values, doing)?.and_then(|StoredTime(at)| at))
    }

    /// The columns of every row.
    fn tuples<T: OfRow, C: FromIterator<T>>(
        &self,
        sql: &str,
        values: impl Params,
        doing: &'static str,
    ) -> Result<C, StoreError> {
        self.rows(sql, values, doing, |row| row.try_into())
    }

    /// The first column of every row.
    fn column<T: FromSql, C: FromIterator<T>>(
        &self,
        sql: &str,
        values: impl Params,
        doing: &'static str,
    ) -> Result<C, StoreError> {
        self.rows(sql, values, doing, |row| row.get(0))
    }

    fn rows<T, C: FromIterator<T>>(
        &self,
        sql: &str,
        values: impl Params,
        doing: &'static str,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<C, StoreError> {
        self.connection().prepare_cached(sql).and_then(|mut stmt| stmt.query_map(values, read)?.collect()).doing(doing)
    }
}

/// A tuple of a row's columns.
pub(in crate::store) trait OfRow: for<'r> TryFrom<&'r Row<'r>, Error = rusqlite::Error> {}

impl<T: for<'r> TryFrom<&'r Row<'r>, Error = rusqlite::Error>> OfRow for T {}

impl Statements for Connection {
    fn connection(&self) -> &Connection {
        self
    }
}

/// The condition of [`RecordId::fits_a_list`](crate::model::RecordId::fits_a_list) on a column, in SQL.
pub(in crate::store) fn fits_a_list(column: &str) -> String {
    format!("(instr({column}, ',') = 0 AND length({column}) <= {MAX_PREDICATE})")
}

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
