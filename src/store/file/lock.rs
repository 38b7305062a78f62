//! The lock file next to a mirror: one process writes the mirror at a time, and leaves a note for the next. It also says
//! which file that process writes.

use std::fs::{File, TryLockError};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, CWD, StatxFlags, statvfs, statx};
use serde::{Deserialize, Serialize};

use crate::model::boot_number;
use crate::regular_file;
use crate::store::{Result, StoreError, beside, json};

/// Files created here can be written by their owner and read by their group; SQLite gives the WAL and its index the
/// same mode. A stricter umask reduces it. Directories are never created or changed: in a directory that readers can
/// write, they would leave files that the writer cannot open.
pub(super) const MODE: u32 = 0o640;

/// The file has a one-line note, which needs no transaction: data that changes with each request and survives a kill.
#[derive(Debug)]
pub struct Lock {
    file: File,
    path: PathBuf,
    pub found: Option<String>,
    writer: Mutex<Option<LockedBy>>,
}

/// The widths of a lock file's lines: process, note, and the file it writes. Fixed: one small write replaces a line.
const PID_WIDTH: usize = 20;
const NOTE_WIDTH: usize = 330;
const WRITER_WIDTH: usize = 600;

const NOTE_AT: usize = PID_WIDTH + 1;
const WRITER_AT: usize = NOTE_AT + NOTE_WIDTH + 1;

impl Lock {
    pub(super) fn take(mirror: &Path) -> Result<Lock> {
        let path = beside(mirror, ".lock");
        let io = StoreError::using(&path);
        let file = loop {
            let file = regular_file::open_or_create_own(&path, MODE).map_err(&io)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let pid = LockLines::of(&file).map_err(&io)?.pid;
                    return Err(StoreError::Locked { path: mirror.to_path_buf(), pid });
                }
                Err(TryLockError::Error(source)) => return Err(io(source)),
            }
            // Somebody may have removed the file since it was opened: then the next process locks another file.
            let own = file.metadata().map_err(&io)?;
            if std::fs::metadata(&path).is_ok_and(|there| (there.dev(), there.ino()) == (own.dev(), own.ino())) {
                break file;
            }
        };
        // Not before it is locked: the last holder may just have written its last lines.
        let LockLines { note, writer, .. } = LockLines::of(&file).map_err(&io)?;
        let lock = Lock { file, path: path.clone(), found: note, writer: Mutex::new(writer) };
        lock.write_line(0, &std::process::id().to_string(), PID_WIDTH)?;
        Ok(lock)
    }

    /// Replaces the note. It survives the process, but not a power failure.
    pub fn note(&self, note: &str) -> Result<()> {
        self.write_line(NOTE_AT, note, NOTE_WIDTH)
    }

    /// What the lock file says about the file that is written: what was found, until it is replaced.
    pub(in crate::store) fn writer(&self) -> Option<LockedBy> {
        self.known_writer().clone()
    }

    fn known_writer(&self) -> MutexGuard<'_, Option<LockedBy>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces it, also for after a power failure, like that file.
    pub(in crate::store) fn store_writer(&self, writer: LockedBy) -> Result<()> {
        self.replace_writer(&mut self.known_writer(), writer)
    }

    fn replace_writer(&self, known: &mut Option<LockedBy>, writer: LockedBy) -> Result<()> {
        self.write_line(WRITER_AT, &json("the lock file", &writer)?, WRITER_WIDTH)?;
        self.file.sync_data().map_err(StoreError::using(&self.path))?;
        *known = Some(writer);
        Ok(())
    }

    /// Records outside the file that this request is about to be sent: a copy from before it is recognised.
    pub fn note_request(&self, number: u64) -> Result<()> {
        let mut known = self.known_writer();
        match known.clone() {
            Some(last) if number > last.requests => {
                self.replace_writer(&mut known, LockedBy { requests: number, ..last })
            }
            _ => Ok(()),
        }
    }

    fn write_line(&self, at: usize, text: &str, width: usize) -> Result<()> {
        let io = StoreError::using(&self.path);
        if text.len() > width {
            return Err(io(std::io::Error::other("the note is too long")));
        }
        self.file.write_all_at(format!("{text:<width$}\n").as_bytes(), at as u64).map_err(&io)
    }

    /// Releases the lock, even if other references to it exist, unless a WAL that is not the file's stays in the way.
    pub(in crate::store) fn end(&self, mirror: &Path, was_killed: bool) -> Result<()> {
        let Some(last) = self.writer() else { return Ok(()) };
        last.set_log_aside(mirror)?;
        // What readers kept out of the file is in its WAL.
        let log = regular_file::open_own(&super::wal::beside(mirror)).and_then(|log| log.sync_data());
        if !was_killed && log.map_or_else(|error| error.kind() == std::io::ErrorKind::NotFound, |()| true) {
            // A failure is ignored: followers start again then, once.
            let _ = self.store_writer(LockedBy { closed: true, ..last });
        }
        // The same: the lock ends with the process.
        let _ = self.file.unlock();
        Ok(())
    }
}

#[derive(Debug)]
struct LockLines {
    pid: Option<u32>,
    note: Option<String>,
    writer: Option<LockedBy>,
}

impl LockLines {
    /// Each line has its place: one that was never written does not end. What cannot be read is not taken for empty: a
    /// mirror without the third line is a copy.
    fn of(file: &File) -> std::io::Result<LockLines> {
        let line = |at: usize, width: usize| -> std::io::Result<String> {
            let mut bytes = vec![0; width];
            let read = file.read_at(&mut bytes, at as u64)?;
            Ok(String::from_utf8_lossy(&bytes[..read]).trim_matches([' ', '\0', '\n']).to_string())
        };
        Ok(LockLines {
            pid: line(0, PID_WIDTH)?.parse().ok(),
            note: Some(line(NOTE_AT, NOTE_WIDTH)?).filter(|note| !note.is_empty()),
            writer: serde_json::from_str(&line(WRITER_AT, WRITER_WIDTH)?).ok(),
        })
    }

    fn beside(mirror: &Path) -> Option<LockLines> {
        LockLines::of(&regular_file::open_own(&beside(mirror, ".lock")).ok()?).ok()
    }
}

pub fn note_beside(mirror: &Path) -> Option<String> {
    LockLines::beside(mirror)?.note
}

/// Takes the note of a mirror, if it has any, over to another one. Returns whether it has.
pub fn carry_note(from: &Path, to: &Path) -> Result<bool> {
    let Some(note) = note_beside(from) else { return Ok(false) };
    Lock::take(to)?.note(&note).map(|()| true)
}

/// The process that writes a mirror now, without disturbing it: `None` if there is none, else its id if it is known.
pub fn current_writer(mirror: &Path) -> Option<Option<u32>> {
    let file = regular_file::open_own(&beside(mirror, ".lock")).ok()?;
    let pid = LockLines::of(&file).ok().and_then(|lines| lines.pid);
    // A shared lock, for an instant: only a writer that starts at this moment could notice it.
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Some(pid),
        _ => None,
    }
}

/// The writer of a mirror, in the file itself and in its lock file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(in crate::store) struct LockedBy {
    pub(super) nonce: String,
    /// The nonce that the lock file may still have.
    pub(super) before: String,
    /// The requests for edits that were stored, each in its transaction.
    pub(super) requests: u64,
    pub(super) file: FileId,
    pub(super) log: FileId,
    /// Whether all that it wrote is on the disk, and not in the memory of a machine that may stop.
    pub(super) closed: bool,
}

/// Whether the WAL of this path belongs to another file, which a process has open or had when it was killed.
pub(super) fn has_log_of_another(path: &Path) -> bool {
    LockLines::beside(path).and_then(|lines| lines.writer).is_some_and(|locked| locked.left_its_log(path))
}

/// The identity of a file: a restore, a mount or a rename can put another one at its path. What another version did not know, or
/// a file system does not say, tells no file from another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileId {
    pub(super) inode: u64,
    /// When it was created: numbers of deleted files are used again.
    pub(super) born: Option<String>,
    /// The id of its file system, which most keep when they are mounted again, unlike the number of the device.
    pub(super) volume: Option<u64>,
    /// Some derive that id from the device, whose number is that of one boot.
    pub(super) boot: Option<u32>,
}

impl FileId {
    /// The file at a path; `None` if there is none or it is not accessible.
    pub fn of(path: &Path) -> Option<FileId> {
        let inode = std::fs::metadata(path).ok()?.ino();
        // The standard library of a static program does not say when.
        let asked = statx(CWD, path, AtFlags::empty(), StatxFlags::BTIME).ok();
        let known = asked.filter(|found| found.stx_mask & StatxFlags::BTIME.bits() != 0).map(|found| found.stx_btime);
        let born = known.map(|at| format!("{}{:09}", at.tv_sec, at.tv_nsec));
        Some(FileId { inode, born, volume: statvfs(path).ok().map(|disk| disk.f_fsid), boot: boot_number() })
    }

    pub(super) fn is(&self, other: &FileId) -> bool {
        let born = self.born.as_ref().zip(other.born.as_ref()).is_none_or(|(one, other)| one == other);
        let volume = self.volume.zip(other.volume).is_none_or(|(one, other)| one == other);
        self.inode == other.inode && born && (volume || !self.is_of_boot(other))
    }

    pub(super) fn is_of_boot(&self, other: &FileId) -> bool {
        self.boot.is_some() && self.boot == other.boot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_cannot_be_read_are_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mirror.db.lock");
        let write_only = File::options().write(true).create_new(true).open(path).unwrap();
        assert!(LockLines::of(&write_only).is_err());
    }

    #[test]
    fn each_line_is_found_whether_the_others_were_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mirror.db");
        let writer = LockedBy { nonce: "the writer".into(), ..LockedBy::default() };
        Lock::take(&path).unwrap().store_writer(writer.clone()).unwrap();
        let lock = Lock::take(&path).unwrap();
        assert_eq!((lock.found.as_deref(), lock.writer()), (None, Some(writer.clone())));
        lock.note("a note").unwrap();
        drop(lock);
        let lock = Lock::take(&path).unwrap();
        assert_eq!((lock.found.as_deref(), lock.writer()), (Some("a note"), Some(writer)));
    }

    #[test]
    fn symlink_is_the_same_mirror() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("mirror.db"), dir.path().join("link.db"));
        std::os::unix::fs::symlink("mirror.db", &link).unwrap();
        // Before and after the file exists.
        for _ in 0..2 {
            let lock = Lock::take(&link).unwrap();
            assert!(matches!(Lock::take(&path), Err(StoreError::Locked { .. })));
            assert_eq!(current_writer(&path), Some(Some(std::process::id())));
            drop(lock);
            std::fs::write(&path, "").unwrap();
        }
        assert!(!dir.path().join("link.db.lock").exists());
    }
}
