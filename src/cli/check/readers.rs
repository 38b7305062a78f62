//! Readers of the mirror: which users can read it, and who else can write it.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::finding::Finding;
use crate::app::name_in;
use crate::store::wal;

pub(super) fn check_readers(database: &Path) -> Vec<Finding> {
    let folder = folder_of(database);
    let mode = |path: &Path| {
        let meta = std::fs::metadata(path).ok()?;
        Some((meta.permissions().mode(), name_in("/etc/group", meta.gid())))
    };
    let of_folder = mode(&folder).map(|(mode, group)| folder_mode(&folder, mode, &group));
    let of_file = mode(database).map(|(mode, group)| file_mode(mode, &group));
    [of_folder, of_file, wal_files(database)].into_iter().flatten().collect()
}

/// The directory of a file, as an absolute path, because the output may be read elsewhere.
pub(super) fn folder_of(file: &Path) -> PathBuf {
    let file = std::path::absolute(file).unwrap_or_else(|_| file.into());
    file.parent().unwrap_or(Path::new("/")).into()
}

/// Who has the access of `bits`, given as those of all users.
fn who(mode: u32, bits: u32, group: &str) -> String {
    if mode & bits == bits {
        "every user".into()
    } else if mode & (bits << 3) == bits << 3 {
        format!("group {group}")
    } else {
        "only its owner".into()
    }
}

fn folder_mode(folder: &Path, mode: u32, group: &str) -> Finding {
    let (name, shown, mode) = ("readers.folder", folder.display(), mode & 0o7777);
    if mode & 0o022 == 0 {
        return Finding::ok(name, format!("{shown}: {} can open it ({mode:04o})", who(mode, 0o005, group)));
    }
    let writes = who(mode, 0o002, group);
    let message = format!(
        "{writes} can write to {shown} ({mode:04o}): a reader could create a -wal file there that crm-mirror cannot open"
    );
    let change = if mode & 0o002 == 0 { "g-w" } else { "go-w" };
    Finding::warn(name, message, format!("chmod {change} {shown}"))
}

fn file_mode(mode: u32, group: &str) -> Finding {
    let (name, mode) = ("readers.file", mode & 0o777);
    if mode & 0o022 != 0 {
        let fix = "run chmod go-w on it and on its -wal and -shm; readers need read access only";
        return Finding::warn(name, format!("users other than its owner can write the mirror ({mode:04o})"), fix);
    }
    Finding::ok(name, format!("{} can read it ({mode:04o})", who(mode, 0o004, group)))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::check::finding::FindingState;

    #[test]
    fn directory_that_readers_can_write_is_a_warning() {
        for (mode, state, part) in [
            (0o40750, FindingState::Ok, "group crm can open it (0750)"),
            (0o40700, FindingState::Ok, "only its owner can open it"),
            (0o40755, FindingState::Ok, "every user can open it"),
            (0o42770, FindingState::Warn, "group crm can write to d (2770)"),
            (0o41777, FindingState::Warn, "every user can write"),
        ] {
            let line = folder_mode(Path::new("d"), mode, "crm");
            assert_eq!(line.state, state, "{mode:o}");
            assert!(line.message.contains(part), "{}", line.message);
        }
    }

    #[test]
    fn mirror_that_others_can_write_is_a_warning() {
        for (mode, state, part) in [
            (0o100640, FindingState::Ok, "group crm can read it (0640)"),
            (0o100600, FindingState::Ok, "only its owner"),
            (0o100644, FindingState::Ok, "every user can read"),
            (0o100660, FindingState::Warn, "users other than its owner"),
        ] {
            let line = file_mode(mode, "crm");
            assert_eq!(line.state, state, "{mode:o}");
            assert!(line.message.contains(part), "{}", line.message);
        }
    }
}
