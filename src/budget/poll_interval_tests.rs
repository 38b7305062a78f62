//! Cases of the decision, and a simulation of a month.

use super::*;

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
        share: 0.5,
        polled: Ru::ZERO,
        idle_cost: Ru::new(2),
    }
}

/// Known for a month; changes at 10 o'clock on Mondays, last week.
fn office() -> ActiveHours {
    let mut hours = ActiveHours::known_since(at(0).minus(Duration::from_secs(30 * DAY)));
    hours.changed(at(10 * HOUR).minus(Duration::from_secs(7 * DAY)));
    hours
}

#[test]
fn hour_is_quiet_again_when_its_last_change_is_old() {
    let mut hours = ActiveHours::known_since(at(0));
    hours.changed(at(0));
    let after = |past: Duration| at(0).plus(past);
    assert!(!hours.is_quiet(at(0), after(ActiveHours::REMEMBERED)));
    assert!(hours.is_quiet(at(0), after(ActiveHours::REMEMBERED + Duration::from_secs(1))));
}

#[test]
fn the_interval_follows_budget_changes_and_hours() {
    let new = ActiveHours::known_since(at(0));
    let mut changing = new.clone();
    changing.changed(at(60));
    let mut an_hour_ago = new.clone();
    an_hour_ago.changed(at(0).minus(Duration::from_secs(1800)));
    let ten = at(10 * HOUR);
    for (name, budget, hours, now, seconds, reason) in [
        ("a whole day, 2,500 polls", budget(10_000), &an_hour_ago, at(0), 34, PollReason::Budget),
        ("nothing changed for long", budget(10_000), &new, at(0), 51, PollReason::Settled),
        ("just changed", budget(10_000), &changing, at(60), 27, PollReason::Changing),
        (
            "plenty of budget",
            PollingBudget { limit: Ru::new(1_000_000), ..budget(1_000_000) },
            &new,
            at(0),
            15,
            PollReason::MinInterval,
        ),
        ("a quiet hour", budget(10_000), &office(), at(HOUR), 900, PollReason::QuietHour),
        ("the only active hour", budget(10_000), &office(), ten, 15, PollReason::MinInterval),
        ("400 RU left for polling", budget(400), &an_hour_ago, at(0), 432, PollReason::Budget),
        (
            "what is kept for others is not there",
            PollingBudget { reserve: Ru::new(9_600), ..budget(10_000) },
            &an_hour_ago,
            at(0),
            432,
            PollReason::Budget,
        ),
        (
            "half of the budget is the most",
            PollingBudget { polled: Ru::new(4_600), ..budget(5_400) },
            &an_hour_ago,
            at(0),
            432,
            PollReason::Budget,
        ),
        ("hardly anything left", budget(20), &new, at(0), 8_640, PollReason::Budget),
        (
            "not even two requests",
            PollingBudget { idle_cost: Ru::new(4), ..budget(5) },
            &new,
            at(0),
            69_120,
            PollReason::Budget,
        ),
        ("nothing left", budget(0), &new, at(0), DAY, PollReason::Budget),
        ("the window's last second", budget(0), &new, at(DAY - 1), 900, PollReason::Budget),
        ("one request for the last minutes", budget(2), &new, at(DAY - 450), 675, PollReason::Settled),
    ] {
        let decision = decide_poll(&budget, hours, MIN, now);
        assert_eq!((decision.interval.as_secs(), decision.reason), (seconds, reason), "{name}");
    }
    let five = decide_poll(
        &PollingBudget { limit: Ru::new(1_000_000), ..budget(1_000_000) },
        &new,
        Duration::from_secs(5),
        at(0),
    );
    assert_eq!(five.interval, Duration::from_secs(5));
}

#[test]
fn an_hour_is_quiet_after_two_weeks_and_until_something_changes_in_it() {
    let mut hours = ActiveHours::known_since(at(0));
    let week = 7 * DAY;
    assert!(!hours.is_quiet(at(13 * DAY), at(13 * DAY)), "nothing is known yet");
    assert!(hours.is_quiet(at(2 * week), at(2 * week)));
    hours.changed(at(2 * week + 30));
    assert!(!hours.is_quiet(at(3 * week), at(3 * week)), "the same hour a week later");
    assert!(hours.is_quiet(at(3 * week + HOUR), at(3 * week + HOUR)), "the next hour is another");
    assert!(hours.is_quiet(at(6 * week + HOUR), at(6 * week + HOUR)), "forgotten after four weeks");
}

#[test]
fn an_hour_of_the_week_lasts_from_its_first_to_its_last_second() {
    let mut hours = ActiveHours::known_since(at(0).minus(Duration::from_secs(30 * DAY)));
    hours.changed(at(0));
    let week = 7 * DAY;
    for (seconds, quiet) in [(0, false), (HOUR - 1, false), (HOUR, true), (week - 1, true), (week, false)] {
        assert_eq!(hours.is_quiet(at(seconds), at(week)), quiet, "{seconds}");
    }
}

#[test]
fn a_window_of_years_is_judged_by_its_next_eight_weeks() {
    let (active, quiet) = office().seconds(at(0), at(1_000 * DAY));
    let weeks = 56 * DAY;
    assert_eq!(quiet as u64, weeks - 8 * HOUR);
    assert_eq!(active as u64, 1_000 * DAY - weeks + 8 * HOUR, "what lies behind them counts as active");
}

#[test]
fn work_that_is_kept_for_others_leaves_enough_for_the_longest_interval() {
    let new = ActiveHours::known_since(at(0));
    let kept = |left: u64| PollingBudget { reserve: Ru::new(left), ..budget(left) };
    let polled = PollingBudget { polled: Ru::new(6_000), ..budget(4_000) };
    for (name, budget, now, seconds) in [
        ("everything is kept", kept(10_000), at(0), 900),
        ("half of the rest is the most", kept(100), at(0), 3_456),
        ("the share is spent", polled, at(0), 900),
        ("the share is spent, in the last minute", polled, at(DAY - 60), 900),
    ] {
        let decision = decide_poll(&budget, &new, MIN, now);
        assert_eq!((decision.interval.as_secs(), decision.reason), (seconds, PollReason::Budget), "{name}");
    }
}

#[test]
fn quiet_hours_save_for_the_active_one_and_end_where_it_begins() {
    let ten = 10 * HOUR;
    for (name, left, now, seconds, reason) in [
        ("a budget for less than the longest interval", 100, at(0), 1_728, PollReason::Budget),
        ("a minute before the active hour", 10_000, at(ten - 60), 60, PollReason::QuietHour),
        ("more than the longest interval before it", 10_000, at(ten - 950), 900, PollReason::QuietHour),
        ("20 polls for the active hour", 144, at(ten), 270, PollReason::Settled),
    ] {
        let decision = decide_poll(&budget(left), &office(), MIN, now);
        assert_eq!((decision.interval.as_secs(), decision.reason), (seconds, reason), "{name}");
    }
}

#[test]
fn a_change_is_recent_for_five_minutes_and_keeps_the_pace_for_an_hour() {
    for (ago, reason) in [
        (300, PollReason::Changing),
        (301, PollReason::Budget),
        (3_599, PollReason::Budget),
        (3_600, PollReason::Settled),
    ] {
        let mut hours = ActiveHours::known_since(at(0));
        hours.changed(at(0));
        assert_eq!(decide_poll(&budget(10_000), &hours, MIN, at(ago)).reason, reason, "{ago} s ago");
    }
}

#[test]
fn an_interval_is_bounded_by_the_shortest_and_the_longest() {
    let mut hours = ActiveHours::known_since(at(0));
    hours.changed(at(0).minus(Duration::from_secs(1800)));
    let exact = PollingBudget { limit: Ru::new(1_000_000), ..budget(11_520) };
    assert_eq!(
        decide_poll(&exact, &hours, MIN, at(0)),
        PollDecision { interval: MIN, reason: PollReason::MinInterval }
    );
    let rare = decide_poll(&budget(200), &ActiveHours::known_since(at(0)), MIN, at(0));
    assert_eq!(rare, PollDecision { interval: MAX_POLL, reason: PollReason::Settled });
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

/// Polls for a month, the one before it being what the daemon learns from.
fn month(changes: &[u64], limit: u64, next: impl Fn(&PollingBudget, &ActiveHours, Instant) -> Duration) -> Month {
    let mut hours = ActiveHours::known_since(at(0));
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
            hours.changed(at(now));
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
            share: 0.5,
            polled: Ru::new(polled),
            idle_cost: Ru::new(2),
        };
        now += next(&budget, &hours, at(now)).as_secs().max(1);
    }
    month.staleness.sort_unstable();
    month
}

#[test]
fn a_month_is_fresher_than_with_a_fixed_interval_at_the_same_budget() {
    let changes = changes(&mut fastrand::Rng::with_seed(5));
    for limit in [2_600, 3_000, 10_000] {
        let auto = month(&changes, limit, |budget, hours, now| decide_poll(budget, hours, MIN, now).interval);
        // Every five minutes is 576 RU a day; the automatic one may spend as much.
        let fixed = month(&changes, limit, |_, _, _| Duration::from_secs(300));
        let same = month(&changes, limit, |budget, hours, now| {
            decide_poll(&PollingBudget { share: 576.0 / limit as f64, ..*budget }, hours, MIN, now).interval
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
