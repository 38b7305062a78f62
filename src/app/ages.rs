//! When the schedule reads an object again, which its age is measured against.

use std::time::Duration;

use crate::budget::MAX_POLL;
use crate::config::{ChangesSchedule, SyncConfig};
use crate::model::{Instant, Resource};

/// How late an object may be before it counts as stale.
pub const LATE: Duration = Duration::from_secs(1800);

/// When an object that was read at an instant is due again; `None` for never. `poll` is the interval of the automatic
/// schedule, as far as it is known.
pub fn next_read(sync: &SyncConfig, object: Resource, read: Instant, poll: Option<Duration>) -> Option<Instant> {
    let zone = &sync.time_zone;
    let changes = |after: Instant| next_changes(sync, after, poll);
    if matches!(object, Resource::Contacts | Resource::Companies) {
        return changes(read);
    }
    // The next run after the tick reads them. A sweep reads them too, but a sweep that is interrupted may not.
    let tick = sync.definitions_schedule.as_ref().and_then(|cron| cron.next_after(read, zone));
    let listed = tick.and_then(|tick| changes(tick.minus(Duration::from_secs(1))));
    listed.or_else(|| sync.sweep_schedule.as_ref()?.next_after(read, zone))
}

/// When changes are next due after an instant. Where only a daemon knows the interval, it is the longest that an unspent
/// budget leads to.
pub(super) fn next_changes(sync: &SyncConfig, after: Instant, poll: Option<Duration>) -> Option<Instant> {
    match &sync.schedule {
        ChangesSchedule::Off => None,
        ChangesSchedule::Cron(cron) => cron.next_after(after, &sync.time_zone),
        ChangesSchedule::Auto => {
            let interval = poll.unwrap_or(MAX_POLL.max(sync.min_interval));
            Some(after.plus(interval)).filter(|next| *next > after)
        }
    }
}

/// When an object that was known to be complete at an instant is next checked by the schedule; `None` for never.
pub fn next_check(sync: &SyncConfig, object: Resource, complete: Instant) -> Option<Instant> {
    if !matches!(object, Resource::Contacts | Resource::Companies) {
        return next_read(sync, object, complete, None);
    }
    let schedules = [&sync.audit_schedule, &sync.sweep_schedule].into_iter().flatten();
    schedules.filter_map(|cron| cron.next_after(complete, &sync.time_zone)).min()
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
    fn automatic_schedule_has_the_interval_of_the_moment() {
        let auto = sync(&[("sync.schedule", "auto")]);
        let noon = at("2026-03-04T12:00:00Z");
        let next = |poll| next_read(&auto, Resource::Contacts, noon, poll).unwrap().since(noon);
        assert_eq!(next(Some(Duration::from_secs(3600))), Duration::from_secs(3600));
        assert_eq!(next(None), MAX_POLL);
    }
}
