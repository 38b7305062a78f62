//! A part of the mirror that fails while the rest is updated: the schedule continues, and the part is attempted again.

use super::*;

/// A failure of a part, which is attempted again so many seconds after noon.
fn partly(next_try: u64) -> Input {
    failed(FailureKind::Partial { next_try: at(next_try), attempted: true })
}

#[test]
fn schedule_continues_and_the_part_is_attempted_when_its_delay_is_over() {
    let mut state = fresh();
    assert_eq!(started(&state.on(Input::Tick, at(300))).len(), 1);
    let effects = state.on(partly(780), at(301));
    assert_eq!((finished(&effects), started(&effects)), (vec![1], vec![]), "not at once");
    assert_eq!(state.trouble.as_ref().map(|trouble| (trouble.partial, trouble.next_try)), Some((true, at(780))));
    // The regular tick, and an edit.
    assert_eq!(started(&state.on(Input::Tick, at(600))), [("sync", 2, Trigger::Schedule)]);
    state.on(partly(780), at(601));
    assert_eq!(started(&state.on(Input::EditsDue, at(650))), [("push", 3, Trigger::Schedule)]);
    state.on(ended(RunEnd::Done), at(651));
    assert!(state.trouble.is_some(), "a push does not attempt the part");
    assert_eq!(state.wakes_at(at(651)), Some(at(780)));
    assert_eq!(started(&state.on(Input::Tick, at(780))), [("sync", 4, Trigger::Schedule)]);
    state.on(ended(RunEnd::Done), at(781));
    assert_eq!(state.trouble, None);
}

#[test]
fn audit_of_a_part_is_attempted_again_before_the_next_scheduled_one() {
    let mut state = running(Job::audit());
    state.on(partly(60), at(1));
    assert_eq!(started(&state.on(Input::Tick, at(60))), [], "a person's job is not repeated");
    let mut state =
        StateMachine::new(timetable(0.0), past([at(0), at(0).minus(Duration::from_secs(86_400)), at(0)]), at(0));
    assert_eq!(started(&state.on(Input::Tick, at(0))), [("verify", 1, Trigger::Schedule)]);
    state.on(partly(60), at(1));
    assert_eq!(started(&state.on(Input::Tick, at(61))), [("verify", 2, Trigger::Schedule)]);
}

#[test]
fn failure_of_everything_waits_as_the_first_one_after_failures_of_a_part() {
    for (kind, wait) in [(FailureKind::Passing, 60), (FailureKind::Key, 900)] {
        let mut state = fresh();
        for run in 1..=20 {
            state.on(Input::Tick, at(300 * run));
            state.on(partly(300 * run + 100), at(300 * run + 1));
        }
        state.on(Input::Tick, at(6_300));
        state.on(failed(kind), at(6_301));
        let trouble = state.trouble.as_ref().unwrap();
        assert_eq!((trouble.partial, trouble.runs, trouble.next_try), (false, 21, at(6_301 + wait)));
        assert_eq!(started(&state.on(Input::Tick, at(6_300 + wait))), []);
        assert_eq!(started(&state.on(Input::Tick, at(6_301 + wait))).len(), 1);
    }
}

#[test]
fn refused_key_after_an_outage_waits_as_the_first_one() {
    let mut state = running(Job::sync());
    for run in 0..9 {
        state.on(failed(FailureKind::Passing), at(10_000 * run));
        assert_eq!(started(&state.on(Input::Tick, at(10_000 * run + 3_600))).len(), 1);
    }
    state.on(failed(FailureKind::Key), at(90_000));
    assert_eq!(state.trouble.as_ref().unwrap().next_try, at(90_900));
}

#[test]
fn failure_of_the_whole_service_is_attempted_again_when_the_run_says_so() {
    let mut state = fresh();
    assert_eq!(started(&state.on(Input::Tick, at(300))).len(), 1);
    state.on(failed(FailureKind::Service { next_try: at(840) }), at(301));
    assert_eq!(state.trouble.as_ref().map(|trouble| (trouble.partial, trouble.next_try)), Some((false, at(840))));
    for (now, runs) in [(361, 0), (600, 0), (839, 0), (840, 1)] {
        assert_eq!(started(&state.on(Input::Tick, at(now))).len(), runs, "{now}");
    }
    state.on(ended(RunEnd::Done), at(841));
    assert_eq!(state.trouble, None);
}

#[test]
fn part_still_fails_when_the_budget_ends_a_run() {
    let mut state = running(Job::sync());
    state.on(partly(60), at(1));
    assert_eq!(started(&state.on(Input::Tick, at(300))).len(), 1);
    state.on(ended(RunEnd::Suspended(Suspension::Budget(at(900)))), at(301));
    assert!(state.trouble.as_ref().is_some_and(|trouble| trouble.partial));
    assert_eq!(started(&state.on(Input::Tick, at(900))).len(), 1);
    state.on(ended(RunEnd::Done), at(901));
    assert_eq!(state.trouble, None);
}
