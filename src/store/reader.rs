//! Reads the mirror: a read-only connection, and one snapshot of the file.
//!
//! Every query of `store::read` runs in a [`ReadTx`], so that the results of several are consistent. A
//! [`MirrorTx`](super::MirrorTx) contains one, so the same queries can be used inside a write.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, Statement, Transaction};

use super::error::{Doing, StoreError};
use super::file::open;
use super::read::functions;

/// A mirror that is open read-only.
#[derive(Debug)]
pub struct Reader {
    conn: Connection,
}

impl Reader {
    /// Opens a mirror.
    ///
    /// # Errors
    /// [`StoreError::Missing`] if there is none; [`StoreError::NotAMirror`] and [`StoreError::NewerSchema`] as for writing.
    pub fn open(path: &Path) -> Result<Reader, StoreError> {
        Ok(Reader { conn: open::reader(path)? })
    }

    /// Opens a mirror for a short check that creates no file, not even SQLite's own files. Later writes are not seen.
    ///
    /// # Errors
    /// Like [`Reader::open`].
    pub fn open_at_rest(path: &Path) -> Result<Reader, StoreError> {
        Ok(Reader { conn: open::reader_at_rest(path)? })
    }

    /// Opens a mirror for statements of users: with the exact functions, and with misspelt columns as errors.
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub fn open_for_queries(path: &Path) -> Result<Reader, StoreError> {
        let conn = open::reader(path)?;
        conn.pragma_update(None, "query_only", true)
            // A misspelt column must be an error, not a string literal.
            .and_then(|()| conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false))
            .and_then(|_| functions::register(&conn))
            .map_err(|source| StoreError::Open { path: path.to_path_buf(), source })?;
        Ok(Reader { conn })
    }

    /// Like [`Reader::open_for_queries`], with a time limit, counted from now, after which statements are interrupted.
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub fn open_for_queries_within(path: &Path, limit: Duration) -> Result<Reader, StoreError> {
        let mut reader = Reader::open_for_queries(path)?;
        let begun = Instant::now();
        let is_over = move || begun.elapsed() > limit;
        reader.conn.progress_handler(10_000, Some(is_over)).doing("limit the time of a query")?;
        Ok(reader)
    }

    /// Begins a read transaction, which sees one snapshot.
    pub fn begin(&self) -> Result<ReadTx<'_>, StoreError> {
        self.conn.unchecked_transaction().doing("read the mirror").map(ReadTx::new)
    }

    /// A number that changes whenever another connection has committed something.
    pub fn data_version(&self) -> Result<i64, StoreError> {
        self.conn.pragma_query_value(None, "data_version", |row| row.get(0)).doing("read the mirror")
    }

    /// Prepares a statement of a user.
    ///
    /// # Errors
    /// Returns the error of SQLite.
    pub fn prepare(&self, sql: &str) -> rusqlite::Result<Statement<'_>> {
        self.conn.prepare(sql)
    }

    /// A reader of any connection, for tests.
    #[cfg(test)]
    pub(in crate::store) fn of(conn: Connection) -> Reader {
        Reader { conn }
    }
}

/// One snapshot of the mirror's file.
#[derive(Debug)]
pub struct ReadTx<'a> {
    pub(in crate::store) conn: Transaction<'a>,
    /// State entries that could not be parsed, with their texts: the next writer drops them.
    pub(in crate::store) unreadable: RefCell<BTreeSet<(String, String)>>,
}

impl<'a> ReadTx<'a> {
    pub(in crate::store) fn new(conn: Transaction<'a>) -> ReadTx<'a> {
        ReadTx { conn, unreadable: RefCell::default() }
    }
}
