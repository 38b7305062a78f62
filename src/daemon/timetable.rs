//! The timetable: determines what is due from the time and the cron lines.
//!
//! A tick is due if its time lies between the last check and now, whatever caused the check. So ticks that were missed
//! while suspended or stopped count once, however many there were, and a tick that is announced twice counts once.

use std::time::Duration;

use crate::config::{ChangesSchedule, Cron, SyncConfig};
use crate::model::Instant;

const MAX_DELAY: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum ScheduleKind {
    Changes,
    Audit,
    Sweep,
}

impl ScheduleKind {
    pub const ALL: [ScheduleKind; 3] = [ScheduleKind::Changes, ScheduleKind::Audit, ScheduleKind::Sweep];
}

#[derive(Clone, Debug, PartialEq)]
pub struct Timetable {
    pub sync: SyncConfig,
    /// How often changes are asked for where that is automatic: from the end of one run to the beginning of the next.
    pub poll: Option<Duration>,
    /// Added to every tick: mirrors with the same schedule do not all send requests in the same second.
    pub delay: Duration,
}

/// In the precision in which times are shown.
fn in_micros(duration: Duration) -> Duration {
    Duration::from_micros(duration.as_micros() as u64)
}

impl Timetable {
    /// The timetable of a configuration. `part`, from 0 to 1, is this mirror's part of the longest delay.
    pub fn new(sync: &SyncConfig, part: f64) -> Timetable {
        Timetable {
            sync: sync.clone(),
            poll: (sync.schedule == ChangesSchedule::Auto).then_some(sync.min_interval),
            delay: in_micros(MAX_DELAY.mul_f64(part.clamp(0.0, 1.0))),
        }
    }

    pub fn line(&self, kind: ScheduleKind) -> Option<&Cron> {
        match (kind, &self.sync.schedule) {
            (ScheduleKind::Changes, ChangesSchedule::Cron(cron)) => Some(cron),
            (ScheduleKind::Changes, ChangesSchedule::Off | ChangesSchedule::Auto) => None,
            (ScheduleKind::Audit, _) => self.sync.audit_schedule.as_ref(),
            (ScheduleKind::Sweep, _) => self.sync.sweep_schedule.as_ref(),
        }
    }

    pub fn offset(&self, at: Instant) -> i32 {
        self.sync.time_zone.to_offset(at.timestamp()).seconds()
    }

    /// When a job of this kind runs next after an instant; `None` for never.
    pub fn next_tick(&self, kind: ScheduleKind, after: Instant) -> Option<Instant> {
        if let (ScheduleKind::Changes, Some(poll)) = (kind, self.poll) {
            // Runs follow each other at intervals that differ: many mirrors do not ask in the same second.
            return Some(after.plus(in_micros(poll))).filter(|due| *due > after);
        }
        let due = self.line(kind)?.next_after(after.minus(self.delay), &self.sync.time_zone)?;
        Some(due.plus(self.delay))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Environment, Sources};

    fn timetable(zone: &str, part: f64) -> Timetable {
        let flags = vec![("sync.time_zone", zone.into()), ("sync.sweep_schedule", "0 30 2 * * *".into())];
        let sources =
            Sources { file: None, default_file: "/nowhere".into(), environment: Environment::default(), flags };
        Timetable::new(&Config::load(&sources).unwrap().sync, part)
    }

    fn is_due(table: &Timetable, kind: ScheduleKind, after: Instant, now: Instant) -> bool {
        table.next_tick(kind, after).is_some_and(|due| due <= now)
    }

    fn at(text: &str) -> Instant {
        text.parse().unwrap()
    }

    #[test]
    fn tick_counts_once_whatever_the_time_between_checks() {
        let table = timetable("UTC", 0.0);
        let seen = at("2026-03-04T12:00:00Z");
        assert!(!is_due(&table, ScheduleKind::Changes, seen, at("2026-03-04T12:04:59Z")));
        assert!(is_due(&table, ScheduleKind::Changes, seen, at("2026-03-04T12:05:00Z")));
        assert!(is_due(&table, ScheduleKind::Changes, seen, at("2026-03-07T12:01:00Z")));
        // The check itself is the new beginning.
        assert!(!is_due(&table, ScheduleKind::Changes, at("2026-03-07T12:01:00Z"), at("2026-03-07T12:04:00Z")));
    }

    #[test]
    fn delay_moves_every_tick() {
        let table = timetable("UTC", 0.5);
        assert_eq!(table.delay, Duration::from_secs(5));
        let next = table.next_tick(ScheduleKind::Changes, at("2026-03-04T12:00:00Z"));
        assert_eq!(next, Some(at("2026-03-04T12:00:05Z")), "the tick of 12:00:00 is still to come");
        assert!(!is_due(&table, ScheduleKind::Changes, at("2026-03-04T11:59:00Z"), at("2026-03-04T12:00:04Z")));
        assert!(is_due(&table, ScheduleKind::Changes, at("2026-03-04T11:59:00Z"), at("2026-03-04T12:00:05Z")));
    }

    #[test]
    fn tick_in_a_skipped_hour_is_not_lost() {
        let table = timetable("Europe/Berlin", 0.0);
        // On 29 March 2026 clocks go from 02:00 to 03:00: 02:30 is not on them.
        assert!(is_due(&table, ScheduleKind::Sweep, at("2026-03-28T12:00:00Z"), at("2026-03-29T01:30:00Z")));
        let autumn = table.next_tick(ScheduleKind::Sweep, at("2026-10-24T12:00:00Z")).unwrap();
        let again = table.next_tick(ScheduleKind::Sweep, autumn).unwrap();
        assert!(again.since(autumn) > Duration::from_secs(20 * 3600), "{autumn} and again {again}");
        assert_ne!(table.offset(at("2026-01-01T00:00:00Z")), table.offset(at("2026-07-01T00:00:00Z")));
    }
}
