//! The budget: what is left of it, what this workspace needs of it, and how many windows the first copy takes.

use std::time::Duration;

use jiff::tz::TimeZone;

use super::finding::Finding;
use super::mirror::{CopiedObject, MirrorFacts};
use crate::budget::{Ledger, Limits, forecast};
use crate::config::{Config, Cron, SyncConfig};
use crate::format::{self, count};
use crate::model::{Instant, Object, Resource, Ru};

/// Schedules are counted over at least this long, so that a weekly run has its share in a daily window.
const HORIZON: Duration = Duration::from_secs(28 * 86_400);
/// Runs that are counted of one schedule; the rest follows from how close they are.
const MOST: usize = 1_000;
/// Lists without changes are read again this often: definitions of both objects and the team.
const SHORT_LISTS: (Duration, u64) = (Duration::from_secs(6 * 3600), 5);
/// The most that counting costs: an object, by both timestamps; and at the end of a walk.
const AUDIT: u64 = 32;
const WALK_COUNTS: u64 = 16;

/// What is needed in one window, on average.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Needs {
    changes: f64,
    short_lists: f64,
    audits: f64,
    sweeps: f64,
}

impl Needs {
    /// `rows` are the objects' sizes, `per_run` what a run for changes costs.
    fn of(sync: &SyncConfig, window: Duration, rows: &[u64], per_run: Ru, now: Instant) -> Needs {
        let runs = |cron: &Option<Cron>| cron.as_ref().map_or(0.0, |cron| runs(cron, &sync.time_zone, now, window));
        let pages = |most: u64| rows.iter().map(|rows| rows.div_ceil(100).clamp(1, most)).sum::<u64>() as f64;
        let (every, cost) = SHORT_LISTS;
        let changes = runs(&sync.schedule);
        Needs {
            changes: changes * per_run.get() as f64,
            short_lists: if changes > 0.0 { (window.as_secs_f64() / every.as_secs_f64()) * cost as f64 } else { 0.0 },
            audits: runs(&sync.audit_schedule) * pages(AUDIT),
            sweeps: runs(&sync.sweep_schedule) * (pages(u64::MAX) + cost as f64),
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
    let due: Vec<Instant> = cron.due_after(now, zone).take_while(|at| *at < ends).take(MOST).collect();
    let (number, over) = match (due.first(), due.last()) {
        (Some(first), Some(last)) if due.len() == MOST => (MOST - 1, last.since(*first)),
        _ => (due.len(), horizon),
    };
    number as f64 * (window.as_secs_f64() / over.as_secs_f64())
}

/// What the first copy still costs; `None` where it is done. Each object is what the service has and what is here.
fn first_copy(objects: &[(u64, CopiedObject)], details: bool) -> Option<u64> {
    let missing: Vec<&(u64, CopiedObject)> = objects.iter().filter(|(_, held)| !held.complete).collect();
    let of_object = |(there, held): &(u64, CopiedObject)| {
        let pages = there.saturating_sub(held.rows).div_ceil(100).max(1);
        let counts = if pages > 1 { pages.min(WALK_COUNTS) } else { 0 };
        let details = if details { there.saturating_sub(held.details) } else { 0 };
        pages + counts + details
    };
    let cost = missing.iter().copied().map(of_object).sum::<u64>();
    (!missing.is_empty()).then_some(cost + SHORT_LISTS.1)
}

/// Windows until that much is spent, where `left` is left of this one and `each` may be spent of each later one.
fn windows(cost: u64, left: u64, each: u64) -> u64 {
    match cost.saturating_sub(left) {
        0 => 1,
        later => 1 + later.div_ceil(each.max(1)),
    }
}

/// Looks at the budget. `totals` is what the service has of each object, where that is known.
pub fn check(
    config: &Config,
    limits: &Limits,
    mirror: Option<&MirrorFacts>,
    totals: [Option<u64>; 2],
    now: Instant,
) -> Vec<Finding> {
    let (limit, window) = (limits.limit.get(), format::duration(limits.window));
    let ledger = mirror.map_or_else(Ledger::default, |mirror| mirror.ledger).at(now, limits);
    let left = limits.limit.saturating_sub(ledger.used).get();
    let mut lines = vec![window_line(left, limit, ledger.refills_at(limits), now)];

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
        let why = "how much there is to mirror is not known: it was not counted, and is not all here yet";
        lines.push(Finding::skip("budget.needs", why));
        return lines;
    };
    let rows: Vec<u64> = known.iter().map(|(rows, _)| *rows).collect();
    let per_run = forecast(mirror.map_or(&[], |mirror| &mirror.costs));
    let needs = Needs::of(&config.sync, limits.window, &rows, per_run, now);
    lines.push(needs_line(&needs, limit, &window));
    if let Some(cost) = first_copy(&known, config.sync.details) {
        // Runs for changes and audits come first, of half a window at most.
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

fn window_line(left: u64, limit: u64, refills_at: Instant, now: Instant) -> Finding {
    let name = "budget.window";
    let until = format!("{} ({})", format::moment(refills_at), format::when(refills_at, now));
    if left == 0 {
        let message = format!("all {} RU of this window are spent; it refills at {until}", count(limit));
        return Finding::warn(name, message, "nothing is lost: runs go on then; `budget.limit` allows more");
    }
    Finding::ok(name, format!("{} of {} RU left until {until}", count(left), count(limit)))
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
        let fix = format!("set `budget.limit` to {} or more, or `sync.schedule` to fewer runs", count(total));
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
    fn the_first_copy_counts_what_is_not_here_yet() {
        let held = |rows, details, complete| CopiedObject { rows, details, complete };
        // 10 pages, 10 counts, 1,000 details; 1 page, 50 details; 5 for the short lists.
        let new = [(1_000, held(0, 0, false)), (50, held(0, 0, false))];
        assert_eq!(first_copy(&new, true), Some(10 + 10 + 1_000 + 1 + 50 + 5));
        assert_eq!(first_copy(&new, false), Some(10 + 10 + 1 + 5));
        let half = [(1_000, held(900, 300, false)), (50, held(50, 50, true))];
        assert_eq!(first_copy(&half, true), Some(1 + 700 + 5));
        assert_eq!(first_copy(&[(50, held(50, 0, true))], true), None);
    }

    #[test]
    fn a_copy_takes_as_many_windows_as_it_needs() {
        for (cost, left, each, number) in [(10, 10, 5, 1), (11, 10, 5, 2), (20, 10, 5, 3), (7, 0, 0, 8)] {
            assert_eq!(windows(cost, left, each), number, "{cost} {left} {each}");
        }
    }

    #[test]
    fn a_budget_below_the_needs_is_a_warning_that_says_how_much() {
        let needs = Needs { changes: 576.0, short_lists: 20.0, audits: 44.0, sweeps: 16.0 / 7.0 };
        assert_eq!(needs_line(&needs, 643, "1 d").state, FindingState::Ok);
        let short = needs_line(&needs, 642, "1 d");
        assert_eq!(short.state, FindingState::Warn);
        assert!(short.fix.unwrap_or_default().contains("`budget.limit` to 643"));
        assert!(short.message.contains("643 of 642 RU in 1 d: changes 576"), "{}", short.message);
    }
}
