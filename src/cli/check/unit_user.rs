//! The user of the unit that reads the configuration.
//!
//! A process of that user asks the system whether access is allowed, because modes alone do not include access control
//! lists and parent directories.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::app::ids_of;
use crate::config::ServiceUnit;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnitUser {
    pub unit: ServiceUnit,
    /// The ids of the user and its group; `None` if there is no such user.
    ids: Option<(u32, u32)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileAccess {
    Read,
    /// Write it; for a directory: create files in it.
    Write,
}

impl UnitUser {
    pub(super) fn of(unit: ServiceUnit) -> UnitUser {
        let ids = ids_of(&unit.user);
        UnitUser { unit, ids }
    }

    pub(super) fn exists(&self) -> bool {
        self.ids.is_some()
    }

    /// Whether the user has the access; `None` if that cannot be determined.
    pub(super) fn may(&self, access: FileAccess, path: &Path) -> Option<bool> {
        let (user, group) = self.ids?;
        let flag = match access {
            FileAccess::Read => "-r",
            FileAccess::Write => "-w",
        };
        // The process keeps none of the groups of the current user.
        let mut command = Command::new("/usr/bin/test");
        command.arg(flag).arg(path).uid(user).gid(group).stdin(Stdio::null()).stderr(Stdio::null());
        command.status().ok().map(|status| status.success())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown};

    #[test]
    fn access_of_a_user_is_determined_by_the_system() {
        let dir = tempfile::tempdir().unwrap();
        let directory = dir.path().join("state");
        std::fs::create_dir(&directory).unwrap();
        // Only root can change the owner of a directory.
        if chown(&directory, Some(65_534), Some(65_534)).is_err() {
            return;
        }
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let unit = ServiceUnit {
            name: "u".into(),
            user: "nobody".into(),
            credential: None,
            state_directory: None,
            runtime_directory: None,
        };
        let user = UnitUser { unit, ids: Some((65_534, 65_534)) };
        assert_eq!(user.may(FileAccess::Write, &directory), Some(true));
        assert_eq!(user.may(FileAccess::Write, dir.path()), Some(false));
        let key = dir.path().join("key");
        std::fs::write(&key, "k").unwrap();
        std::fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).unwrap();
        assert_eq!(user.may(FileAccess::Read, &key), Some(false));
        // A parent directory that the user cannot enter.
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o700)).unwrap();
        assert_eq!(user.may(FileAccess::Write, &directory), Some(false));
    }
}
