//! The data of the plots: RU spent over time, the last runs, and recent changes.

use std::time::Duration;

use serde::Serialize;

use crate::app::{limits, reserved};
use crate::budget::Ledger;
use crate::config::Config;
use crate::daemon::progress_log::CurrentWork;
use crate::model::{Instant, instant};
use crate::store::{Reader, RecordedRun, StoreError, report};

const WINDOWS: u32 = 7;

/// The number of parts of the window: quarters of an hour for a day.
const PARTS: usize = 96;

const RUNS: u32 = 50;

const CHANGES: u32 = 50;

/// `GET /history`. Its JSON form is documented in `docs/interfaces.md`; members may be added, but not removed.
#[derive(Clone, Debug, Serialize)]
pub(super) struct PageHistory {
    /// The daemon's time, UTC: a browser's clock may differ.
    #[serde(serialize_with = "instant::utc_always")]
    pub now: Instant,
    pub window: BudgetWindow,
    /// The RU spent in each of the last windows, the oldest first; the last is the current one.
    pub windows: Vec<WindowSpent>,
    pub runs: Vec<RecordedRun>,
    pub changes: Vec<report::RecentChange>,
    pub under_way: Option<CurrentWork>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct BudgetWindow {
    #[serde(serialize_with = "instant::utc_always")]
    pub since: Instant,
    #[serde(serialize_with = "instant::utc_always")]
    pub until: Instant,
    /// The RU reserved for scheduled runs that are still due in it.
    pub reserve: u64,
    /// The RU of runs that ended in each of its equal parts, the earliest first, up to now.
    pub parts: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct WindowSpent {
    #[serde(serialize_with = "instant::utc_always")]
    pub since: Instant,
    pub ru: u64,
}

pub(super) fn read(
    reader: &Reader,
    config: &Config,
    under_way: Option<CurrentWork>,
    now: Instant,
) -> Result<PageHistory, StoreError> {
    let moment = reader.begin()?;
    let limits = limits(&config.budget);
    let window = Ledger::default().at(now, &limits);
    let until = window.refills_at(&limits);
    let read = |from, add: &mut dyn FnMut(Instant, u64)| report::spent_since(&moment, from, add);
    let (windows, parts) = spent_by_time(window.since, limits.window, now, read)?;
    let reserve = reserved(&moment, &config.sync, &limits, now..until)?.get();
    Ok(PageHistory {
        now,
        window: BudgetWindow { since: window.since, until, reserve, parts },
        windows,
        runs: report::last_runs(&moment, RUNS)?,
        changes: report::last_changes(&moment, CHANGES)?,
        under_way,
    })
}

/// Sums the RU by window, and by part of the current one, which began at `since`.
fn spent_by_time(
    since: Instant,
    length: Duration,
    now: Instant,
    read: impl FnOnce(Instant, &mut dyn FnMut(Instant, u64)) -> Result<(), StoreError>,
) -> Result<(Vec<WindowSpent>, Vec<u64>), StoreError> {
    let mut windows: Vec<WindowSpent> =
        (0..WINDOWS).rev().map(|before| WindowSpent { since: since.minus(length * before), ru: 0 }).collect();
    let last = part(now.since(since), length);
    let mut parts = vec![0; last + 1];
    read(windows[0].since, &mut |at, ru| {
        if let Some(window) = windows.iter_mut().rfind(|window| window.since <= at) {
            window.ru += ru;
        }
        if since <= at {
            // An entry from a clock ahead of ours counts as now.
            parts[part(at.since(since), length).min(last)] += ru;
        }
    })?;
    Ok((windows, parts))
}

fn part(passed: Duration, length: Duration) -> usize {
    let share = passed.as_secs_f64() / length.as_secs_f64().max(1.0);
    ((share * PARTS as f64) as usize).min(PARTS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn at(text: &str) -> Instant {
        text.parse().unwrap()
    }

    #[test]
    fn ru_of_runs_are_counted_by_window_and_by_part() {
        let (since, now) = (at("2026-03-04T00:00:00Z"), at("2026-03-04T01:05:00Z"));
        let spent = [
            ("2026-03-04T01:02:00Z", 5),
            ("2026-03-04T00:14:59Z", 3),
            ("2026-03-04T00:00:00Z", 4),
            ("2026-03-03T23:59:59Z", 11),
            ("2026-02-26T00:00:00Z", 2),
            ("2026-02-25T23:59:59Z", 1_000),
            ("2026-03-04T09:00:00Z", 1),
        ]
        .map(|(ended, ru)| (at(ended), ru));
        let read = |from, add: &mut dyn FnMut(Instant, u64)| {
            assert_eq!(from, at("2026-02-26T00:00:00Z"));
            spent.into_iter().for_each(|(at, ru)| add(at, ru));
            Ok(())
        };
        let (windows, parts) = spent_by_time(since, DAY, now, read).unwrap();
        assert_eq!(parts, [7, 0, 0, 0, 6], "a part is a quarter of an hour");
        let spent: Vec<u64> = windows.iter().map(|window| window.ru).collect();
        assert_eq!(spent, [2, 0, 0, 0, 0, 11, 13]);
        assert_eq!(windows[5].since, at("2026-03-03T00:00:00Z"));
    }

    #[test]
    fn last_moment_of_a_window_is_in_its_last_part() {
        assert_eq!(part(DAY, DAY), PARTS - 1);
        assert_eq!(part(Duration::ZERO, Duration::ZERO), 0);
    }
}
