//! The identity of the file at a path: a restore, a mount or a rename can put another file there.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::store::StoreError;

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

/// A reader that stays open, since opening one parses the whole schema: until it fails, or another file is at its path.
#[derive(Debug)]
pub struct KeptReader<R>(Option<(R, FileId)>);

impl<R> Default for KeptReader<R> {
    fn default() -> KeptReader<R> {
        KeptReader(None)
    }
}

impl<R> KeptReader<R> {
    /// Reads with it, and opens it before if it has to.
    pub fn read<T>(
        &mut self,
        path: &Path,
        open: impl FnOnce(&Path) -> Result<R, StoreError>,
        read: impl Fn(&mut R) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let file = FileId::of(path);
        if let Some((mut reader, known)) = self.0.take()
            && Some(known) == file
            && let Ok(found) = read(&mut reader)
        {
            self.0 = Some((reader, known));
            return Ok(found);
        }
        let mut reader = open(path)?;
        let found = read(&mut reader)?;
        self.0 = file.map(|file| (reader, file));
        Ok(found)
    }
}
