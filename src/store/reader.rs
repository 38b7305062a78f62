//! Reads the mirror: a read-only connection, and one snapshot of the file.
//!
//! Every query of `store::read` runs in a [`ReadTx`], so that the results of several are consistent. A
//! [`MirrorTx`](super::MirrorTx) contains one, so the same queries can be used inside a write.

use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, Statement, Transaction};

pub use super::file::open::Reader;
use crate::store::read::untrusted;
use crate::store::{FileId, Result, Statements, StoreError, WithheldColumns, functions, wal};

impl Reader {
    /// For statements of users: with the exact functions.
    pub fn open_for_queries(path: &Path) -> Result<Reader> {
        let reader = Reader::open(path)?;
        let conn = &reader.conn;
        conn.pragma_update(None, "query_only", true)
            // A misspelt column must be an error, not a string literal.
            .and_then(|()| conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false))
            .and_then(|_| functions::register(conn))
            .map_err(StoreError::opening(path))?;
        Ok(reader)
    }

    pub fn open_for_strangers(path: &Path, withheld: &WithheldColumns) -> Result<Reader> {
        let mut reader = Reader::open_for_queries(path)?;
        untrusted::confine(&mut reader.conn, withheld.clone())?;
        Ok(reader)
    }

    pub fn begin(&self) -> Result<ReadTx<'_>> {
        self.unchanged()?;
        Ok(ReadTx { conn: self.conn.unchecked_transaction()? })
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

#[derive(Debug)]
pub struct ReadTx<'a> {
    pub(in crate::store) conn: Transaction<'a>,
}

impl Statements for ReadTx<'_> {
    fn connection(&self) -> &Connection {
        &self.conn
    }
}

/// A reader that stays open, since opening one parses the whole schema: until it fails, or another file or WAL is at its path;
/// with what was last found by it.
#[derive(Debug, Default)]
pub struct KeptReader<T = ()>(Option<OpenReader<T>>);

#[derive(Debug)]
struct OpenReader<T> {
    reader: Reader,
    /// The database, its WAL and the index of that. SQLite finds a WAL by its name: what takes the place of a database would
    /// share its WAL.
    files: [Option<FileId>; 3],
    /// The version of the data, and what was found in it.
    found: Option<(i64, T)>,
}

impl<T> KeptReader<T> {
    pub fn read<A>(&mut self, path: &Path, read: impl Fn(&Reader) -> Result<A>) -> Result<A> {
        self.with(path, |kept| read(&kept.reader))
    }

    /// `find` is called only if anything was committed since the last time.
    pub fn watch<A>(
        &mut self,
        path: &Path,
        find: impl Fn(&ReadTx<'_>) -> Result<T>,
        read: impl Fn(&T) -> A,
    ) -> Result<A> {
        self.with(path, |OpenReader { reader, found, .. }| {
            let version = reader.data_version()?;
            let known = match found.take().filter(|(of, _)| *of == version) {
                Some((_, known)) => known,
                None => find(&reader.begin()?)?,
            };
            reader.unchanged()?;
            Ok(read(&found.insert((version, known)).1))
        })
    }

    fn with<A>(&mut self, path: &Path, read: impl Fn(&mut OpenReader<T>) -> Result<A>) -> Result<A> {
        let [log, index] = wal::files_beside(path);
        let files = [path, &log, &index].map(FileId::of);
        if let Some(mut kept) = self.0.take()
            && kept.files == files
            && let Ok(read) = read(&mut kept)
        {
            self.0 = Some(kept);
            return Ok(read);
        }
        let mut kept = OpenReader { reader: Reader::open(path)?, files, found: None };
        let read = read(&mut kept)?;
        self.0 = Some(kept);
        Ok(read)
    }
}
