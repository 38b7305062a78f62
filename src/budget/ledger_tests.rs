//! The ledger: windows, refunds, wall clocks that are set, restarts of the machine.

use proptest::prelude::*;

use super::*;
use crate::model::MonotonicReading;

const DAY: Limits = Limits { limit: Ru::new(10), window: Duration::from_secs(86_400), charge_failed: true };

fn at(text: &str) -> Instant {
    text.parse().unwrap()
}

fn spend(ledger: Ledger, now: &str, units: u64) -> Ledger {
    (0..units).fold(ledger, |l, _| send(l, now).ended(Ru::GET))
}

fn send(ledger: Ledger, now: &str) -> Ledger {
    ledger.charge(at(now), Ru::GET, Purpose::Changes, &DAY, Ru::ZERO).unwrap()
}

/// A machine whose wall clock shows `wall` after so many hours.
fn machine(boot: u32, hours: u64, wall: &str) -> ClockReading {
    ClockReading { wall: at(wall), monotonic: Some(MonotonicReading { boot, micros: hours * 3_600_000_000 }) }
}

#[test]
fn window_never_spends_more_than_its_limit() {
    let full = spend(Ledger::default(), "2026-01-01T10:00:00Z", 10);
    let refused = full.charge(at("2026-01-01T23:59:59Z"), Ru::GET, Purpose::Outbox, &DAY, Ru::ZERO);
    assert_eq!(refused.unwrap_err(), at("2026-01-02T00:00:00Z"));
    let next = spend(full, "2026-01-02T00:00:00Z", 1);
    assert_eq!((next.used, next.total), (Ru::new(1), Ru::new(11)));
    assert_eq!((Ledger::default().window, full.window, next.window), (0, 1, 2));
}

#[test]
fn window_begins_at_a_multiple_of_its_length_or_less_than_a_minute_later() {
    for (now, begin) in [
        ("2026-01-01T00:00:59.999Z", "2026-01-01T00:00:59.999Z"),
        ("2026-01-01T00:01:00Z", "2026-01-02T00:00:00Z"),
        ("2026-01-01T00:01:40.5Z", "2026-01-02T00:00:00Z"),
    ] {
        assert_eq!(DAY.aligned(at(now)), at(begin));
    }
    // Half of a short window is the most.
    let short = Limits { window: Duration::from_secs(80), ..DAY };
    let at = |seconds| Instant::EPOCH.plus(Duration::from_secs(seconds));
    assert_eq!((short.aligned(at(39)), short.aligned(at(40)), short.aligned(at(50))), (at(39), at(80), at(80)));
}

#[test]
fn wall_clock_is_set_if_it_differs_by_a_minute() {
    let ledger = Ledger::default().at(machine(1, 0, "2026-01-02T10:00:00Z"), &DAY);
    for (wall, refills) in [
        ("2026-01-02T11:00:59Z", "2026-01-03T00:00:00Z"),
        ("2026-01-02T11:01:00Z", "2026-01-03T00:01:00Z"),
        ("2026-01-02T10:59:00Z", "2026-01-02T23:59:00Z"),
    ] {
        assert_eq!(ledger.at(machine(1, 1, wall), &DAY).refills_at(&DAY), at(refills), "{wall}");
    }
}

#[test]
fn wait_for_the_next_window_ends_when_it_begins_by_a_clock_that_was_set_by_seconds() {
    let full = Ledger::default().at(machine(1, 0, "2026-01-02T10:00:00Z"), &DAY);
    let full = Ledger { used: Ru::new(10), ..full };
    for (wall, refills) in [
        ("2026-01-02T11:00:30Z", "2026-01-03T00:00:30Z"),
        ("2026-01-02T10:59:30Z", "2026-01-02T23:59:30Z"),
        // Not set: the two clocks were read one after the other.
        ("2026-01-02T11:00:00.000001Z", "2026-01-03T00:00:00Z"),
        ("2026-01-02T10:59:59.999999Z", "2026-01-03T00:00:00Z"),
        ("2026-01-02T11:00:00.001Z", "2026-01-03T00:00:00.001Z"),
    ] {
        let refused = full.charge(machine(1, 1, wall), Ru::GET, Purpose::Changes, &DAY, Ru::ZERO).unwrap_err();
        assert_eq!(refused, at(refills), "{wall}");
        let then = full.at(machine(1, 14, refills), &DAY);
        assert_eq!(then.used, Ru::ZERO, "{wall}");
    }
}

#[test]
fn steady_clock_advances_by_the_time_that_passed() {
    let mut ledger = Ledger::default();
    for (now, steady) in [
        (machine(1, 0, "2026-01-02T10:00:00Z"), "2026-01-02T10:00:00Z"),
        (machine(1, 5, "2025-06-01T00:00:00Z"), "2026-01-02T15:00:00Z"),
        (machine(1, 6, "2027-06-01T00:00:00Z"), "2026-01-02T16:00:00Z"),
        // After a restart of the machine the wall clock measures; if it was set back, no time passed.
        (machine(2, 0, "2027-06-01T02:00:00Z"), "2026-01-02T18:00:00Z"),
        (machine(3, 0, "2026-06-01T00:00:00Z"), "2026-01-02T18:00:00Z"),
    ] {
        ledger = ledger.at(now, &DAY);
        assert_eq!(ledger.steady_time(), at(steady), "{now:?}");
    }
}

#[test]
fn window_lasts_at_least_a_second() {
    for (seconds, lasts) in [(0, 1), (1, 1), (2, 2)] {
        let limits = Limits { window: Duration::from_secs(seconds), ..DAY };
        assert_eq!(Ledger::default().refills_at(&limits), Instant::EPOCH.plus(Duration::from_secs(lasts)), "{seconds}");
    }
}

#[test]
fn sweeps_and_details_leave_the_reserve_alone() {
    let ledger = spend(Ledger::default(), "2026-01-01T10:00:00Z", 6);
    let now = at("2026-01-01T11:00:00Z");
    for (purpose, may) in [
        (Purpose::Outbox, false),
        (Purpose::Changes, true),
        (Purpose::Audit, true),
        (Purpose::Definitions, true),
        (Purpose::Sweep, false),
        (Purpose::Details, false),
        (Purpose::Refresh, false),
    ] {
        assert_eq!(ledger.charge(now, Ru::GET, purpose, &DAY, Ru::new(4)).is_ok(), may, "{purpose:?}");
    }
}

#[test]
fn setting_the_wall_clock_neither_refills_nor_delays_the_budget() {
    let full = Ledger::default().at(machine(1, 0, "2026-01-02T10:00:00Z"), &DAY);
    let full = Ledger { used: Ru::new(10), ..full };
    for (hours, wall, used, refills) in [
        (1, "2026-01-03T11:00:00Z", 10, "2026-01-04T00:00:00Z"),
        (1, "2026-01-01T11:00:00Z", 10, "2026-01-02T00:00:00Z"),
        (1, "2026-01-02T17:00:00Z", 10, "2026-01-03T06:00:00Z"),
        (14, "2026-01-01T23:00:00Z", 0, "2026-01-02T23:00:00Z"),
        (14, "2026-01-03T00:00:00Z", 0, "2026-01-04T00:00:00Z"),
    ] {
        let now = full.at(machine(1, hours, wall), &DAY);
        assert_eq!((now.used, now.refills_at(&DAY)), (Ru::new(used), at(refills)), "{wall} after {hours} h");
    }
}

#[test]
fn after_a_restart_of_the_machine_the_wall_clock_bridges_the_gap() {
    let full = Ledger::default().at(machine(1, 0, "2026-01-02T10:00:00Z"), &DAY);
    let full = Ledger { used: Ru::new(10), ..full };
    for (wall, used, refills) in [
        ("2026-01-02T11:00:00Z", 10, "2026-01-03T00:00:00Z"),
        ("2026-01-05T11:00:00Z", 0, "2026-01-06T00:00:00Z"),
        // Set back: no time is known to have passed, so the rest of the window has to pass.
        ("2026-01-01T10:00:00Z", 10, "2026-01-02T00:00:00Z"),
    ] {
        let now = full.at(machine(2, 0, wall), &DAY);
        assert_eq!((now.used, now.refills_at(&DAY)), (Ru::new(used), at(refills)), "{wall}");
    }
}

#[test]
fn ledger_that_began_under_a_wrong_clock_returns_to_aligned_windows_after_a_restart() {
    let wrong = Ledger::default().at(machine(1, 0, "1970-01-01T07:00:00Z"), &DAY);
    let right = wrong.at(machine(1, 1, "2026-01-02T10:00:00Z"), &DAY);
    assert_eq!(right.refills_at(&DAY), at("2026-01-03T02:00:00Z"));
    let later = right.at(machine(2, 0, "2026-01-04T12:00:00Z"), &DAY);
    assert_eq!(later.refills_at(&DAY), at("2026-01-06T00:00:00Z"), "longer once, never shorter");
}

#[test]
fn refund_credits_the_window() {
    let sent = send(spend(Ledger::default(), "2026-01-01T10:00:00Z", 1), "2026-01-01T11:00:00Z");
    let refunded = sent.ended(Ru::GET).refund(Ru::GET);
    assert_eq!((refunded.used, refunded.total, refunded.under_way), (Ru::new(1), Ru::new(1), Ru::ZERO));
}

#[test]
fn request_under_way_while_a_window_ends_counts_in_both() {
    let sent =
        send(send(spend(Ledger::default(), "2026-01-01T10:00:00Z", 7), "2026-01-01T23:59:58Z"), "2026-01-01T23:59:59Z");
    assert_eq!((sent.used, sent.under_way), (Ru::new(9), Ru::new(2)));
    let next_day = sent.at(at("2026-01-02T00:00:01Z"), &DAY);
    assert_eq!((next_day.used, next_day.total, next_day.window), (Ru::new(2), Ru::new(9), sent.window + 1));
    // One is answered, and may have been counted in the new window; the other cost nothing in either.
    let settled = next_day.ended(Ru::GET).ended(Ru::GET).refund(Ru::GET);
    assert_eq!((settled.used, settled.total, settled.under_way), (Ru::new(1), Ru::new(8), Ru::ZERO));
    let full = spend(settled, "2026-01-02T00:00:02Z", 9);
    assert!(full.charge(at("2026-01-02T10:00:00Z"), Ru::GET, Purpose::Outbox, &DAY, Ru::ZERO).is_err());
    assert_eq!(full.at(at("2026-01-03T00:00:00Z"), &DAY).used, Ru::ZERO);
}

#[test]
fn request_that_lasts_for_several_windows_counts_in_each() {
    let sent = send(Ledger::default(), "2026-01-01T10:00:00Z");
    let third = sent.at(at("2026-01-02T00:00:00Z"), &DAY).at(at("2026-01-03T00:00:00Z"), &DAY);
    assert_eq!((third.used, third.total), (Ru::new(1), Ru::new(1)));
    assert_eq!(third.ended(Ru::GET).at(at("2026-01-04T00:00:00Z"), &DAY).used, Ru::ZERO);
}

#[test]
fn ledger_fits_into_the_file_next_to_the_mirror() {
    let most = Ru::new(u64::from(u32::MAX));
    let now = ClockReading {
        wall: at("2026-01-01T10:00:00.123456Z"),
        monotonic: Some(MonotonicReading { boot: u32::MAX, micros: 1 << 50 }),
    };
    let set_back = Duration::new(u64::from(u32::MAX), 999_999_999);
    let hold = Some(Hold::after(None, now.wall, None));
    let ledger = Ledger { used: most, total: Ru::new(1 << 50), window: u32::MAX, set_back, hold, ..Ledger::default() };
    let ledger = ledger.at(now, &DAY);
    let text = serde_json::to_string(&Ledger { used: most, ..ledger }).unwrap();
    assert!(text.len() <= 320, "{} bytes: {text}", text.len());
    assert_eq!(
        serde_json::from_str::<Ledger>(&text).unwrap().at(now, &DAY),
        Ledger { used: most, ..ledger }.at(now, &DAY)
    );
}

proptest! {
    /// The wall clock is right when the ledger begins and jumps anywhere afterwards; processes come and go.
    #[test]
    fn no_true_window_spends_more_than_its_limit(
        steps in proptest::collection::vec((0u64..20_000, -200_000i64..200_000, 0u8..4, 0u64..6), 1..80),
    ) {
        let begin = at("2026-01-01T15:00:00Z");
        let (mut passed, mut wall_ahead) = (0u64, 0i64);
        let first = ClockReading { wall: begin, monotonic: Some(MonotonicReading { boot: 1, micros: 0 }) };
        let mut stored = serde_json::to_string(&Ledger::default().at(first, &DAY)).unwrap();
        let mut spent = std::collections::BTreeMap::<i64, u64>::new();
        for (seconds, jump, whether, tries) in steps {
            passed += seconds;
            if whether == 0 {
                wall_ahead += jump;
            }
            let truth = begin.plus(Duration::from_secs(passed));
            let wall = Instant::from_secs(truth.as_secs() + wall_ahead).unwrap();
            let monotonic = Some(MonotonicReading { boot: 1, micros: passed * 1_000_000 });
            let now = ClockReading { wall, monotonic };
            for _ in 0..tries {
                let ledger: Ledger = serde_json::from_str(&stored).unwrap();
                match ledger.charge(now, Ru::GET, Purpose::Changes, &DAY, Ru::ZERO) {
                    Ok(charged) => {
                        stored = serde_json::to_string(&charged).unwrap();
                        *spent.entry(truth.as_secs() / 86_400).or_default() += 1;
                    }
                    Err(refills_at) => {
                        let soonest = wall.minus(SET_CLOCK);
                        prop_assert!(refills_at > soonest && refills_at.since(wall) <= DAY.window + SET_CLOCK);
                    }
                }
            }
        }
        prop_assert!(spent.values().all(|units| *units <= DAY.limit.get()), "{spent:?}");
    }
}

proptest! {
    /// Requests are under way for any time, fail for nothing or cost what they cost, and the service counts each when it
    /// arrives, when it is answered, or in between.
    #[test]
    fn service_counts_no_more_than_the_limit_in_a_window_whenever_it_counts(
        steps in proptest::collection::vec((0u64..6_000, 0u8..4, 0usize..5, 0u64..=4, proptest::bool::weighted(0.2)), 1..300),
    ) {
        let begin = at("2026-01-01T00:00:00Z");
        let (mut passed, mut ledger) = (0u64, Ledger::default().at(begin, &DAY));
        let mut open: Vec<u64> = Vec::new();
        let mut counted = std::collections::BTreeMap::<u64, u64>::new();
        for (seconds, step, which, part, is_free) in steps {
            passed += seconds;
            let now = begin.plus(Duration::from_secs(passed));
            if step > 0 && open.len() < 5 {
                if let Ok(charged) = ledger.charge(now, Ru::GET, Purpose::Changes, &DAY, Ru::ZERO) {
                    ledger = charged;
                    open.push(passed);
                }
            } else if which < open.len() {
                let sent = open.swap_remove(which);
                ledger = ledger.at(now, &DAY).ended(Ru::GET);
                if is_free {
                    ledger = ledger.refund(Ru::GET);
                } else {
                    *counted.entry((sent + (passed - sent) * part / 4) / 86_400).or_default() += 1;
                }
            }
        }
        prop_assert!(counted.values().all(|units| *units <= DAY.limit.get()), "{counted:?}");
        prop_assert_eq!(ledger.total.get(), counted.values().sum::<u64>() + open.len() as u64);
    }
}

#[test]
fn clock_that_was_set_back_is_noticed_while_the_machine_runs() {
    let ledger = Ledger::default().at(machine(1, 0, "2026-06-03T12:00:00Z"), &DAY);
    for (now, by) in [
        (machine(1, 1, "2026-06-03T13:00:00Z"), 0),
        (machine(1, 1, "2026-06-03T12:59:01Z"), 0),
        (machine(1, 1, "2026-06-03T12:59:00Z"), 60),
        (machine(1, 1, "2026-06-03T12:00:00Z"), 3_600),
        (machine(1, 1, "2026-06-04T13:00:00Z"), 0),
        (machine(2, 1, "2026-06-03T11:00:00Z"), 0),
    ] {
        let later = ledger.at(now, &DAY);
        assert_eq!(later.set_back, Duration::from_secs(by), "{now:?}");
        // Whoever stores the clock stores that as well.
        let stored: Ledger = serde_json::from_str(&serde_json::to_string(&later).unwrap()).unwrap();
        assert_eq!(stored.at(now, &DAY).set_back, Duration::from_secs(by), "{now:?}");
    }
}
