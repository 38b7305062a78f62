//! Reads the mirror: a read-only connection, and one snapshot of the file.
//!
//! Every query of `store::read` runs in a [`ReadTx`], so that the results of several are consistent. A
//! [`MirrorTx`](super::MirrorTx) contains one, so the same queries can be used inside a write.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, Statement, Transaction};

pub use super::file::open::Reader;
use crate::store::file::open;
use crate::store::read::{functions, untrusted};
use crate::store::{FileId, Result, Statements, StoreError, WithheldColumns};

impl Reader {
    pub fn open(path: &Path) -> Result<Reader> {
        open::reader(path)
    }

    /// Opens a mirror for statements of users: with the exact functions, and with misspelt columns as errors.
    pub fn open_for_queries(path: &Path) -> Result<Reader> {
        let reader = open::reader(path)?;
        let conn = &reader.conn;
        conn.pragma_update(None, "query_only", true)
            // A misspelt column must be an error, not a string literal.
            .and_then(|()| conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false))
            .and_then(|_| functions::register(conn))
            .map_err(StoreError::opening(path))?;
        Ok(reader)
    }

    /// Like [`Reader::open_for_queries`], for statements of strangers: only what is known to be harmless is allowed, and
    /// memory is bounded, and some columns are withheld.
    pub fn open_for_strangers(path: &Path, withheld: &WithheldColumns) -> Result<Reader> {
        let mut reader = Reader::open_for_queries(path)?;
        untrusted::confine(&mut reader.conn, withheld.clone())?;
        Ok(reader)
    }

    /// Begins a read transaction, which sees one snapshot.
    pub fn begin(&self) -> Result<ReadTx<'_>> {
        self.unchanged()?;
        Ok(ReadTx::new(self.conn.unchecked_transaction()?))
    }

    /// A number that changes whenever another connection has committed something.
    pub fn data_version(&self) -> Result<i64> {
        self.unchanged()?;
        Ok(self.conn.pragma_query_value(None, "data_version", |row| row.get(0))?)
    }

    pub fn prepare(&self, sql: &str) -> rusqlite::Result<Statement<'_>> {
        self.conn.prepare(sql)
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

impl Statements for ReadTx<'_> {
    fn connection(&self) -> &Connection {
        &self.conn
    }
}

/// A reader that stays open, since opening one parses the whole schema: until it fails, or another file is at its path.
#[derive(Debug)]
pub struct KeptReader<R>(Option<(R, FileId)>);

impl<R> Default for KeptReader<R> {
    fn default() -> KeptReader<R> {
        KeptReader(None)
    }
}

impl<R> KeptReader<R> {
    /// Reads with it, and opens it before if it has to.
    pub fn read<T>(
        &mut self,
        path: &Path,
        open: impl FnOnce(&Path) -> Result<R>,
        read: impl Fn(&mut R) -> Result<T>,
    ) -> Result<T> {
        let file = FileId::of(path);
        if let Some((mut reader, known)) = self.0.take()
            && Some(known) == file
            && let Ok(found) = read(&mut reader)
        {
            self.0 = Some((reader, known));
            return Ok(found);
        }
        let mut reader = open(path)?;
        let found = read(&mut reader)?;
        self.0 = file.map(|file| (reader, file));
        Ok(found)
    }
}
