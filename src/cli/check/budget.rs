//! The budget: whether it pays for what the schedule reads.

use std::time::Duration;

use jiff::tz::TimeZone;

use super::Finding;
use super::facts::CheckFacts;
use crate::app::schedule;
use crate::config::Cron;
use crate::format::{self, count};
use crate::model::{Instant, Object};

/// Schedules are counted over at least this time, so that a weekly run has its share in a daily window.
const HORIZON: Duration = Duration::from_secs(28 * 86_400);
/// The maximum number of runs of one schedule that are counted; the total is extrapolated.
const MAX_DUE: usize = 1_000;

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
    let due = |cron: &Cron| runs(cron, &config.sync.time_zone, facts.now, budget.window);
    let needs = schedule::needs(&config.sync, (&rows, facts.per_run()), budget.window, due);
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
            schedule::needs(&sync, (&[100, 100], 2), DAY, |cron| per_day(cron.as_str()))[1].1
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
