//! The budget: whether it pays for what the schedule reads.

use std::time::Duration;

use jiff::tz::TimeZone;

use super::Finding;
use super::facts::CheckFacts;
use crate::budget::MAX_POLL;
use crate::config::{ChangesSchedule, Cron, SyncConfig};
use crate::format::{self, count};
use crate::model::{Instant, Object};

/// Schedules are counted over at least this time, so that a weekly run has its share in a daily window.
const HORIZON: Duration = Duration::from_secs(28 * 86_400);
/// The maximum number of runs of one schedule that are counted; the total is extrapolated.
const MAX_DUE: usize = 1_000;
/// The cost of the lists without a filter for changes: definitions of both objects and the team.
const SHORT_LISTS: u64 = 5;
const AUDIT: u64 = 11;

/// The RU needed in one window, on average. `rows` are the objects' sizes, `per_run` is the cost of a run for changes.
fn needs(sync: &SyncConfig, window: Duration, rows: &[u64], per_run: u64, now: Instant) -> [(&'static str, f64); 4] {
    let runs_of = |cron: Option<&Cron>| cron.map_or(0.0, |cron| runs(cron, &sync.time_zone, now, window));
    let pages = |most: u64| rows.iter().map(|rows| rows.div_ceil(100).clamp(1, most)).sum::<u64>() as f64;
    // Where the schedule is automatic, it takes what there is, and at least this.
    let changes = match &sync.schedule {
        ChangesSchedule::Auto => window.as_secs_f64() / MAX_POLL.as_secs_f64(),
        other => runs_of(other.cron()),
    };
    // Between audits, each object is counted every hour.
    let counts = changes.min(window.as_secs_f64() / 3_600.0) * rows.len() as f64;
    [
        ("changes", changes * per_run as f64),
        ("definitions and team", runs_of(sync.definitions_schedule.as_ref()).min(changes) * SHORT_LISTS as f64),
        ("audits", runs_of(sync.audit_schedule.as_ref()) * pages(AUDIT) + counts),
        ("sweeps", runs_of(sync.sweep_schedule.as_ref()) * (pages(u64::MAX) + SHORT_LISTS as f64)),
    ]
}

fn runs(cron: &Cron, zone: &TimeZone, now: Instant, window: Duration) -> f64 {
    let horizon = window.max(HORIZON);
    let ends = now.plus(horizon);
    let due: Vec<Instant> = cron.due_after(now, zone).take_while(|at| *at < ends).take(MAX_DUE).collect();
    let (number, over) = match (due.first(), due.last()) {
        (Some(first), Some(last)) if due.len() == MAX_DUE => (MAX_DUE - 1, last.since(*first)),
        _ => (due.len(), horizon),
    };
    number as f64 * (window.as_secs_f64() / over.as_secs_f64())
}

pub(super) fn check(facts: &CheckFacts<'_>) -> Finding {
    let name = "budget.needs";
    let (config, budget) = (facts.config, &facts.config.budget);
    let mirrored = Object::ALL.into_iter().filter(|object| config.mirrors(object.resource()));
    let Some(rows) = mirrored.map(|object| facts.records(object)).collect::<Option<Vec<u64>>>() else {
        let why = "the number of records is not known: they were not counted, and the mirror is not complete yet";
        return Finding::skip(name, why);
    };
    let needs = needs(&config.sync, budget.window, &rows, facts.per_run(), facts.now);
    let total = needs.iter().map(|(_, units)| units).sum::<f64>().ceil() as u64;
    let parts = needs.iter().filter(|(_, units)| *units > 0.0);
    let parts: Vec<String> = parts.map(|(what, units)| format!("{what} {}", count(units.ceil() as u64))).collect();
    if parts.is_empty() {
        return Finding::ok(name, "nothing is scheduled");
    }
    let (limit, window) = (budget.limit.get(), format::duration(budget.window));
    let message = format!("about {} of {} RU in {window}: {}", count(total), count(limit), parts.join(", "));
    if total > limit {
        let fix =
            format!("set `budget.limit` to {} or more, or schedule fewer runs with `sync.schedule`", count(total));
        return Finding::warn(name, message, fix);
    }
    Finding::ok(name, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    const DAY: Duration = Duration::from_secs(86_400);

    fn per_day(line: &str) -> f64 {
        let now = "2026-01-02T03:04:05Z".parse().unwrap();
        runs(&Cron::parse(line).unwrap(), &TimeZone::UTC, now, DAY)
    }

    #[test]
    fn schedules_are_counted_in_windows() {
        for (line, runs) in [
            ("0 */5 * * * *", 288.0),
            ("* * * * * *", 86_400.0),
            ("0 0 */6 * * *", 4.0),
            ("0 0 3 * * SUN", 1.0 / 7.0),
            ("0 0 0 30 2 *", 0.0),
        ] {
            assert!((per_day(line) - runs).abs() < 1e-9, "{line} {}", per_day(line));
        }
    }

    #[test]
    fn short_lists_are_counted_by_their_schedule() {
        let short_lists = |flags: &[(&'static str, &str)]| {
            let flags = flags.iter().map(|(name, text)| (*name, (*text).into())).collect();
            let environment = crate::config::Environment::default();
            let default_file = "/nowhere".into();
            let sources = crate::config::Sources { file: None, default_file, environment, flags };
            let sync = Config::load(&sources).unwrap().sync;
            needs(&sync, DAY, &[100, 100], 2, "2026-01-02T03:04:05Z".parse().unwrap())[1].1
        };
        let definitions = "sync.definitions_schedule";
        for (flags, units) in [
            (&[][..], 20.0),
            (&[(definitions, "0 0 * * * *")], 120.0),
            (&[(definitions, "0 0 3 * * *")], 5.0),
            (&[(definitions, "off")], 0.0),
            // The lists are read by runs: not more often than those.
            (&[(definitions, "0 0 * * * *"), ("sync.schedule", "0 0 3 * * *")], 5.0),
            (&[("sync.schedule", "off")], 0.0),
        ] {
            assert!((short_lists(flags) - units).abs() < 1e-9, "{flags:?}: {}", short_lists(flags));
        }
    }
}
