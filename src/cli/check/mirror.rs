//! The mirror: whether it exists and can be read, and which objects of people are in it. It is opened read-only. Its folder:
//! whether the user can write, and who else can write the mirror.

use std::io;
use std::path::Path;

use rustix::fs::{Access, access as may};

use super::{Excess, Finding, access};
use crate::app::ages;
use crate::app::status::{self, MirrorStatus};
use crate::config::{Config, ServiceUnit};
use crate::error_chain::error_chain;
use crate::exit::Exit;
use crate::format;
use crate::model::{Instant, Object, Resource};
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
    let file = format!("{}, {}", status.database, format::bytes(status.bytes));
    let mut findings = vec![Finding::ok("mirror.file", file)];
    let broken = status.broken_objects.iter().chain(&mirror.damaged_search);
    let broken: Vec<String> =
        broken.map(|broken| format!("the {} {}: {}", broken.kind, broken.name, broken.why)).collect();
    if !broken.is_empty() {
        let fix = "change or drop them; a view works again once its columns are back";
        findings.push(Finding::warn("mirror.views", broken.join("; "), fix));
    }
    if !mirror.not_kept.is_empty() {
        let message = format!("not made by crm-mirror, and dropped when in its way: {}", mirror.not_kept.join(", "));
        let fix = "name the columns to index in `database.indexes`; let triggers be on tables of a file of your own";
        findings.push(Finding::warn("mirror.objects", message, fix));
    }
    findings
}

/// What a run for changes is likely to cost, and whether the budget pays for those of the schedule.
pub(super) fn price(config: &Config, mirror: &Result<MirrorFacts, StoreError>, now: Instant) -> Finding {
    let (name, budget) = ("budget.run", &config.budget);
    let per_run = mirror.as_ref().map_or(Object::ALL.len() as u64, |mirror| mirror.status.ru.per_run);
    let next = |at: &Instant| ages::next_read(&config.sync, Resource::Contacts, *at, None);
    let ends = now.plus(budget.window);
    // Bounded: a window may be a year.
    let runs = std::iter::successors(next(&now), next).take_while(|at| *at < ends).take(86_400).count() as u64;
    let (limit, window) = (format::count(budget.limit.get()), format::duration(budget.window));
    let units = runs * per_run;
    if units > budget.limit.get() {
        let units = format::count(units);
        let fix = format!("set `budget.limit` to {units} or more, or schedule fewer runs with `sync.schedule`");
        return Finding::warn(name, format!("runs for changes cost about {units} of {limit} RU in {window}"), fix);
    }
    Finding::ok(name, format!("a run for changes costs about {per_run} of {limit} RU in {window}"))
}

pub(super) const OF_FOLDER: Excess =
    (0o022, "others can write, and could create a -wal file there that crm-mirror cannot open", "go-w");
pub(super) const OF_FILE: Excess = (0o022, "others can write; readers need read access only", "go-w");

pub(super) fn check_disk(database: &Path, unit: Option<&ServiceUnit>) -> Vec<Finding> {
    // Absolute, because the output may be read elsewhere.
    let file = std::path::absolute(beside(database, "")).unwrap_or_else(|_| database.into());
    let folder = file.parent().unwrap_or(Path::new("/"));
    let readers = [("readers.folder", folder, OF_FOLDER), ("readers.file", database, OF_FILE)];
    let readers = readers.into_iter().filter_map(|(name, path, excess)| access(name, path, excess));
    let created = unit.and_then(|unit| unit.state_directory.as_deref());
    std::iter::once(folder_line(folder, database, created)).chain(readers).collect()
}

/// Whether a run of this user could write. Nothing is written for the check.
fn folder_line(folder: &Path, database: &Path, state_directory: Option<&Path>) -> Finding {
    let (name, shown) = ("disk.folder", folder.display());
    if state_directory == Some(folder) && !folder.exists() {
        return Finding::ok(name, format!("systemd creates {shown} when the unit starts"));
    }
    let files = ["", "-wal", "-shm", ".lock"].map(|suffix| beside(database, suffix));
    // With the dot, it is a folder.
    let needed = std::iter::once(folder.join(".")).chain(files.into_iter().filter(|path| path.exists()));
    let refused = needed.filter_map(|path| Some((path.clone(), may(&path, Access::WRITE_OK).err()?))).next();
    let Some((path, error)) = refused else { return Finding::ok(name, format!("this user can write to {shown}")) };
    let message = format!("this user cannot write to {}: {}", path.display(), io::Error::from(error));
    let fix = format!(
        "`mkdir -p {shown}` if it is missing; run the check as the user that writes the mirror, for example with \
         `sudo -u`; `dmesg` shows why a disk is mounted read-only"
    );
    Finding::fail(name, Exit::Storage, message, fix)
}
