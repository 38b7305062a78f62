//! What follows from the schedule: when it reads an object again, which the age of each object is measured against; and what
//! its runs cost: the RU that they will still need in the budget's window, and what they leave for edits.
//!
//! A manual run reserves as much as a run of the daemon, even if no daemon is running: the daemon may be started again
//! at any time, or a timer may run the schedule.

use std::ops::Range;
use std::time::Duration;

use super::settings::{MirrorSettings, limits};
use crate::budget::{self, Ledger, Limits, MAX_POLL};
use crate::config::{ChangesSchedule, Config, Cron, SyncConfig};
use crate::model::{Instant, Object, Purpose, Resource, Ru};
use crate::store::{ReadTx, Reader, StoreError, lock, report};
use crate::sync::BudgetMeter;
use crate::sync::budget_meter::{self, LEDGER};
use crate::sync::forecast::{SHORT_LISTS, of_audit};
use crate::sync::walks::sweep;

/// When an object that was read at an instant is due again; `None` for never. `poll` is the interval of the automatic
/// schedule, as far as it is known.
pub fn next_read(sync: &SyncConfig, object: Resource, read: Instant, poll: Option<Duration>) -> Option<Instant> {
    let zone = &sync.time_zone;
    let changes = |after: Instant| changes_after(sync, after, poll).next();
    if matches!(object, Resource::Contacts | Resource::Companies) {
        return changes(read);
    }
    // The next run after the tick reads them. A sweep reads them too, but a sweep that is interrupted may not.
    let tick = sync.definitions_schedule.as_ref().and_then(|cron| cron.next_after(read, zone));
    let listed = tick.and_then(|tick| changes(tick.minus(Duration::from_secs(1))));
    listed.or_else(|| sync.sweep_schedule.as_ref()?.next_after(read, zone))
}

/// When changes are due after an instant, in order. Where only a daemon knows the interval, it is the longest that an
/// unspent budget leads to.
fn changes_after(sync: &SyncConfig, after: Instant, poll: Option<Duration>) -> Box<dyn Iterator<Item = Instant>> {
    match &sync.schedule {
        ChangesSchedule::Off => Box::new(std::iter::empty()),
        ChangesSchedule::Cron(cron) => Box::new(cron.due_after(after, &sync.time_zone)),
        ChangesSchedule::Auto => {
            let interval = poll.unwrap_or(MAX_POLL.max(sync.min_interval));
            let next = move |at: &Instant| Some(at.plus(interval)).filter(|next| next > at);
            Box::new(std::iter::successors(Some(after), next).skip(1))
        }
    }
}

/// Scheduled runs that may be missed before a mirror counts as stale.
const MISSED: usize = 3;

/// The age up to which a mirror is never stale, however often the schedule runs.
const FRESH: Duration = Duration::from_secs(300);

/// Whether the schedule should have brought changes since an instant. Without a schedule a mirror is never stale.
pub(super) fn is_stale(sync: &SyncConfig, as_of: Instant, poll: Option<Duration>, now: Instant) -> bool {
    let due = changes_after(sync, as_of, poll).nth(MISSED - 1);
    now > as_of.plus(FRESH) && due.is_some_and(|due| due < now)
}

/// When an object that was known to be complete at an instant is next checked by the schedule; `None` for never.
pub fn next_check(sync: &SyncConfig, object: Resource, complete: Instant) -> Option<Instant> {
    if !matches!(object, Resource::Contacts | Resource::Companies) {
        return next_read(sync, object, complete, None);
    }
    let schedules = [&sync.audit_schedule, &sync.sweep_schedule].into_iter().flatten();
    schedules.filter_map(|cron| cron.next_after(complete, &sync.time_zone)).min()
}

/// The RU that the runs of a schedule need in a time, by what they are for; changes come first. `rows` are the sizes of the
/// mirrored objects, `per_run` is the cost of a run for changes, `runs_of` the number of times that a schedule is due.
pub fn needs(
    sync: &SyncConfig,
    (rows, per_run): (&[u64], u64),
    time: Duration,
    runs_of: impl Fn(&Cron) -> f64,
) -> [(&'static str, f64); 4] {
    let runs_of = |cron: Option<&Cron>| cron.map_or(0.0, &runs_of);
    let cost = |of: fn(u64) -> Ru| rows.iter().map(|rows| of(*rows)).sum::<Ru>().get() as f64;
    let short_lists = SHORT_LISTS.get() as f64;
    // Where the schedule is automatic, it takes what there is, and at least this.
    let changes = match &sync.schedule {
        ChangesSchedule::Auto => time.as_secs_f64() / MAX_POLL.as_secs_f64(),
        other => runs_of(other.cron()),
    };
    // Between audits, each object is counted every hour.
    let counts = changes.min(time.as_secs_f64() / 3_600.0) * rows.len() as f64;
    [
        ("changes", changes * per_run as f64),
        ("definitions and team", runs_of(sync.definitions_schedule.as_ref()).min(changes) * short_lists),
        ("audits", runs_of(sync.audit_schedule.as_ref()) * cost(of_audit) + counts),
        ("sweeps", runs_of(sync.sweep_schedule.as_ref()) * (cost(sweep::price) + short_lists)),
    ]
}

/// What scheduled runs will need in this window and in the next.
pub(super) fn for_schedule(
    settings: &MirrorSettings,
    meter: &BudgetMeter,
    now: Instant,
) -> Result<[Ru; 2], StoreError> {
    let config = &settings.config;
    reserves(&Reader::open(&config.database)?.begin()?, config, &meter.ledger(), now)
}

fn reserves(tx: &ReadTx<'_>, config: &Config, ledger: &Ledger, now: Instant) -> Result<[Ru; 2], StoreError> {
    let (sync, limits) = (&config.sync, &limits(&config.budget));
    let refills = ledger.refills_at(limits);
    let next = refills..refills.plus(limits.window());
    Ok([reserved(tx, sync, limits, now..refills)?, reserved(tx, sync, limits, next)?])
}

/// What a purpose may spend: the rest is spent, or reserved for scheduled runs.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    /// In this window.
    pub left: Ru,
    /// In each one after it.
    later: Ru,
}

impl Allowance {
    pub fn of(
        purpose: Purpose,
        tx: &ReadTx<'_>,
        config: &Config,
        ledger: &Ledger,
        now: Instant,
    ) -> Result<Allowance, StoreError> {
        let limits = limits(&config.budget);
        let [reserve, later] = reserves(tx, config, ledger, now)?;
        let next = Ledger { used: Ru::ZERO, ..*ledger };
        let for_edits = if config.write_back.enabled { budget::kept_for_edits(limits.limit) } else { Ru::ZERO };
        let [reserve, later] = [reserve, later].map(|reserve| match purpose {
            Purpose::Outbox => reserve,
            _ => (reserve + for_edits).min(budget::most_reserved(limits.limit)),
        });
        let left = ledger.left_for(purpose, &limits, reserve);
        Ok(Allowance { left, later: next.left_for(purpose, &limits, later) })
    }

    /// The windows that so much takes, this one included; `None` if no window has any for it.
    pub fn windows(&self, units: Ru) -> Option<u64> {
        match units.saturating_sub(self.left).get() {
            0 => Some(1),
            rest => (self.later > Ru::ZERO).then(|| 1 + rest.div_ceil(self.later.get())),
        }
    }
}

/// What scheduled runs will spend in a time within one window.
fn reserved(tx: &ReadTx<'_>, sync: &SyncConfig, limits: &Limits, time: Range<Instant>) -> Result<Ru, StoreError> {
    let Range { start: now, end: refills } = time;
    let mut units = budget::reserve(changes_after(sync, now, None), refills, cost_of_changes(tx)?, limits.limit);
    // An audit compares what is copied: those that fall into a first copy are left out.
    let is_copied = tx.is_copied(Object::Contact)? && tx.is_copied(Object::Company)?;
    if let Some(audits) = sync.audit_schedule.as_ref().filter(|_| is_copied) {
        let costs = Object::ALL.into_iter().map(|object| Ok(of_audit(report::holds(tx, object)?.rows)));
        let cost = costs.sum::<Result<Ru, StoreError>>()?;
        units += budget::reserve(audits.due_after(now, &sync.time_zone), refills, cost, limits.limit);
    }
    Ok(units.min(budget::most_reserved(limits.limit)))
}

/// The likely cost of the next run for changes.
pub(super) fn cost_of_changes(tx: &ReadTx<'_>) -> Result<Ru, StoreError> {
    Ok(budget::forecast(&report::cost_of_changes(tx)?))
}

pub(super) fn ledger(tx: &ReadTx<'_>, config: &Config) -> Result<Ledger, StoreError> {
    let stored: Option<Ledger> = tx.state(&LEDGER)?;
    let note = lock::note_beside(&config.database);
    Ok(budget_meter::later(stored.unwrap_or_default(), note.as_deref()))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct EditBudget {
    /// What is left for edits in this window: the rest is spent, or reserved for scheduled runs.
    pub left: u64,
    pub limit: u64,
    #[serde(serialize_with = "crate::model::instant::utc_always")]
    pub refills_at: Instant,
}

/// What edits may still spend, as the mirror's file shows it.
pub fn edit_budget(config: &Config, now: Instant) -> Result<EditBudget, StoreError> {
    let limits = limits(&config.budget);
    let reader = Reader::open(&config.database)?;
    let tx = reader.begin()?;
    let ledger = ledger(&tx, config)?.at(now, &limits);
    let left = Allowance::of(Purpose::Outbox, &tx, config, &ledger, now)?.left.get();
    Ok(EditBudget { left, limit: limits.limit.get(), refills_at: ledger.refills_at(&limits) })
}

/// Whether the next push holds new edits, because there are too many.
pub fn holds_new_edits(tx: &ReadTx<'_>, config: &Config) -> Result<bool, StoreError> {
    let ledger = ledger(tx, config)?.at(Instant::system_now(), &limits(&config.budget));
    tx.holds_new_edits(ledger.steady_time(), config.write_back.max_edits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Environment, Sources};

    fn at(text: &str) -> Instant {
        text.parse().unwrap()
    }

    fn sync(flags: &[(&'static str, &str)]) -> SyncConfig {
        let flags = flags.iter().map(|(key, text)| (*key, (*text).to_string())).collect();
        let environment = Environment::default();
        Config::load(&Sources { file: None, default_file: "/nowhere".into(), environment, flags }).unwrap().sync
    }

    #[test]
    fn each_object_has_a_schedule_of_its_own() {
        let default = sync(&[]);
        let noon = at("2026-03-04T12:00:01Z");
        let next = |object| next_read(&default, object, noon, None).unwrap();
        assert_eq!(next(Resource::Contacts), at("2026-03-04T12:05:00Z"));
        assert_eq!(next(Resource::TeamMembers), at("2026-03-04T18:00:00Z"));
        let before_a_sweep = next_read(&default, Resource::TeamMembers, at("2026-03-08T00:05:00Z"), None);
        assert_eq!(before_a_sweep, Some(at("2026-03-08T06:00:00Z")));
        assert_eq!(next_check(&default, Resource::Companies, noon), Some(at("2026-03-04T18:00:00Z")));
        let office = sync(&[("sync.schedule", "*/5 8-17 * * MON-FRI"), ("sync.sweep_schedule", "off")]);
        let friday = at("2026-03-06T17:55:01Z");
        assert_eq!(next_read(&office, Resource::Contacts, friday, None), Some(at("2026-03-09T08:00:00Z")));
        assert_eq!(next_read(&office, Resource::CustomFields, friday, None), Some(at("2026-03-09T08:00:00Z")));
        // Without runs for changes, only a sweep reads them.
        let swept = sync(&[("sync.schedule", "off")]);
        assert_eq!(next_read(&swept, Resource::TeamMembers, noon, None), Some(at("2026-03-08T03:00:00Z")));
    }

    #[test]
    fn what_is_never_due_is_never_late() {
        let off = sync(&[
            ("sync.schedule", "off"),
            ("sync.audit_schedule", "off"),
            ("sync.sweep_schedule", "off"),
            ("sync.definitions_schedule", "off"),
        ]);
        for object in Resource::ALL {
            assert_eq!(next_read(&off, object, Instant::EPOCH, None), None);
            assert_eq!(next_check(&off, object, Instant::EPOCH), None);
        }
    }

    #[test]
    fn windows_are_counted_from_what_is_left() {
        for (units, left, later, windows) in
            [(10, 100, 100, Some(1)), (100, 99, 100, Some(2)), (250, 50, 60, Some(5)), (1, 0, 0, None)]
        {
            let allowance = Allowance { left: Ru::new(left), later: Ru::new(later) };
            assert_eq!(allowance.windows(Ru::new(units)), windows, "{units} {left} {later}");
        }
    }

    #[test]
    fn automatic_schedule_has_the_interval_of_the_moment() {
        let auto = sync(&[("sync.schedule", "auto")]);
        let noon = at("2026-03-04T12:00:00Z");
        let next = |poll| next_read(&auto, Resource::Contacts, noon, poll).unwrap().since(noon);
        assert_eq!(next(Some(Duration::from_secs(3600))), Duration::from_secs(3600));
        assert_eq!(next(None), MAX_POLL);
    }

    #[test]
    fn mirror_is_stale_after_three_missed_runs_and_at_least_five_minutes() {
        let stale = |schedule, as_of, now| is_stale(&sync(&[("sync.schedule", schedule)]), at(as_of), None, at(now));
        let (often, nightly) = ("*/10 * * * * *", "0 0 3 * * *");
        assert!(!stale(often, "2026-03-04T12:00:00Z", "2026-03-04T12:05:00Z"));
        assert!(stale(often, "2026-03-04T12:00:00Z", "2026-03-04T12:05:01Z"));
        assert!(!stale(nightly, "2026-03-04T03:00:01Z", "2026-03-07T03:00:00Z"));
        assert!(stale(nightly, "2026-03-04T03:00:01Z", "2026-03-07T03:00:01Z"));
        assert!(!stale("off", "2026-03-04T03:00:01Z", "2027-03-04T03:00:01Z"));
    }

    #[test]
    fn automatic_schedule_is_late_by_the_interval_of_the_moment() {
        let hourly = sync(&[("sync.schedule", "auto"), ("sync.min_interval", "1h")]);
        let often = sync(&[("sync.schedule", "auto")]);
        let hours = |hours: u64| Some(Duration::from_secs(3600 * hours));
        for (sync, poll, three) in [(&hourly, None, 3), (&hourly, hours(2), 6), (&often, hours(1), 3)] {
            let stale =
                |seconds| is_stale(sync, Instant::EPOCH, poll, Instant::EPOCH.plus(Duration::from_secs(seconds)));
            assert!(!stale(3600 * three) && stale(3600 * three + 1), "{poll:?}");
        }
        assert!(is_stale(&often, Instant::EPOCH, None, Instant::EPOCH.plus(3 * MAX_POLL + Duration::from_secs(1))));
    }
}
