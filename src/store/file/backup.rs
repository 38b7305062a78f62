//! A copy of the mirror in one file, made while it is written.
//!
//! SQLite's backup API copies page by page, so row ids, and with them the search index, stay valid. The copy is a
//! mirror of its own: it has a new id, so that followers of the original do not continue on it, its open edits are held,
//! because the original may send them too, and it is not paused.
//!
//! # Invariants
//! - The copy is complete and verified before it gets its name; a file is overwritten only on request.
//! - A file is replaced together with its WAL.
//! - It contains everything that was committed before the copying began, as one snapshot.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};
use rusqlite::config::DbConfig;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::original::IN_A_COPY;
use super::{folder_of, remove_database, remove_pages_beside, with_suffix};
use crate::model::Instant;
use crate::store::{Doing, FileId, Requests, Result, StateKey, StoreError, beside, hold_open_edits, lock, open};

/// The retry interval while another process changes the file's schema.
const RETRY: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct BackupReport {
    pub bytes: u64,
    pub held_edits: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{path} is the mirror itself or one of its files")]
    IsTheMirror { path: PathBuf },
    #[error("{path} exists")]
    Exists { path: PathBuf },
    #[error("could not write {path}")]
    Io { path: PathBuf, source: io::Error },
    /// The copy is damaged, and therefore the mirror is too.
    #[error("the copy failed SQLite's integrity check and was deleted: {found}")]
    Damaged { found: String },
}

/// After an error there is no copy, and the target is unchanged.
pub fn backup(mirror: &Path, target: &Path, replace: bool, now: Instant) -> Result<BackupReport, BackupError> {
    let source = open::reader(mirror)?;
    refuse_the_mirror(mirror, target)?;
    let io = |path: &Path| {
        let path = path.to_path_buf();
        move |source| BackupError::Io { path, source }
    };
    match fs::metadata(target) {
        Ok(found) if found.is_dir() => return Err(io(target)(io::ErrorKind::IsADirectory.into())),
        Ok(_) if !replace => return Err(BackupError::Exists { path: target.into() }),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io(target)(error)),
        _ => {}
    }
    if let Some(pid) = lock::current_writer(target) {
        return Err(StoreError::Locked { path: target.into(), pid }.into());
    }
    let unfinished = Unfinished::make(target).map_err(io(target))?;
    let held_edits = fill(&source.conn, &unfinished.path, now)?;
    source.unchanged()?;
    let written = unfinished.file.sync_all().and_then(|()| unfinished.file.metadata());
    let bytes = written.map_err(io(&unfinished.path))?.len();
    unfinished.finish(target, replace)?;
    Ok(BackupReport { bytes, held_edits })
}

/// Compares by the file's identity, and by path if the file does not exist yet.
fn refuse_the_mirror(mirror: &Path, target: &Path) -> Result<(), BackupError> {
    let known = FileId::of(target);
    let place = |path: &Path| Some((fs::canonicalize(folder_of(path)).ok()?, path.file_name()?.to_owned()));
    for suffix in ["", "-wal", "-shm", "-journal", ".lock", ".sock"] {
        let path = beside(mirror, suffix);
        let same_file = known.is_some() && FileId::of(&path) == known;
        if same_file || place(&path).is_some() && place(&path) == place(target) {
            return Err(BackupError::IsTheMirror { path: target.into() });
        }
    }
    Ok(())
}

/// An unfinished copy, deleted on drop.
struct Unfinished {
    path: PathBuf,
    file: File,
}

impl Unfinished {
    fn make(target: &Path) -> io::Result<Unfinished> {
        let path = with_suffix(target, &format!(".{:016x}.new", fastrand::u64(..)));
        let file = File::options().write(true).create_new(true).mode(lock::MODE).open(&path)?;
        Ok(Unfinished { path, file })
    }

    fn finish(self, target: &Path, replace: bool) -> Result<(), BackupError> {
        let io = |source| BackupError::Io { path: target.into(), source };
        if !replace && target.exists() {
            return Err(BackupError::Exists { path: target.into() });
        }
        remove_pages_beside(target).map_err(io)?;
        let renamed = match replace {
            true => fs::rename(&self.path, target),
            false => match renameat_with(CWD, &self.path, CWD, target, RenameFlags::NOREPLACE) {
                Err(Errno::EXIST) => return Err(BackupError::Exists { path: target.into() }),
                // The file system does not support an atomic check: the file did not exist a moment ago.
                Err(Errno::INVAL | Errno::NOSYS) if !target.exists() => fs::rename(&self.path, target),
                other => other.map_err(io::Error::from),
            },
        };
        renamed.map_err(io)?;
        File::open(folder_of(target)).and_then(|directory| directory.sync_all()).map_err(io)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // After success these files no longer exist.
        let _ = remove_database(&self.path);
    }
}

fn fill(source: &Connection, path: &Path, now: Instant) -> Result<u64, BackupError> {
    // Nobody else opens it.
    let mut copy = Connection::open(path).map_err(StoreError::opening(path))?;
    copy.pragma_update(None, "locking_mode", "exclusive").doing("begin a copy of the mirror")?;
    {
        let running = Backup::new(source, &mut copy).doing("begin a copy of the mirror")?;
        // In one step: one snapshot of the source, while its writer continues.
        while running.step(-1).doing("copy the mirror")? != StepResult::Done {
            std::thread::sleep(RETRY);
        }
    }
    let held = become_another_mirror(&mut copy, now)?;
    let found: String =
        copy.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).doing("check the copy of the mirror")?;
    copy.close().map_err(|(_, source)| StoreError::Sqlite { doing: "close the copy of the mirror".into(), source })?;
    if found == "ok" { Ok(held) } else { Err(BackupError::Damaged { found }) }
}

fn become_another_mirror(copy: &mut Connection, now: Instant) -> Result<u64> {
    let doing = "prepare the copy of the mirror";
    // The copy is a single file: it is written without a WAL.
    let _: String = copy.query_row("PRAGMA journal_mode = delete", [], |row| row.get(0)).doing(doing)?;
    copy.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).doing(doing)?;
    copy.pragma_update(None, "foreign_keys", false).doing(doing)?;
    let tx = copy.transaction().doing(doing)?;
    tx.execute(
        "INSERT INTO state (name, value) VALUES ('mirror_id', json_quote(lower(hex(randomblob(16)))))
         ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        [],
    )
    .doing(doing)?;
    // They are about the daemon of the original, as it was then.
    let of_a_daemon = [StateKey::PausedSince, StateKey::Told].map(StateKey::as_str);
    tx.execute("DELETE FROM state WHERE name IN (?1, ?2)", of_a_daemon).doing(doing)?;
    // A release that was given to the original does not apply to the copy.
    let held = hold_open_edits(&tx, Requests::Keep, IN_A_COPY, now)?;
    tx.commit().doing(doing)?;
    Ok(held)
}
