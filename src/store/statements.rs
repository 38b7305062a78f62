//! Prepared statements: one call prepares, runs, and says what failed.

use rusqlite::types::FromSql;
use rusqlite::{Connection, OptionalExtension, Params, Row};

use crate::model::ids::{MAX_PREDICATE, RecordId};
use crate::store::error::{Doing, StoreError};

/// Statements that stay prepared; `doing` says what fails.
pub(in crate::store) trait Statements {
    fn change(&self, sql: &str, values: impl Params, doing: &'static str) -> Result<usize, StoreError>;

    /// The first column of the one row.
    fn value<T: FromSql>(&self, sql: &str, values: impl Params, doing: &'static str) -> Result<T, StoreError>;

    /// The first column of the one row, a number of things.
    fn count(&self, sql: &str, values: impl Params, doing: &'static str) -> Result<u64, StoreError> {
        Ok(self.value::<i64>(sql, values, doing)?.unsigned_abs())
    }

    /// The first row, if there is any.
    fn find<T>(
        &self,
        sql: &str,
        values: impl Params,
        doing: &'static str,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, StoreError>;

    fn rows<T, C: FromIterator<T>>(
        &self,
        sql: &str,
        values: impl Params,
        doing: &'static str,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<C, StoreError>;
}

/// The condition of [`RecordId::fits_a_list`] on a column, in SQL.
pub(in crate::store) fn fits_a_list(column: &str) -> String {
    format!("(instr({column}, ',') = 0 AND length({column}) <= {MAX_PREDICATE})")
}

pub(in crate::store) fn record_id(row: &Row<'_>) -> rusqlite::Result<RecordId> {
    Ok(RecordId::new(row.get::<_, String>(0)?))
}

impl Statements for Connection {
    fn change(&self, sql: &str, values: impl Params, doing: &'static str) -> Result<usize, StoreError> {
        self.prepare_cached(sql).and_then(|mut stmt| stmt.execute(values)).doing(doing)
    }

    fn value<T: FromSql>(&self, sql: &str, values: impl Params, doing: &'static str) -> Result<T, StoreError> {
        self.prepare_cached(sql).and_then(|mut stmt| stmt.query_row(values, |row| row.get(0))).doing(doing)
    }

    fn find<T>(
        &self,
        sql: &str,
        values: impl Params,
        doing: &'static str,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, StoreError> {
        self.prepare_cached(sql).and_then(|mut stmt| stmt.query_row(values, read).optional()).doing(doing)
    }

    fn rows<T, C: FromIterator<T>>(
        &self,
        sql: &str,
        values: impl Params,
        doing: &'static str,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<C, StoreError> {
        self.prepare_cached(sql).and_then(|mut stmt| stmt.query_map(values, read)?.collect()).doing(doing)
    }
}
