//! The budget: what this workspace needs, and how many windows the first copy takes.

use std::time::Duration;

use jiff::tz::TimeZone;

use super::finding::Finding;
use super::mirror::{CopiedObject, MirrorFacts};
use crate::budget::MAX_POLL;
use crate::budget::{Ledger, Limits, forecast};
use crate::config::{ChangesSchedule, Config, Cron, SyncConfig};
use crate::format::{self, count};
use crate::model::{Instant, Object, Resource, Ru};
use crate::sync::forecast::of_sweep;

/// Schedules are counted over at least this time, so that a weekly run has its share in a daily window.
const HORIZON: Duration = Duration::from_secs(28 * 86_400);
/// The maximum number of runs of one schedule that are counted; the total is extrapolated.
const MAX_DUE: usize = 1_000;
/// The cost of the lists without a filter for changes: definitions of both objects and the team.
const SHORT_LISTS: u64 = 5;
/// The maximum cost of an audit of an object.
const AUDIT: u64 = 11;

/// The RU needed in one window, on average.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Needs {
    changes: f64,
    short_lists: f64,
    audits: f64,
    sweeps: f64,
}

impl Needs {
    /// `rows` are the objects' sizes, `per_run` is the cost of a run for changes.
    fn of(sync: &SyncConfig, window: Duration, rows: &[u64], per_run: Ru, now: Instant) -> Needs {
        let runs_of = |cron: Option<&Cron>| cron.map_or(0.0, |cron| runs(cron, &sync.time_zone, now, window));
        let pages = |most: u64| rows.iter().map(|rows| rows.div_ceil(100).clamp(1, most)).sum::<u64>() as f64;
        // Where the schedule is automatic, it takes what there is, and at least this.
        let changes = match &sync.schedule {
            ChangesSchedule::Auto => window.as_secs_f64() / MAX_POLL.as_secs_f64(),
            other => runs_of(other.cron()),
        };
        Needs {
            changes: changes * per_run.get() as f64,
            short_lists: runs_of(sync.definitions_schedule.as_ref()).min(changes) * SHORT_LISTS as f64,
            // Between them, each object is counted every hour.
            audits: runs_of(sync.audit_schedule.as_ref()) * pages(AUDIT)
                + changes.min(window.as_secs_f64() / 3_600.0) * rows.len() as f64,
            sweeps: runs_of(sync.sweep_schedule.as_ref()) * (pages(u64::MAX) + SHORT_LISTS as f64),
        }
    }

    fn total(&self) -> u64 {
        (self.changes + self.short_lists + self.audits + self.sweeps).ceil() as u64
    }
}

/// How often a schedule is due in a window, on average.
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

/// The remaining cost of the first copy; `None` if it is complete. Each object has the number of records at the
/// service, and the contents of the mirror.
fn first_copy(objects: &[(u64, CopiedObject)], details: bool) -> Option<u64> {
    let missing: Vec<&(u64, CopiedObject)> = objects.iter().filter(|(_, held)| !held.complete).collect();
    let of_object = |(there, held): &(u64, CopiedObject)| {
        let pages = of_sweep(there.saturating_sub(held.rows)).get();
        let details = if details { there.saturating_sub(held.details) } else { 0 };
        pages + details
    };
    let cost = missing.iter().copied().map(of_object).sum::<u64>();
    (!missing.is_empty()).then_some(cost + SHORT_LISTS)
}

/// The number of windows until a cost is spent, if `left` is left of this window and `each` can be spent in each later
/// one.
fn windows(cost: u64, left: u64, each: u64) -> u64 {
    match cost.saturating_sub(left) {
        0 => 1,
        later => 1 + later.div_ceil(each.max(1)),
    }
}

/// Checks the budget. `totals` are the numbers of records at the service, if known.
pub(super) fn check(
    config: &Config,
    limits: &Limits,
    mirror: Option<&MirrorFacts>,
    totals: [Option<u64>; 2],
    now: Instant,
) -> Vec<Finding> {
    let (limit, window) = (limits.limit.get(), format::duration(limits.window));
    let ledger = mirror.map_or_else(Ledger::default, |mirror| mirror.ledger).at(now, limits);
    let left = limits.limit.saturating_sub(ledger.used).get();
    let mut lines = Vec::new();

    let wanted = |object: Object| {
        let objects = config.sync.objects.as_deref();
        objects.is_none_or(|wanted: &[Resource]| wanted.contains(&object.resource()))
    };
    let held = mirror.map_or_else(Default::default, |mirror| mirror.objects);
    let objects = Object::ALL.into_iter().zip(totals).zip(held);
    let known: Option<Vec<(u64, CopiedObject)>> = objects
        .filter(|((object, _), _)| wanted(*object))
        .map(|((_, total), held)| Some((total.or(held.complete.then_some(held.rows))?, held)))
        .collect();
    let Some(known) = known else {
        let why = "the number of records is not known: they were not counted, and the mirror is not complete yet";
        lines.push(Finding::skip("budget.needs", why));
        return lines;
    };
    let rows: Vec<u64> = known.iter().map(|(rows, _)| *rows).collect();
    let per_run = forecast(mirror.map_or(&[], |mirror| &mirror.costs));
    let needs = Needs::of(&config.sync, limits.window, &rows, per_run, now);
    lines.push(needs_line(&needs, limit, &window));
    if let Some(cost) = first_copy(&known, config.sync.details) {
        // Runs for changes and audits come first, with at most half of a window.
        let each = limit - needs.total().min(limit / 2);
        let windows = match windows(cost, left, each) {
            1 => "which fits in this window".to_string(),
            number => format!("so about {} windows of {window}", count(number)),
        };
        let message = format!("the first copy costs about {} RU, {windows}", count(cost));
        lines.push(Finding::ok("budget.first-copy", message));
    }
    lines
}

fn needs_line(needs: &Needs, limit: u64, window: &str) -> Finding {
    let name = "budget.needs";
    let parts: Vec<String> = [
        ("changes", needs.changes),
        ("definitions and team", needs.short_lists),
        ("audits", needs.audits),
        ("sweeps", needs.sweeps),
    ]
    .iter()
    .filter(|(_, units)| *units > 0.0)
    .map(|(what, units)| format!("{what} {}", count(units.ceil() as u64)))
    .collect();
    let total = needs.total();
    if parts.is_empty() {
        return Finding::ok(name, "nothing is scheduled");
    }
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
    use crate::cli::check::finding::FindingState;

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
        let needs = |flags: &[(&'static str, &str)]| {
            let flags = flags.iter().map(|(name, text)| (*name, (*text).into())).collect();
            let environment = crate::config::Environment::default();
            let default_file = "/nowhere".into();
            let sources = crate::config::Sources { file: None, default_file, environment, flags };
            let sync = Config::load(&sources).unwrap().sync;
            Needs::of(&sync, DAY, &[100, 100], Ru::new(2), "2026-01-02T03:04:05Z".parse().unwrap()).short_lists
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
            assert!((needs(flags) - units).abs() < 1e-9, "{flags:?}: {}", needs(flags));
        }
    }

    #[test]
    fn first_copy_counts_missing_records() {
        let held = |rows, details, complete| CopiedObject { rows, details, complete };
        // 11 pages, of which each repeats a row, and 1,000 details; 1 page, 50 details; 5 for the short lists.
        let new = [(1_000, held(0, 0, false)), (50, held(0, 0, false))];
        assert_eq!(first_copy(&new, true), Some(11 + 1_000 + 1 + 50 + 5));
        assert_eq!(first_copy(&new, false), Some(11 + 1 + 5));
        let half = [(1_000, held(900, 300, false)), (50, held(50, 50, true))];
        assert_eq!(first_copy(&half, true), Some(1 + 700 + 5));
        assert_eq!(first_copy(&[(50, held(50, 0, true))], true), None);
    }

    #[test]
    fn number_of_windows_of_a_copy() {
        for (cost, left, each, number) in [(10, 10, 5, 1), (11, 10, 5, 2), (20, 10, 5, 3), (7, 0, 0, 8)] {
            assert_eq!(windows(cost, left, each), number, "{cost} {left} {each}");
        }
    }

    #[test]
    fn budget_below_the_needs_is_a_warning_with_the_required_amount() {
        let needs = Needs { changes: 576.0, short_lists: 20.0, audits: 44.0, sweeps: 16.0 / 7.0 };
        assert_eq!(needs_line(&needs, 643, "1 d").state, FindingState::Ok);
        let short = needs_line(&needs, 642, "1 d");
        assert_eq!(short.state, FindingState::Warn);
        assert!(short.fix.unwrap_or_default().contains("`budget.limit` to 643"));
        assert!(short.message.contains("643 of 642 RU in 1 d: changes 576"), "{}", short.message);
    }
}
