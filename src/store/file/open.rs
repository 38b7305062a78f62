//! Opens the file: checks that it is a mirror, takes the lock, and configures SQLite.

use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use rustix::fs::{Access, AtFlags, CWD, StatxAttributes, StatxFlags, access, statx};

use super::folder_of;
use super::lock::{MODE, current_writer, has_log_of_another};
use crate::store::file::migrate::APPLICATION_ID;
use crate::store::{FileId, Lock, Result, StoreError, beside, migrate, wal};

/// What a path contains that needs no encoding in a URI.
const IN_PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Whether there is a mirror, with a schema that this version supports, or nothing. SQLite is asked: after a kill the header
/// may still be in the WAL.
fn is_mirror(path: &Path) -> Result<bool> {
    match std::fs::metadata(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(source) => return Err(StoreError::using(path)(source)),
        Ok(meta) if !meta.is_file() => return Err(not_a_mirror(path, "it is not a file")),
        Ok(_) => {}
    }
    let ask = |conn: Connection| -> rusqlite::Result<(i32, i32, bool)> {
        let id = conn.pragma_query_value(None, "application_id", |row| row.get(0))?;
        let version = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
        // To parse the schema of a mirror takes longer than everything else here.
        let is_empty = id == 0 && conn.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0))?;
        Ok((id, version, is_empty))
    };
    for file in wal::files_beside(path) {
        if std::fs::metadata(&file).is_ok_and(|meta| !meta.is_file()) {
            return Err(StoreError::using(&file)(std::io::Error::other("it is not a regular file")));
        }
    }
    // Creates no file. If it fails, such as when another process starts to write, the file is opened normally.
    let found = match peek(path).map(ask) {
        Ok(Ok(found)) => Ok(found),
        Err(error @ StoreError::NotRecovered { .. }) => return Err(error),
        _ => Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).and_then(ask),
    };
    match found {
        Ok((APPLICATION_ID, found, _)) if found < 1 => {
            Err(not_a_mirror(path, "its schema has no version (`PRAGMA user_version` is not positive)"))
        }
        Ok((APPLICATION_ID, found, _)) if found.unsigned_abs() > migrate::KNOWN => {
            Err(StoreError::NewerSchema { found: found.unsigned_abs(), known: migrate::KNOWN })
        }
        Ok((APPLICATION_ID, _, _)) => Ok(true),
        Ok((0, 0, true)) => Ok(false),
        Ok(_) => Err(not_a_mirror(path, "it is a database of something else")),
        Err(e) if e.sqlite_error_code() == Some(rusqlite::ErrorCode::NotADatabase) => {
            Err(not_a_mirror(path, "it is not an SQLite file"))
        }
        Err(e) => Err(StoreError::opening(path)(e)),
    }
}

fn not_a_mirror(path: &Path, why: &'static str) -> StoreError {
    StoreError::NotAMirror { path: path.to_path_buf(), why }
}

fn require(path: &Path) -> Result<()> {
    if is_mirror(path)? { Ok(()) } else { Err(StoreError::Missing { path: path.to_path_buf() }) }
}

/// What is no mirror, of a newer version or locked, stays unchanged.
pub(in crate::store) fn writer(path: &Path) -> Result<(Connection, Lock)> {
    is_mirror(path)?;
    let lock = Lock::take(path)?;
    make(path)?;
    expect_one_name(path)?;
    lock.writer().map_or(Ok(()), |last| last.set_log_aside(path))?;
    let mut conn = Connection::open(path).map_err(StoreError::opening(path))?;
    settings(&conn).map_err(StoreError::opening(path))?;
    migrate::migrate(&mut conn)?;
    Ok((conn, lock))
}

/// SQLite keeps the WAL beside the name that it was given, and so is the lock: under two names, two processes would write.
fn expect_one_name(path: &Path) -> Result<()> {
    let links = std::fs::metadata(path).map_or(1, |meta| meta.nlink());
    // Where the kernel does not say, it is not known.
    let is_mounted = statx(CWD, path, AtFlags::empty(), StatxFlags::empty())
        .is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT));
    if links > 1 || is_mounted { Err(StoreError::SeveralNames { path: path.into() }) } else { Ok(()) }
}

pub fn create(path: &Path) -> Result<Lock> {
    writer(path).map(|(_, lock)| lock)
}

/// Creates an empty file if there is none: for SQLite it is a database without tables.
fn make(path: &Path) -> Result<()> {
    match File::options().create_new(true).write(true).mode(MODE).open(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(StoreError::using(path)(error)),
        _ => Ok(()),
    }
}

/// SQLite's page cache, in KiB: ids are unordered, so their index is read and written in random order.
pub(in crate::store) const CACHE_KIB: i32 = 3072;

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
    // A misspelt column must be an error, not a string literal; but people's own tables may have such literals.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    // Triggers protect the tables from other programs; the program's own connection does not use them.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    // Else SQLite may choose plans by bound values, and prepares such a statement again for each of them: a fifth of the time
    // of a run of changes.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // However it is closed, the WAL and its index stay, so that users with read-only access to the directory can open the mirror.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    conn.set_prepared_statement_cache_capacity(64);
    Ok(())
}

/// Opens a mirror concurrently with its writer, to put edits into the outbox: this needs no lock, and waits for the
/// writer no longer than the time to store a page. Commits are durable.
pub(in crate::store) fn editor(path: &Path) -> Result<Connection> {
    require(path)?;
    if has_log_of_another(path) {
        return Err(StoreError::Replaced { path: path.into() });
    }
    // A writer's lock beside this name means that its WAL is here too.
    current_writer(path).map_or_else(|| expect_one_name(path), |_| Ok(()))?;
    edited(path).map_err(StoreError::opening(path))
}

fn edited(path: &Path) -> rusqlite::Result<Connection> {
    // A missing file is not created.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags)?;
    settings(&conn)?;
    conn.pragma_update(None, "synchronous", "full")?;
    // The writer keeps the WAL short.
    conn.pragma_update(None, "wal_autocheckpoint", 0)?;
    Ok(conn)
}

#[derive(Debug)]
pub struct Reader {
    pub(in crate::store) conn: Connection,
    /// A file that was opened as it is, without its WAL, because no process has it open and this user cannot make the files
    /// that a WAL needs; and its state then. SQLite does not notice if it is written.
    at_rest: Option<(PathBuf, RestingState)>,
}

/// A file and its WAL, if they have contents.
type RestingState = [Option<(FileId, u64, SystemTime)>; 2];

fn resting(path: &Path) -> RestingState {
    [path, &wal::beside(path)].map(|file| {
        let meta = file.metadata().ok().filter(|meta| meta.len() > 0)?;
        Some((FileId::of(file)?, meta.len(), meta.modified().ok()?))
    })
}

impl Reader {
    /// Opens a mirror read-only: the one way to read it.
    ///
    /// With its WAL and the index of it, SQLite reads it whoever writes meanwhile. The last connection that is closed removes
    /// both, unless it is one of this program; then a user who can write creates them again, and others read the file as it
    /// is. Nobody is locked out by what another program did.
    pub fn open(path: &Path) -> Result<Reader> {
        require(path)?;
        let is_own = !has_log_of_another(path);
        let is_awake = || is_own && wal::files_beside(path).iter().all(|file| file.exists());
        if is_own && !is_awake() && can_write(path) && expect_one_name(path).is_ok() {
            // Without it, the file is read as it is.
            let _ = edited(path);
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let (conn, at_rest) = match is_awake() {
            true => (Connection::open_with_flags(path, flags).map_err(StoreError::opening(path))?, None),
            false => (peek(path)?, Some((path.into(), resting(path)))),
        };
        conn.busy_timeout(wal::BUSY).map_err(StoreError::opening(path))?;
        Ok(Reader { conn, at_rest })
    }

    #[cfg(test)]
    pub(in crate::store) fn of(conn: Connection) -> Reader {
        Reader { conn, at_rest: None }
    }

    /// Requires that everything that was read is one state of the mirror: a file that this user cannot open with its WAL
    /// is read as it is, and may be written meanwhile.
    pub fn unchanged(&self) -> Result<()> {
        match &self.at_rest {
            Some((path, before)) if resting(path) != *before => Err(StoreError::Written { path: path.clone() }),
            _ => Ok(()),
        }
    }
}

fn can_write(path: &Path) -> bool {
    [folder_of(&beside(path, "")), path].into_iter().all(|path| access(path, Access::WRITE_OK).is_ok())
}

/// Opens a mirror without creating a file; later writes are not seen.
fn peek(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let [log, index] = wal::files_beside(path);
    let is_own = !has_log_of_another(path);
    let has_log = is_own && std::fs::metadata(&log).is_ok_and(|meta| meta.len() > 0);
    if has_log && !index.exists() {
        return after_a_kill(path);
    }
    if has_log || is_own && log.exists() && index.exists() {
        return Connection::open_with_flags(path, flags).map_err(StoreError::opening(path));
    }
    // The file itself contains everything.
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let absolute = percent_encode(absolute.as_os_str().as_bytes(), IN_PATH);
    Connection::open_with_flags(format!("file://{absolute}?immutable=1"), flags).map_err(StoreError::opening(path))
}

/// Opens a file that no process has open and whose WAL has contents. In exclusive mode SQLite keeps the index of the WAL in
/// memory; without a checkpoint on close, the WAL stays as it is.
fn after_a_kill(path: &Path) -> Result<Connection> {
    if !can_write(path) {
        return Err(StoreError::NotRecovered { path: path.to_path_buf() });
    }
    let open = || -> rusqlite::Result<Connection> {
        let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        conn.pragma_update(None, "locking_mode", "exclusive")?;
        conn.pragma_update(None, "query_only", true)?;
        conn.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        Ok(conn)
    };
    open().map_err(StoreError::opening(path))
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;

    /// Closes a connection as another program does: with the last one, the WAL and its index go.
    fn put_to_rest(conn: Connection) {
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false).unwrap();
        conn.close().unwrap();
    }

    #[test]
    fn opening_that_fails_leaves_the_files_that_other_readers_need() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mirror.db");
        let (conn, lock) = writer(&path).unwrap();
        conn.execute_batch("DROP TABLE state").unwrap();
        put_to_rest(conn);
        drop(lock);
        assert!(crate::store::Store::open(&path).is_err());
        assert!(wal::files_beside(&path).iter().all(|file| file.exists()));
    }

    fn read_x(conn: &Connection) -> i64 {
        conn.query_row("SELECT x FROM t", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn looking_at_an_unopened_mirror_creates_no_file_and_sees_everything() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("100% mine? #1.db");
        let (conn, lock) = writer(&path).unwrap();
        conn.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (7)").unwrap();
        put_to_rest(conn);
        drop(lock);
        std::fs::remove_file(dir.path().join("100% mine? #1.db.lock")).unwrap();
        assert_eq!((read_x(&peek(&path).unwrap()), std::fs::read_dir(dir.path()).unwrap().count()), (7, 1));
        // The contents of a WAL are seen too.
        let (conn, lock) = writer(&path).unwrap();
        conn.execute_batch("UPDATE t SET x = 8").unwrap();
        assert_eq!(read_x(&peek(&path).unwrap()), 8);
        // As after a kill and a restart: a WAL with contents, and no index of it.
        let killed = dir.path().join("killed");
        std::fs::create_dir(&killed).unwrap();
        let copy = killed.join("mirror.db");
        std::fs::copy(&path, &copy).unwrap();
        std::fs::copy(wal::beside(&path), wal::beside(&copy)).unwrap();
        let log = std::fs::read(wal::beside(&copy)).unwrap();
        assert_eq!((read_x(&peek(&copy).unwrap()), std::fs::read_dir(&killed).unwrap().count()), (8, 2));
        assert_eq!(std::fs::read(wal::beside(&copy)).unwrap(), log);
        drop((conn, lock));
    }

    #[test]
    fn reader_that_can_write_creates_the_files_that_other_readers_need() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mirror.db");
        let (conn, ..) = writer(&path).unwrap();
        conn.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (7)").unwrap();
        put_to_rest(conn);
        assert!(!wal::beside(&path).exists(), "SQLite's last connection removes them");
        let first = Reader::open(&path).unwrap();
        assert_eq!((read_x(&first.conn), &first.at_rest), (7, &None));
        drop(first);
        assert!(wal::files_beside(&path).iter().all(|file| file.exists()));
    }

    #[test]
    fn file_in_the_place_of_one_that_is_written_is_read_without_its_wal() {
        let dir = tempfile::tempdir().unwrap();
        let [path, other] = ["mirror.db", "other.db"].map(|name| dir.path().join(name));
        let store = crate::store::Store::open(&path).unwrap();
        let (conn, ..) = writer(&other).unwrap();
        conn.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (7)").unwrap();
        put_to_rest(conn);
        std::fs::rename(&other, &path).unwrap();
        assert!(wal::files_beside(&path).iter().all(|file| file.exists()), "of the store");
        let found = Reader::open(&path).unwrap();
        assert_eq!((read_x(&found.conn), found.at_rest.is_some()), (7, true));
        drop(store);
    }

    #[test]
    fn file_that_is_written_while_it_is_read_as_it_is_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mirror.db");
        let (conn, ..) = writer(&path).unwrap();
        conn.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (7)").unwrap();
        put_to_rest(conn);
        let resting = Reader { at_rest: Some((path.clone(), resting(&path))), ..Reader::of(peek(&path).unwrap()) };
        resting.unchanged().unwrap();
        let (conn, ..) = writer(&path).unwrap();
        resting.unchanged().unwrap();
        conn.execute_batch("INSERT INTO t VALUES (8)").unwrap();
        assert!(matches!(resting.unchanged(), Err(StoreError::Written { .. })));
    }

    #[test]
    fn binding_a_value_does_not_prepare_a_statement_again() {
        let dir = tempfile::tempdir().unwrap();
        let (conn, _lock) = writer(&dir.path().join("mirror.db")).unwrap();
        let joined = "SELECT count(*) FROM contacts AS r LEFT JOIN contact_details AS d ON d.contact_id = r.id";
        for id in ["a", "b", "c"] {
            let mut stmt = conn.prepare_cached(&format!("{joined} WHERE r.id = ?1")).unwrap();
            assert_eq!(stmt.query_row([id], |row| row.get::<_, i64>(0)).unwrap(), 0);
            assert_eq!(stmt.get_status(StatementStatus::RePrepare), 0);
        }
    }

    #[test]
    fn files_that_are_not_mirrors_are_refused_and_not_changed() {
        let dir = tempfile::tempdir().unwrap();
        let text = dir.path().join("notes.txt");
        std::fs::write(&text, "a text of some length, longer than a header of SQLite would be in any case, and more")
            .unwrap();
        let other = dir.path().join("other.db");
        Connection::open(&other).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
        // Of another program, without a table yet; and with a version that no mirror has.
        let [empty, negative] = [(0, 5), (APPLICATION_ID, -1)].map(|(id, version)| {
            let path = dir.path().join(format!("version {version}.db"));
            let conn = Connection::open(&path).unwrap();
            conn.execute_batch(&format!("PRAGMA application_id = {id}; PRAGMA user_version = {version}")).unwrap();
            path
        });
        for path in [&text, &other, &empty, &negative, &dir.path().to_path_buf()] {
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
        assert_eq!(lock.found.as_deref(), None);
        lock.note("a first and longer note").unwrap();
        lock.note("a note").unwrap();
        drop(lock);
        let (_, lock) = writer(&path).unwrap();
        assert_eq!(lock.found.as_deref(), Some("a note"));
        assert!(lock.note(&"x".repeat(500)).is_err());
    }

    #[test]
    fn reader_needs_a_mirror() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mirror.db");
        assert!(matches!(Reader::open(&path), Err(StoreError::Missing { .. })));
        assert!(!path.exists());
        drop(writer(&path).unwrap());
        Reader::open(&path).unwrap();
    }
}
