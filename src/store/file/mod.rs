//! The file itself: opening it, the lock beside it, its schema version, its write-ahead log, and copies of it.

pub mod backup;
pub mod lock;
pub mod migrate;
pub mod open;
pub(super) mod original;
pub mod wal;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What belongs to a mirror is beside the file itself, whatever links lead there, as SQLite's own files are.
pub fn beside(mirror: &Path, suffix: &str) -> PathBuf {
    let mut file = mirror.to_path_buf();
    // As many links as the system follows.
    for _ in 0..40 {
        let Ok(target) = fs::read_link(&file) else { break };
        file = folder_of(&file).join(target);
    }
    with_suffix(&file, suffix)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Removes a database with what SQLite keeps beside it, which it would lay over the next file of this name.
pub fn remove_database(path: &Path) -> io::Result<()> {
    remove_pages_beside(path)?;
    fs::remove_file(path)
}

fn remove_pages_beside(path: &Path) -> io::Result<()> {
    ["-wal", "-shm", "-journal"].into_iter().try_for_each(|suffix| remove_if_there(&with_suffix(path, suffix)))
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    fs::remove_file(path).or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
