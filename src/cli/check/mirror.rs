//! The mirror: whether it exists and can be read, and what keeps it from being right. It is opened read-only.

use std::path::Path;

use super::finding::Finding;
use crate::budget::{Hold, Ledger, Limits};
use crate::config::Config;
use crate::model::{HELD_COMMANDS, Instant, Object, Ru};
use crate::store::outbox_report::{self, EditCounts};
use crate::store::report;
use crate::store::{BrokenObject, Goal, ReadTx, Reader, StateKey, StoreError, lock, people_report};
use crate::sync::budget_meter::{self, HOLD, LEDGER};
use crate::sync::checks::identity::Identity;
use crate::{exit::Exit, format};

#[derive(Clone, Debug)]
pub(super) struct MirrorFacts {
    pub bytes: u64,
    /// The workspace; `None` before the first run.
    pub identity: Option<Identity>,
    pub hold: Option<Instant>,
    pub ledger: Ledger,
    /// The cost of the last runs for changes.
    pub costs: Vec<Ru>,
    /// The objects, contacts first.
    pub objects: [CopiedObject; 2],
    /// Edits that are not finished.
    pub edits: EditCounts,
    /// Users' views and configured indexes that do not work.
    pub broken_objects: Vec<BrokenObject>,
    /// Users' indexes and triggers, which a run may drop.
    pub not_kept: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CopiedObject {
    pub rows: u64,
    /// Records whose detail is current.
    pub details: u64,
    pub complete: bool,
}

impl MirrorFacts {
    pub(super) fn read(path: &Path, limits: &Limits, now: Instant) -> Result<MirrorFacts, StoreError> {
        let reader = Reader::open(path)?;
        let moment = reader.begin()?;
        let (bytes, _) = report::sizes(path);
        let hold: Option<Hold> = moment.state(&HOLD)?;
        let stored: Option<Ledger> = moment.state(&LEDGER)?;
        let note = lock::note_beside(path);
        let ledger = budget_meter::later(stored.unwrap_or_default(), note.as_deref()).at(now, limits);
        let [contact, company] = Object::ALL;
        Ok(MirrorFacts {
            bytes,
            identity: moment.state(&StateKey::Identity)?,
            hold: hold.and_then(|hold| hold.left(ledger.steady_time())).map(|left| now.plus(left)),
            ledger,
            costs: report::cost_of_runs(&moment, "sync", crate::app::RUNS_OF_FORECAST)?,
            objects: [held(&moment, contact)?, held(&moment, company)?],
            edits: outbox_report::counts(&moment)?,
            broken_objects: [people_report::broken(&moment)?, people_report::damaged_search(&moment)?].concat(),
            not_kept: people_report::not_kept(&moment)?,
        })
    }

    pub(super) fn rows(&self) -> u64 {
        self.objects.iter().map(|held| held.rows).sum()
    }
}

fn held(tx: &ReadTx<'_>, object: Object) -> Result<CopiedObject, StoreError> {
    let holds = report::holds(tx, object)?;
    Ok(CopiedObject {
        rows: holds.rows,
        details: holds.details_current,
        complete: tx.goals().is_set(Goal::Sweep(object))?,
    })
}

pub(super) fn check(config: &Config, read: &Result<MirrorFacts, StoreError>, now: Instant) -> Vec<Finding> {
    let path = &config.database;
    let mirror = match read {
        Ok(mirror) => mirror,
        Err(error @ StoreError::Missing { .. }) => {
            return vec![Finding::ok("mirror.file", format!("{error}: `crm-mirror sync` creates it"))];
        }
        Err(error) => {
            let fix = error.hint().unwrap_or(
                "if it is damaged, move it away with its -wal and -shm; `crm-mirror sync` creates a new copy",
            );
            return vec![Finding::fail(
                "mirror.file",
                Exit::of_store(error),
                crate::error_chain::error_chain(error),
                fix,
            )];
        }
    };
    let [contacts, companies] = mirror.objects;
    let mut lines = vec![Finding::ok(
        "mirror.file",
        format!(
            "{}, {}: {}, {}",
            path.display(),
            format::bytes(mirror.bytes),
            format::counted(contacts.rows, "contact", "contacts"),
            format::counted(companies.rows, "company", "companies"),
        ),
    )];
    lines.push(views(&mirror.broken_objects));
    lines.extend(not_kept(&mirror.not_kept));
    lines.extend(waiting_edits(mirror.edits));
    if let Some(until) = mirror.hold {
        lines.push(Finding::fail(
            "mirror.hold",
            Exit::Paused,
            format!("rate limit: no request before {} ({})", format::moment(until), format::when(until, now)),
            "wait; or run `crm-mirror resume --now` if you know that the service answers again",
        ));
    }
    lines
}

fn waiting_edits(EditCounts { held, conflict, .. }: EditCounts) -> Option<Finding> {
    let (message, fix) = match (held, conflict) {
        (0, 0) => return None,
        (0, _) => (
            format!("{} in conflict", format::counted(conflict, "edit is", "edits are")),
            "`crm-mirror outbox` lists them, `crm-mirror outbox resolve ID` decides on one".into(),
        ),
        _ => (format!("{} held", format::counted(held, "edit is", "edits are")), HELD_COMMANDS.to_string()),
    };
    Some(Finding::warn("mirror.edits", message, fix))
}

pub(super) fn process(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another crm-mirror".into(), |pid| format!("process {pid}"))
}

fn views(broken: &[BrokenObject]) -> Finding {
    let name = "mirror.views";
    if broken.is_empty() {
        return Finding::ok(name, "every view in the file compiles");
    }
    let what: Vec<String> =
        broken.iter().map(|broken| format!("the {} {}: {}", broken.kind, broken.name, broken.why)).collect();
    let fix = "change or drop them; a view works again once its columns are back";
    Finding::warn(name, what.join("; "), fix)
}

fn not_kept(objects: &[String]) -> Option<Finding> {
    let message = format!("not made by crm-mirror, and dropped when in its way: {}", objects.join(", "));
    let fix = "name the columns to index in `database.indexes`; let triggers be on tables of a file of your own";
    (!objects.is_empty()).then(|| Finding::warn("mirror.objects", message, fix))
}

/// Whether the mirror belongs to this address and key, as far as the file shows. `None` if the file does not have them
/// yet, or the configuration has neither.
pub(super) fn is_ours(mirror: &MirrorFacts, base_url: &str, fingerprint: &str) -> Option<bool> {
    let known = mirror.identity.as_ref()?;
    Some(known.base_url == base_url && known.key == fingerprint)
}
