//! Which file a mirror is, and which one its lock file says that a process writes.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::lock;
use crate::store::{Result, StoreError};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct FileIdentity {
    pub(super) inode: u64,
    /// When it was created, if the file system keeps that: numbers of deleted files are used again.
    pub(super) born: Option<String>,
    pub(super) device: u64,
    /// When the machine was booted, in seconds: numbers of devices are those of one boot.
    pub(super) booted: u64,
}

impl FileIdentity {
    pub(super) fn of(path: &Path) -> Result<FileIdentity> {
        let meta = std::fs::metadata(path).map_err(StoreError::using(path))?;
        let born = meta.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        Ok(FileIdentity {
            inode: meta.ino(),
            born: born.map(|at| at.as_nanos().to_string()),
            device: meta.dev(),
            booted: booted(),
        })
    }

    pub(super) fn is(&self, other: &FileIdentity) -> bool {
        let is_one_boot = self.booted.abs_diff(other.booted) < SAME_BOOT;
        self.inode == other.inode && self.born == other.born && (self.device == other.device || !is_one_boot)
    }
}

/// By how many seconds the time of one boot may seem to change: the wall clock is corrected meanwhile.
const SAME_BOOT: u64 = 600;

fn booted() -> u64 {
    let up = rustix::time::clock_gettime(rustix::time::ClockId::Boottime).tv_sec;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    now.saturating_sub(u64::try_from(up).unwrap_or_default())
}

/// The writer of a mirror, in its lock file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(in crate::store) struct LockedBy {
    pub(super) nonce: String,
    pub(super) requests: u64,
    pub(super) file: FileIdentity,
}

/// Whether a process writes the mirror of this path, and has another file open: it would share its WAL with this one.
pub(super) fn is_written_elsewhere(path: &Path) -> bool {
    let writer = lock::current_writer(path).and_then(|_| lock::writer_beside(path));
    let locked = writer.and_then(|text| serde_json::from_str::<LockedBy>(&text).ok());
    locked.is_some_and(|locked| FileIdentity::of(path).is_ok_and(|here| !locked.file.is(&here)))
}
