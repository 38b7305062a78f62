//! The budget: whether it pays for what the schedule reads.

use std::time::Duration;

use jiff::tz::TimeZone;

use super::Finding;
use super::mirror::MirrorFacts;
use super::service::ServiceReport;
use crate::app::reserves;
use crate::budget::forecast;
use crate::config::{Config, Cron};
use crate::format::{self, count};
use crate::model::{Instant, Object};
use crate::store::StoreError;

/// The runs of a schedule that its pace is taken from: those of some days, or of many years.
const RUNS: usize = 1_000;

/// How often a schedule is due in a window, on average.
fn runs(cron: &Cron, zone: &TimeZone, now: Instant, window: Duration) -> f64 {
    let due: Vec<Instant> = cron.due_after(now, zone).take(RUNS).collect();
    match (due.first(), due.last()) {
        (Some(first), Some(last)) if first < last => {
            (due.len() - 1) as f64 * window.as_secs_f64() / last.since(*first).as_secs_f64()
        }
        _ => 0.0,
    }
}

/// The number of records of an object at the service, or as far as it was copied; `None` if neither is known.
fn records(object: Object, mirror: Option<&MirrorFacts>, service: &ServiceReport) -> Option<u64> {
    let copied = || mirror?.status.of(object).filter(|held| held.changes_as_of.is_some()).map(|held| held.rows);
    service.total(object).or_else(copied)
}

pub(super) fn check(
    config: &Config,
    mirror: &Result<MirrorFacts, StoreError>,
    service: &ServiceReport,
    now: Instant,
) -> Finding {
    let (name, budget, mirror) = ("budget.needs", &config.budget, mirror.as_ref().ok());
    let mirrored = Object::ALL.into_iter().filter(|object| config.mirrors(object.resource()));
    let Some(rows) = mirrored.map(|object| records(object, mirror, service)).collect::<Option<Vec<u64>>>() else {
        let why = "the number of records is not known: they were not counted, and the mirror is not complete yet";
        return Finding::skip(name, why);
    };
    let per_run = mirror.map_or_else(|| forecast(&[]).get(), |mirror| mirror.status.ru.per_run);
    let due = |cron: &Cron| runs(cron, &config.sync.time_zone, now, budget.window);
    let needs = reserves::needs(&config.sync, (&rows, per_run), budget.window, due);
    let total = needs.iter().map(|(_, units)| units).sum::<f64>().ceil() as u64;
    let parts = needs.iter().filter(|(_, units)| *units > 0.0);
    let parts: Vec<String> = parts.map(|(what, units)| format!("{what} {}", count(units.ceil() as u64))).collect();
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
            reserves::needs(&sync, (&[100, 100], 2), DAY, |cron| per_day(cron.as_str()))[1].1
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
