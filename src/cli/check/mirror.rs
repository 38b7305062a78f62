//! The mirror: whether it exists, its workspace, its writer, and the outcome of its last run. It is opened read-only.

use std::path::Path;

use super::finding::Finding;
use crate::budget::{Hold, Ledger, Limits};
use crate::config::Config;
use crate::model::{Instant, Object, Ru};
use crate::store::publishing::queue::{self, PublishLag};
use crate::store::report::{self, RecordedRun};
use crate::store::{BrokenObject, ReadTx, Reader, StoreError, lock, people_report, wal};
use crate::sync::budget_meter::{self, HOLD, LEDGER};
use crate::sync::checkpoints::{Fresh, Identity};
use crate::{exit::Exit, format};

/// The state of the mirror.
#[derive(Clone, Debug)]
pub(super) struct MirrorFacts {
    /// The file's size in bytes.
    pub bytes: u64,
    /// Its WAL's size in bytes.
    pub wal_bytes: u64,
    /// The workspace; `None` before the first run.
    pub identity: Option<Identity>,
    /// The end of the hold.
    pub hold: Option<Instant>,
    /// The RU spent.
    pub ledger: Ledger,
    /// The cost of the last runs for changes.
    pub costs: Vec<Ru>,
    /// The objects, contacts first.
    pub objects: [CopiedObject; 2],
    /// The last run.
    pub last_run: Option<RecordedRun>,
    /// How far publishing is behind.
    pub publish: Option<PublishLag>,
    /// Users' views, triggers and indexes that do not work.
    pub broken_objects: Vec<BrokenObject>,
}

/// The contents of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CopiedObject {
    /// Records.
    pub rows: u64,
    /// Records whose detail is current.
    pub details: u64,
    /// Whether it was completely copied once.
    pub complete: bool,
}

impl MirrorFacts {
    /// Reads the facts, as one snapshot.
    ///
    /// # Errors
    /// Returns [`StoreError::Missing`] if there is no mirror, or the error that prevents reading it.
    pub(super) fn read(path: &Path, limits: &Limits, now: Instant) -> Result<MirrorFacts, StoreError> {
        let reader = Reader::open(path)?;
        let moment = reader.begin()?;
        let (bytes, wal_bytes) = report::sizes(path);
        let hold: Option<Hold> = moment.state(&HOLD)?;
        let stored: Option<Ledger> = moment.state(&LEDGER)?;
        let note = lock::note_beside(path);
        let ledger = budget_meter::later(stored.unwrap_or_default(), note.as_deref()).at(now, limits);
        let [contact, company] = Object::ALL;
        Ok(MirrorFacts {
            bytes,
            wal_bytes,
            identity: moment.state(&Identity::ENTRY)?,
            hold: hold.and_then(|hold| hold.left(ledger.steady_time())).map(|left| now.plus(left)),
            ledger,
            costs: report::cost_of_runs(&moment, crate::app::RUNS_OF_FORECAST)?,
            objects: [held(&moment, contact)?, held(&moment, company)?],
            last_run: report::last_runs(&moment, 1)?.into_iter().next(),
            publish: queue::lag(&moment, now)?,
            broken_objects: people_report::broken(&moment)?,
        })
    }

    /// Records of both objects.
    pub(super) fn rows(&self) -> u64 {
        self.objects.iter().map(|held| held.rows).sum()
    }
}

fn held(tx: &ReadTx<'_>, object: Object) -> Result<CopiedObject, StoreError> {
    let holds = report::holds(tx, object)?;
    let swept: Option<Fresh> = tx.state(&Fresh::sweep(object))?;
    Ok(CopiedObject { rows: holds.rows, details: holds.details_current, complete: swept.is_some() })
}

/// The findings about the mirror.
pub(super) fn check(
    config: &Config,
    read: &Result<MirrorFacts, StoreError>,
    writer: Option<Option<u32>>,
    now: Instant,
) -> Vec<Finding> {
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
    lines.extend(mirror.last_run.as_ref().map(|run| last_run(run, writer.is_some(), now)));
    lines.push(match writer {
        None => Finding::ok("mirror.writer", "no process writes it now"),
        Some(pid) => Finding::ok("mirror.writer", format!("{} writes it now", process(pid))),
    });
    lines.push(views(&mirror.broken_objects));
    lines.push(log_size(path, mirror));
    if let Some(until) = mirror.hold {
        lines.push(Finding::fail(
            "mirror.hold",
            Exit::Paused,
            format!("rate limit: no request before {} ({})", format::moment(until), format::when(until, now)),
            "wait; or run `crm-mirror hold clear` if you know that the service answers again",
        ));
    }
    lines
}

/// The description of a process.
pub(super) fn process(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another crm-mirror".into(), |pid| format!("process {pid}"))
}

fn last_run(run: &RecordedRun, written: bool, now: Instant) -> Finding {
    let started = run.started_at.parse().map_or_else(|_| run.started_at.clone(), |at| format::when(at, now));
    let name = "mirror.last-run";
    let what = format!("run {}, a {} started {started}", run.id, run.kind);
    match (run.outcome.as_deref(), run.error.as_deref()) {
        (Some("failed"), error) => Finding::warn(
            name,
            format!("{what}, failed: {}", error.unwrap_or("the reason was not recorded")),
            "fix the reported problem, then run `crm-mirror sync`",
        ),
        (Some("refused"), _) => Finding::warn(
            name,
            format!("{what}, refused to mirror what looks like an outage"),
            "`crm-mirror status` shows what would be removed; if that is correct, run `crm-mirror resync --accept-removals`",
        ),
        (Some(outcome), _) => Finding::ok(name, format!("{what}: {outcome}")),
        (None, _) if written => Finding::ok(name, format!("{what}, still running")),
        (None, _) => Finding::warn(
            name,
            format!("{what}, was interrupted: its process was killed"),
            "nothing is lost; `crm-mirror sync` continues it",
        ),
    }
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

fn log_size(path: &Path, mirror: &MirrorFacts) -> Finding {
    let size = format::bytes(mirror.wal_bytes);
    if wal::is_large(mirror.bytes, mirror.wal_bytes) {
        let fix = format!(
            "end the program with a long read transaction (`fuser -v {}-shm` lists them); the next run empties it",
            path.display()
        );
        return Finding::warn("mirror.wal", format!("{size}: a reader prevents a checkpoint"), fix);
    }
    Finding::ok("mirror.wal", size)
}

/// Whether the mirror belongs to this address and key, as far as the file shows. `None` if the file does not have them
/// yet, or the configuration has neither.
pub(super) fn is_ours(mirror: &MirrorFacts, base_url: &str, fingerprint: &str) -> Option<bool> {
    let known = mirror.identity.as_ref()?;
    Some(known.base_url == base_url && known.key == fingerprint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::check::finding::FindingState;

    fn run(outcome: Option<&str>, error: Option<&str>) -> RecordedRun {
        RecordedRun {
            id: 7,
            kind: "sync".into(),
            trigger: "manual".into(),
            started_at: "2026-01-02T03:00:00.000000Z".into(),
            finished_at: None,
            outcome: outcome.map(String::from),
            rows: 0,
            inserted: 0,
            updated: 0,
            removed: 0,
            details: 0,
            ru: 0,
            error: error.map(String::from),
        }
    }

    #[test]
    fn last_run_is_reported_with_its_outcome() {
        let now = "2026-01-02T03:04:00Z".parse().unwrap();
        for (outcome, error, written, state, part) in [
            (Some("done"), None, false, FindingState::Ok, "run 7, a sync started 4 min ago: done"),
            (Some("failed"), Some("no route"), false, FindingState::Warn, "failed: no route"),
            (Some("refused"), None, false, FindingState::Warn, "looks like an outage"),
            (None, None, true, FindingState::Ok, "running"),
            (None, None, false, FindingState::Warn, "killed"),
        ] {
            let line = last_run(&run(outcome, error), written, now);
            assert_eq!(line.state, state, "{outcome:?}");
            assert!(line.message.contains(part), "{}", line.message);
        }
    }
}
