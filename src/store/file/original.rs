//! Whether a file is the mirror that was written here last, or a copy of it: a restored backup, `cp`, a replica.
//!
//! The file names its last writer by a random nonce, and the file that it was. The lock file has the same, and both have
//! the number of the last request that was sent for edits. A copy is another file; a file whose contents were replaced by
//! older ones has another nonce, or lacks requests: only the program that sends them raises their number. Without the lock
//! file nothing shows that the contents are the last ones, so such a file counts as a copy: a mirror is renamed, or moved
//! within its file system, together with its lock file.
//!
//! What looks the same in every respect, such as a machine that was set back to a snapshot as a whole, cannot be told
//! from the original.

use std::path::Path;

use uuid::Uuid;

use super::lock::{FileIdentity, LockedBy};
use crate::model::{HELD_COMMANDS, Instant};
use crate::store::{Lock, MirrorTx, Requests, Result, StateKey, hold_open_edits};

pub(super) const IN_A_COPY: &str = "held in a copy of the mirror: the original may have sent it, or may still do so";

fn is_copy(last: &LockedBy, locked: Option<&LockedBy>, here: &FileIdentity) -> bool {
    let Some(locked) = locked.filter(|locked| last.file.is(here) && locked.file.is(here)) else { return true };
    ![&last.nonce, &last.before].contains(&&locked.nonce) || locked.nonce.is_empty() || locked.requests > last.requests
}

impl LockedBy {
    /// Notes a request, unless a later one was noted.
    pub(in crate::store) fn note_request(&mut self, lock: &Lock, number: u64) -> Result<()> {
        if number > self.requests {
            let next = LockedBy { requests: number, ..self.clone() };
            lock.store_writer(&next)?;
            *self = next;
        }
        Ok(())
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

    /// A copy becomes a mirror of its own: it gets a new id, and its open edits are held with their requests.
    pub(in crate::store) fn take_over(&self, lock: &Lock, path: &Path, now: Instant) -> Result<LockedBy> {
        let here = FileIdentity::of(path)?;
        let last: Option<LockedBy> = self.state(&StateKey::LastWriter)?;
        let locked = lock.found_writer();
        let copied = match &last {
            Some(last) => is_copy(last, locked, &here),
            // A new file has no id yet. In another one, somebody deleted the entry.
            None => self.state::<String>(&StateKey::MirrorId)?.is_some(),
        };
        // A machine that stopped may have lost the last changes, whose numbers are given again.
        let is_cut = locked.is_some_and(|locked| !locked.closed && !locked.file.is_of_boot(&here));
        if copied || is_cut {
            self.renew_mirror_id()?;
        }
        if copied {
            let held = hold_open_edits(&self.conn, Requests::Keep, IN_A_COPY, now)?;
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
        // The lock file follows the file. If this process is killed before it does, it still has the nonce that it has now.
        let known = locked.filter(|_| !copied).or(last.as_ref());
        let before = known.map(|known| known.nonce.clone()).unwrap_or_default();
        let current = LockedBy { nonce: random_id(), before, requests, file: here, closed: false };
        if is_new {
            // A file that is killed while it is made is no copy: its lock file comes first.
            lock.store_writer(&current)?;
        }
        self.set_state(&StateKey::LastWriter, &current)?;
        Ok(current)
    }

    /// The id is random and created once. Cursors of the feed begin with it, so that a follower of one mirror never
    /// continues on another. A mirror whose id is lost gets a new one, and its followers start again.
    pub(in crate::store) fn name_mirror(&self) -> Result<()> {
        if self.state::<String>(&StateKey::MirrorId)?.is_some_and(|id| !id.is_empty()) {
            return Ok(());
        }
        self.renew_mirror_id()
    }

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

    fn file(inode: u64, born: &str, device: u64, booted: u64) -> FileIdentity {
        FileIdentity { inode, born: Some(born.into()), device, booted, boot: None }
    }

    #[test]
    fn copy_is_another_file_or_has_older_contents() {
        let here = file(7, "1", 3, 5000);
        let locked = |nonce: &str, requests, file: &FileIdentity| LockedBy {
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
            ("another boot numbers its devices anew", Some(locked("n2", 5, &here)), file(7, "1", 4, 9000), 5, false),
            ("another file", Some(locked("n2", 5, &file(8, "1", 3, 5000))), file(8, "1", 3, 5000), 5, true),
            ("a number that was used again", Some(locked("n2", 5, &here)), file(7, "2", 3, 5000), 5, true),
            ("another device", Some(locked("n2", 5, &here)), file(7, "1", 4, 5000), 5, true),
            ("contents of an earlier writer", Some(locked("n3", 5, &here)), here.clone(), 5, true),
            ("contents from before a request", Some(locked("n2", 6, &here)), here.clone(), 5, true),
        ] {
            let (nonce, before, file) = ("n2".into(), "n1".into(), here.clone());
            let last = LockedBy { nonce, before, file, requests, closed: false };
            assert_eq!(is_copy(&last, locked.as_ref(), &found), expected, "{name}");
        }
    }
}
