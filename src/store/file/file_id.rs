//! The identity of the file at a path: a restore, a mount or a rename can put another file there.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A file, independent of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// The file at a path; `None` if there is none or it is not accessible.
    pub fn of(path: &Path) -> Option<FileId> {
        let meta = std::fs::metadata(path).ok()?;
        Some(FileId { device: meta.dev(), inode: meta.ino() })
    }
}
