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

use super::{folder_of, remove_database, remove_pages_beside, with_suffix};
use crate::model::Instant;
use crate::store::{FileId, Reader, Result, StateKey, Statements, StoreError, beside, hold_in_a_copy, lock};

/// The retry interval while another process changes the file's schema.
const RETRY: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct BackupReport {
    pub bytes: u64,
    pub held_edits: u64,
}

/// After an error there is no copy, and the target is unchanged.
pub fn backup(mirror: &Path, target: &Path, replace: bool, now: Instant) -> Result<BackupReport> {
    let source = Reader::open(mirror)?;
    refuse_the_mirror(mirror, target)?;
    let io = StoreError::using(target);
    match fs::metadata(target) {
        Ok(found) if found.is_dir() => return Err(io(io::ErrorKind::IsADirectory.into())),
        Ok(_) if !replace => return Err(StoreError::Exists { path: target.into() }),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io(error)),
        _ => {}
    }
    if let Some(pid) = lock::current_writer(target) {
        return Err(StoreError::Locked { path: target.into(), pid });
    }
    let unfinished = Unfinished::make(target).map_err(&io)?;
    let (held_edits, found) = fill(&source.conn, &unfinished.path, now)?;
    if found != "ok" {
        return Err(StoreError::DamagedCopy { found });
    }
    source.unchanged()?;
    let written = unfinished.file.sync_all().and_then(|()| unfinished.file.metadata());
    let bytes = written.map_err(&io)?.len();
    unfinished.finish(target, replace)?;
    Ok(BackupReport { bytes, held_edits })
}

/// Compares by the file's identity, and by path if the file does not exist yet.
fn refuse_the_mirror(mirror: &Path, target: &Path) -> Result<()> {
    let place = |path: &Path| Some((fs::canonicalize(folder_of(path)).ok()?, path.file_name()?.to_owned()));
    let is_same = |path: &Path| {
        FileId::of(path).is_some_and(|id| FileId::of(target) == Some(id))
            || place(path).is_some_and(|there| place(target) == Some(there))
    };
    match ["", "-wal", "-shm", "-journal", ".lock", ".sock"].iter().any(|suffix| is_same(&beside(mirror, suffix))) {
        true => Err(StoreError::Refused(format!("{} is the mirror itself or one of its files", target.display()))),
        false => Ok(()),
    }
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

    fn finish(self, target: &Path, replace: bool) -> Result<()> {
        let io = StoreError::using(target);
        if !replace && target.exists() {
            return Err(StoreError::Exists { path: target.into() });
        }
        remove_pages_beside(target).map_err(&io)?;
        let renamed = match replace {
            true => fs::rename(&self.path, target),
            false => match renameat_with(CWD, &self.path, CWD, target, RenameFlags::NOREPLACE) {
                Err(Errno::EXIST) => return Err(StoreError::Exists { path: target.into() }),
                // The file system does not support an atomic check: the file did not exist a moment ago.
                Err(Errno::INVAL | Errno::NOSYS) if !target.exists() => fs::rename(&self.path, target),
                other => other.map_err(io::Error::from),
            },
        };
        renamed.map_err(&io)?;
        File::open(folder_of(target)).and_then(|directory| directory.sync_all()).map_err(io)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // After success these files no longer exist.
        let _ = remove_database(&self.path);
    }
}

/// Returns the number of edits that are held, and what SQLite says of the copy.
fn fill(source: &Connection, path: &Path, now: Instant) -> Result<(u64, String)> {
    // Nobody else opens it.
    let mut copy = Connection::open(path).map_err(StoreError::opening(path))?;
    copy.pragma_update(None, "locking_mode", "exclusive")?;
    {
        let running = Backup::new(source, &mut copy)?;
        // In one step: one snapshot of the source, while its writer continues.
        while running.step(-1)? != StepResult::Done {
            std::thread::sleep(RETRY);
        }
    }
    let held = become_another_mirror(&mut copy, now)?;
    let found = copy.value("PRAGMA integrity_check(1)", [])?;
    copy.close().map_err(|(_, error)| StoreError::from(error))?;
    Ok((held, found))
}

fn become_another_mirror(copy: &mut Connection, now: Instant) -> Result<u64> {
    // The copy is a single file: it is written without a WAL.
    let _: String = copy.value("PRAGMA journal_mode = delete", [])?;
    copy.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    copy.pragma_update(None, "foreign_keys", false)?;
    let tx = copy.transaction()?;
    let id = "INSERT OR REPLACE INTO state (name, value) VALUES ('mirror_id', json_quote(lower(hex(randomblob(16)))))";
    tx.run(id, [])?;
    // They are about the daemon of the original, as it was then.
    let of_a_daemon = [StateKey::PausedSince, StateKey::Reported].map(StateKey::as_str);
    tx.run("DELETE FROM state WHERE name IN (?1, ?2)", of_a_daemon)?;
    // A release that was given to the original does not apply to the copy.
    let held = hold_in_a_copy(&tx, now)?;
    tx.commit()?;
    Ok(held)
}
