//! The write-ahead log of the mirror, and how it is kept short while other processes read.
//!
//! After a commit that leaves 16 MiB or more in the WAL, SQLite checkpoints it and starts again at its beginning, but
//! only if no process reads from it at that time. Two kinds of readers prevent that:
//! - Short, overlapping ones. Each time the WAL has grown by another `STEP`, and at the end of every run, the writer waits
//!   a short time for the current ones. New readers find everything in the file, and do not wait.
//! - One that keeps its transaction open, and with it what is written after it began. The writer continues, `status` reports
//!   that the WAL is large, and the next commits and the end of a run after that reader make it short again.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;

use crate::error_chain::error_chain;
use crate::store::{Result, Statements};

/// The growth after which the writer tries to empty the WAL. SQLite truncates a WAL to this size when it restarts it.
pub(in crate::store) const STEP: u64 = 64 * 1024 * 1024;

const CHECKPOINT_WAIT: Duration = Duration::from_millis(250);

/// How long it waits for other locks on the file: longer than a statement that edits a hundred thousand records takes.
pub(in crate::store) const BUSY: Duration = Duration::from_secs(30);

/// A WAL up to this size is normal. Without readers it stays below `STEP`, except for the transaction at the end of a
/// first copy, which builds the indexes.
const UNREMARKABLE: u64 = 256 * 1024 * 1024;

/// Whether a WAL is so large that a process must have been reading for very long. The size of the largest transaction
/// grows with the file, so the file's size counts too.
pub fn is_large(file: u64, wal: u64) -> bool {
    wal > UNREMARKABLE.max(file / 2)
}

pub fn beside(mirror: &Path) -> PathBuf {
    super::beside(mirror, "-wal")
}

pub fn files_beside(mirror: &Path) -> [PathBuf; 2] {
    ["-wal", "-shm"].map(|suffix| super::beside(mirror, suffix))
}

/// Returns whether that was possible; if not, as much as readers allow is copied, and nothing is lost.
pub(in crate::store) fn empty(conn: &Connection) -> Result<bool> {
    // The pragma would read the schema first, which takes far longer than to see that there is nothing to do.
    if conn.path().and_then(|path| beside(Path::new(path)).metadata().ok()).is_some_and(|meta| meta.len() == 0) {
        return Ok(true);
    }
    let busy: u32 = conn.value("PRAGMA busy_timeout", [])?;
    conn.busy_timeout(CHECKPOINT_WAIT)?;
    let blocked = conn.value::<bool>("PRAGMA wal_checkpoint(TRUNCATE)", []);
    conn.busy_timeout(Duration::from_millis(busy.into()))?;
    Ok(!blocked?)
}

#[derive(Debug)]
pub(in crate::store) struct Keeper {
    path: PathBuf,
    /// The size from which the next attempt to empty the WAL is made.
    next: u64,
}

impl Keeper {
    pub(in crate::store) fn of(mirror: &Path) -> Keeper {
        Keeper { path: beside(mirror), next: STEP }
    }

    /// A failure is not fatal: a lasting one also affects the next commit.
    pub(in crate::store) fn after_commit(&mut self, conn: &Connection) {
        let bytes = std::fs::metadata(&self.path).map_or(0, |meta| meta.len());
        if bytes <= STEP {
            self.next = STEP;
        }
        if bytes <= self.next {
            return;
        }
        self.next = bytes + STEP;
        match empty(conn) {
            Ok(true) => self.next = STEP,
            Ok(false) => tracing::info!(
                wal.bytes = bytes,
                "The WAL of {bytes} bytes cannot be emptied yet: a process has been reading the mirror for long"
            ),
            Err(error) => tracing::warn!("The WAL could not be emptied: {}", error_chain(&error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wal_is_large_beyond_the_needs_of_any_run() {
        const MIB: u64 = 1024 * 1024;
        for (file, wal, large) in [
            (0, 0, false),
            (MIB, 256 * MIB, false),
            (MIB, 256 * MIB + 1, true),
            (4096 * MIB, 2048 * MIB, false),
            (4096 * MIB, 2048 * MIB + 1, true),
        ] {
            assert_eq!(is_large(file, wal), large, "{file} {wal}");
        }
    }
}
