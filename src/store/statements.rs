//! Prepared statements: one call prepares, runs, and says what failed.

use rusqlite::types::FromSql;
use rusqlite::{Connection, OptionalExtension, Params, Row};

use crate::model::ids::MAX_PREDICATE;
use crate::store::error::{Doing, StoreError};

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

impl Statements for Connection {
    fn connection(&self) -> &Connection {
        self
    }
}

/// The condition of [`RecordId::fits_a_list`](crate::model::RecordId::fits_a_list) on a column, in SQL.
pub(in crate::store) fn fits_a_list(column: &str) -> String {
    format!("(instr({column}, ',') = 0 AND length({column}) <= {MAX_PREDICATE})")
}
