//! The mirror: whether it exists and can be read, whose it is, and what keeps it from being right. It is opened read-only.
//! Its disk: whether the user can write, whether there is enough space, which users can read the mirror, and who else can
//! write it.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access, statvfs};
use rustix::io::Errno;

use super::Finding;
use super::facts::{CheckFacts, MirrorFacts, UnitUser};
use super::service::ServiceReport;
use crate::app::{name_in, user_name};
use crate::error_chain::error_chain;
use crate::exit::Exit;
use crate::format::{self, counted};
use crate::model::{HELD_COMMANDS, Object};
use crate::store::outbox_report::EditCounts;
use crate::store::{StoreError, beside, wal};
use crate::sync::SyncError;

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
    findings.extend(waiting_edits(&status.edits));
    // What it may not read, the service was asked for.
    for written in status.missing_scopes.iter().filter_map(|missing| missing.scope.strip_suffix(":write")) {
        let message = format!("edits of {written} are waiting: the key lacks `{written}:write`");
        findings.push(Finding::warn("mirror.scopes", message, "give the key this scope in the workspace console"));
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

fn waiting_edits(EditCounts { held, conflict, .. }: &EditCounts) -> Option<Finding> {
    let (message, fix) = match (held, conflict) {
        (0, 0) => return None,
        (0, _) => (
            format!("{} in conflict", counted(*conflict, "edit is", "edits are")),
            "`crm-mirror outbox` lists them, `crm-mirror outbox resolve ID` decides on one",
        ),
        _ => (format!("{} held", counted(*held, "edit is", "edits are")), HELD_COMMANDS),
    };
    Some(Finding::warn("mirror.edits", message, fix))
}

fn workspace(facts: &CheckFacts<'_>, mirror: &MirrorFacts) -> Option<Finding> {
    let name = "mirror.workspace";
    let asked = facts.service.as_ref().ok();
    let api = facts.config.api().ok()?;
    let fix = "use the key of the mirrored workspace, or a different `database.path` for the other workspace";
    Some(match (mirror.is_of(api.base_url.as_str(), &api.key.fingerprint()), asked) {
        (None, _) => Finding::skip(name, "no run has read anything yet"),
        (Some(true), Some(asked)) if asked.is_key_refused() => {
            Finding::skip(name, "the key is refused: nothing shows which workspace it belongs to")
        }
        (Some(true), _) => Finding::ok(name, "the mirror belongs to this address and key"),
        (Some(false), Some(ServiceReport { recognised: Some(recognised), .. })) => match recognised {
            Ok(()) if Object::ALL.iter().all(|of| mirror.status.of(*of).is_none_or(|held| held.rows == 0)) => {
                Finding::ok(name, "the key or the address is new, and the mirror has no records of another workspace")
            }
            Ok(()) => {
                Finding::ok(name, "the key or the address is new, and known records exist: it is the same workspace")
            }
            Err(error @ SyncError::OtherWorkspace { .. }) => {
                Finding::fail(name, Exit::of_sync(error), error_chain(error), fix)
            }
            Err(error) => Finding::warn(name, format!("the key or the address is new: {}", error_chain(error)), fix),
        },
        (Some(false), _) => Finding::warn(
            name,
            "the mirror was made with a different key or address; the workspace was not compared",
            "the next run looks up known records first, for 1 RU, and stops if they do not exist",
        ),
    })
}

/// The size of a record with its detail, if the mirror has no records yet.
const PER_RECORD: u64 = 3 * 1024;
/// A mirror with fewer records is mostly empty tables, so its size per record is not representative.
const ENOUGH: u64 = 500;
const MIN_FREE_BYTES: u64 = 128 * 1024 * 1024;

pub(super) fn check_disk(facts: &CheckFacts<'_>) -> Vec<Finding> {
    let folder = folder_of(&facts.config.database);
    let mut findings = vec![folder_line(&folder, &facts.config.database, facts.unit.as_ref())];
    // A directory that systemd creates later is on the disk of its nearest existing ancestor.
    let there = folder.ancestors().find(|folder| folder.exists()).unwrap_or(&folder);
    if let Ok(disk) = statvfs(there) {
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        let held = facts.mirror.as_ref().ok().map(|mirror| {
            let rows: u64 =
                Object::ALL.into_iter().filter_map(|object| mirror.status.of(object)).map(|held| held.rows).sum();
            (mirror.status.bytes, rows)
        });
        let counted = Object::ALL.into_iter().filter_map(|object| facts.counted(object)).reduce(|a, b| a + b);
        let expected = counted.or(held.map(|(_, rows)| rows));
        findings.push(match growth(held.unwrap_or_default(), expected) {
            Some(growth) => room(free, growth),
            None => Finding::skip(
                "disk.space",
                format!("{} free; the future size of the mirror is not known", format::bytes(free)),
            ),
        });
    }
    findings
}

fn written(folder: &Path, database: &Path) -> Vec<PathBuf> {
    let mut needed = vec![folder.to_path_buf()];
    needed.extend(["", "-wal", "-shm", ".lock"].map(|suffix| beside(database, suffix)));
    needed.retain(|path| path.exists());
    needed
}

/// Whether a run could write: of the unit's user, if there is a unit. Nothing is written for the check.
fn folder_line(folder: &Path, database: &Path, unit: Option<&UnitUser>) -> Finding {
    let (name, shown) = ("disk.folder", folder.display());
    let state = unit.and_then(|user| user.unit.state_directory.as_deref());
    let elsewhere = match state.filter(|own| *own != folder) {
        Some(own) => format!("set `database.path` to a file in {}", own.display()),
        None => "set `database.path` to a different file".into(),
    };
    if state == Some(folder) && !folder.exists() {
        return Finding::ok(name, format!("systemd creates {shown} when the unit starts"));
    }
    if !folder.is_dir() {
        let message = format!("{shown} does not exist, or is no directory that can be reached");
        return Finding::fail(name, Exit::Storage, message, format!("`mkdir -p {shown}`, or {elsewhere}"));
    }
    let user = unit.map_or("the current user", |user| &user.unit.user);
    let refusal = |path: &PathBuf| match unit {
        Some(user) => (user.may(Access::WRITE_OK, path) == Some(false)).then_some(Errno::ACCESS),
        None => access(path, Access::WRITE_OK).err(),
    };
    let refused = written(folder, database).into_iter().find_map(|path| Some((refusal(&path)?, path)));
    let (message, fix) = match refused {
        None => return Finding::ok(name, format!("{user} can write to {shown}")),
        Some((Errno::ROFS, _)) => (
            format!("{shown} is on a disk that is mounted read-only"),
            "the system does that after an error: `dmesg` shows the reason; then run `mount -o remount,rw`".into(),
        ),
        // systemd gives the directory and its contents to the user when the unit starts.
        Some((_, path)) if path == folder && state == Some(folder) => {
            return Finding::ok(name, format!("systemd gives {shown} to {user} when the unit starts"));
        }
        Some((_, path)) => {
            let fix = match unit {
                None => run_as_owner(&path),
                // It may be a folder of the system, or of somebody else: it is not to be given away.
                Some(_) if path == folder => elsewhere,
                Some(_) => format!("chown {user}: {}", path.display()),
            };
            (format!("{user} cannot write to {}", path.display()), fix)
        }
    };
    Finding::fail(name, Exit::Storage, message, fix)
}

fn run_as_owner(path: &Path) -> String {
    let Ok(owner) = std::fs::metadata(path).map(|meta| user_name(meta.uid())) else {
        return "run the check as the user that writes the mirror".into();
    };
    format!("it belongs to {owner}: run the check as that user, for example `sudo -u {owner} crm-mirror check`")
}

/// How much a mirror of so many bytes and records will grow; `None` if nothing is known about the future size.
fn growth((bytes, rows): (u64, u64), expected: Option<u64>) -> Option<u64> {
    let missing = expected?.saturating_sub(rows);
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
fn folder_of(file: &Path) -> PathBuf {
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
    use crate::cli::check::FindingState;
    use crate::config::ServiceUnit;

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
        assert_eq!(growth((0, 0), Some(1000)), Some(1000 * PER_RECORD));
        assert_eq!(growth((0, 0), None), None);
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
        let line = folder_line(Path::new("/"), Path::new("/mirror.db"), Some(&UnitUser::of(unit)));
        assert_eq!(line.state, FindingState::Fail);
        assert_eq!(line.fix.as_deref(), Some("set `database.path` to a file in /var/lib/crm-mirror/acme"));
    }

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
