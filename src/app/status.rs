//! The status of the mirror: contents, freshness, cost and pending work, as `status` shows it.
//!
//! Reading it sends no request, and sees one consistent snapshot of the file, even while another process writes.

use std::time::Duration;

use serde::Serialize;

use super::ages;
use super::reserves::{cost_of_changes, ledger};
use super::settings::limits;
use crate::app::summary::MissingScope;
use crate::budget::Ledger;
use crate::config::Config;
use crate::model::{ClockReading, Instant, Object, Resource};
use crate::store::outbox_report::{self, EditCounts};
use crate::store::publishing::queue;
use crate::store::report::{self, Failing, OddityLine};
use crate::store::{
    BrokenObject, Goal, PublishLag, ReadTx, Reader, RecordedRun, RefusedRemovals, StateKey, StoreError, guide, lock,
    people_report, record,
};
use crate::sync::checks::decide_doubts::undecided;
use crate::sync::checks::identity::Identity;
use crate::sync::walks::sweep::Sweep;

const RUNS: u32 = 5;

/// Its JSON form is documented in `docs/interfaces.md`; members may be added, but not removed.
#[derive(Clone, Debug, Serialize)]
pub struct MirrorStatus {
    /// When this was read, UTC: earlier than asked for if the file does not answer.
    pub read_at: Instant,
    pub database: String,
    pub bytes: u64,
    pub wal_bytes: u64,
    pub base_url: Option<String>,
    pub objects: Vec<ObjectStatus>,
    pub ru: RuStatus,
    pub hold_until: Option<Instant>,
    pub paused_since: Option<Instant>,
    pub running: Option<RunningRun>,
    /// The time since which `changes` is complete, UTC: since the last entry that `history.retention` pruned, or the end of
    /// the first copy.
    pub history_since: Option<String>,
    pub edits: EditCounts,
    /// Whether everything that is mirrored was copied, and is not known to lack anything.
    pub up_to_date: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub publish: Option<PublishLag>,
    pub missing_scopes: Vec<MissingScope>,
    pub trouble: Option<Failing>,
    pub runs: Vec<RecordedRun>,
    pub oddities: Vec<OddityLine>,
    pub broken_objects: Vec<BrokenObject>,
}

#[derive(Clone, Debug, Serialize)]
pub struct RunningRun {
    pub pid: Option<u32>,
    /// The first of `runs`.
    pub run: i64,
}

#[derive(Clone, Debug, Serialize)]
pub struct ObjectStatus {
    pub object: Resource,
    pub rows: u64,
    pub removed: Option<u64>,
    pub details_current: Option<u64>,
    /// Records whose detail is still to be read; for contacts and companies, if details are read.
    pub details_pending: Option<u64>,
    pub custom_fields: Option<u64>,
    pub changes_as_of: Option<Instant>,
    /// When the object was last known to have no missing and no superfluous records, UTC.
    pub complete_as_of: Option<Instant>,
    /// How that is known: `records` if every one was compared, `count` if ranges were counted.
    pub complete_by: Option<&'static str>,
    pub differences: u64,
    pub sweep: Option<SweepStatus>,
    pub outage: Option<RefusedRemovals>,
    pub undecided: Option<UndecidedStatus>,
}

impl ObjectStatus {
    fn is_up_to_date(&self) -> bool {
        let is_copied = self.changes_as_of.is_some() && self.sweep.is_none() && self.details_pending.unwrap_or(0) == 0;
        is_copied && self.differences == 0 && self.outage.is_none() && self.undecided.is_none()
    }
}

/// Items that may have been removed or have other values: no answer has proven it yet, or only one list lacks them.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct UndecidedStatus {
    pub items: u64,
    /// When they are looked up again, UTC; `None` for the next run, or for a list an hour later.
    pub next_lookup: Option<Instant>,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct SweepStatus {
    pub began: Instant,
    /// Rows read so far, and how many there are, as far as that is known.
    pub rows: u64,
    pub total: Option<u64>,
    pub first_copy: bool,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct RuStatus {
    pub used: u64,
    pub left: u64,
    pub limit: u64,
    pub refills_at: Instant,
    pub total: u64,
    pub per_run: u64,
}

/// Reads the status from the mirror's file, as one snapshot. What is complete is dated as the clock that `now` is a reading
/// of shows it: a clock that was set back since the last run was ahead when that dated it.
pub fn read(config: &Config, now: impl Into<ClockReading>) -> Result<MirrorStatus, StoreError> {
    read_with(&Reader::open(&config.database)?, config, now)
}

pub fn read_with(reader: &Reader, config: &Config, now: impl Into<ClockReading>) -> Result<MirrorStatus, StoreError> {
    let status = at_moment(&reader.begin()?, config, now)?;
    reader.unchanged().map(|()| status)
}

pub fn at_moment(
    moment: &ReadTx<'_>,
    config: &Config,
    now: impl Into<ClockReading>,
) -> Result<MirrorStatus, StoreError> {
    let reading = now.into();
    let now = reading.wall;
    let (bytes, wal_bytes) = report::sizes(&config.database);
    let identity: Option<Identity> = moment.state(&StateKey::Identity)?;
    let stored = ledger(moment, config)?;
    let ledger = stored.at(reading, &limits(&config.budget));
    let mut objects = objects(moment)?;
    for object in &mut objects {
        if let Some(of) = object.object.object()
            && !(config.sync.details && moment.has_details(of)?)
        {
            // Nothing reads them, so none is pending.
            object.details_pending = None;
        }
        object.changes_as_of = object.changes_as_of.map(|as_of| as_of.minus(ledger.set_back));
        object.complete_as_of = object.complete_as_of.map(|as_of| as_of.minus(ledger.set_back));
        if !config.mirrors(object.object) {
            // What is not mirrored any more asks nobody to act.
            (object.details_pending, object.differences, object.sweep, object.outage) = (None, 0, None, None);
            continue;
        }
        let (items, wait) = undecided(moment, object.object, ledger.steady_time())?;
        let lacking = object.object.object().map(|of| moment.goals().count_lacking(of, config.sync.details));
        let items = items.max(lacking.transpose()?.unwrap_or(0));
        let next_lookup = wait.map(|wait| now.plus(wait));
        object.undecided = (items > 0).then_some(UndecidedStatus { items, next_lookup });
    }
    let is_read = |what: &str| Resource::ALL.into_iter().all(|known| known.as_str() != what || config.reads(known));
    let missing = moment.goals().missing_scopes()?.into_iter().filter(|(what, _)| is_read(what));
    let runs = report::last_runs(moment, RUNS)?;
    // One that has not ended, while a process is writing.
    let last = runs.first().filter(|run| run.outcome.is_none());
    let running = last.and_then(|run| Some(RunningRun { pid: lock::current_writer(&config.database)?, run: run.id }));
    let [contacts_since, companies_since] =
        [Object::Contact, Object::Company].map(|object| record::horizon(moment, object));
    let mut status = MirrorStatus {
        read_at: now,
        paused_since: moment.state(&StateKey::PausedSince)?,
        running,
        history_since: contacts_since?.max(companies_since?),
        database: config.database.display().to_string(),
        bytes,
        wal_bytes,
        base_url: identity.map(|identity| identity.base_url),
        objects,
        ru: ru(moment, config, &ledger)?,
        hold_until: ledger.hold_left().map(|left| now.plus(left)),
        missing_scopes: missing.map(|(object, scope)| MissingScope { object, scope: scope.into() }).collect(),
        edits: outbox_report::counts(moment)?,
        up_to_date: false,
        publish: config.publish.is_on().then(|| queue::lag(moment, now)).transpose()?,
        trouble: report::failing(moment)?,
        runs,
        oddities: report::oddities(moment)?,
        broken_objects: people_report::broken(moment)?,
    };
    // Where nothing can be read, nothing is known.
    let up_to_date = status.mirrored(config).map(ObjectStatus::is_up_to_date).reduce(|all, one| all && one);
    status.up_to_date = up_to_date.unwrap_or(false);
    Ok(status)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Readiness {
    /// The lists were copied, and are as fresh as the schedule requires.
    Ready,
    NeverCopied,
    Stale,
    Unreadable,
}

impl MirrorStatus {
    /// The objects that are mirrored: those that are configured and that the key may read.
    pub fn mirrored<'a>(&'a self, config: &'a Config) -> impl Iterator<Item = &'a ObjectStatus> {
        let may_read = |object: Resource| self.missing_scopes.iter().all(|missing| missing.object != object.as_str());
        self.objects.iter().filter(move |object| config.mirrors(object.object) && may_read(object.object))
    }

    /// Whether the mirror can be relied on. Details do not count, and neither do objects that the key may not read. `poll` is
    /// the interval of the automatic schedule, as far as it is known.
    pub fn readiness(&self, config: &Config, now: Instant, poll: Option<Duration>) -> Readiness {
        // Where only short lists are mirrored, they are what counts.
        let has_records = Object::ALL.into_iter().any(|object| config.mirrors(object.resource()));
        let lists = self.mirrored(config).filter(|object| object.removed.is_some() == has_records);
        let late = |object: &ObjectStatus| {
            let due = ages::next_read(&config.sync, object.object, object.changes_as_of?, poll);
            Some(due.is_some_and(|due| now.since(due) > ages::LATE))
        };
        match lists.map(late).reduce(|any, one| Some(any? | one?)).flatten() {
            None => Readiness::NeverCopied,
            Some(true) => Readiness::Stale,
            Some(false) => Readiness::Ready,
        }
    }
}

fn ru(tx: &ReadTx<'_>, config: &Config, ledger: &Ledger) -> Result<RuStatus, StoreError> {
    let limits = &limits(&config.budget);
    Ok(RuStatus {
        per_run: cost_of_changes(tx)?.get(),
        used: ledger.used.get(),
        left: limits.limit.saturating_sub(ledger.used).get(),
        limit: limits.limit.get(),
        refills_at: ledger.refills_at(limits),
        total: ledger.total.get(),
    })
}

fn objects(tx: &ReadTx<'_>) -> Result<Vec<ObjectStatus>, StoreError> {
    let mut objects = Vec::new();
    for object in Object::ALL {
        objects.push(records(tx, object)?);
    }
    for (object, rows, goal) in [
        (Resource::TeamMembers, guide::rows(tx, "team_members")?, Goal::Team),
        (Resource::CustomFields, guide::rows(tx, "custom_field_definitions")?, Goal::Definitions),
    ] {
        let fresh = tx.goals().last_read(goal)?.filter(|read| read.began > Instant::EPOCH);
        objects.push(ObjectStatus {
            object,
            rows,
            removed: None,
            details_current: None,
            details_pending: None,
            custom_fields: None,
            changes_as_of: fresh.map(|fresh| fresh.began),
            complete_as_of: fresh.map(|fresh| fresh.began),
            complete_by: fresh.map(|_| "records"),
            differences: 0,
            sweep: None,
            outage: None,
            undecided: None,
        });
    }
    Ok(objects)
}

fn records(tx: &ReadTx<'_>, object: Object) -> Result<ObjectStatus, StoreError> {
    let holds = report::holds(tx, object)?;
    let swept = tx.goals().last_read(Goal::Sweep(object))?;
    let sweep = Sweep::load(tx, object)?.map(|sweep| {
        let (rows, first_copy) = (sweep.rows(), swept.is_none());
        let total = if first_copy { sweep.total() } else { Some(holds.rows) };
        SweepStatus { began: sweep.began, rows, total: total.map(|total| total.max(rows)), first_copy }
    });
    let complete = tx.goals().complete_as_of(object)?;
    Ok(ObjectStatus {
        object: object.resource(),
        rows: holds.rows,
        removed: Some(holds.removed),
        details_current: Some(holds.details_current),
        details_pending: Some(holds.rows - holds.details_current),
        custom_fields: Some(holds.custom_fields),
        changes_as_of: tx.goals().changes_as_of(object)?,
        complete_as_of: complete.map(|known| known.as_of),
        complete_by: complete.map(|known| if known.by_record { "records" } else { "count" }),
        differences: tx.goals().last_read(Goal::Differing(object))?.map_or(0, |read| read.open.unsigned_abs()),
        sweep,
        outage: tx.refused_removals(object)?,
        undecided: None,
    })
}
