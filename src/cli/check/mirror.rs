//! The mirror: whether it exists and can be read, and which objects of people are in it. It is opened read-only. Its disk:
//! whether the user can write, whether there is enough space, and who else can write the mirror.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::{Access, access as may, statvfs};
use rustix::io::Errno;

use super::{Excess, Finding, access};
use crate::app::status::{self, MirrorStatus};
use crate::config::{Config, ServiceUnit};
use crate::error_chain::error_chain;
use crate::exit::Exit;
use crate::format::{self, counted};
use crate::model::{Instant, Object};
use crate::store::{BrokenObject, Reader, StoreError, beside, people_report};

#[derive(Debug)]
pub(super) struct MirrorFacts {
    pub status: MirrorStatus,
    damaged_search: Vec<BrokenObject>,
    /// Users' indexes and triggers, which a run may drop.
    not_kept: Vec<String>,
}

pub(super) fn read(config: &Config, now: Instant) -> Result<MirrorFacts, StoreError> {
    let reader = Reader::open(&config.database)?;
    let moment = reader.begin()?;
    Ok(MirrorFacts {
        status: status::at_moment(&moment, config, now)?,
        damaged_search: people_report::damaged_search(&moment)?,
        not_kept: people_report::not_kept(&moment)?,
    })
}

pub(super) fn check(mirror: &Result<MirrorFacts, StoreError>) -> Vec<Finding> {
    let mirror = match mirror {
        Ok(mirror) => mirror,
        Err(error @ StoreError::Missing { .. }) => {
            return vec![Finding::ok("mirror.file", format!("{error}: `crm-mirror sync` creates it"))];
        }
        Err(error) => {
            let fix = error.hint().unwrap_or(
                "if it is damaged, move it away with its -wal and -shm; `crm-mirror sync` creates a new copy",
            );
            return vec![Finding::fail("mirror.file", Exit::of_store(error), error_chain(error), fix)];
        }
    };
    let status = &mirror.status;
    let rows = Object::ALL.map(|object| status.of(object).map_or(0, |held| held.rows));
    let held = format!(
        "{}, {}: {}, {}",
        status.database,
        format::bytes(status.bytes),
        counted(rows[0], "contact", "contacts"),
        counted(rows[1], "company", "companies"),
    );
    let mut findings = vec![Finding::ok("mirror.file", held)];
    let broken = status.broken_objects.iter().chain(&mirror.damaged_search);
    let broken: Vec<String> =
        broken.map(|broken| format!("the {} {}: {}", broken.kind, broken.name, broken.why)).collect();
    findings.push(match broken.is_empty() {
        true => Finding::ok("mirror.views", "every view in the file compiles"),
        false => {
            let fix = "change or drop them; a view works again once its columns are back";
            Finding::warn("mirror.views", broken.join("; "), fix)
        }
    });
    if !mirror.not_kept.is_empty() {
        let message = format!("not made by crm-mirror, and dropped when in its way: {}", mirror.not_kept.join(", "));
        let fix = "name the columns to index in `database.indexes`; let triggers be on tables of a file of your own";
        findings.push(Finding::warn("mirror.objects", message, fix));
    }
    findings
}

/// For the WAL of a run, and the large transaction at the end of a first copy.
const MIN_FREE_BYTES: u64 = 128 * 1024 * 1024;

pub(super) const OF_FOLDER: Excess =
    (0o022, "others can write, and could create a -wal file there that crm-mirror cannot open", "go-w");
pub(super) const OF_FILE: Excess = (0o022, "others can write; readers need read access only", "go-w");

pub(super) fn check_disk(database: &Path, unit: Option<&ServiceUnit>) -> Vec<Finding> {
    // Absolute, because the output may be read elsewhere.
    let file = std::path::absolute(beside(database, "")).unwrap_or_else(|_| database.into());
    let folder = file.parent().unwrap_or(Path::new("/"));
    // A directory that systemd creates later is on the disk of its nearest existing ancestor.
    let there = folder.ancestors().find(|folder| folder.exists()).unwrap_or(folder);
    let space = statvfs(there).ok().map(|disk| room(disk.f_bavail.saturating_mul(disk.f_frsize)));
    let readers = [("readers.folder", folder, OF_FOLDER), ("readers.file", database, OF_FILE)];
    let readers = readers.into_iter().filter_map(|(name, path, excess)| {
        Some(access(name, path, std::fs::metadata(path).ok()?.permissions().mode(), excess))
    });
    let created = unit.and_then(|unit| unit.state_directory.as_deref());
    std::iter::once(folder_line(folder, database, created)).chain(space).chain(readers).collect()
}

/// Whether a run of this user could write. Nothing is written for the check.
fn folder_line(folder: &Path, database: &Path, state_directory: Option<&Path>) -> Finding {
    let (name, shown) = ("disk.folder", folder.display());
    if state_directory == Some(folder) && !folder.exists() {
        return Finding::ok(name, format!("systemd creates {shown} when the unit starts"));
    }
    if !folder.is_dir() {
        let message = format!("{shown} does not exist, or is no directory that can be reached");
        let fix = format!("`mkdir -p {shown}`, or set `database.path` to a different file");
        return Finding::fail(name, Exit::Storage, message, fix);
    }
    let files = ["", "-wal", "-shm", ".lock"].map(|suffix| beside(database, suffix));
    let needed = std::iter::once(folder.to_path_buf()).chain(files).filter(|path| path.exists());
    let refused = needed.filter_map(|path| Some((may(&path, Access::WRITE_OK).err()?, path))).next();
    let (message, fix) = match refused {
        None => return Finding::ok(name, format!("this user can write to {shown}")),
        Some((Errno::ROFS, _)) => (
            format!("{shown} is on a disk that is mounted read-only"),
            "the system does that after an error: `dmesg` shows the reason; then run `mount -o remount,rw`",
        ),
        Some((_, path)) => (
            format!("this user cannot write to {}", path.display()),
            "run the check as the user that writes the mirror, for example with `sudo -u`",
        ),
    };
    Finding::fail(name, Exit::Storage, message, fix)
}

fn room(free: u64) -> Finding {
    let (name, message) = ("disk.space", format!("{} free", format::bytes(free)));
    let fix = "free space on this disk, or move `database.path`: a run needs some for its transactions";
    if free < MIN_FREE_BYTES { Finding::fail(name, Exit::Storage, message, fix) } else { Finding::ok(name, message) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::check::FindingState;

    #[test]
    fn too_little_room_is_a_failure() {
        assert_eq!(room(MIN_FREE_BYTES - 1).state, FindingState::Fail);
        assert_eq!(room(MIN_FREE_BYTES).state, FindingState::Ok);
    }
}
