//! Readers of the mirror: which users can read it, and who else can write it.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::finding::Finding;
use crate::app::{name_in, user_name};
use crate::store::wal;

pub(super) fn check(database: &Path) -> Vec<Finding> {
    let folder = folder_of(database);
    let mut lines = Vec::new();
    if let Ok(meta) = std::fs::metadata(&folder) {
        lines.push(folder_mode(&folder, meta.permissions().mode(), &group(meta.gid())));
    }
    if let Ok(meta) = std::fs::metadata(database) {
        lines.push(file_mode(meta.permissions().mode(), &user_name(meta.uid()), &group(meta.gid())));
    }
    lines.extend(wal_files(database));
    lines
}

/// The directory of a file, as an absolute path, because the output may be read elsewhere.
pub(super) fn folder_of(file: &Path) -> PathBuf {
    let parent = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    std::path::absolute(parent).unwrap_or_else(|_| parent.into())
}

fn folder_mode(folder: &Path, mode: u32, group: &str) -> Finding {
    let (name, mode) = ("readers.folder", mode & 0o7777);
    let who = match (mode & 0o002, mode & 0o020) {
        (0, 0) => {
            let who = match (mode & 0o005, mode & 0o050) {
                (0o005, _) => "every user can open it".into(),
                (_, 0o050) => format!("group {group} can open it"),
                _ => "only its owner can open it".into(),
            };
            return Finding::ok(name, format!("{}: {who} ({mode:04o})", folder.display()));
        }
        (0, _) => (format!("group {group}"), "g-w"),
        _ => ("everybody".into(), "go-w"),
    };
    let (who, mode_change) = who;
    Finding::warn(
        name,
        format!(
            "{who} can write to {} ({mode:04o}): a reader could create a -wal file there that crm-mirror cannot open",
            folder.display()
        ),
        format!("chmod {mode_change} {}", folder.display()),
    )
}

fn file_mode(mode: u32, owner: &str, group: &str) -> Finding {
    let (name, mode) = ("readers.file", mode & 0o777);
    if mode & 0o022 != 0 {
        let message = format!("users other than its owner {owner} can write the mirror ({mode:04o})");
        return Finding::warn(
            name,
            message,
            "run chmod go-w on it and on its -wal and -shm; readers need read access only",
        );
    }
    let who = match (mode & 0o004, mode & 0o040) {
        (0, 0) => format!("only {owner} can read it"),
        (0, _) => format!("{owner} and group {group} can read it"),
        _ => "every user can read it".into(),
    };
    Finding::ok(name, format!("{who} ({mode:04o})"))
}

/// SQLite's last connection removes the WAL and its index. Whoever can write the mirror creates them again.
fn wal_files(database: &Path) -> Option<Finding> {
    let missing = database.exists() && !wal::files_beside(database).iter().all(|file| file.exists());
    missing.then(|| {
        Finding::warn(
            "readers.wal",
            "another program removed the mirror's -wal and -shm: until they are there again, sqlite3 and other tools cannot \
             open it for users who cannot write it (the commands of crm-mirror can)",
            "`crm-mirror status` by the mirror's owner creates them",
        )
    })
}

fn group(id: u32) -> String {
    name_in("/etc/group", id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::check::finding::FindingState;

    #[test]
    fn directory_that_readers_can_write_is_a_warning() {
        for (mode, state, part) in [
            (0o40750, FindingState::Ok, "group crm can open it (0750)"),
            (0o40700, FindingState::Ok, "only its owner"),
            (0o40755, FindingState::Ok, "every user can open it"),
            (0o42770, FindingState::Warn, "group crm can write to d (2770)"),
            (0o41777, FindingState::Warn, "everybody can write"),
        ] {
            let line = folder_mode(Path::new("d"), mode, "crm");
            assert_eq!(line.state, state, "{mode:o}");
            assert!(line.message.contains(part), "{}", line.message);
        }
    }

    #[test]
    fn mirror_that_others_can_write_is_a_warning() {
        for (mode, state, part) in [
            (0o100640, FindingState::Ok, "me and group crm can read it (0640)"),
            (0o100600, FindingState::Ok, "only me"),
            (0o100644, FindingState::Ok, "every user can read"),
            (0o100660, FindingState::Warn, "users other than its owner me"),
        ] {
            let line = file_mode(mode, "me", "crm");
            assert_eq!(line.state, state, "{mode:o}");
            assert!(line.message.contains(part), "{}", line.message);
        }
    }
}
