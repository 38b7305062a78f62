//! Opening the file: is it a mirror, are we the only writer, and how is SQLite set up.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::lock::{Lock, MODE, give_to_the_folders_owner};
use crate::store::error::{Doing, StoreError};
use crate::store::file::migrate::{self, APPLICATION_ID};
use crate::store::file::wal;

/// What stands at a path.
enum FileKind {
    Nothing,
    Mirror,
}

/// Asks SQLite what the file is: after a kill the header may still stand in the WAL.
fn standing(path: &Path) -> Result<FileKind, StoreError> {
    match std::fs::metadata(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(FileKind::Nothing),
        Err(source) => {
            return Err(StoreError::Io { path: path.to_path_buf(), source });
        }
        Ok(meta) if !meta.is_file() => return Err(not_a_mirror(path, "it is not a file")),
        Ok(_) => {}
    }
    let open = |source| StoreError::Open { path: path.to_path_buf(), source };
    let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(open)?;
    let ask = || -> rusqlite::Result<(i32, u32, i64)> {
        let id = conn.pragma_query_value(None, "application_id", |row| row.get(0))?;
        let version = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
        let tables = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        Ok((id, version, tables))
    };
    match ask() {
        Ok((APPLICATION_ID, found, _)) if found > migrate::KNOWN => {
            Err(StoreError::NewerSchema { found, known: migrate::KNOWN })
        }
        Ok((APPLICATION_ID, ..)) => Ok(FileKind::Mirror),
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

/// Opens a mirror for writing, makes it if there is none, and brings its tables up to date. Says whether the tables
/// are new or changed.
///
/// # Errors
/// [`StoreError::NotAMirror`], [`StoreError::NewerSchema`] and [`StoreError::Locked`] leave the file as it is.
pub(in crate::store) fn writer(path: &Path) -> Result<(Connection, Lock, bool), StoreError> {
    standing(path)?;
    let lock = Lock::take(path)?;
    make(path)?;
    let mut conn = Connection::open(path).map_err(|source| StoreError::Open { path: path.to_path_buf(), source })?;
    settings(&conn).map_err(|source| StoreError::Open { path: path.to_path_buf(), source })?;
    let changed = migrate::migrate(&mut conn)?;
    Ok((conn, lock, changed))
}

/// Makes a mirror if there is none, brings its tables up to date, and gives its lock.
///
/// # Errors
/// As [`Store::open`](crate::store::Store::open).
pub fn create(path: &Path) -> Result<Lock, StoreError> {
    writer(path).map(|(_, lock, _)| lock)
}

/// Makes an empty file if there is none: to SQLite it is a database without tables.
fn make(path: &Path) -> Result<(), StoreError> {
    match File::options().create_new(true).write(true).mode(MODE).open(path) {
        Ok(file) => {
            give_to_the_folders_owner(&file, path);
            Ok(())
        }
        Err(source) if source.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(StoreError::Io { path: path.to_path_buf(), source })
        }
        Err(_) => Ok(()),
    }
}

/// SQLite's cache of pages while pages of records are written, in KiB: ids come in no order, so their index is read and
/// written all over.
pub(in crate::store) const CACHE_KIB: i32 = 8192;

/// The same where everything was copied before: what is written from then on is little, and a daemon at rest would keep
/// the whole cache in memory for years.
pub(in crate::store) const CACHE_KEPT_KIB: i32 = 2048;

fn settings(conn: &Connection) -> rusqlite::Result<()> {
    conn.busy_timeout(wal::BUSY)?;
    // WAL: readers are never blocked. NORMAL: a kill loses nothing; a power cut may lose the last pages, never the
    // file, and the next run reads them again.
    conn.pragma_update(None, "journal_mode", "wal")?;
    conn.pragma_update(None, "synchronous", "normal")?;
    conn.pragma_update(None, "foreign_keys", false)?;
    conn.pragma_update(None, "cache_size", -CACHE_KIB)?;
    conn.pragma_update(None, "journal_size_limit", wal::STEP.cast_signed())?;
    // Up to 16 MiB of WAL: ids come in no order, so a first copy writes the same pages of their index again and again,
    // and each checkpoint waits for the disk.
    conn.pragma_update(None, "wal_autocheckpoint", 4096)?;
    // A misspelt column must be an error, never a text.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DDL, false)?;
    // Triggers keep other programs from the tables that this one writes.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    conn.set_prepared_statement_cache_capacity(64);
    Ok(())
}

/// Empties the WAL and leaves its file in place, so that people who may only read the folder can still open the mirror
/// after a clean stop.
///
/// # Errors
/// If SQLite refuses; the mirror is whole all the same.
pub(in crate::store) fn before_close(conn: &Connection) -> Result<(), StoreError> {
    let doing = "close the mirror";
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).doing(doing)?;
    wal::empty(conn).map(|_| ())
}

/// Opens a mirror beside its writer, to put edits into the outbox: no lock is needed for that, and whoever holds it is
/// waited for no longer than a page takes. What is committed here outlives a power cut.
///
/// # Errors
/// As [`reader`]; [`StoreError::OlderSchema`] where the tables are not there yet.
pub(in crate::store) fn editor(path: &Path) -> Result<Connection, StoreError> {
    if let FileKind::Nothing = standing(path)? {
        return Err(StoreError::Missing { path: path.to_path_buf() });
    }
    let open = || -> rusqlite::Result<(Connection, u32)> {
        // Not made where it is missing.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_with_flags(path, flags)?;
        settings(&conn)?;
        conn.pragma_update(None, "synchronous", "full")?;
        // The writer keeps the WAL short, and its files are left for those who only read.
        conn.pragma_update(None, "wal_autocheckpoint", 0)?;
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        let found = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
        Ok((conn, found))
    };
    match open() {
        Ok((_, found)) if found < migrate::KNOWN => Err(StoreError::OlderSchema { found }),
        Ok((conn, _)) => Ok(conn),
        Err(source) => Err(StoreError::Open { path: path.to_path_buf(), source }),
    }
}

/// Opens a mirror for reading only.
///
/// # Errors
/// [`StoreError::Missing`] if there is none; [`StoreError::NotAMirror`] and [`StoreError::NewerSchema`] as for writing.
pub(in crate::store) fn reader(path: &Path) -> Result<Connection, StoreError> {
    if let FileKind::Nothing = standing(path)? {
        return Err(StoreError::Missing { path: path.to_path_buf() });
    }
    let open = |source| StoreError::Open { path: path.to_path_buf(), source };
    let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(open)?;
    conn.busy_timeout(wal::BUSY).map_err(open)?;
    Ok(conn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::file::lock::who_writes;

    #[test]
    fn what_root_makes_in_a_users_folder_is_the_users() {
        use std::os::unix::fs::{MetadataExt, chown};

        let dir = tempfile::tempdir().unwrap();
        // Only root can give a folder away; anybody else makes files of their own anyhow.
        if chown(dir.path(), Some(4242), Some(4343)).is_err() {
            return;
        }
        let path = dir.path().join("mirror.db");
        let (conn, lock, _) = writer(&path).unwrap();
        conn.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)").unwrap();
        for entry in std::fs::read_dir(dir.path()).unwrap() {
            let entry = entry.unwrap();
            let meta = entry.metadata().unwrap();
            assert_eq!((meta.uid(), meta.gid()), (4242, 4343), "{:?}", entry.path());
        }
        drop((conn, lock));
    }

    #[test]
    fn other_peoples_files_are_refused_and_left_as_they_are() {
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
    fn a_second_writer_is_told_who_the_first_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mirror.db");
        assert_eq!(who_writes(&path), None);
        let first = writer(&path).unwrap();
        assert_eq!(who_writes(&path), Some(Some(std::process::id())));
        match writer(&path) {
            Err(StoreError::Locked { pid, .. }) => assert_eq!(pid, Some(std::process::id())),
            other => panic!("{other:?}"),
        }
        drop(first);
        assert_eq!(who_writes(&path), None);
        writer(&path).unwrap();
    }

    #[test]
    fn a_note_outlives_its_writer() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mirror.db");
        let (_, lock, _) = writer(&path).unwrap();
        assert_eq!(lock.found(), None);
        lock.note("a first and longer note").unwrap();
        lock.note("a note").unwrap();
        drop(lock);
        let (_, lock, _) = writer(&path).unwrap();
        assert_eq!(lock.found(), Some("a note"));
        assert!(lock.note(&"x".repeat(500)).is_err());
    }

    #[test]
    fn a_reader_needs_a_mirror() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mirror.db");
        assert!(matches!(reader(&path), Err(StoreError::Missing { .. })));
        assert!(!path.exists());
        drop(writer(&path).unwrap());
        reader(&path).unwrap();
    }
}
