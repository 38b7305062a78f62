//! The write-ahead log beside the mirror, and how it is kept short while others read.
//!
//! After a commit that leaves 16 MiB or more in the WAL, SQLite copies it into the file and begins it anew, but only if
//! nobody reads from it at that moment. Two kinds of readers stand in the way:
//! - Short ones that overlap, so that there is never a moment without one. Each time the WAL has grown by another
//!   `STEP`, and at the end of every run, the writer waits a little for those that are there. Readers that come
//!   meanwhile find everything in the file, need no WAL, and wait for nobody.
//! - One that keeps its transaction open. It must go on seeing what it saw, so everything that is written after it began
//!   has to stay in the WAL: SQLite knows no other way. The writer goes on all the same, `status` says that the WAL is
//!   large, and the first commits and the end of the first run after that reader has gone make it short again.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;

use crate::store::error::{Doing, StoreError};

/// Growth after which the writer tries to empty the WAL. Also the size that SQLite cuts a WAL to that it begins anew.
pub(in crate::store) const STEP: u64 = 64 * 1024 * 1024;

/// How long the writer waits for readers when it empties the WAL.
const PATIENCE: Duration = Duration::from_millis(250);

/// How long it waits for whatever else may hold the file.
pub(in crate::store) const BUSY: Duration = Duration::from_secs(10);

/// A WAL up to this size is nobody's business. Without readers it stays below `STEP`, but for one transaction: the
/// end of a first copy, which builds the indexes.
const UNREMARKABLE: u64 = 256 * 1024 * 1024;

/// Whether a WAL is so large that somebody must be reading for very long. The one large transaction that a mirror ever
/// sees grows with the file, so a file's size counts too.
pub fn is_large(file: u64, wal: u64) -> bool {
    wal > UNREMARKABLE.max(file / 2)
}

/// The WAL of a mirror.
pub fn beside(mirror: &Path) -> PathBuf {
    let mut path = mirror.as_os_str().to_owned();
    path.push("-wal");
    path.into()
}

/// Copies the WAL into the file and leaves it empty. Says whether that was possible; where it was not, as much as readers
/// allow is copied, and nothing is lost.
///
/// # Errors
/// If SQLite refuses; the mirror is whole all the same.
pub(in crate::store) fn empty(conn: &Connection) -> Result<bool, StoreError> {
    let doing = "empty the WAL";
    conn.busy_timeout(PATIENCE).doing(doing)?;
    let blocked: Result<bool, _> = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
    conn.busy_timeout(BUSY).doing(doing)?;
    Ok(!blocked.doing(doing)?)
}

/// Watches the WAL's size from commit to commit.
#[derive(Debug)]
pub(in crate::store) struct Keeper {
    path: PathBuf,
    /// The size from which emptying is worth a try.
    next: u64,
}

impl Keeper {
    pub(in crate::store) fn of(mirror: &Path) -> Keeper {
        Keeper { path: beside(mirror), next: STEP }
    }

    /// Empties the WAL if it has grown enough since that was last tried. A failure is no reason to stop: the next commit
    /// meets it too, if it lasts.
    pub(in crate::store) fn after_commit(&mut self, conn: &Connection) {
        let bytes = std::fs::metadata(&self.path).map_or(0, |meta| meta.len());
        if bytes <= STEP {
            self.next = STEP;
        }
        if bytes <= self.next {
            return;
        }
        let emptied = empty(conn);
        self.next = if let Ok(true) = emptied { STEP } else { bytes + STEP };
        match emptied {
            Ok(true) => {}
            Ok(false) => tracing::info!(
                wal.bytes = bytes,
                "The WAL of {bytes} bytes cannot be emptied yet: somebody has been reading the mirror for long"
            ),
            Err(error) => tracing::warn!(%error, "The WAL could not be emptied: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wal_is_large_beyond_what_any_run_needs() {
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
