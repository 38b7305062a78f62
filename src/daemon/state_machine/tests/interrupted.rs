//! What is due is done, whatever interrupts it, and whatever else runs.

use super::*;
use crate::config::ChangesSchedule;

/// Edits that a push did not come to, because nothing answers this key.
#[test]
fn edits_wait_as_long_as_a_key_that_nothing_answers() {
    for troubled in [false, true] {
        let mut state = running(if troubled { Job::sync() } else { Job::push() });
        if troubled {
            state.on(failed(FailureKind::Service { next_try: at(9_000) }), at(0));
            assert_eq!(started(&state.on(Input::EditsDue, at(1)))[0].0, "push");
        }
        state.on(failed(FailureKind::Service { next_try: at(240) }), at(2));
        for second in [62, 122, 239] {
            assert_eq!(started(&state.on(Input::EditsDue, at(second))), [], "{troubled}, second {second}");
        }
        assert_eq!(started(&state.on(Input::EditsDue, at(240)))[0].0, "push", "{troubled}");
    }
}

/// The end of a run that had read nothing.
fn not_begun(why: Suspension) -> Input {
    let end = RunEnd::Suspended(why);
    Input::Ended(RunEnding { end, empty_until: None, requested: false, began: false, polled: None })
}

/// A process that dies in each run, 30 seconds before the next one starts: as a running daemon, it waits longer each time.
#[test]
fn daemon_that_is_restarted_for_ever_asks_no_more_often_than_one_that_runs_on() {
    let starts = |daily: bool, suspended: bool| {
        let mut table = timetable(0.0);
        if daily {
            table.sync.schedule = ChangesSchedule::Cron(table.sync.sweep_schedule.clone().unwrap());
        }
        let yesterday = at(0).minus(Duration::from_secs(86_400));
        let (mut begun, mut unended) = (Vec::new(), None);
        for restart in 0..240 {
            let now = at(30 * restart);
            let past = PastRuns { unended: [unended, None, None], ..past([yesterday, at(0), at(0)]) };
            if !started(&StateMachine::new(table.clone(), past, now).on(Input::Tick, now)).is_empty() {
                begun.push(restart / 2);
                unended = Some((now, if suspended { 0 } else { begun.len() as u32 }));
            }
        }
        begun
    };
    assert_eq!(starts(true, false), [0, 1, 3, 7, 15, 31, 63]);
    let ticks = (7..24).map(|tick| 5 * tick);
    assert_eq!(
        starts(false, false),
        [0, 1, 3].into_iter().chain([5, 10, 15, 20, 25, 30]).chain(ticks).collect::<Vec<_>>()
    );
    assert_eq!(starts(true, true), (0..120).collect::<Vec<_>>());
}

/// The status says when the machine starts a run, not when its line ticks.
#[test]
fn what_did_not_end_is_said_to_be_due_when_it_starts() {
    let yesterday = at(0).minus(Duration::from_secs(86_400));
    let past = PastRuns { unended: [None, Some((at(0), 1)), None], ..past([at(0), yesterday, at(0)]) };
    let mut state = StateMachine::new(timetable(0.0), past, at(5));
    let due = ScheduleKind::ALL.map(|kind| state.next_due(kind, at(5)).unwrap());
    let ticks = ScheduleKind::ALL.map(|kind| state.timetable.next_tick(kind, at(5)).unwrap());
    assert_eq!((due[0], due[2]), (ticks[0], ticks[2]));
    assert!(due[1] < ticks[1], "{due:?}, {ticks:?}");
    assert_eq!(started(&state.on(Input::Tick, due[1].minus(Duration::from_secs(1)))), []);
    assert_eq!(started(&state.on(Input::Tick, due[1]))[0].0, "verify");
}

#[test]
fn what_the_mirror_does_not_store_is_done_after_a_lock_or_a_hold() {
    let full = Job { full: true, ..Job::verify() };
    for end in [Suspension::Locked, Suspension::Hold(at(100)), Suspension::Hold(at(400))] {
        for job in [Job::audit(), full.clone(), resync(&[Resource::Contacts]).accepting_removals()] {
            let mut state = running(job.clone());
            state.on(not_begun(end), at(10));
            // Meanwhile another run ends in the same way.
            state.on(Input::Asked(DaemonRequest::Run(Job::sync())), at(11));
            state.on(not_begun(end), at(12));
            let mut done = Vec::new();
            for second in 13..500 {
                state.on(Input::Tick, at(second));
                while let Some((queued, _)) = state.running() {
                    done.push(queued.job.clone());
                    state.on(ended(RunEnd::Done), at(second));
                }
            }
            assert_eq!(done.iter().filter(|done| **done == job).count(), 1, "{end:?} {job:?}: {done:?}");
            assert!(done.contains(&Job::sync()), "{end:?} {job:?}: {done:?}");
        }
    }
}

/// Its sweeps are stored; an acceptance for some objects is none for the others.
#[test]
fn rest_of_a_resync_that_has_begun_is_a_sync_with_its_acceptance() {
    for (ends, rest) in [
        (stopped(), Job::sync().accepting_removals()),
        (not_begun(Suspension::Shutdown), Job::resync().accepting_removals()),
    ] {
        let mut state = running(Job::resync().accepting_removals());
        state.on(Input::Tick, at(300));
        let effects = state.on(ends, at(301));
        let Some(Effect::Start(job)) = effects.last() else { panic!("{effects:?}") };
        assert_eq!(job.job, rest);
    }
}

/// What the service lacks in another window, after a pause or after an outage, nobody has accepted.
#[test]
fn acceptance_of_removals_ends_with_its_window_a_pause_or_a_failure() {
    let outage = FailureKind::Service { next_try: at(400) };
    for what in ["window", "pause", "failure"] {
        let mut state = running(Job::resync().accepting_removals());
        // The daemon goes on with it after a hold.
        state.on(ended(RunEnd::Suspended(Suspension::Hold(at(5)))), at(1));
        let effects = state.on(Input::Tick, at(5));
        assert!(matches!(effects.last(), Some(Effect::Start(job)) if job.job.accept_removals), "{effects:?}");
        match what {
            "window" => _ = state.on(ended(RunEnd::Suspended(Suspension::Budget(at(400)))), at(10)),
            "pause" => {
                state.on(Input::Asked(DaemonRequest::Pause), at(9));
                state.on(stopped(), at(10));
                state.on(Input::Asked(DaemonRequest::Resume), at(11));
            }
            _ => _ = state.on(failed(outage), at(10)),
        }
        let mut done = Vec::new();
        for second in 11..500 {
            while let Some((queued, _)) = state.running() {
                done.push(queued.job.clone());
                state.on(ended(RunEnd::Done), at(second));
            }
            state.on(Input::Tick, at(second));
        }
        assert!(done.contains(&Job::sync()) && !done.iter().any(|job| job.accept_removals), "{what}: {done:?}");
    }
}

/// Each kind has its turn, also where a sync takes longer than its interval and is preempted each time.
#[test]
fn audit_runs_before_the_rest_of_a_sync_that_arrived_later() {
    let mut state = fresh();
    state.on(Input::Tick, at(300));
    state.enqueue(Job::audit(), Trigger::Schedule, &mut Vec::new());
    assert_eq!(state.on(Input::Tick, at(600)), [Effect::Preempt]);
    let next = started(&state.on(stopped(), at(601)));
    assert_eq!(next.iter().map(|(kind, ..)| *kind).collect::<Vec<_>>(), ["verify"]);
    let next = started(&state.on(ended(RunEnd::Done), at(602)));
    assert_eq!(next.iter().map(|(kind, ..)| *kind).collect::<Vec<_>>(), ["sync"]);
}

/// Whether it was queued before the pause, became due in it, or ran.
#[test]
fn audits_and_sweeps_that_a_pause_holds_up_run_after_it() {
    let yesterday = at(0).minus(Duration::from_secs(86_400));
    let everything = || StateMachine::new(timetable(0.0), past([yesterday; 3]), at(0));
    let after_pause = |mut state: StateMachine, restarts: bool| {
        state.on(Input::Asked(DaemonRequest::Pause), at(1));
        if state.running().is_some() {
            state.on(not_begun(Suspension::Shutdown), at(2));
        }
        if restarts {
            state = StateMachine::new(
                timetable(0.0),
                PastRuns { paused_since: Some(at(1)), ..past([yesterday; 3]) },
                at(3),
            );
        }
        for hour in 1..=48 {
            assert_eq!(started(&state.on(Input::Tick, at(3_600 * hour))), []);
            assert!(state.wakes_at(at(3_600 * hour)).is_none(), "nothing is due in a pause");
        }
        let end = at(3_600 * 48 + 1);
        let mut kinds: Vec<&str> =
            started(&state.on(Input::Asked(DaemonRequest::Resume), end)).iter().map(|(kind, ..)| *kind).collect();
        while state.running().is_some() {
            kinds.extend(started(&state.on(ended(RunEnd::Done), end)).iter().map(|(kind, ..)| *kind));
        }
        kinds
    };
    let running = |effects: Input| {
        let mut state = everything();
        state.on(effects, at(0));
        state
    };
    for restarts in [false, true] {
        for state in [everything(), fresh(), running(Input::Tick)] {
            assert_eq!(after_pause(state, restarts), ["sync", "verify", "resync"]);
        }
    }
    let mut sweeping = StateMachine::new(timetable(0.0), past([at(0), at(0), yesterday]), at(0));
    assert_eq!(started(&sweeping.on(Input::Tick, at(0)))[0].0, "resync");
    sweeping.on(Input::Asked(DaemonRequest::Pause), at(1));
    sweeping.on(not_begun(Suspension::Shutdown), at(2));
    let begun = sweeping.on(Input::Asked(DaemonRequest::Resume), at(10));
    assert_eq!((started(&begun)[0].0, sweeping.queue.len()), ("sync", 1));
    assert_eq!(started(&sweeping.on(ended(RunEnd::Done), at(11)))[0].0, "resync");
}

/// A tick of the schedule is of every object, and repairs.
#[test]
fn run_that_does_less_serves_no_tick() {
    let contacts = [Resource::Contacts];
    let report = Job::verify();
    for (kind, asked, seconds) in [
        (ScheduleKind::Changes, Job::sync().of(&contacts), 300),
        (ScheduleKind::Audit, Job::audit().of(&contacts), 86_400),
        (ScheduleKind::Audit, report, 86_400),
        (ScheduleKind::Sweep, resync(&contacts), 86_400),
    ] {
        let mut covered = [at(seconds); 3];
        covered[kind as usize] = at(0);
        let mut state = StateMachine::new(timetable(0.0), past(covered), at(0));
        let due = state.timetable.next_tick(kind, at(0)).unwrap();
        state.on(Input::Asked(DaemonRequest::Run(asked.clone())), due.minus(FLOOR));
        state.on(Input::Tick, due);
        let waiting: Vec<&Job> = state.queue.iter().map(|queued| &queued.job).collect();
        assert!(waiting.contains(&&job::scheduled(kind)), "{asked:?}: {waiting:?}");
    }
}

/// Nobody waits for the result of a full verification any more, and after each hold it would start from the beginning.
#[test]
fn full_verification_that_has_asked_is_not_repeated() {
    let full = Job { full: true, ..Job::verify() };
    for end in [Suspension::Locked, Suspension::Hold(at(100))] {
        let mut state = running(full.clone());
        let end = RunEnd::Suspended(end);
        state.on(
            Input::Ended(RunEnding { end, empty_until: None, requested: true, began: false, polled: None }),
            at(10),
        );
        assert_eq!(started(&state.on(Input::Tick, at(200))), []);
    }
}

#[test]
fn job_that_was_done_meanwhile_does_not_run_again() {
    for asked_at in [11, 400] {
        let mut state = running(Job::resync());
        state.on(not_begun(Suspension::Locked), at(10));
        let mut runs = 0;
        state.on(Input::Asked(DaemonRequest::Run(Job::resync())), at(asked_at));
        for second in asked_at..600 {
            state.on(Input::Tick, at(second));
            if second > 350 && state.running().is_some() {
                runs += u32::from(state.running().unwrap().0.job.kind == JobKind::Resync);
                state.on(ended(RunEnd::Done), at(second));
            }
        }
        assert_eq!(runs, 1, "{asked_at}");
    }
}

/// Named lists are read by no other sync.
#[test]
fn sync_of_named_lists_that_did_not_begin_stays_itself() {
    let team = Job::sync().of(&[Resource::TeamMembers]);
    let mut state = running(team.clone());
    state.on(not_begun(Suspension::Hold(at(100))), at(10));
    let effects = state.on(Input::Tick, at(100));
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Start(queued) if queued.job == team)), "{effects:?}");
}
