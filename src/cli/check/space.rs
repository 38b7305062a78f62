//! The disk: whether the user can write, and whether there is enough space.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access, statvfs};
use rustix::io::Errno;

use super::finding::Finding;
use super::mirror::MirrorFacts;
use super::readers::folder_of;
use super::unit_user::{FileAccess, UnitUser};
use crate::app::user_name;
use crate::config::unit::ServiceUnit;
use crate::{exit::Exit, format};

/// The size of a record with its detail, if the mirror has no records yet.
const PER_RECORD: u64 = 3 * 1024;
/// A mirror with fewer records is mostly empty tables, so its size per record is not representative.
const ENOUGH: u64 = 500;
/// The least space for the WAL.
const MIN_FREE_BYTES: u64 = 128 * 1024 * 1024;

/// Checks the directory and the disk. `unit` is the user that will write, if it is a different one; `expected` is the
/// number of records at the service, if known.
pub(super) fn check(
    database: &Path,
    unit: Option<&UnitUser>,
    mirror: Option<&MirrorFacts>,
    expected: Option<u64>,
) -> Vec<Finding> {
    let folder = folder_of(database);
    let mut lines = vec![match unit {
        Some(user) => unit_line(user, &folder, database),
        None => folder_line(&folder, database),
    }];
    // A directory that systemd creates later is on the disk of its nearest existing ancestor.
    let there = folder.ancestors().find(|folder| folder.exists()).unwrap_or(&folder);
    if let Ok(disk) = statvfs(there) {
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        lines.push(match growth(mirror, expected) {
            Some(growth) => room(free, growth),
            None => Finding::skip(
                "disk.space",
                format!("{} free; the future size of the mirror is not known", format::bytes(free)),
            ),
        });
    }
    lines
}

/// The directory and the files that a run writes.
fn written(folder: &Path, database: &Path) -> Vec<PathBuf> {
    let mut needed = vec![folder.to_path_buf()];
    needed.extend(["", "-wal", "-shm", ".lock"].map(|suffix| {
        let mut path = database.as_os_str().to_owned();
        path.push(suffix);
        path.into()
    }));
    needed.retain(|path| path.exists());
    needed
}

fn unit_line(user: &UnitUser, folder: &Path, database: &Path) -> Finding {
    let (name, unit) = ("disk.folder", &user.unit);
    let shown = folder.display();
    let is_state = unit.state_directory.as_ref().is_some_and(|state| folder == state);
    if !folder.exists() && is_state {
        return Finding::ok(name, format!("systemd creates {shown} when {} starts", unit.name));
    }
    let refused = written(folder, database).into_iter().find(|path| user.may(FileAccess::Write, path) == Some(false));
    match refused {
        None if folder.exists() => Finding::ok(name, format!("{} can write to {shown}", unit.user)),
        // systemd gives the directory and its contents to the user when the unit starts.
        Some(path) if is_state && path == folder => {
            Finding::ok(name, format!("systemd gives {shown} to {} when {} starts", unit.user, unit.name))
        }
        Some(path) => {
            let is_folder = path == folder;
            let path = path.display();
            let message = format!("{}, the user of {}, cannot write to {path}", unit.user, unit.name);
            let fix = if is_folder {
                // It may be a folder of the system, or of somebody else: it is not to be given away.
                format!("set `database.path` to a file in {}", own_folder(unit, folder))
            } else {
                format!("chown {}: {path}", unit.user)
            };
            Finding::fail(name, Exit::Storage, message, fix)
        }
        None => Finding::fail(
            name,
            Exit::Storage,
            format!("{shown} does not exist, and {} does not create it", unit.name),
            format!("set `database.path` to a file in {}", own_folder(unit, folder)),
        ),
    }
}

fn own_folder(unit: &ServiceUnit, folder: &Path) -> String {
    let own = unit.state_directory.as_deref().filter(|own| *own != folder);
    own.map_or_else(|| format!("a folder of {}", unit.user), |own| own.display().to_string())
}

/// Whether a run of this user could write. Nothing is written for the check.
fn folder_line(folder: &Path, database: &Path) -> Finding {
    let name = "disk.folder";
    let Ok(meta) = std::fs::metadata(folder) else {
        return Finding::fail(
            name,
            Exit::Storage,
            format!("{} cannot be reached by this user, or does not exist", folder.display()),
            format!("mkdir -p {}, or set `database.path` to a different file", folder.display()),
        );
    };
    if !meta.is_dir() {
        return Finding::fail(
            name,
            Exit::Storage,
            format!("{} is not a directory", folder.display()),
            "set `database.path` to a different file",
        );
    }
    let needed = written(folder, database);
    let refused = needed.iter().find_map(|path| {
        let error = access(path, Access::WRITE_OK).err()?;
        Some((path, error))
    });
    match refused {
        None => Finding::ok(name, format!("the current user can write to {}", folder.display())),
        Some((_, Errno::ROFS)) => Finding::fail(
            name,
            Exit::Storage,
            format!("{} is on a disk that is mounted read-only", folder.display()),
            "the system does that after an error: `dmesg` shows the reason; then run `mount -o remount,rw`",
        ),
        Some((path, _)) => Finding::fail(
            name,
            Exit::Storage,
            format!("the current user cannot write to {}", path.display()),
            fix(path),
        ),
    }
}

fn fix(path: &Path) -> String {
    let owner = std::fs::metadata(path).map(|meta| user_name(meta.uid()));
    owner.map_or_else(
        |_| "run the check as the user that writes the mirror".into(),
        |owner| {
            format!("it belongs to {owner}: run the check as that user, for example `sudo -u {owner} crm-mirror check`")
        },
    )
}

/// How much the mirror will grow; `None` if nothing is known about the future size.
fn growth(mirror: Option<&MirrorFacts>, expected: Option<u64>) -> Option<u64> {
    let (bytes, rows) = mirror.map_or((0, 0), |mirror| (mirror.bytes, mirror.rows()));
    let missing = expected.or(mirror.map(|_| rows))?.saturating_sub(rows);
    Some(missing.saturating_mul(if rows < ENOUGH { PER_RECORD } else { bytes / rows }))
}

fn room(free: u64, growth: u64) -> Finding {
    let name = "disk.space";
    // The WAL of a run, and the large transaction at the end of a first copy.
    let needed = growth.saturating_add(MIN_FREE_BYTES.max(growth / 2));
    let message = format!("{} free; the mirror will grow by about {}", format::bytes(free), format::bytes(growth));
    let fix = || format!("free {} on this disk, or move `database.path`", format::bytes(needed));
    if free <= growth {
        Finding::fail(name, Exit::Storage, format!("{message}: not enough"), fix())
    } else if free < needed {
        Finding::warn(name, format!("{message}: barely enough with its WAL"), fix())
    } else {
        Finding::ok(name, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::check::finding::FindingState;

    const MIB: u64 = 1024 * 1024;

    #[test]
    fn too_little_room_fails_and_little_room_warns() {
        for (free, state) in
            [(400 * MIB, FindingState::Fail), (599 * MIB, FindingState::Warn), (600 * MIB, FindingState::Ok)]
        {
            assert_eq!(room(free, 400 * MIB).state, state, "{free}");
        }
        assert_eq!(room(0, 0).state, FindingState::Fail);
        assert_eq!(room(MIB, 0).state, FindingState::Warn);
        assert_eq!(growth(None, Some(1000)), Some(1000 * PER_RECORD));
        assert_eq!(growth(None, None), None);
    }

    #[test]
    fn folder_that_is_not_the_mirrors_own_is_never_given_away() {
        // Only root can be another user.
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let unit = ServiceUnit {
            name: "crm-mirror@acme.service".into(),
            user: "nobody".into(),
            credential: None,
            state_directory: Some("/var/lib/crm-mirror/acme".into()),
            runtime_directory: None,
        };
        let line = unit_line(&UnitUser::of(unit), Path::new("/"), Path::new("/mirror.db"));
        assert_eq!(line.state, FindingState::Fail);
        assert_eq!(line.fix.as_deref(), Some("set `database.path` to a file in /var/lib/crm-mirror/acme"));
    }

    #[test]
    fn missing_directory_is_reported_and_not_created() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("gone");
        let line = folder_line(&folder, &folder.join("m.db"));
        assert_eq!((line.state, line.exit), (FindingState::Fail, Exit::Storage));
        assert!(!folder.exists());
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(folder_line(&file, &file.join("m.db")).message.ends_with("is not a directory"));
        assert_eq!(folder_line(dir.path(), &dir.path().join("m.db")).state, FindingState::Ok);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
