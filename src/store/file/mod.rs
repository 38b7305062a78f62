//! The file itself: opening it, the lock beside it, its schema version, its write-ahead log, and copies of it.

pub mod backup;
pub mod lock;
pub mod migrate;
pub mod open;
pub(super) mod original;
pub mod wal;

use std::path::{Path, PathBuf};

/// The file next to another one whose name has this suffix more.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
