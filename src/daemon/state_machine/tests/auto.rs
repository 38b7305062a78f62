//! The automatic schedule: when the next run is due follows from what the last one showed.

use super::*;
use crate::budget::PollingBudget;
use crate::daemon::job::PollFacts;

/// A daemon with an automatic schedule and a budget of 10,000, which had polled so much in a window. The last change was
/// found an hour ago.
fn auto(polled: (u32, Ru)) -> StateMachine {
    let flags = vec![
        ("sync.schedule", "auto".into()),
        ("sync.audit_schedule", "off".into()),
        ("sync.sweep_schedule", "off".into()),
    ];
    let sources = Sources { file: None, default_file: "/nowhere".into(), environment: Environment::default(), flags };
    let auto = Timetable::new(&Config::load(&sources).unwrap().sync, 0.0);
    let last_change = Some(at(0).minus(Duration::from_secs(3_600)));
    StateMachine::new(auto, PastRuns { last_change, polled, ..past([Instant::EPOCH, at(0), at(0)]) }, at(0))
}

/// Ends a run for changes in window 1.
fn polls(state: &mut StateMachine, left: u64, changed: bool, now: u64) {
    let budget = PollingBudget {
        refills_at: at(86_400),
        left: Ru::new(left),
        reserve: Ru::ZERO,
        limit: Ru::new(10_000),
        polled: Ru::ZERO,
        idle_cost: Ru::new(if now > 80_000 { 2 } else { 1 }),
    };
    let polled = Some(PollFacts { window: 1, changed, budget });
    let ending = RunEnding { end: RunEnd::Done, empty_until: None, requested: true, began: true, polled };
    state.on(Input::Ended(ending), at(now));
}

/// Half of the budget is for polling, so a window in which it is spent has polls at the longest interval.
#[test]
fn what_was_polled_before_a_restart_counts_in_its_window_only() {
    let interval = |polled| {
        let mut state = auto(polled);
        state.on(Input::Tick, at(0));
        polls(&mut state, 10_000, false, 0);
        state.timetable.poll.unwrap().as_secs()
    };
    assert_eq!(
        [(1, 0), (0, 4_800), (1, 4_800)].map(|(window, polled)| interval((window, Ru::new(polled)))),
        [112, 112, 347]
    );
}

#[test]
fn an_automatic_schedule_follows_the_budget() {
    let mut state = auto((0, Ru::ZERO));
    let mut now = 0;
    let mut intervals = Vec::new();
    for (left, changed) in [(10_000, false), (10_000, true), (9_000, false), (100, false), (0, false)] {
        let effects = state.on(Input::Tick, at(now));
        assert_eq!(started(&effects).len(), 1, "due at {now}");
        polls(&mut state, left, changed, now);
        let due = state.next_due(ScheduleKind::Changes, at(now)).unwrap();
        assert!(state.wakes_at(at(now)).is_some_and(|wakes| wakes <= due), "an audit may come first");
        let poll = state.timetable.poll.unwrap();
        assert_eq!(due, at(now).plus(poll));
        assert!(started(&state.on(Input::Tick, due.minus(Duration::from_secs(1)))).is_empty(), "not before it is due");
        intervals.push(poll.as_secs());
        // The first whole second at which it is due.
        now = due.minus(Duration::from_micros(1)).since(at(0)).as_secs() + 1;
    }
    assert_eq!(intervals[..4], [112, 15, 15, 517]);
    assert_eq!(now, 86_400, "until the window ends");
}
