//! Cases of the decision, and a simulation of a month.

use super::*;

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;
const MIN: Duration = Duration::from_secs(15);

/// A Monday, midnight.
fn at(seconds: u64) -> Instant {
    "2026-03-02T00:00:00Z".parse::<Instant>().unwrap().plus(Duration::from_secs(seconds))
}

fn budget(left: u64) -> PollingBudget {
    PollingBudget {
        refills_at: at(DAY),
        left: Ru::new(left),
        reserve: Ru::ZERO,
        limit: Ru::new(10_000),
        polled: Ru::ZERO,
        idle_cost: Ru::new(2),
    }
}

#[test]
fn the_interval_follows_budget_and_changes() {
    let plenty = || PollingBudget { limit: Ru::new(1_000_000), ..budget(1_000_000) };
    let recently = Some(at(0).minus(Duration::from_secs(600)));
    let an_hour_ago = Some(at(0).minus(Duration::from_secs(3_600)));
    for (name, budget, changed, now, seconds) in [
        ("a whole day, 2,500 polls", budget(10_000), recently, at(0), 27),
        ("no change is known", budget(10_000), None, at(0), 27),
        ("nothing changed for long", budget(10_000), an_hour_ago, at(0), 112),
        ("just changed", budget(10_000), Some(at(60)), at(60), 20),
        ("plenty of budget", plenty(), recently, at(0), 18),
        ("plenty of budget, just changed", plenty(), Some(at(0)), at(0), 15),
        ("400 RU left for polling", budget(400), recently, at(0), 345),
        (
            "what is kept for others is not there",
            PollingBudget { reserve: Ru::new(9_600), ..budget(10_000) },
            recently,
            at(0),
            345,
        ),
        (
            "half of the budget is the most",
            PollingBudget { polled: Ru::new(4_600), ..budget(5_400) },
            recently,
            at(0),
            345,
        ),
        ("hardly anything left", budget(20), None, at(0), 8_640),
        ("not even two requests", PollingBudget { idle_cost: Ru::new(4), ..budget(5) }, None, at(0), 69_120),
        ("nothing left", budget(0), None, at(0), DAY),
        ("the window's last second", budget(0), None, at(DAY - 1), 900),
        ("one request for the last minutes", budget(2), None, at(DAY - 450), 360),
    ] {
        let decision = decide_poll(&budget, changed, MIN, now);
        assert_eq!(decision.as_secs(), seconds, "{name}");
    }
    let five = decide_poll(&plenty(), Some(at(0)), Duration::from_secs(5), at(0));
    assert_eq!(five, Duration::from_secs(5));
}

#[test]
fn work_that_is_kept_for_others_leaves_enough_for_the_longest_interval() {
    let kept = |left: u64| PollingBudget { reserve: Ru::new(left), ..budget(left) };
    let polled = PollingBudget { polled: Ru::new(6_000), ..budget(4_000) };
    for (name, budget, now, seconds) in [
        ("everything is kept", kept(10_000), at(0), 900),
        ("half of the rest is the most", kept(100), at(0), 3_456),
        ("the share is spent", polled, at(0), 900),
        ("the share is spent, in the last minute", polled, at(DAY - 60), 900),
    ] {
        let decision = decide_poll(&budget, None, MIN, now);
        assert_eq!(decision.as_secs(), seconds, "{name}");
    }
}

#[test]
fn a_change_is_recent_for_five_minutes_and_its_age_lengthens_the_interval() {
    for (ago, seconds) in [(300, 20), (301, 27), (880, 27), (1_280, 40), (3_600, 112), (28_800, 900), (30 * DAY, 900)] {
        let changed = Some(at(0).minus(Duration::from_secs(ago)));
        let decision = decide_poll(&budget(10_000), changed, MIN, at(0));
        assert_eq!(decision.as_secs(), seconds, "{ago} s ago");
    }
    let set_back = decide_poll(&budget(10_000), Some(at(DAY)), MIN, at(0));
    assert_eq!(set_back.as_secs(), 20, "a change in the future is no reason to wait");
}

#[test]
fn an_interval_is_bounded_by_the_shortest_and_the_longest() {
    let exact = PollingBudget { limit: Ru::new(1_000_000), polled: Ru::ZERO, ..budget(9_216) };
    assert_eq!(decide_poll(&exact, None, MIN, at(0)), MIN);
    let rare = decide_poll(&budget(200), Some(at(0).minus(Duration::from_secs(DAY))), MIN, at(0));
    assert_eq!(rare, MAX_POLL);
    let hour = Duration::from_secs(HOUR);
    let hourly = decide_poll(&budget(10_000), Some(at(0).minus(100 * hour)), hour, at(0));
    assert_eq!(hourly, hour);
}

/// What a month of polling came to.
struct Month {
    /// Seconds from each change to the poll that found it, sorted.
    staleness: Vec<u64>,
    most_spent: u64,
    polled: u64,
}

impl Month {
    fn percentile(&self, part: f64) -> u64 {
        self.staleness[((self.staleness.len() - 1) as f64 * part) as usize]
    }
}

/// When records change: in office hours on working days, in bulk imports, now and then in an evening.
fn changes(rng: &mut fastrand::Rng) -> Vec<u64> {
    let mut times = Vec::new();
    for day in 0..60 {
        let begin = day * DAY;
        if day % 7 < 5 {
            times.extend((0..160).map(|_| begin + 8 * HOUR + rng.u64(0..9 * HOUR)));
        }
        if day % 7 == 2 {
            let import = begin + 14 * HOUR + rng.u64(0..HOUR);
            times.extend((0..1_000).map(|n| import + n));
        }
        if day % 9 == 0 {
            times.push(begin + 20 * HOUR + rng.u64(0..HOUR));
        }
    }
    times.sort_unstable();
    times
}

/// Polls for a month, after another one.
fn month(changes: &[u64], limit: u64, next: impl Fn(&PollingBudget, Option<Instant>, Instant) -> Duration) -> Month {
    let mut last_change = None;
    let (mut now, mut seen, mut window) = (0, 0, 0);
    let (mut used, mut polled) = (0, 0);
    let mut month = Month { staleness: Vec::new(), most_spent: 0, polled: 0 };
    while now < 60 * DAY {
        if now / DAY > window {
            (window, used, polled) = (now / DAY, 0, 0);
        }
        let found = changes[seen..].iter().take_while(|change| **change <= now).count();
        if now >= 30 * DAY {
            month.staleness.extend(changes[seen..seen + found].iter().map(|change| now - change));
            month.polled += 2;
        }
        seen += found;
        if found > 0 {
            last_change = Some(at(now));
        }
        // Pages beyond the first, and a detail for each change.
        used += 2 + found as u64 / 100 + found as u64;
        polled += 2;
        month.most_spent = month.most_spent.max(used);
        let budget = PollingBudget {
            refills_at: at((window + 1) * DAY),
            left: Ru::new(limit.saturating_sub(used)),
            reserve: Ru::new(1_500 * (DAY - now % DAY) / DAY),
            limit: Ru::new(limit),
            polled: Ru::new(polled),
            idle_cost: Ru::new(2),
        };
        now += next(&budget, last_change, at(now)).as_secs().max(1);
    }
    month.staleness.sort_unstable();
    month
}

#[test]
fn a_month_is_fresher_than_with_a_fixed_interval_at_the_same_budget() {
    let changes = changes(&mut fastrand::Rng::with_seed(5));
    for limit in [2_600, 3_000, 10_000] {
        let auto = month(&changes, limit, |budget, changed, now| decide_poll(budget, changed, MIN, now));
        // Every five minutes is 576 RU a day; the automatic one may spend as much.
        let fixed = month(&changes, limit, |_, _, _| Duration::from_secs(300));
        let same = month(&changes, limit, |budget, changed, now| {
            decide_poll(&PollingBudget { limit: Ru::new(2 * 576), ..*budget }, changed, MIN, now)
        });
        for (name, run) in [("fixed", &fixed), ("auto, 576 RU a day", &same), ("auto", &auto)] {
            eprintln!(
                "limit {limit}, {name}: median {} s, 99th percentile {} s, {} RU a day for polling, {} RU at most",
                run.percentile(0.5),
                run.percentile(0.99),
                run.polled / 30,
                run.most_spent
            );
            assert!(run.most_spent <= limit, "{name}: {} of {limit}", run.most_spent);
        }
        assert!(same.polled / 30 <= 576, "{}", same.polled / 30);
        assert!(
            same.percentile(0.5) * 10 <= fixed.percentile(0.5) * 6,
            "{} {}",
            same.percentile(0.5),
            fixed.percentile(0.5)
        );
        assert!(
            same.percentile(0.99) <= fixed.percentile(0.99),
            "{} {}",
            same.percentile(0.99),
            fixed.percentile(0.99)
        );
        assert!(auto.percentile(0.5) <= same.percentile(0.5) && auto.percentile(0.99) <= 900);
    }
}
