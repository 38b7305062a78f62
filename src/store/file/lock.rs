//! The lock beside a mirror: one process writes it at a time, and leaves a line for the next.

use std::fs::{File, TryLockError};
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::store::error::StoreError;

/// What is made here can be written by its owner and read by its group; SQLite gives the WAL and its index the same. A
/// stricter umask makes it less. No folder is ever made or changed: in one that readers may write to, they would leave
/// files that the writer cannot open.
pub(super) const MODE: u32 = 0o640;

/// The lock beside a mirror, held by the one process that writes it. It also carries a note of one line, which costs no
/// transaction: what must be known after a kill, and changes with every request.
#[derive(Debug)]
pub struct Lock {
    file: File,
    path: PathBuf,
    found: Option<String>,
}

/// The widths of the two lines of a lock: the process, and its note. Fixed, so that one small write replaces a line.
const PID_WIDTH: usize = 20;
const NOTE_WIDTH: usize = 200;

/// What root makes in a folder of another user becomes that user's: else the daemon could not write what a first `sync`
/// by root made before it. SQLite gives the WAL and its index the owner of the database file.
pub(super) fn give_to_the_folders_owner(file: &File, path: &Path) {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if let (Ok(own), Ok(folder)) = (file.metadata(), std::fs::metadata(folder))
        && own.uid() == 0
        && folder.uid() != 0
    {
        // Only root can; whoever else meets such a file cannot write it, and hears that when it is opened.
        let _ = std::os::unix::fs::fchown(file, Some(folder.uid()), Some(folder.gid()));
    }
}

impl Lock {
    pub(super) fn take(mirror: &Path) -> Result<Lock, StoreError> {
        let path = beside(mirror);
        let io = |source| StoreError::Io { path: path.clone(), source };
        let file =
            File::options().create(true).read(true).write(true).truncate(false).mode(MODE).open(&path).map_err(io)?;
        give_to_the_folders_owner(&file, &path);
        let (pid, found) = lines_of(&file);
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::Locked { path: mirror.to_path_buf(), pid: pid.parse().ok() });
            }
            Err(TryLockError::Error(source)) => return Err(io(source)),
        }
        let lock = Lock { file, path, found };
        lock.write_line(0, &std::process::id().to_string(), PID_WIDTH)?;
        Ok(lock)
    }

    /// The note that the last process left.
    pub fn found(&self) -> Option<&str> {
        self.found.as_deref()
    }

    /// Replaces the note. It outlives the process, not a power cut.
    ///
    /// # Errors
    /// If the system refuses, or the note is longer than 200 bytes.
    pub fn note(&self, note: &str) -> Result<(), StoreError> {
        self.write_line(PID_WIDTH as u64 + 1, note, NOTE_WIDTH)
    }

    fn write_line(&self, at: u64, text: &str, width: usize) -> Result<(), StoreError> {
        let io = |source| StoreError::Io { path: self.path.clone(), source };
        if text.len() > width {
            return Err(io(std::io::Error::other("the note is too long")));
        }
        self.file.write_all_at(format!("{text:<width$}\n").as_bytes(), at).map_err(io)
    }

    /// Lets the mirror go, whoever else still holds this.
    pub fn release(&self) {
        // Nothing to do about a failure: the lock goes with the process.
        let _ = self.file.unlock();
    }
}

/// The lock of a mirror: beside the file itself, so that a path through a symlink has the same one.
fn beside(mirror: &Path) -> PathBuf {
    let file = std::fs::canonicalize(mirror).or_else(|_| {
        // Not made yet, and a link that leads nowhere is made where it leads.
        let target = std::fs::read_link(mirror).map_or_else(
            |_| mirror.to_path_buf(),
            |to| match mirror.parent() {
                Some(folder) => folder.join(to),
                None => to,
            },
        );
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let name = target.file_name().unwrap_or_default();
        std::fs::canonicalize(folder).map(|folder| folder.join(name))
    });
    let mut path = file.unwrap_or_else(|_| mirror.to_path_buf()).into_os_string();
    path.push(".lock");
    path.into()
}

/// The process and the note that stand in a lock. Whatever cannot be read is neither.
fn lines_of(mut file: &File) -> (String, Option<String>) {
    let mut text = String::new();
    let _ = file.read_to_string(&mut text);
    let mut lines = text.lines().map(str::trim).map(String::from);
    (lines.next().unwrap_or_default(), lines.next().filter(|note| !note.is_empty()))
}

/// The note beside a mirror, for whoever only reads.
pub fn note_beside(mirror: &Path) -> Option<String> {
    lines_of(&File::open(beside(mirror)).ok()?).1
}

/// Who writes a mirror at the moment, without getting in anybody's way: `None` for nobody, else the process as far as it
/// said.
pub fn who_writes(mirror: &Path) -> Option<Option<u32>> {
    let file = File::open(beside(mirror)).ok()?;
    let (pid, _) = lines_of(&file);
    // Shared, and for an instant only: a writer that begins just now is the only one that could meet it.
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Some(pid.parse().ok()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symlink_is_the_same_mirror() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("mirror.db"), dir.path().join("link.db"));
        std::os::unix::fs::symlink("mirror.db", &link).unwrap();
        // Before the file is there, and after.
        for _ in 0..2 {
            let lock = Lock::take(&link).unwrap();
            assert!(matches!(Lock::take(&path), Err(StoreError::Locked { .. })));
            assert_eq!(who_writes(&path), Some(Some(std::process::id())));
            drop(lock);
            std::fs::write(&path, "").unwrap();
        }
        assert!(!dir.path().join("link.db.lock").exists());
    }
}
