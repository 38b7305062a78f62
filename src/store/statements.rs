//! Statements: one call prepares and runs one. And the forms of the model's values in parameters and rows.

use rusqlite::types::{FromSql, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, Params, Row, Statement};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Map;

use crate::model::ids::MAX_PREDICATE;
use crate::model::{DelayScope, EditState, Etag, Instant, Object, RecordId, SqlValue};
use crate::store::{Result, StoreError};

/// What executes statements, which stay prepared.
pub(in crate::store) trait Statements {
    fn connection(&self) -> &Connection;

    fn prepared<T>(&self, sql: &str, work: impl FnOnce(&mut Statement<'_>) -> rusqlite::Result<T>) -> Result<T> {
        Ok(self.connection().prepare_cached(sql).and_then(|mut stmt| work(&mut stmt))?)
    }

    /// Executes statements that nobody needs again, such as those of the schema.
    fn batch(&self, sql: &str) -> Result<()> {
        Ok(self.connection().execute_batch(sql)?)
    }

    fn change(&self, sql: &str, values: impl Params) -> Result<usize> {
        self.prepared(sql, |stmt| stmt.execute(values))
    }

    fn run(&self, sql: &str, values: impl Params) -> Result<()> {
        self.change(sql, values).map(drop)
    }

    fn value<T: FromSql>(&self, sql: &str, values: impl Params) -> Result<T> {
        self.prepared(sql, |stmt| stmt.query_row(values, |row| row.get(0)))
    }

    fn count(&self, sql: &str, values: impl Params) -> Result<u64> {
        Ok(self.value::<i64>(sql, values)?.unsigned_abs())
    }

    fn find_value<T: FromSql>(&self, sql: &str, values: impl Params) -> Result<Option<T>> {
        self.find(sql, values, |row| row.get(0))
    }

    fn find_time(&self, sql: &str, values: impl Params) -> Result<Option<Instant>> {
        Ok(self.find_value(sql, values)?.and_then(|StoredTime(at)| at))
    }

    fn find_tuple<T: OfRow>(&self, sql: &str, values: impl Params) -> Result<Option<T>> {
        self.find(sql, values, |row| row.try_into())
    }

    fn find<T>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>> {
        self.prepared(sql, |stmt| stmt.query_row(values, read).optional())
    }

    /// Rows by the names of their columns. Not cached: `*` depends on columns that are added and removed.
    fn objects(&self, sql: &str, values: impl Params) -> Result<Vec<Map<String, serde_json::Value>>> {
        let mut stmt = self.connection().prepare(sql)?;
        let names: Vec<String> = stmt.column_names().map(String::from).collect();
        let read = |row: &Row<'_>| {
            names.iter().enumerate().map(|(place, name)| Ok((name.clone(), json_at(row, place)?))).collect()
        };
        Ok(stmt.query_map(values, read)?.collect::<rusqlite::Result<_>>()?)
    }

    /// Rows as values of a type. One that is none is left out: anybody can write it, and it must not hide the others.
    fn parsed<T: DeserializeOwned>(&self, sql: &str, values: impl Params) -> Result<Vec<T>> {
        let rows = self.objects(sql, values)?.into_iter();
        Ok(rows.filter_map(|row| serde_json::from_value(row.into()).ok()).collect())
    }

    fn find_parsed<T: DeserializeOwned>(&self, sql: &str, values: impl Params) -> Result<Option<T>> {
        Ok(self.parsed(sql, values)?.pop())
    }

    fn column<T: FromSql, C: FromIterator<T>>(&self, sql: &str, values: impl Params) -> Result<C> {
        self.rows(sql, values, |row| row.get(0))
    }

    fn tuples<T: OfRow, C: FromIterator<T>>(&self, sql: &str, values: impl Params) -> Result<C> {
        self.rows(sql, values, |row| row.try_into())
    }

    fn rows<T, C: FromIterator<T>>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<C> {
        self.prepared(sql, |stmt| stmt.query_map(values, read)?.collect())
    }
}

pub(in crate::store) fn json_at(row: &Row<'_>, place: usize) -> rusqlite::Result<serde_json::Value> {
    Ok((&row.get::<_, SqlValue>(place)?).into())
}

/// A value as a text of the mirror; an error names what it is `of`.
pub(in crate::store) fn json(of: &str, value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|source| StoreError::State { name: of.into(), source })
}

/// A name in a statement.
pub(in crate::store) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text in a statement.
pub(in crate::store) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The words of a statement and its other characters one by one, without what is quoted and comments.
pub(in crate::store) fn words(sql: &str) -> impl Iterator<Item = &str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut rest = sql;
    std::iter::from_fn(move || {
        loop {
            rest = rest.trim_start();
            let first = rest.chars().next()?;
            let behind = |opening: usize, end: &str| rest[opening..].split_once(end).map_or("", |(_, behind)| behind);
            rest = match first {
                '\'' | '"' | '`' => behind(1, first.encode_utf8(&mut [0; 4])),
                '[' => behind(1, "]"),
                '-' if rest.starts_with("--") => behind(2, "\n"),
                '/' if rest.starts_with("/*") => behind(2, "*/"),
                _ => {
                    let end = if is_word(first) { rest.find(|c| !is_word(c)) } else { Some(first.len_utf8()) };
                    let (word, behind) = rest.split_at(end.unwrap_or(rest.len()));
                    rest = behind;
                    return Some(word);
                }
            };
        }
    })
}

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

/// Gives types whose values are texts that form as parameters.
macro_rules! texts {
    ($($text:ty),+) => {
        $(
            impl ToSql for $text {
                fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                    Ok(self.as_str().into())
                }
            }
        )+
    };
}

texts!(Object, EditState, DelayScope, RecordId, Etag);

impl FromSql for RecordId {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<RecordId> {
        String::column_result(value).map(RecordId::new)
    }
}

impl FromSql for Etag {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Etag> {
        String::column_result(value).map(Etag::new)
    }
}

/// Its canonical form.
impl ToSql for Instant {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.to_string().into())
    }
}

/// A time in a row; one that cannot be parsed is none.
#[derive(Clone, Copy, Debug, Default)]
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
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(self.into()))
    }
}

/// Texts of the mirror were written as UTF-8, so the lossy conversion changes nothing.
impl From<ValueRef<'_>> for SqlValue {
    fn from(value: ValueRef<'_>) -> SqlValue {
        match value {
            ValueRef::Null => SqlValue::Null,
            ValueRef::Integer(i) => SqlValue::Int(i),
            ValueRef::Real(r) => SqlValue::Real(r),
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => SqlValue::Text(String::from_utf8_lossy(bytes).into()),
        }
    }
}

impl FromSql for SqlValue {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<SqlValue> {
        Ok(value.into())
    }
}

/// Identifiers as a JSON array, for `json_each`.
pub(in crate::store) fn json_list<'i>(ids: impl IntoIterator<Item = &'i RecordId>) -> String {
    serde_json::Value::from(ids.into_iter().map(RecordId::as_str).collect::<Vec<_>>()).to_string()
}
