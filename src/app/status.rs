//! What the mirror holds, how fresh it is, what it cost and what is still missing: what `status` shows.
//!
//! It asks nothing of the service, opens the file for reading only, and sees one moment of it, also while another
//! process writes.

use std::time::Duration;

use jiff::tz::TimeZone;
use serde::Serialize;

use super::reserve::RUNS_OF_FORECAST;
use super::settings::limits;
use crate::budget::{Hold, Ledger, forecast};
use crate::config::{Config, Cron};
use crate::model::instant::{self, Instant};
use crate::model::{Object, Resource};
use crate::store::outbox_report::{self, EditCounts};
use crate::store::publishing::queue::{self, PublishLag};
use crate::store::report::{self, Failing, OddityLine, RecordedRun};
use crate::store::{ReadTx, Reader, StoreError, lock};
use crate::sync::meter::{self, HOLD, LEDGER};
use crate::sync::state::{Completeness, Evidence, Fresh, Identity, MissingScopes, Outage, Sweep};

/// Runs that are shown.
const RUNS: u32 = 5;

/// Everything that `status` says of the mirror. Its JSON form is documented in `docs/interfaces.md` and only ever grows.
#[derive(Clone, Debug, Serialize)]
pub struct MirrorStatus {
    /// The file.
    pub database: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// The size of its WAL in bytes.
    pub wal_bytes: u64,
    /// The address of the service that is mirrored.
    pub base_url: Option<String>,
    /// What is here, object by object.
    pub objects: Vec<ObjectStatus>,
    /// Request units.
    pub ru: RuStatus,
    /// Until when the service set a rate limit, UTC.
    #[serde(serialize_with = "instant::utc")]
    pub hold_until: Option<Instant>,
    /// Edits by state.
    pub edits: EditCounts,
    /// How far publishing is behind; absent where the mirror was never published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub publish: Option<PublishLag>,
    /// The scopes that the key lacks, by what could not be read.
    pub missing_scopes: MissingScopes,
    /// When a run last did all that it was to do, UTC.
    #[serde(serialize_with = "instant::utc")]
    pub last_success: Option<Instant>,
    /// The runs that failed since the last one that did not.
    pub trouble: Option<Failing>,
    /// The last runs, the newest first.
    pub runs: Vec<RecordedRun>,
    /// What the service did against its own document.
    pub oddities: Vec<OddityLine>,
}

/// What is here of an object.
#[derive(Clone, Debug, Serialize)]
pub struct ObjectStatus {
    /// Which.
    pub object: Resource,
    /// Records.
    pub rows: u64,
    /// Records that the service no longer has; for contacts and companies.
    pub removed: Option<u64>,
    /// Records whose detail is current; for contacts and companies.
    pub details_current: Option<u64>,
    /// Records whose detail is still to be read; for contacts and companies.
    pub details_pending: Option<u64>,
    /// Active custom fields; for contacts and companies.
    pub custom_fields: Option<u64>,
    /// Every change up to here is in the mirror, UTC.
    #[serde(serialize_with = "instant::utc")]
    pub changes_as_of: Option<Instant>,
    /// Nothing was missing and nothing lingered here then, UTC.
    #[serde(serialize_with = "instant::utc")]
    pub complete_as_of: Option<Instant>,
    /// How that is known: `records` where every one was compared, `count` where ranges were counted.
    pub complete_by: Option<&'static str>,
    /// Differences to the service that were found then and not repaired.
    pub differences: u64,
    /// The sweep or first copy under way.
    pub sweep: Option<SweepStatus>,
    /// Removals that look like an outage and wait for a person.
    pub outage: Option<OutageStatus>,
}

/// Removals that wait for a person.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct OutageStatus {
    /// Records that would have gone.
    pub going: u64,
    /// Of so many here.
    pub of: u64,
    /// When that was seen, UTC.
    #[serde(serialize_with = "instant::utc_always")]
    pub seen_at: Instant,
}

/// A sweep or a first copy under way.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SweepStatus {
    /// When it began, UTC.
    #[serde(serialize_with = "instant::utc_always")]
    pub began: Instant,
    /// Rows read so far.
    pub rows: u64,
    /// Whether it is the first copy.
    pub first_copy: bool,
}

/// Request units of the window.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RuStatus {
    /// Spent in this window.
    pub used: u64,
    /// Left in this window.
    pub left: u64,
    /// Allowed per window.
    pub limit: u64,
    /// When the window ends, UTC.
    #[serde(serialize_with = "instant::utc_always")]
    pub refills_at: Instant,
    /// Spent since the mirror was made.
    pub total: u64,
    /// What a run for changes is likely to cost: the median of the last ones.
    pub per_run: u64,
    /// Windows until every pending detail is read at this budget, this one included; 0 where none is pending, `null`
    /// where the budget is zero.
    pub windows_for_details: Option<u64>,
}

/// Reads everything that the mirror's file says, at one moment of it.
///
/// # Errors
/// If there is no mirror, or it cannot be read.
pub fn read(config: &Config, now: Instant) -> Result<MirrorStatus, StoreError> {
    let reader = Reader::open(&config.database)?;
    let moment = reader.begin()?;
    let (bytes, wal_bytes) = report::sizes(&config.database);
    let hold: Option<Hold> = moment.state(&HOLD)?;
    let identity: Option<Identity> = moment.state(&Identity::ENTRY)?;
    let objects = objects(&moment)?;
    let pending = objects.iter().filter_map(|object| object.details_pending).sum();
    Ok(MirrorStatus {
        database: config.database.display().to_string(),
        bytes,
        wal_bytes,
        base_url: identity.map(|identity| identity.base_url),
        objects,
        ru: ru(&moment, config, pending, now)?,
        hold_until: hold.and_then(|hold| hold.ends_at(now)),
        missing_scopes: moment.state(&MissingScopes::ENTRY)?.unwrap_or_default(),
        edits: outbox_report::counts(&moment)?,
        publish: queue::lag(&moment, now)?,
        last_success: report::last_success(&moment)?,
        trouble: report::failing(&moment)?,
        runs: report::last_runs(&moment, RUNS)?,
        oddities: report::oddities(&moment)?,
    })
}

/// Whether the mirror can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Readiness {
    /// Its lists were copied, and are as fresh as the schedule makes them.
    Ready,
    /// Some list was never copied to its end.
    NeverCopied,
    /// The schedule should have brought changes since.
    Stale,
    /// The mirror cannot be read.
    Unreadable,
}

/// Scheduled runs that may be missed before a mirror counts as stale.
const MISSED: usize = 3;

/// The age up to which a mirror is never stale, however often the schedule runs.
const FRESH: Duration = Duration::from_secs(300);

impl MirrorStatus {
    /// Whether the mirror can be relied on. Details are not required, and neither is what the key may not read.
    pub fn readiness(&self, config: &Config, now: Instant) -> Readiness {
        let wanted = |object: &&ObjectStatus| {
            let configured = config.sync.objects.as_deref().is_none_or(|named| named.contains(&object.object));
            object.removed.is_some() && configured && !self.missing_scopes.0.contains_key(object.object.as_str())
        };
        let objects: Vec<&ObjectStatus> = self.objects.iter().filter(wanted).collect();
        let as_of: Option<Vec<Instant>> = objects.iter().map(|object| object.changes_as_of).collect();
        let schedule = config.sync.schedule.as_ref().map(|cron| (cron, &config.sync.time_zone));
        match as_of {
            Some(as_of) if !as_of.is_empty() => {
                let stale = as_of.into_iter().any(|as_of| is_stale(as_of, schedule, now));
                if stale { Readiness::Stale } else { Readiness::Ready }
            }
            _ => Readiness::NeverCopied,
        }
    }
}

/// Whether the schedule should have brought changes since an instant. Without a schedule nothing is late.
fn is_stale(as_of: Instant, schedule: Option<(&Cron, &TimeZone)>, now: Instant) -> bool {
    let Some((cron, zone)) = schedule else { return false };
    let due = cron.due_after(as_of, zone).nth(MISSED - 1);
    now > as_of.plus(FRESH) && due.is_some_and(|due| due < now)
}

fn ru(tx: &ReadTx<'_>, config: &Config, pending: u64, now: Instant) -> Result<RuStatus, StoreError> {
    let limits = &limits(&config.budget);
    let stored: Option<Ledger> = tx.state(&LEDGER)?;
    let note = lock::note_beside(&config.database);
    let ledger = meter::later(stored.unwrap_or_default(), note.as_deref()).at(now, limits);
    let (costs, _) = report::cost_of_runs(tx, RUNS_OF_FORECAST, now)?;
    let left = limits.limit.saturating_sub(ledger.used).get();
    let later = pending.saturating_sub(left);
    Ok(RuStatus {
        per_run: forecast(&costs).get(),
        windows_for_details: match (pending, limits.limit.get()) {
            (0, _) => Some(0),
            (_, 0) => None,
            (_, limit) => Some(1 + later.div_ceil(limit)),
        },
        used: ledger.used.get(),
        left,
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
    for (object, rows, entry) in [
        (Resource::TeamMembers, report::team_members(tx)?, Fresh::TEAM),
        (Resource::CustomFields, report::custom_fields(tx)?, Fresh::DEFINITIONS),
    ] {
        let fresh: Option<Fresh> = tx.state(&entry)?;
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
        });
    }
    Ok(objects)
}

fn records(tx: &ReadTx<'_>, object: Object) -> Result<ObjectStatus, StoreError> {
    let holds = report::holds(tx, object)?;
    let swept: Option<Fresh> = tx.state(&Fresh::sweep(object))?;
    let caught_up: Option<Fresh> = tx.state(&Fresh::changes(object))?;
    let sweep: Option<Sweep> = tx.state(&Sweep::entry(object))?;
    let outage: Option<Outage> = tx.state(&Outage::entry(object))?;
    let evidence: Option<Evidence> = tx.state(&Evidence::entry(object))?;
    // The newest of what is known: a sweep compares every record too.
    let complete = evidence
        .and_then(|evidence| evidence.last_complete())
        .into_iter()
        .chain(
            evidence
                .is_none()
                .then_some(swept)
                .flatten()
                .map(|fresh| Completeness { as_of: fresh.began, by_record: true }),
        )
        .max_by_key(|known| known.as_of);
    let (swept, caught_up) = (swept.map(|f| f.began), caught_up.map(|f| f.began));
    Ok(ObjectStatus {
        object: object.resource(),
        rows: holds.rows,
        removed: Some(holds.removed),
        details_current: Some(holds.details_current),
        details_pending: Some(holds.rows - holds.details_current),
        custom_fields: Some(holds.custom_fields),
        changes_as_of: caught_up.max(swept),
        complete_as_of: complete.map(|known| known.as_of),
        complete_by: complete.map(|known| if known.by_record { "records" } else { "count" }),
        differences: evidence.map_or(0, |known| known.open),
        sweep: sweep.map(|sweep| SweepStatus { began: sweep.began, rows: sweep.rows, first_copy: swept.is_none() }),
        outage: outage.map(|outage| OutageStatus { going: outage.going, of: outage.of, seen_at: outage.seen_at }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Instant {
        text.parse().unwrap()
    }

    #[test]
    fn a_mirror_is_stale_after_three_missed_runs_and_never_within_minutes() {
        let (often, nightly) = (Cron::parse("*/10 * * * * *").unwrap(), Cron::parse("0 0 3 * * *").unwrap());
        let stale = |cron, as_of, now| is_stale(at(as_of), Some((cron, &TimeZone::UTC)), at(now));
        assert!(!stale(&often, "2026-03-04T12:00:00Z", "2026-03-04T12:05:00Z"));
        assert!(stale(&often, "2026-03-04T12:00:00Z", "2026-03-04T12:05:01Z"));
        assert!(!stale(&nightly, "2026-03-04T03:00:01Z", "2026-03-07T03:00:00Z"));
        assert!(stale(&nightly, "2026-03-04T03:00:01Z", "2026-03-07T03:00:01Z"));
        assert!(!is_stale(at("2026-03-04T03:00:01Z"), None, at("2027-03-04T03:00:01Z")));
    }
}
