//! The reserve: RU that later runs in this window will need, and that edits, sweeps and details must not use.
//!
//! Only runs that are due within the window count, so the first copy of a workspace with few changes does not starve.
//! The reserve is at most half of the budget, and leaves a request for the rest beside an idle run, so that the smallest
//! budget still makes progress.

use crate::model::{Instant, Ru};

/// The cost of a run that finds nothing: one request per object.
const IDLE_RUN: Ru = Ru::new(2);

/// The likely cost of a scheduled run: the median, as one full copy is not representative, and at least `IDLE_RUN`.
pub fn forecast(last_runs: &[Ru]) -> Ru {
    let mut costs = last_runs.to_vec();
    costs.sort_unstable();
    costs.get(costs.len().saturating_sub(1) / 2).copied().unwrap_or_default().max(IDLE_RUN)
}

pub fn most_reserved(limit: Ru) -> Ru {
    Ru::new(limit.get() / 2).min(limit.saturating_sub(IDLE_RUN + Ru::GET))
}

/// What details and sweeps leave to edits and to the runs for which `reserve` is kept: to `waiting` edits at most half of the
/// window with those runs, but always a twentieth, the share of edits that are made later, whatever the runs need.
pub fn kept_with_edits(reserve: Ru, waiting: Ru, limit: Ru) -> Ru {
    reserve + waiting.min(most_reserved(limit).saturating_sub(reserve)).max(Ru::new(limit.get() / 20))
}

pub fn reserve(due: impl Iterator<Item = Instant>, window_ends: Instant, forecast: Ru, limit: Ru) -> Ru {
    let limit = most_reserved(limit).get();
    let most = limit.div_ceil(forecast.get().max(1));
    // Limited, because a schedule is infinite.
    let runs = due.take_while(|at| *at < window_ends).take(usize::try_from(most).unwrap_or(usize::MAX)).count() as u64;
    Ru::new((runs * forecast.get()).min(limit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn every(seconds: u64) -> impl Iterator<Item = Instant> {
        (1..).map(move |n| Instant::EPOCH.plus(Duration::from_secs(n * seconds)))
    }

    #[test]
    fn forecast_is_the_median_of_the_last_runs_and_at_least_an_idle_one() {
        assert_eq!(forecast(&[]), Ru::new(2));
        assert_eq!(forecast(&[Ru::new(0), Ru::new(1)]), Ru::new(2));
        assert_eq!(forecast(&[Ru::new(1_127), Ru::new(3)]), Ru::new(3));
        assert_eq!(forecast(&[Ru::new(7), Ru::new(1_127), Ru::new(3)]), Ru::new(7));
    }

    #[test]
    fn at_most_half_of_the_budget_is_reserved_and_a_request_is_left_beside_an_idle_run() {
        let most: Vec<u64> = (0..10).map(|limit| most_reserved(Ru::new(limit)).get()).collect();
        assert_eq!(most, [0, 0, 0, 0, 1, 2, 3, 3, 4, 4]);
        assert_eq!(most_reserved(Ru::new(10_001)), Ru::new(5_000));
    }

    #[test]
    fn what_runs_need_takes_nothing_from_the_share_of_edits() {
        for (reserve, waiting, kept) in
            [(0, 0, 50), (0, 200, 200), (0, 900, 500), (400, 900, 500), (500, 0, 550), (500, 900, 550)]
        {
            let all = kept_with_edits(Ru::new(reserve), Ru::new(waiting), Ru::new(1_000));
            assert_eq!(all, Ru::new(kept), "{reserve} {waiting}");
        }
    }

    #[test]
    fn reserve_covers_only_runs_inside_the_window_and_at_most_half_of_the_budget() {
        let day = Instant::EPOCH.plus(Duration::from_secs(86_400));
        for (name, seconds, per_run, limit, kept) in [
            ("every five minutes", 300, 2, 10_000, 287 * 2),
            ("every hour", 3_600, 2, 10_000, 23 * 2),
            ("none before the window ends", 90_000, 2, 10_000, 0),
            ("a small budget", 300, 2, 50, 25),
            ("no budget at all", 300, 2, 0, 0),
            ("runs of 1 RU", 300, 1, 100, 50),
            ("runs that cost nothing", 300, 0, 10_000, 0),
        ] {
            let reserved = reserve(every(seconds), day, Ru::new(per_run), Ru::new(limit));
            assert_eq!(reserved, Ru::new(kept), "{name}");
        }
    }
}
