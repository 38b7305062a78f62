//! The lock file next to a mirror: one process writes the mirror at a time, and leaves a note for the next.

use std::fs::{File, TryLockError};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::regular_file;
use crate::store::{FileId, Result, StoreError};

/// Files created here can be written by their owner and read by their group; SQLite gives the WAL and its index the
/// same mode. A stricter umask reduces it. Directories are never created or changed: in a directory that readers can
/// write, they would leave files that the writer cannot open.
pub(super) const MODE: u32 = 0o640;

/// The file also contains a note of one line, which needs no transaction: data that must survive a kill and changes
/// with every request.
#[derive(Debug)]
pub struct Lock {
    file: File,
    path: PathBuf,
    found: Option<String>,
    found_writer: Option<String>,
}

/// The widths of the three lines of a lock file: the process, its note, and the file that it writes. Fixed, so that one
/// small write replaces a line.
const PID_WIDTH: usize = 20;
const NOTE_WIDTH: usize = 260;
const WRITER_WIDTH: usize = 400;

const NOTE_AT: usize = PID_WIDTH + 1;
const WRITER_AT: usize = NOTE_AT + NOTE_WIDTH + 1;

impl Lock {
    pub(super) fn take(mirror: &Path) -> Result<Lock> {
        let path = beside(mirror);
        let io = StoreError::using(&path);
        let file = loop {
            let file = regular_file::open_or_create_own(&path, MODE).map_err(&io)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let (pid, ..) = lines_of(&file).map_err(&io)?;
                    return Err(StoreError::Locked { path: mirror.to_path_buf(), pid: pid.parse().ok() });
                }
                Err(TryLockError::Error(source)) => return Err(io(source)),
            }
            // The previous holder may have removed the file since it was opened: then the next process locks another
            // file.
            if FileId::of(&path) == Some(file.metadata().map_err(&io)?.into()) {
                break file;
            }
        };
        // Not before it is locked: the last holder may just have written its last lines.
        let (_, found, found_writer) = lines_of(&file).map_err(&io)?;
        let lock = Lock { file, path: path.clone(), found, found_writer };
        lock.write_line(0, &std::process::id().to_string(), PID_WIDTH)?;
        Ok(lock)
    }

    pub fn found(&self) -> Option<&str> {
        self.found.as_deref()
    }

    /// Replaces the note. It survives the process, but not a power failure.
    pub fn note(&self, note: &str) -> Result<()> {
        self.write_line(NOTE_AT, note, NOTE_WIDTH)
    }

    pub(super) fn found_writer(&self) -> Option<&str> {
        self.found_writer.as_deref()
    }

    /// Replaces what is said about the file that is written, also for after a power failure, like that file.
    pub(super) fn store_writer(&self, text: &str) -> Result<()> {
        self.write_line(WRITER_AT, text, WRITER_WIDTH)?;
        self.file.sync_data().map_err(StoreError::using(&self.path))
    }

    fn write_line(&self, at: usize, text: &str, width: usize) -> Result<()> {
        let io = StoreError::using(&self.path);
        if text.len() > width {
            return Err(io(std::io::Error::other("the note is too long")));
        }
        self.file.write_all_at(format!("{text:<width$}\n").as_bytes(), at as u64).map_err(&io)
    }

    pub(in crate::store) fn remove(&self) {
        // While the lock is held, no other process can have locked this file.
        let _ = std::fs::remove_file(&self.path);
        self.release();
    }

    /// Releases the lock, even if other references to it exist.
    pub(in crate::store) fn release(&self) {
        // A failure is ignored: the lock ends with the process.
        let _ = self.file.unlock();
    }
}

/// The path of a mirror's lock: next to the file itself, so that a path through a symlink has the same lock.
fn beside(mirror: &Path) -> PathBuf {
    let file = std::fs::canonicalize(mirror).or_else(|_| {
        // If the file does not exist yet, it is created at the target of a dangling link.
        let linked = std::fs::read_link(mirror).map(|to| super::folder_of(mirror).join(to));
        let target = linked.unwrap_or_else(|_| mirror.to_path_buf());
        let name = target.file_name().unwrap_or_default();
        std::fs::canonicalize(super::folder_of(&target)).map(|folder| folder.join(name))
    });
    super::beside(&file.unwrap_or_else(|_| mirror.to_path_buf()), ".lock")
}

/// The process, the note and the file in a lock file. Each has its place: a line that was never written does not end. What
/// cannot be read is not taken for empty: a mirror without the third line is a copy.
fn lines_of(file: &File) -> std::io::Result<(String, Option<String>, Option<String>)> {
    let line = |at: usize, width: usize| -> std::io::Result<Option<String>> {
        let mut bytes = vec![0; width];
        let read = file.read_at(&mut bytes, at as u64)?;
        let text = String::from_utf8_lossy(&bytes[..read]);
        Ok(Some(text.trim_matches([' ', '\0', '\n']).to_string()).filter(|text| !text.is_empty()))
    };
    Ok((line(0, PID_WIDTH)?.unwrap_or_default(), line(NOTE_AT, NOTE_WIDTH)?, line(WRITER_AT, WRITER_WIDTH)?))
}

/// What the lock file says of the last writer.
pub(in crate::store) fn writer_beside(mirror: &Path) -> Option<String> {
    lines_of(&regular_file::open_own(&beside(mirror)).ok()?).ok()?.2
}

pub(in crate::store) fn is_beside(mirror: &Path) -> bool {
    beside(mirror).exists()
}

pub fn note_beside(mirror: &Path) -> Option<String> {
    lines_of(&regular_file::open_own(&beside(mirror)).ok()?).ok()?.1
}

/// The process that writes a mirror now, without disturbing it: `None` if there is none, else its id if it is known.
pub fn current_writer(mirror: &Path) -> Option<Option<u32>> {
    let file = regular_file::open_own(&beside(mirror)).ok()?;
    let pid = lines_of(&file).map(|(pid, ..)| pid).unwrap_or_default();
    // A shared lock, for an instant: only a writer that starts at this moment could notice it.
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Some(pid.parse().ok()),
        _ => None,
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
        assert!(lines_of(&write_only).is_err());
    }

    #[test]
    fn each_line_is_found_whether_the_others_were_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mirror.db");
        Lock::take(&path).unwrap().store_writer("the writer").unwrap();
        let lock = Lock::take(&path).unwrap();
        assert_eq!((lock.found(), lock.found_writer()), (None, Some("the writer")));
        lock.note("a note").unwrap();
        drop(lock);
        let lock = Lock::take(&path).unwrap();
        assert_eq!((lock.found(), lock.found_writer()), (Some("a note"), Some("the writer")));
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
