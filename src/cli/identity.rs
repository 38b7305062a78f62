//! Root among other users: whose identity a process of root takes.
//!
//! The folder of a mirror usually belongs to the service's user, who can put anything into it: links to files of root,
//! FIFOs, files of others. So a process of root takes that user's identity before it opens anything there, and the
//! system decides what it may touch. What it creates belongs to that user, as the daemon's own files do.
//!
//! # Invariants
//! - The identity is that of the first user other than root who can change where a path leads. Nobody but root can have
//!   changed what stands before that on the path, so there is no race.
//! - A process never returns to root. Only `status --all`, whose mirrors may have several owners, reads each in a thread of
//!   its own.

use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use crate::app::ids_of;
use crate::cli::Failure;
use crate::exit::Exit;

/// As many links on a path as the system follows.
const MAX_LINKS: usize = 40;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Owner {
    user: u32,
    pub(in crate::cli) group: u32,
}

/// Who this process must be to open a file and what lies beside it; `None` to stay who it is.
pub(in crate::cli) fn needed_for(path: &Path) -> Option<Owner> {
    if geteuid().is_root() { first_owner(path) } else { None }
}

/// Makes the calling thread, and every thread that it starts from now on, act as the owner of a path. At the beginning of
/// a verb there is no other thread.
pub(in crate::cli) fn take(path: &Path) -> Result<(), Failure> {
    needed_for(path).map_or(Ok(()), |owner| owner.take(path))
}

pub(in crate::cli) fn acting_as_owner<T: Send>(
    path: &Path,
    work: impl FnOnce() -> Result<T, Failure> + Send,
) -> Result<T, Failure> {
    let Some(owner) = needed_for(path) else { return work() };
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            owner.take(path)?;
            work()
        });
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

impl Owner {
    /// The user that a unit names; `None` for root, and where this process is not root.
    pub(in crate::cli) fn named(user: &str) -> Option<Owner> {
        let (user, group) = ids_of(user).filter(|(user, _)| *user != 0 && geteuid().is_root())?;
        Some(Owner { user, group })
    }

    fn of(meta: &Metadata) -> Owner {
        Owner { user: meta.uid(), group: meta.gid() }
    }

    pub(in crate::cli) fn take(self, path: &Path) -> Result<(), Failure> {
        let (user, group) = (Uid::from_raw(self.user), Gid::from_raw(self.group));
        // The user's own group too: a folder of views, for example, may be readable for it only.
        let own = ids_of(&self.user.to_string()).map(|(_, own)| Gid::from_raw(own));
        let groups: Vec<Gid> = std::iter::once(group).chain(own).collect();
        let taken = set_thread_groups(&groups)
            .and_then(|()| set_thread_res_gid(group, group, group))
            // Last: it also ends the privilege to change groups, and every other one.
            .and_then(|()| set_thread_res_uid(user, user, user));
        taken.map_err(|error| {
            let (user, path, error) = (self.user, path.display(), io::Error::from(error));
            let message = format!("could not take the identity of user {user}, who owns the folder of {path}: {error}");
            Failure::new(Exit::Storage, message).hint("run the command as that user")
        })
    }
}

/// The first user other than root, from `/` on, who owns a directory or a link on the way to a file, or the file itself
/// in a folder that others can write.
fn first_owner(path: &Path) -> Option<Owner> {
    let path = std::path::absolute(path).ok()?;
    let mut ahead: Vec<OsString> = parts(&path);
    let (mut here, mut links) = (PathBuf::from("/"), 0);
    let mut is_shared = false;
    while let Some(part) = ahead.pop() {
        if part == ".." {
            here.pop();
            continue;
        }
        let next = here.join(&part);
        // What does not exist yet is created by root, where only root can create anything.
        let meta = std::fs::symlink_metadata(&next).ok()?;
        if meta.is_symlink() {
            if meta.uid() != 0 {
                return Some(Owner::of(&meta));
            }
            links += 1;
            if links > MAX_LINKS {
                return None;
            }
            let target = std::fs::read_link(&next).ok()?;
            if target.is_absolute() {
                here = PathBuf::from("/");
            }
            ahead.extend(parts(&target));
            continue;
        }
        if meta.uid() != 0 && (meta.is_dir() || is_shared) {
            return Some(Owner::of(&meta));
        }
        is_shared = meta.mode() & 0o022 != 0;
        here = next;
    }
    None
}

/// The parts of a path, the last one first.
fn parts(path: &Path) -> Vec<OsString> {
    let parts = path.components().rev().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    parts.map(|part| part.as_os_str().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{chown, lchown, symlink};

    #[test]
    fn identity_is_that_of_the_first_user_who_can_change_where_a_path_leads() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["root", "ada", "bert"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        let owner = |user| Some(Owner { user, group: user });
        // Only root can change owners; nobody else needs an identity.
        if chown(at("ada"), Some(4242), Some(4242)).and_then(|()| chown(at("bert"), Some(4343), Some(4343))).is_err() {
            return;
        }
        assert_eq!(first_owner(&at("ada/mirror.db")), owner(4242));
        assert_eq!(first_owner(&at("root/mirror.db")), None);
        // A link of root into the folder of a user, and on into that of another one.
        symlink(at("ada/mirror.db"), at("root/linked.db")).unwrap();
        symlink("../bert/mirror.db", at("ada/mirror.db")).unwrap();
        assert_eq!(first_owner(&at("root/linked.db")), owner(4242));
        symlink("../bert", at("root/way")).unwrap();
        assert_eq!(first_owner(&at("root/way/mirror.db")), owner(4343));
        // A link of a user in a folder of root.
        symlink(at("root/mirror.db"), at("root/planted.db")).unwrap();
        lchown(at("root/planted.db"), Some(4242), Some(4242)).unwrap();
        assert_eq!(first_owner(&at("root/planted.db")), owner(4242));
        // A file that was given away in a folder that only root can write is no danger.
        std::fs::write(at("root/given.db"), "").unwrap();
        chown(at("root/given.db"), Some(4242), Some(4242)).unwrap();
        assert_eq!(first_owner(&at("root/given.db")), None);
        symlink("loop", at("root/loop")).unwrap();
        assert_eq!(first_owner(&at("root/loop/mirror.db")), None);
    }
}
