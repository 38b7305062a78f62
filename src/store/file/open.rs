//! Opens the file: checks that it is a mirror, takes the lock, and configures SQLite.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::lock::{Lock, MODE, give_to_directory_owner};
use crate::store::error::{Doing, StoreError};
use crate::store::file::migrate::{self, APPLICATION_ID};
use crate::store::file::wal;

/// The kind of file at a path.
enum FileKind {
    Nothing,
    /// With a schema that this version supports.
    Mirror,
}

/// Determines the kind of a file with SQLite: after a kill the header may still be in the WAL.
fn file_kind(path: &Path) -> Result<FileKind, StoreError> {
    match std::fs::metadata(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(FileKind::Nothing),
        Err(source) => {
            return Err(StoreError::Io { path: path.to_path_buf(), source });
        }
        Ok(meta) if !meta.is_file() => return Err(not_a_mirror(path, "it is not a file")),
        Ok(_) => {}
    }
    let open = |source| StoreError::Open { path: path.to_path_buf(), source };
    let ask = |conn: Connection| -> rusqlite::Result<(i32, u32, i64)> {
        let id = conn.pragma_query_value(None, "application_id", |row| row.get(0))?;
        let version = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
        let tables = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        Ok((id, version, tables))
    };
    // This check creates no file. If it fails, for example because another process starts to write, the file is opened
    // normally.
    let found = match at_rest(path).and_then(ask) {
        Err(_) => Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).and_then(ask),
        found => found,
    };
    match found {
        Ok((APPLICATION_ID, found, _)) if found > migrate::KNOWN => {
            Err(StoreError::NewerSchema { found, known: migrate::KNOWN })
        }
        Ok((APPLICATION_ID, 0, _)) => Err(not_a_mirror(path, "its schema has no version (`PRAGMA user_version` is 0)")),
        Ok((APPLICATION_ID, _, _)) => Ok(FileKind::Mirror),
        Ok((0, _, 0)) => Ok(FileKind::Nothing),
        Ok(_) => Err(not_a_mirror(path, "it is a database of something else")),
        Err(e) if e.sqlite_error_code() == Some(rusqlite::ErrorCode::NotADatabase) => {
            Err(not_a_mirror(path, "it is not an SQLite file"))
        }
        Err(e) => Err(open(e)),
    }
}

fn not_a_mirror(path: &Path, why: &'static str) -> StoreError {
    StoreError::NotAMirror { path: path.to_path_buf(), why }
}

/// Requires that there is a mirror.
fn require(path: &Path) -> Result<(), StoreError> {
    match file_kind(path)? {
        FileKind::Nothing => Err(StoreError::Missing { path: path.to_path_buf() }),
        FileKind::Mirror => Ok(()),
    }
}

/// Opens a mirror for writing, and creates it if it does not exist.
///
/// # Errors
/// [`StoreError::NotAMirror`], [`StoreError::NewerSchema`] and [`StoreError::Locked`] leave the file unchanged.
pub(in crate::store) fn writer(path: &Path) -> Result<(Connection, Lock), StoreError> {
    file_kind(path)?;
    let lock = Lock::take(path)?;
    make(path)?;
    let mut conn = Connection::open(path).map_err(|source| StoreError::Open { path: path.to_path_buf(), source })?;
    settings(&conn).map_err(|source| StoreError::Open { path: path.to_path_buf(), source })?;
    migrate::migrate(&mut conn)?;
    Ok((conn, lock))
}

/// Creates a mirror if it does not exist, and returns its lock.
///
/// # Errors
/// As [`Store::open`](crate::store::Store::open).
pub fn create(path: &Path) -> Result<Lock, StoreError> {
    writer(path).map(|(_, lock)| lock)
}

/// Creates an empty file if there is none: for SQLite it is a database without tables.
fn make(path: &Path) -> Result<(), StoreError> {
    match File::options().create_new(true).write(true).mode(MODE).open(path) {
        Ok(file) => {
            give_to_directory_owner(&file, path);
            Ok(())
        }
        Err(source) if source.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(StoreError::Io { path: path.to_path_buf(), source })
        }
        Err(_) => Ok(()),
    }
}

/// SQLite's page cache while pages of records are written, in KiB: ids are unordered, so their index is read and
/// written in random order.
pub(in crate::store) const CACHE_KIB: i32 = 3072;

/// The same once everything is copied: few rows are written from then on, and an idle daemon would keep the whole cache
/// in memory.
pub(in crate::store) const CACHE_KEPT_KIB: i32 = 2048;

fn settings(conn: &Connection) -> rusqlite::Result<()> {
    conn.busy_timeout(wal::BUSY)?;
    // WAL: readers are never blocked. NORMAL: a kill loses nothing; a power failure may lose the last pages, but never
    // damages the file, and the next run reads them again.
    conn.pragma_update(None, "journal_mode", "wal")?;
    conn.pragma_update(None, "synchronous", "normal")?;
    conn.pragma_update(None, "foreign_keys", false)?;
    conn.pragma_update(None, "cache_size", -CACHE_KIB)?;
    conn.pragma_update(None, "journal_size_limit", wal::STEP.cast_signed())?;
    // Up to 16 MiB of WAL: ids are unordered, so a first copy writes the same pages of their index repeatedly, and each
    // checkpoint waits for the disk.
    conn.pragma_update(None, "wal_autocheckpoint", 4096)?;
    // A misspelt column must be an error, not a string literal.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DDL, false)?;
    // Triggers protect the tables from other programs; the program's own connection does not use them.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    conn.set_prepared_statement_cache_capacity(64);
    Ok(())
}

/// Checkpoints the WAL and keeps its file, so that users with read-only access to the directory can open the mirror
/// after a clean stop.
///
/// # Errors
/// Returns an error of SQLite; the mirror is intact anyway.
pub(in crate::store) fn before_close(conn: &Connection) -> Result<(), StoreError> {
    let doing = "close the mirror";
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).doing(doing)?;
    wal::empty(conn).map(|_| ())
}

/// Opens a mirror concurrently with its writer, to put edits into the outbox: this needs no lock, and waits for the
/// writer no longer than the time to store a page. Commits are durable.
///
/// # Errors
/// As [`reader`].
pub(in crate::store) fn editor(path: &Path) -> Result<Connection, StoreError> {
    require(path)?;
    let open = || -> rusqlite::Result<Connection> {
        // A missing file is not created.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_with_flags(path, flags)?;
        settings(&conn)?;
        conn.pragma_update(None, "synchronous", "full")?;
        // The writer keeps the WAL short, and its files are kept for read-only users.
        conn.pragma_update(None, "wal_autocheckpoint", 0)?;
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        Ok(conn)
    };
    open().map_err(|source| StoreError::Open { path: path.to_path_buf(), source })
}

/// Opens a mirror read-only.
///
/// # Errors
/// [`StoreError::Missing`] if there is none; [`StoreError::NotAMirror`] and [`StoreError::NewerSchema`] as for writing.
pub(in crate::store) fn reader(path: &Path) -> Result<Connection, StoreError> {
    require(path)?;
    waiting(path, Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY))
}

/// Opens a mirror for a short check without creating a file: if no process has it open, SQLite would create a WAL and
/// its index even for a reader. Such a connection does not see later writes.
///
/// # Errors
/// Like [`reader`].
pub(in crate::store) fn reader_at_rest(path: &Path) -> Result<Connection, StoreError> {
    require(path)?;
    waiting(path, at_rest(path))
}

/// A connection that waits for a writer.
fn waiting(path: &Path, opened: rusqlite::Result<Connection>) -> Result<Connection, StoreError> {
    let waits = opened.and_then(|conn| conn.busy_timeout(wal::BUSY).map(|()| conn));
    waits.map_err(|source| StoreError::Open { path: path.to_path_buf(), source })
}

fn at_rest(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let [log, index] = wal::files_beside(path);
    let has_log = std::fs::metadata(&log).is_ok_and(|meta| meta.len() > 0);
    if has_log && !index.exists() {
        return after_a_kill(path);
    }
    if has_log || (log.exists() && index.exists()) {
        return Connection::open_with_flags(path, flags);
    }
    // The file itself contains everything.
    let Ok(mut uri) = url::Url::from_file_path(std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())) else {
        return Connection::open_with_flags(path, flags);
    };
    uri.set_query(Some("immutable=1"));
    Connection::open_with_flags(uri.as_str(), flags)
}

/// Opens a file that no process has open and whose WAL has contents. In exclusive mode SQLite keeps the index of the WAL in
/// memory; without a checkpoint on close, the WAL stays as it is.
fn after_a_kill(path: &Path) -> rusqlite::Result<Connection> {
    let open = || -> rusqlite::Result<Connection> {
        let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        conn.pragma_update(None, "locking_mode", "exclusive")?;
        conn.pragma_update(None, "query_only", true)?;
        conn.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        Ok(conn)
    };
    // A user who cannot write the file creates no index next to it either.
    open().or_else(|_| Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::file::lock::current_writer;

    #[test]
    fn reading_an_unopened_mirror_creates_no_file_and_sees_everything() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("100% mine? #1.db");
        let (conn, lock) = writer(&path).unwrap();
        conn.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (7)").unwrap();
        // As SQLite closes a file for the last time, without the writer's precautions for readers.
        drop((conn, lock));
        std::fs::remove_file(dir.path().join("100% mine? #1.db.lock")).unwrap();
        let x: i64 = reader_at_rest(&path).unwrap().query_row("SELECT x FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!((x, std::fs::read_dir(dir.path()).unwrap().count()), (7, 1));
        // The contents of a WAL are seen too.
        let (conn, lock) = writer(&path).unwrap();
        conn.execute_batch("UPDATE t SET x = 8").unwrap();
        let x: i64 = reader_at_rest(&path).unwrap().query_row("SELECT x FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(x, 8);
        // As after a kill and a restart: a WAL with contents, and no index of it.
        let killed = dir.path().join("killed");
        std::fs::create_dir(&killed).unwrap();
        let copy = killed.join("mirror.db");
        std::fs::copy(&path, &copy).unwrap();
        std::fs::copy(wal::files_beside(&path)[0].clone(), wal::files_beside(&copy)[0].clone()).unwrap();
        let log = std::fs::read(wal::files_beside(&copy)[0].clone()).unwrap();
        let x: i64 = reader_at_rest(&copy).unwrap().query_row("SELECT x FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!((x, std::fs::read_dir(&killed).unwrap().count()), (8, 2));
        assert_eq!(std::fs::read(wal::files_beside(&copy)[0].clone()).unwrap(), log);
        drop((conn, lock));
    }

    #[test]
    fn files_that_root_creates_belong_to_the_owner_of_the_directory() {
        use std::os::unix::fs::{MetadataExt, chown};

        let dir = tempfile::tempdir().unwrap();
        // Only root can change the owner of a directory; other users create files of their own anyway.
        if chown(dir.path(), Some(4242), Some(4343)).is_err() {
            return;
        }
        let path = dir.path().join("mirror.db");
        let (conn, lock) = writer(&path).unwrap();
        conn.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)").unwrap();
        for entry in std::fs::read_dir(dir.path()).unwrap() {
            let entry = entry.unwrap();
            let meta = entry.metadata().unwrap();
            assert_eq!((meta.uid(), meta.gid()), (4242, 4343), "{:?}", entry.path());
        }
        drop((conn, lock));
    }

    #[test]
    fn files_that_are_not_mirrors_are_refused_and_not_changed() {
        let dir = tempfile::tempdir().unwrap();
        let text = dir.path().join("notes.txt");
        std::fs::write(&text, "a text of some length, longer than a header of SQLite would be in any case, and more")
            .unwrap();
        let other = dir.path().join("other.db");
        Connection::open(&other).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
        for path in [&text, &other, &dir.path().to_path_buf()] {
            let before = std::fs::read(path).ok();
            assert!(matches!(writer(path), Err(StoreError::NotAMirror { .. })), "{path:?}");
            assert_eq!(std::fs::read(path).ok(), before);
        }
    }

    #[test]
    fn second_writer_gets_the_process_id_of_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mirror.db");
        assert_eq!(current_writer(&path), None);
        let first = writer(&path).unwrap();
        assert_eq!(current_writer(&path), Some(Some(std::process::id())));
        match writer(&path) {
            Err(StoreError::Locked { pid, .. }) => assert_eq!(pid, Some(std::process::id())),
            other => panic!("{other:?}"),
        }
        drop(first);
        assert_eq!(current_writer(&path), None);
        writer(&path).unwrap();
    }

    #[test]
    fn note_survives_its_writer() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mirror.db");
        let (_, lock) = writer(&path).unwrap();
        assert_eq!(lock.found(), None);
        lock.note("a first and longer note").unwrap();
        lock.note("a note").unwrap();
        drop(lock);
        let (_, lock) = writer(&path).unwrap();
        assert_eq!(lock.found(), Some("a note"));
        assert!(lock.note(&"x".repeat(500)).is_err());
    }

    #[test]
    fn reader_needs_a_mirror() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mirror.db");
        assert!(matches!(reader(&path), Err(StoreError::Missing { .. })));
        assert!(!path.exists());
        drop(writer(&path).unwrap());
        reader(&path).unwrap();
    }
}
