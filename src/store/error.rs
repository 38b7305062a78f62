//! Errors of the mirror's file.

use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("could not open the mirror {path}", path = path.display())]
    Open { path: PathBuf, source: rusqlite::Error },
    #[error("could not use {path}", path = path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error("{path} is not a mirror: {why}", path = path.display())]
    NotAMirror { path: PathBuf, why: &'static str },
    #[error("there is no mirror at {path} yet", path = path.display())]
    Missing { path: PathBuf },
    #[error("{path} was replaced while it was in use; the next run opens what is there", path = path.display())]
    Replaced { path: PathBuf },
    #[error("{path} has a second name, by a hard link or because the file alone is mounted, and would have another WAL there: leave it one, and mount its folder", path = path.display())]
    SeveralNames { path: PathBuf },
    #[error("the last process that wrote {path} was killed, and the current user cannot recover its WAL", path = path.display())]
    NotRecovered { path: PathBuf },
    /// The file was written while it was read without its WAL.
    #[error("{path} was written while it was read, so the result may mix two states of it", path = path.display())]
    Written { path: PathBuf },
    #[error("the mirror has schema {found}, but this version supports schemas up to {known} only")]
    NewerSchema { found: u32, known: u32 },
    #[error("another crm-mirror{} is writing {path}", pid.map(|pid| format!(" (process {pid})")).unwrap_or_default(), path = path.display())]
    Locked { path: PathBuf, pid: Option<u32> },
    #[error("could not use the mirror")]
    Sqlite(#[from] rusqlite::Error),
    #[error("the mirror's state `{name}` cannot be parsed")]
    State { name: String, source: serde_json::Error },
    /// What a person asked for is not possible: nothing was changed.
    #[error("{0}")]
    Refused(String),
    #[error("{path} exists", path = path.display())]
    Exists { path: PathBuf },
    /// A copy of the file is damaged, and therefore the file is too.
    #[error("the copy failed SQLite's integrity check and was deleted: {found}")]
    DamagedCopy { found: String },
    #[error("`sync.exclude` contains a field that edit {id} changes, and that edit is not finished")]
    EditOfExcluded { id: i64 },
    /// A page was decoded with columns that have changed since: it has to be decoded again.
    #[error("the custom columns changed while a page was being processed")]
    StaleLayout,
    #[error("the mirror's writer has ended")]
    Closed,
    #[error("the writer was interrupted")]
    Interrupted,
}

const DAMAGED: &str = "try again, as the disk may have failed to read it; if the file is damaged, restore a backup, or move it \
     away with its -wal and -shm and `crm-mirror sync` copies everything again; edits that were not sent are only in it";

pub type Result<T, E = StoreError> = std::result::Result<T, E>;

impl StoreError {
    pub(in crate::store) fn opening(path: &Path) -> impl Fn(rusqlite::Error) -> StoreError {
        move |source| StoreError::Open { path: path.to_path_buf(), source }
    }

    pub(in crate::store) fn using(path: &Path) -> impl Fn(std::io::Error) -> StoreError {
        move |source| StoreError::Io { path: path.to_path_buf(), source }
    }

    pub(in crate::store) fn code(&self) -> Option<i32> {
        let (StoreError::Sqlite(source) | StoreError::Open { source, .. }) = self else { return None };
        source.sqlite_error().map(|error| error.extended_code)
    }

    /// Whether another process had the file locked for longer than anybody waits: it is free again after its statement.
    pub fn is_busy(&self) -> bool {
        use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked, FileLockingProtocolFailed};
        let (StoreError::Sqlite(source) | StoreError::Open { source, .. }) = self else { return false };
        matches!(source.sqlite_error_code(), Some(DatabaseBusy | DatabaseLocked | FileLockingProtocolFailed))
    }

    pub fn hint(&self) -> Option<&'static str> {
        match self {
            // Not only an index that can be built again.
            damaged if damaged.code() == Some(rusqlite::ffi::SQLITE_CORRUPT) => Some(DAMAGED),
            full if full.code() == Some(rusqlite::ffi::SQLITE_FULL) => {
                Some("make room on the disk that the file is on; what is stored is kept, and the next run goes on")
            }
            StoreError::Exists { .. } => Some("choose another file, or pass `--force` to replace it"),
            StoreError::DamagedCopy { .. } => Some(DAMAGED),
            StoreError::NotAMirror { .. } => Some("set `database.path` to a different file; this one was not changed"),
            StoreError::NewerSchema { .. } => Some("install the newer crm-mirror again; the file was not changed"),
            StoreError::NotRecovered { .. } => Some("`crm-mirror status` by the mirror's owner recovers it"),
            StoreError::Written { .. } => Some("run the command again"),
            StoreError::Locked { .. } => Some("stop the other process; `crm-mirror status` shows what it does"),
            StoreError::Missing { .. } => Some("run `crm-mirror sync` to make the first copy"),
            busy if busy.is_busy() => Some(
                "another program keeps a lock on the file, such as a shell with an open transaction; `fuser` and `lsof` name it",
            ),
            StoreError::EditOfExcluded { .. } => {
                Some("`crm-mirror outbox drop` ends the edit, or send it with the field still mirrored")
            }
            StoreError::Io { source, .. } if source.kind() == std::io::ErrorKind::IsADirectory => {
                Some("name a file; `crm-mirror backup --keep N FOLDER` writes a copy into a folder")
            }
            StoreError::Open { .. } | StoreError::Io { .. } => Some(
                "check that its folder exists and that the current user can write it; to read, the file's \
                 group is enough (with the Debian package, `crmmirror`)",
            ),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    #[test]
    fn lock_of_another_program_is_told_from_other_failures() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Connection::open(dir.path().join("x.db")).unwrap();
        let (shell, own) = (open(), open());
        shell.execute_batch("BEGIN IMMEDIATE").unwrap();
        own.busy_timeout(std::time::Duration::ZERO).unwrap();
        let locked = own.execute_batch("BEGIN IMMEDIATE").map_err(StoreError::from).unwrap_err();
        let wrong = own.execute_batch("BEGIN WRONGLY").map_err(StoreError::from).unwrap_err();
        assert_eq!((locked.is_busy(), wrong.is_busy()), (true, false));
        assert!(locked.hint().unwrap().contains("open transaction"));
    }

    #[test]
    fn damaged_file_is_named_as_the_reason() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.db");
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)").unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[100..200].fill(0xFF);
        std::fs::write(&path, bytes).unwrap();
        let damaged =
            Connection::open(&path).unwrap().execute_batch("SELECT * FROM t").map_err(StoreError::from).unwrap_err();
        assert!(damaged.hint().unwrap().contains("restore a backup"), "{damaged:?}");
    }
}
