//! What a file is known by: whether it is the mirror that was written here last, or a copy of it (a restored backup, `cp`, a
//! replica), and whether the WAL beside it is its own.
//!
//! The lock file names the last writer: the file it wrote, the WAL of that file, the random nonce of its last run and the
//! number of its last request for edits. The file itself says the same.
//! - *The file* is known by its inode: another one is a copy. A mirror is renamed, or moved within its file system, together
//!   with its lock file; without one, nothing shows that contents are the last ones.
//! - *Its contents* are known by the nonce, which every opening and every run renews: first in the file, durably, with the
//!   nonce before it, then in the lock file. A kill or a power failure between the two leaves the one before. Older contents
//!   that were written over the file have another nonce, or lack requests: only the program that sends them raises their
//!   number. The writer looks when it opens the file, when a run begins, and whenever another program has committed.
//! - *A WAL* belongs to the file that its writer had. The WAL of the lock file beside another file than that of the lock file
//!   is the former file's: nobody reads it, and the next writer renames it. A folder that was copied as a whole has another WAL.
//!
//! What looks the same in every respect, such as a machine that was set back to a snapshot as a whole or contents of a moment
//! ago in the same run, cannot be told from the original; nor can what was written over a killed writer's file beside its WAL.

use std::fs;
use std::path::Path;

use rustix::process::{FlockType, fcntl_getlk};
use uuid::Uuid;

use super::lock::LockedBy;
use super::{remove_if_there, with_suffix};
use crate::model::{HELD_COMMANDS, Instant};
use crate::regular_file;
use crate::store::{FileId, Lock, MirrorTx, Result, StateKey, StoreError, hold_in_a_copy, wal};

fn is_copy(last: &LockedBy, locked: Option<&LockedBy>, here: &FileId) -> bool {
    let Some(locked) = locked.filter(|locked| last.file.is(here) && locked.file.is(here)) else { return true };
    ![&last.nonce, &last.before].contains(&&locked.nonce) || locked.nonce.is_empty() || locked.requests > last.requests
}

impl LockedBy {
    fn renewed(self) -> LockedBy {
        LockedBy { nonce: random_id(), before: self.nonce, closed: false, ..self }
    }

    /// Whether the WAL at the path is that of this writer, and the file is not.
    pub(super) fn left_its_log(&self, path: &Path) -> bool {
        let is = |known: &FileId, path: &Path| FileId::of(path).map(|found| known.is(&found));
        is(&self.log, &wal::beside(path)) == Some(true) && is(&self.file, path) == Some(false)
    }

    /// Leaves no WAL and no index to a file that they do not belong to, not even empty ones: a program that has the former
    /// file open goes on with them. Its database may have another name now, and is complete with that WAL.
    pub(super) fn set_log_aside(&self, path: &Path) -> Result<()> {
        if !self.left_its_log(path) {
            return Ok(());
        }
        let [log, index] = wal::files_beside(path);
        let io = StoreError::using(&log);
        let new = regular_file::open(path).map_err(&io)?;
        // SQLite keeps a lock on a database with a WAL; this process reads it without one, as long as that is not its own.
        if fcntl_getlk(&new, &FlockType::WriteLock.into()).is_ok_and(|lock| lock.is_some()) {
            return Err(io(std::io::Error::other(
                "another program has it open with a file that it does not belong to",
            )));
        }
        // First, since all this is repeated while the WAL is there.
        remove_if_there(&index).map_err(&io)?;
        let (mut left, mut others) = (with_suffix(&log, ".left"), 1);
        while left.symlink_metadata().is_ok() {
            others += 1;
            left = with_suffix(&log, &format!(".left{others}"));
        }
        fs::rename(&log, left).map_err(io)
    }
}

impl MirrorTx<'_> {
    /// Numbers a request for edits, in the transaction that stores it.
    pub fn number_request(&self) -> Result<u64> {
        let mut last: LockedBy = self.state(&StateKey::LastWriter)?.unwrap_or_default();
        last.requests += 1;
        self.set_state(&StateKey::LastWriter, &last)?;
        Ok(last.requests)
    }

    /// What the file says, unless other contents than the last ones were written over it.
    pub(in crate::store) fn expect_last(&self, known: &LockedBy) -> Result<LockedBy> {
        let last = self.state(&StateKey::LastWriter)?.filter(|last| !is_copy(last, Some(known), &known.file));
        last.ok_or_else(|| StoreError::Replaced { path: self.conn.path().unwrap_or_default().into() })
    }

    /// In the transaction that begins a run.
    pub(in crate::store) fn renew_nonce(&self, known: &LockedBy) -> Result<LockedBy> {
        let requests = self.expect_last(known)?.requests;
        let next = LockedBy { requests, ..known.clone() }.renewed();
        self.set_state(&StateKey::LastWriter, &next)?;
        Ok(next)
    }

    /// A copy becomes a mirror of its own: it gets a new id, and its open edits are held with their requests.
    pub(in crate::store) fn take_over(&self, lock: &Lock, path: &Path, now: Instant) -> Result<LockedBy> {
        let here = FileId::of(path).ok_or_else(|| StoreError::Missing { path: path.into() })?;
        let last: Option<LockedBy> = self.state(&StateKey::LastWriter)?;
        let locked = lock.writer();
        let id: Option<String> = self.state(&StateKey::MirrorId)?;
        // A new file has no id yet. In another one, somebody deleted the entry.
        let copied = last.as_ref().map_or(id.is_some(), |last| is_copy(last, locked.as_ref(), &here));
        // A machine that stopped may have lost the last changes, whose numbers are given again.
        let is_cut = locked.as_ref().is_some_and(|locked| !locked.closed && !locked.file.is_of_boot(&here));
        if copied || is_cut || id.is_none_or(|id| id.is_empty()) {
            self.renew_mirror_id()?;
        }
        if copied {
            let held = hold_in_a_copy(&self.conn, now)?;
            tracing::warn!(
                held,
                "This file is a copy of a mirror, or was restored: it is a mirror of its own from now on, with a new id. \
                 Edits held, because the original may have sent them: {held}; {HELD_COMMANDS}"
            );
        } else if is_cut {
            tracing::warn!(
                "The machine stopped while the mirror was written: it has a new id, and followers start again"
            );
        }
        let requests = last.as_ref().map_or(0, |last| last.requests);
        let is_new = last.is_none() && !copied;
        let known = locked.filter(|_| !copied).or(last).unwrap_or_default();
        let log = FileId::of(&wal::beside(path)).unwrap_or_default();
        let current = LockedBy { requests, file: here, log, ..known }.renewed();
        if is_new {
            // A file that is killed while it is made is no copy: its lock file comes first.
            lock.store_writer(current.clone())?;
        }
        self.set_state(&StateKey::LastWriter, &current)?;
        Ok(current)
    }

    /// The id is random. Cursors of the feed begin with it, so that a follower of one mirror never continues on another. A
    /// mirror whose id is lost gets a new one, and its followers start again.
    pub fn renew_mirror_id(&self) -> Result<()> {
        self.set_state(&StateKey::MirrorId, &random_id())
    }
}

fn random_id() -> String {
    Uuid::new_v4().simple().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(inode: u64, born: &str, volume: u64, boot: u32) -> FileId {
        FileId { inode, born: Some(born.into()), volume: Some(volume), boot: Some(boot) }
    }

    #[test]
    fn copy_is_another_file_or_has_older_contents() {
        let here = file(7, "1", 3, 5000);
        let unknown = FileId { born: None, volume: None, ..here.clone() };
        let locked = |nonce: &str, requests, file: &FileId| LockedBy {
            nonce: nonce.into(),
            requests,
            file: file.clone(),
            ..LockedBy::default()
        };
        for (name, locked, found, requests, expected) in [
            ("the original", Some(locked("n2", 5, &here)), here.clone(), 5, false),
            ("a kill before the lock file has the request", Some(locked("n2", 5, &here)), here.clone(), 6, false),
            ("a kill before the lock file was written", Some(locked("n1", 5, &here)), here.clone(), 5, false),
            ("no lock file", None, here.clone(), 5, true),
            ("renamed over another mirror", Some(locked("x", 9, &file(8, "1", 3, 5000))), here.clone(), 5, true),
            ("an id of the device, after a boot", Some(locked("n2", 5, &here)), file(7, "1", 4, 9000), 5, false),
            ("what another version did not know", Some(locked("n2", 5, &here)), unknown, 5, false),
            ("another file", Some(locked("n2", 5, &file(8, "1", 3, 5000))), file(8, "1", 3, 5000), 5, true),
            ("a number that was used again", Some(locked("n2", 5, &here)), file(7, "2", 3, 5000), 5, true),
            ("another file system", Some(locked("n2", 5, &here)), file(7, "1", 4, 5000), 5, true),
            ("contents of an earlier writer", Some(locked("n3", 5, &here)), here.clone(), 5, true),
            ("contents from before a request", Some(locked("n2", 6, &here)), here.clone(), 5, true),
        ] {
            let (nonce, before, file) = ("n2".into(), "n1".into(), here.clone());
            let last = LockedBy { nonce, before, file, requests, ..LockedBy::default() };
            assert_eq!(is_copy(&last, locked.as_ref(), &found), expected, "{name}");
        }
    }

    fn writer(path: &Path) -> LockedBy {
        let [file, log] = [path, &wal::beside(path)].map(|path| FileId::of(path).unwrap());
        LockedBy { file, log, ..LockedBy::default() }
    }

    #[test]
    fn wal_stays_with_its_file_and_a_copy_of_the_folder_keeps_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let [path, other, away] = ["mirror.db", "other.db", "away.db"].map(|name| dir.path().join(name));
        let [log, index] = wal::files_beside(&path);
        let left = with_suffix(&log, ".left");
        [&path, &log, &index, &other].iter().for_each(|file| fs::write(file, "pages").unwrap());
        let there = || [&log, &index, &left].map(|file| file.exists());
        let last = writer(&path);
        let copied = dir.path().join("folder");
        fs::create_dir(&copied).unwrap();
        let copy = copied.join("mirror.db");
        for [from, to] in [[&path, &copy], [&log, &wal::beside(&copy)]] {
            fs::copy(from, to).unwrap();
        }
        last.set_log_aside(&copy).unwrap();
        assert!(wal::beside(&copy).exists());
        last.set_log_aside(&path).unwrap();
        assert_eq!(there(), [true, true, false], "it is still there");
        fs::rename(&path, &away).unwrap();
        last.set_log_aside(&path).unwrap();
        assert_eq!(there(), [true, true, false], "it may come back");
        fs::rename(&other, &path).unwrap();
        last.set_log_aside(&path).unwrap();
        assert_eq!(there(), [false, false, true], "what a reader kept in it is not lost");
        fs::write(&log, "of the other file").unwrap();
        last.set_log_aside(&path).unwrap();
        assert_eq!(there(), [true, false, true]);
    }

    /// Whatever the moment of a kill or of a power failure, the last contents are known, and those before a run are not.
    #[test]
    fn run_renews_the_nonce_in_the_file_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mirror.db");
        fs::write(&path, "").unwrap();
        fs::write(wal::beside(&path), "").unwrap();
        let here = FileId::of(&path).unwrap();
        let runs: Vec<LockedBy> =
            std::iter::successors(Some(writer(&path).renewed()), |last| Some(last.clone().renewed())).take(4).collect();
        for (contents, last) in runs.iter().enumerate() {
            for (noted, locked) in runs.iter().enumerate() {
                let is_last = contents == noted || contents == noted + 1;
                assert_eq!(is_copy(last, Some(locked), &here), !is_last, "{contents} {noted}");
            }
        }
    }
}
