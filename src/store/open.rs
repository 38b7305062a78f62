//! Opening the file: is it a mirror, are we the only writer, and how is SQLite set up.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::error::{Doing, StoreError};
use super::migrate::{self, APPLICATION_ID};

/// The lock beside a mirror, held by the one process that writes it. Let go when dropped, or by a kill.
#[derive(Debug)]
pub struct Lock {
    // Held for its lock alone.
    _file: File,
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn lock(path: &Path) -> Result<Lock, StoreError> {
    let lock_path = beside(path, ".lock");
    let io = |source| StoreError::Io {
        path: lock_path.clone(),
        source,
    };
    let mut file = File::options()
        .create(true)
        .read(true)
        .write(true)
        .truncate(false)
        .open(&lock_path)
        .map_err(io)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            // Best effort: the other process may be just writing its number.
            let _ = file.read_to_string(&mut pid);
            return Err(StoreError::Locked {
                path: path.to_path_buf(),
                pid: pid.trim().parse().ok(),
            });
        }
        Err(TryLockError::Error(source)) => return Err(io(source)),
    }
    file.set_len(0).and_then(|()| file.rewind()).map_err(io)?;
    write!(file, "{}", std::process::id()).map_err(io)?;
    Ok(Lock { _file: file })
}

/// What stands at a path.
enum Standing {
    Nothing,
    Mirror,
}

/// Asks SQLite what the file is: after a kill the header may still stand in the WAL.
fn standing(path: &Path) -> Result<Standing, StoreError> {
    match std::fs::metadata(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Standing::Nothing),
        Err(source) => {
            return Err(StoreError::Io {
                path: path.to_path_buf(),
                source,
            });
        }
        Ok(meta) if !meta.is_file() => return Err(not_a_mirror(path, "it is not a file")),
        Ok(_) => {}
    }
    let open = |source| StoreError::Open {
        path: path.to_path_buf(),
        source,
    };
    let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(open)?;
    let ask = || -> rusqlite::Result<(i32, i64)> {
        let id = conn.pragma_query_value(None, "application_id", |row| row.get(0))?;
        let tables = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        Ok((id, tables))
    };
    match ask() {
        Ok((APPLICATION_ID, _)) => Ok(Standing::Mirror),
        Ok((0, 0)) => Ok(Standing::Nothing),
        Ok(_) => Err(not_a_mirror(path, "it is a database of something else")),
        Err(e) if e.sqlite_error_code() == Some(rusqlite::ErrorCode::NotADatabase) => {
            Err(not_a_mirror(path, "it is not an SQLite file"))
        }
        Err(e) => Err(open(e)),
    }
}

fn not_a_mirror(path: &Path, why: &'static str) -> StoreError {
    StoreError::NotAMirror {
        path: path.to_path_buf(),
        why,
    }
}

/// Opens a mirror for writing, makes it if there is none, and brings its tables up to date. Says whether the tables
/// are new or changed.
///
/// # Errors
/// [`StoreError::NotAMirror`], [`StoreError::NewerSchema`] and [`StoreError::Locked`] leave the file as it is.
pub fn writer(path: &Path) -> Result<(Connection, Lock, bool), StoreError> {
    standing(path)?;
    let lock = lock(path)?;
    let mut conn = Connection::open(path).map_err(|source| StoreError::Open {
        path: path.to_path_buf(),
        source,
    })?;
    settings(&conn).map_err(|source| StoreError::Open {
        path: path.to_path_buf(),
        source,
    })?;
    let changed = migrate::migrate(&mut conn)?;
    Ok((conn, lock, changed))
}

fn settings(conn: &Connection) -> rusqlite::Result<()> {
    conn.busy_timeout(Duration::from_secs(10))?;
    // WAL: readers are never blocked. NORMAL: a kill loses nothing; a power cut may lose the last pages, never the
    // file, and the next run reads them again.
    conn.pragma_update(None, "journal_mode", "wal")?;
    conn.pragma_update(None, "synchronous", "normal")?;
    conn.pragma_update(None, "foreign_keys", false)?;
    conn.pragma_update(None, "cache_size", -8192)?;
    conn.pragma_update(None, "journal_size_limit", 64 * 1024 * 1024)?;
    // Up to 16 MiB of WAL: ids come in no order, so a first copy writes the same pages of their index again and again,
    // and each checkpoint waits for the disk.
    conn.pragma_update(None, "wal_autocheckpoint", 4096)?;
    // A misspelt column must be an error, never a text.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DDL, false)?;
    conn.set_prepared_statement_cache_capacity(64);
    Ok(())
}

/// Empties the WAL and leaves its file in place, so that people who may only read the folder can still open the mirror
/// after a clean stop.
///
/// # Errors
/// If SQLite refuses; the mirror is whole all the same.
pub fn before_close(conn: &Connection) -> Result<(), StoreError> {
    let doing = "close the mirror";
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
        .doing(doing)?;
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .doing(doing)
}

/// Opens a mirror for reading only.
///
/// # Errors
/// [`StoreError::Missing`] if there is none; [`StoreError::NotAMirror`] and [`StoreError::NewerSchema`] as for writing.
pub fn reader(path: &Path) -> Result<Connection, StoreError> {
    if let Standing::Nothing = standing(path)? {
        return Err(StoreError::Missing {
            path: path.to_path_buf(),
        });
    }
    let open = |source| StoreError::Open {
        path: path.to_path_buf(),
        source,
    };
    let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(open)?;
    conn.busy_timeout(Duration::from_secs(10)).map_err(open)?;
    let found: u32 = conn
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(open)?;
    if found > migrate::KNOWN {
        return Err(StoreError::NewerSchema {
            found,
            known: migrate::KNOWN,
        });
    }
    Ok(conn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_peoples_files_are_refused_and_left_as_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let text = dir.path().join("notes.txt");
        std::fs::write(
            &text,
            "a text of some length, longer than a header of SQLite would be in any case, and more",
        )
        .unwrap();
        let other = dir.path().join("other.db");
        Connection::open(&other)
            .unwrap()
            .execute_batch("CREATE TABLE t (x)")
            .unwrap();
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
        let first = writer(&path).unwrap();
        match writer(&path) {
            Err(StoreError::Locked { pid, .. }) => assert_eq!(pid, Some(std::process::id())),
            other => panic!("{other:?}"),
        }
        drop(first);
        writer(&path).unwrap();
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
