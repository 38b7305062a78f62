//! The mirror: whether it exists and can be read, whose it is, and what keeps it from being right. It is opened read-only.
//! Its disk: whether the user can write, whether there is enough space, and who else can write the mirror. Its daemon: whether
//! its runs fail.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access, statvfs};
use rustix::io::Errno;

use super::Finding;
use super::facts::{CheckFacts, MirrorFacts};
use crate::cli::DaemonState;
use crate::daemon::DaemonStatus;
use crate::error_chain::error_chain;
use crate::exit::Exit;
use crate::format::{self, counted};
use crate::model::Object;
use crate::store::{StoreError, beside};

pub(super) fn check(facts: &CheckFacts<'_>) -> Vec<Finding> {
    let mirror = match &facts.mirror {
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
    if let Some(until) = status.hold_until {
        let until = format!("{} ({})", format::moment(until), format::when(until, facts.now));
        let fix = "wait; or run `crm-mirror resume --now` if you know that the service answers again";
        let message = format!("rate limit: no request before {until}");
        findings.push(Finding::fail("mirror.hold", Exit::Paused, message, fix));
    }
    findings.extend(workspace(facts, mirror));
    findings.extend(mirror.refused_entries.clone());
    findings
}

/// Whose mirror it is, as far as the file shows: a run looks up known records where the key or the address is new.
fn workspace(facts: &CheckFacts<'_>, mirror: &MirrorFacts) -> Option<Finding> {
    let (api, known) = (facts.config.api().ok()?, mirror.identity.as_ref()?);
    let is_ours = known.base_url == api.base_url.as_str() && known.key == api.key.fingerprint();
    Some(match is_ours {
        true => Finding::ok("mirror.workspace", "the mirror belongs to this address and key"),
        false => Finding::warn(
            "mirror.workspace",
            "the mirror was made with a different key or address; the workspace was not compared",
            "the next run looks up known records first, for 1 RU, and stops if they do not exist",
        ),
    })
}

/// For the WAL of a run, and the large transaction at the end of a first copy.
const MIN_FREE_BYTES: u64 = 128 * 1024 * 1024;

pub(super) fn check_disk(facts: &CheckFacts<'_>) -> Vec<Finding> {
    let folder = folder_of(&facts.config.database);
    // A directory that systemd creates later is on the disk of its nearest existing ancestor.
    let there = folder.ancestors().find(|folder| folder.exists()).unwrap_or(&folder);
    let space = statvfs(there).ok().map(|disk| room(disk.f_bavail.saturating_mul(disk.f_frsize)));
    let folder = folder_line(&folder, &facts.config.database, facts.state_directory.as_deref());
    std::iter::once(folder).chain(space).collect()
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
    let refused = needed.filter_map(|path| Some((access(&path, Access::WRITE_OK).err()?, path))).next();
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

pub(super) fn check_readers(database: &Path) -> Vec<Finding> {
    let folder = folder_of(database);
    let mode = |path: &Path| Some(std::fs::metadata(path).ok()?.permissions().mode());
    let of_folder = mode(&folder).map(|mode| {
        let why = "a reader could create a -wal file there that crm-mirror cannot open";
        writers("readers.folder", &folder, mode & 0o7777, why)
    });
    let of_file = mode(database).map(|mode| {
        writers("readers.file", database, mode & 0o777, "readers need read access only, also of its -wal and -shm")
    });
    [of_folder, of_file].into_iter().flatten().collect()
}

/// The directory of a file, as an absolute path, because the output may be read elsewhere.
fn folder_of(file: &Path) -> PathBuf {
    let file = std::path::absolute(beside(file, "")).unwrap_or_else(|_| file.into());
    file.parent().unwrap_or(Path::new("/")).into()
}

/// Whether others than the owner can write a file or a folder.
fn writers(name: &str, path: &Path, mode: u32, why: &str) -> Finding {
    let shown = path.display();
    let (who, change) = match (mode & 0o020, mode & 0o002) {
        (0, 0) => return Finding::ok(name, format!("only its owner can write to {shown} ({mode:04o})")),
        (_, 0) => ("its group", "g-w"),
        _ => ("every user", "go-w"),
    };
    Finding::warn(name, format!("{who} can write to {shown} ({mode:04o}): {why}"), format!("chmod {change} {shown}"))
}

/// The daemon, if it needs somebody.
pub(super) fn check_daemon(facts: &CheckFacts<'_>) -> Finding {
    let (name, shown, (status, state)) = ("daemon.socket", facts.config.socket.display(), &facts.daemon);
    match (state, status) {
        (DaemonState::Running, Some(DaemonStatus { waiting_for: Some(why), .. })) => {
            Finding::warn(name, format!("the daemon at {shown} waits: {why}"), "its log says since when")
        }
        (DaemonState::Running, Some(DaemonStatus { trouble: Some(trouble), .. })) => {
            let (exit, since) = (Exit::of_code(trouble.exit), format::when(trouble.since, facts.now));
            let fix = match exit {
                // Only a new start sees what was mounted since.
                Exit::Storage => "if the disk is in order again, restart the daemon".into(),
                _ => format!("{} shows more", facts.config.command("status")),
            };
            let message = format!("the runs of the daemon at {shown} fail, since {since}: {}", trouble.reason);
            Finding::fail(name, exit, message, fix)
        }
        (DaemonState::Running, _) => Finding::ok(name, format!("a daemon answers at {shown}")),
        (DaemonState::Inaccessible, _) => {
            Finding::skip(name, format!("the current user cannot access the daemon at {shown}"))
        }
        (DaemonState::Killed | DaemonState::Unresponsive, _) => Finding::warn(
            name,
            format!("{shown} exists, but no process answers"),
            "the daemon was killed or hangs: restart it; nothing is lost",
        ),
        (DaemonState::None, _) => Finding::ok(name, format!("no daemon is running at {shown}")),
    }
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

    #[test]
    fn files_that_others_can_write_are_warnings() {
        for (mode, state, part) in [
            (0o0640, FindingState::Ok, "(0640)"),
            (0o0600, FindingState::Ok, "only its owner"),
            (0o0755, FindingState::Ok, "only its owner"),
            (0o0660, FindingState::Warn, "its group can write to d (0660)"),
            (0o2770, FindingState::Warn, "its group can write to d (2770)"),
            (0o1777, FindingState::Warn, "every user can write"),
        ] {
            let line = writers("readers.folder", Path::new("d"), mode, "why");
            assert_eq!(line.state, state, "{mode:o}");
            assert!(line.message.contains(part), "{}", line.message);
        }
    }
}
