//! The state machine: each input in each state.

use super::*;
use crate::config::{Config, Environment, Sources};
use crate::daemon::inputs_and_effects::{DaemonAnswer, DaemonRequest};
use crate::daemon::job::{FailureKind, RunEnd, RunEnding};
use crate::model::Resource;
use crate::sync::Suspension;
mod auto;
mod histories;
mod interrupted;
mod partial;

/// A timetable with this part of the longest delay, 10 seconds.
fn timetable(part: f64) -> Timetable {
    let flags = vec![("sync.sweep_schedule", "0 0 3 * * *".into())];
    let sources = Sources { file: None, default_file: "/nowhere".into(), environment: Environment::default(), flags };
    Timetable::new(&Config::load(&sources).unwrap().sync, part)
}

/// So many seconds after noon.
fn at(seconds: u64) -> Instant {
    let noon: Instant = "2026-03-04T12:00:00Z".parse().unwrap();
    noon.plus(Duration::from_secs(seconds))
}

/// A daemon at noon with no due jobs.
fn fresh() -> StateMachine {
    StateMachine::new(timetable(0.0), past([at(0); 3]), at(0))
}

/// A mirror that was copied, whose kinds have run up to these times.
fn past(covered: [Instant; 3]) -> PastRuns {
    let (unended, polled) = ([None; 3], (0, Ru::ZERO));
    PastRuns { part: 0.0, covered, unended, paused_since: None, is_empty: false, last_change: None, polled }
}

fn resync(objects: &[Resource]) -> Job {
    Job::resync().of(objects)
}

fn ended(end: RunEnd) -> Input {
    Input::Ended(RunEnding { end, empty_until: None, requested: true, began: true, polled: None })
}

fn stopped() -> Input {
    ended(RunEnd::Suspended(Suspension::Shutdown))
}

fn failed(kind: FailureKind) -> Input {
    ended(RunEnd::Failed { kind, reason: "no answer".into(), exit: 69 })
}

/// The started jobs, as kind, number and trigger.
fn started(effects: &[Effect]) -> Vec<(&'static str, u64, Trigger)> {
    let started = |effect: &Effect| match effect {
        Effect::Start(job) => Some((job.job.name(), job.id, job.trigger)),
        _ => None,
    };
    effects.iter().filter_map(started).collect()
}

fn finished(effects: &[Effect]) -> Vec<u64> {
    let finished = |effect: &Effect| match effect {
        Effect::Finished(job) => Some(job.id),
        _ => None,
    };
    effects.iter().filter_map(finished).collect()
}

/// A daemon with a job that has been running since noon.
fn running(work: Job) -> StateMachine {
    let mut state = fresh();
    let effects = state.on(Input::Asked(DaemonRequest::Run(work)), at(0));
    assert_eq!(started(&effects).len(), 1);
    state
}

#[test]
fn tick_starts_due_jobs_only() {
    let mut state = fresh();
    assert_eq!(state.on(Input::Tick, at(299)), []);
    let effects = state.on(Input::Tick, at(300));
    assert_eq!(started(&effects), [("sync", 1, Trigger::Schedule)]);
    assert_eq!(state.on(Input::Tick, at(301)), [], "two ticks at the same time are one job");
    assert_eq!(finished(&state.on(ended(RunEnd::Done), at(302))), [1]);
}

#[test]
fn downtime_causes_one_run_of_each_kind() {
    let days_ago = at(0).minus(Duration::from_secs(3 * 86_400));
    let mut state = StateMachine::new(timetable(0.0), past([days_ago; 3]), at(0));
    let effects = state.on(Input::Tick, at(0));
    assert_eq!(started(&effects), [("sync", 1, Trigger::Schedule)]);
    let words: Vec<&str> = state.queue.iter().map(|job| job.job.name()).collect();
    assert_eq!(words, ["verify", "resync"], "one of each, the cheaper one first");
}

#[test]
fn fleet_that_starts_at_once_does_not_send_at_once() {
    let mut state = StateMachine::new(timetable(1.0), past([Instant::EPOCH, at(0), at(0)]), at(0));
    assert_eq!(started(&state.on(Input::Tick, at(0))), []);
    assert_eq!(state.wakes_at(at(0)), Some(at(10)));
    assert_eq!(started(&state.on(Input::Tick, at(10))).len(), 1);
    // A person's request is not delayed.
    let mut state = StateMachine::new(timetable(1.0), past([at(0); 3]), at(0));
    assert_eq!(started(&state.on(Input::Asked(DaemonRequest::Run(Job::sync())), at(0))).len(), 1);
}

#[test]
fn requests_are_answered_at_once_and_executed_in_order() {
    let mut state = running(Job { full: true, ..Job::verify() });
    let effects = state.on(Input::Asked(DaemonRequest::Run(resync(&[]))), at(1));
    assert!(effects.contains(&Effect::Answer(DaemonAnswer::Accepted(AcceptedJob { job: 2, waits_until: None }))));
    assert_eq!(started(&effects), []);
    let again = state.on(Input::Asked(DaemonRequest::Run(resync(&[]))), at(1));
    assert!(
        matches!(again[..], [Effect::Answer(DaemonAnswer::Accepted(AcceptedJob { job: 2, .. }))]),
        "the same work is one job: {again:?}"
    );
    state.on(Input::Asked(DaemonRequest::Run(Job::sync())), at(1));
    let next = state.on(ended(RunEnd::Done), at(2));
    assert_eq!(started(&next), [("resync", 2, Trigger::Manual)], "in the order of the requests");
    assert_eq!(started(&state.on(ended(RunEnd::Done), at(3))), [("sync", 3, Trigger::Manual)]);
}

#[test]
fn long_run_is_preempted_for_changes_and_continues() {
    let mut state = running(resync(&[Resource::Contacts]));
    assert_eq!(state.on(Input::Tick, at(300)), [Effect::Preempt]);
    assert_eq!(state.on(Input::Tick, at(301)), [], "preempted once");
    let effects = state.on(stopped(), at(302));
    assert!(finished(&effects).is_empty(), "the job has not ended");
    assert!(matches!(&effects[0], Effect::Preempted(job) if job.id == 1));
    // One run fetches the changes and continues the sweep.
    assert_eq!(started(&effects), [("sync", 1, Trigger::Manual)]);
    assert_eq!(state.queue, []);
    assert_eq!(finished(&state.on(ended(RunEnd::Done), at(310))), [1]);
}

#[test]
fn run_that_ends_before_it_is_preempted_leaves_the_changes_due() {
    let mut state = running(resync(&[]));
    state.on(Input::Tick, at(300));
    let effects = state.on(ended(RunEnd::Done), at(301));
    assert_eq!((finished(&effects), started(&effects)), (vec![1], vec![("sync", 2, Trigger::Schedule)]));
}

#[test]
fn young_run_and_audit_are_not_preempted() {
    let mut state = fresh();
    state.on(Input::Asked(DaemonRequest::Run(resync(&[]))), at(290));
    let effects = state.on(Input::Tick, at(300));
    assert!(!effects.contains(&Effect::Preempt), "{effects:?}");
    assert_eq!(state.queue.len(), 1, "the changes wait for it");

    let audit = job::scheduled(ScheduleKind::Audit);
    let mut state = running(audit);
    assert!(!state.on(Input::Tick, at(300)).contains(&Effect::Preempt));
    assert_eq!(started(&state.on(ended(RunEnd::Done), at(301))).len(), 1);
}

#[test]
fn run_of_the_same_kind_that_just_started_serves_the_tick() {
    let mut state = fresh();
    state.on(Input::Asked(DaemonRequest::Run(Job::sync())), at(299));
    assert_eq!(state.on(Input::Tick, at(300)), []);
    assert_eq!(started(&state.on(ended(RunEnd::Done), at(301))), []);
}

#[test]
fn edit_preempts_a_run_which_continues_afterwards() {
    let mut state = running(resync(&[]));
    let effects = state.on(Input::EditsDue, at(1));
    assert!(!effects.contains(&Effect::Preempt), "no run is preempted at once");
    assert_eq!(state.wakes_at(at(1)), Some(at(2)));
    assert_eq!(state.on(Input::Tick, at(2)), [Effect::Preempt]);
    let effects = state.on(stopped(), at(3));
    assert_eq!(started(&effects), [("push", 2, Trigger::Schedule)]);
    let effects = state.on(ended(RunEnd::Done), at(4));
    assert_eq!(started(&effects), [("sync", 1, Trigger::Manual)]);
}

#[test]
fn edits_that_arrive_during_a_push_are_sent_after_it() {
    let mut state = fresh();
    assert_eq!(started(&state.on(Input::EditsDue, at(0))).len(), 1);
    state.on(Input::EditsDue, at(1));
    assert_eq!(started(&state.on(ended(RunEnd::Done), at(2))), [("push", 2, Trigger::Schedule)]);
}

/// As a stop does: what was not sent yet stays here.
#[test]
fn pause_and_new_configuration_end_a_push_and_nothing_whose_turn_comes_does() {
    for input in [Input::Asked(DaemonRequest::Pause), Input::Reload] {
        let mut state = fresh();
        assert_eq!(started(&state.on(Input::EditsDue, at(0))).len(), 1);
        state.on(Input::EditsDue, at(1));
        assert!(!state.on(Input::Tick, at(300)).contains(&Effect::Preempt));
        assert!(state.on(input.clone(), at(301)).contains(&Effect::Preempt), "{input:?}");
        assert_eq!(started(&state.on(stopped(), at(302))), [], "{input:?}");
        let goes_on = match input {
            Input::Reload => Input::Reloaded(Some(timetable(0.0))),
            _ => Input::Asked(DaemonRequest::Resume),
        };
        assert_eq!(started(&state.on(goes_on, at(303)))[0].0, "push", "{input:?}");
    }
}

#[test]
fn edits_wait_for_a_pause_for_their_own_trouble_and_for_an_empty_budget_and_a_persons_push_for_none() {
    let push = || Input::Asked(DaemonRequest::Run(Job::push()));
    let mut paused = fresh();
    paused.on(Input::Asked(DaemonRequest::Pause), at(0));
    assert_eq!(paused.on(Input::EditsDue, at(1)), []);
    assert_eq!(started(&paused.on(push(), at(2))), [("push", 1, Trigger::Manual)]);

    let mut troubled = running(Job::push());
    troubled.on(failed(FailureKind::Passing), at(0));
    assert_eq!(started(&troubled.on(Input::EditsDue, at(1))), []);
    assert_eq!(started(&troubled.on(Input::Tick, at(60)))[0].0, "push");
    let outage = FailureKind::Service { next_try: at(40_000) };
    for (kind, pushes) in [(FailureKind::Passing, 1), (outage, 1), (FailureKind::Key, 0)] {
        let mut troubled = running(Job::sync());
        troubled.on(failed(kind), at(0));
        assert_eq!(started(&troubled.on(Input::EditsDue, at(1))).len(), pushes, "{kind:?}");
    }

    let mut poor = fresh();
    poor.on(Input::EditsDue, at(0));
    poor.on(ended(RunEnd::Suspended(Suspension::Budget(at(200)))), at(1));
    for second in 2..200 {
        assert_eq!(poor.on(Input::EditsDue, at(second)), [], "second {second}");
    }
    assert_eq!(started(&poor.on(push(), at(200))).len(), 1);
}

#[test]
fn push_ends_the_trouble_of_pushes_only() {
    let push = |state: &mut StateMachine, end: Input, seconds| {
        state.on(Input::Asked(DaemonRequest::Run(Job::push())), at(seconds));
        state.on(end, at(seconds));
        state.trouble.as_ref().map(|trouble| trouble.runs)
    };
    let mut state = running(Job::sync());
    state.on(failed(FailureKind::Service { next_try: at(400) }), at(0));
    assert_eq!(push(&mut state, ended(RunEnd::Done), 10), Some(1), "it may have needed no request");
    assert_eq!(push(&mut state, failed(FailureKind::Passing), 20), Some(2));
    assert_eq!(state.trouble.as_ref().map(|trouble| trouble.next_try), Some(at(400)), "edits delay no other runs");
    let mut state = fresh();
    assert_eq!(push(&mut state, failed(FailureKind::Passing), 40), Some(1));
    assert_eq!(push(&mut state, ended(RunEnd::Done), 50), None);
}

#[test]
fn run_without_a_request_ends_no_trouble() {
    let mut state = running(Job::sync());
    state.on(failed(FailureKind::Passing), at(0));
    for (requested, trouble) in [(false, true), (true, false)] {
        state.on(Input::Asked(DaemonRequest::Run(Job::verify())), at(10));
        let ending = RunEnding { end: RunEnd::Done, empty_until: None, requested, began: true, polled: None };
        state.on(Input::Ended(ending), at(10));
        assert_eq!(state.trouble.is_some(), trouble, "{requested}");
    }
}

#[test]
fn edit_is_not_delayed_by_the_start_delay() {
    let mut state = StateMachine::new(timetable(1.0), past([Instant::EPOCH, at(0), at(0)]), at(0));
    assert_eq!(started(&state.on(Input::EditsDue, at(1))), [("push", 1, Trigger::Schedule)]);
}

#[test]
fn first_run_of_an_empty_mirror_starts_at_once() {
    let empty = PastRuns { is_empty: true, ..past([Instant::EPOCH, at(0), at(0)]) };
    let mut state = StateMachine::new(timetable(1.0), empty, at(0));
    assert_eq!(started(&state.on(Input::Tick, at(0))), [("sync", 1, Trigger::Schedule)]);
}

#[test]
fn hold_applies_to_every_job_and_ends_with_time() {
    let mut state = running(Job::sync());
    let until = at(100);
    let effects = state.on(ended(RunEnd::Suspended(Suspension::Hold(until))), at(10));
    assert_eq!(finished(&effects), [1]);
    assert_eq!(state.wakes_at(at(10)), Some(until));
    let effects = state.on(Input::Asked(DaemonRequest::Run(Job::sync())), at(20));
    assert!(
        effects.contains(&Effect::Answer(DaemonAnswer::Accepted(AcceptedJob { job: 2, waits_until: Some(until) })))
    );
    assert_eq!(started(&effects), []);
    assert_eq!(state.on(Input::Tick, at(99)), []);
    assert_eq!(started(&state.on(Input::Tick, until)).len(), 1);
}

#[test]
fn locked_mirror_is_no_failure_and_delays_nothing_for_long() {
    let mut state = running(Job::sync());
    state.on(ended(RunEnd::Suspended(Suspension::Locked)), at(100));
    assert!(state.trouble.is_none());
    assert_eq!(state.wakes_at(at(100)), Some(at(105)));
    assert_eq!(started(&state.on(Input::Tick, at(105))).len(), 1);
    // Each attempt may spend what it cannot store.
    state.on(ended(RunEnd::Suspended(Suspension::Locked)), at(140));
    assert_eq!((state.locked.map(|(since, _)| since), state.wakes_at(at(140))), (Some(at(100)), Some(at(150))));
    assert_eq!(started(&state.on(Input::Tick, at(150))).len(), 1);
    state.on(ended(RunEnd::Done), at(151));
    assert_eq!(state.locked.map(|(since, _)| since), None);
}

#[test]
fn exhausted_budget_waits_and_an_exhausted_share_still_allows_changes() {
    let refills = at(3_600);
    let mut state = running(resync(&[]));
    let empty = RunEnding {
        end: RunEnd::Suspended(Suspension::Budget(refills)),
        empty_until: Some(refills),
        requested: true,
        began: true,
        polled: None,
    };
    state.on(Input::Ended(empty), at(10));
    assert_eq!(started(&state.on(Input::Tick, at(300))), []);
    assert_eq!(state.hold(at(300)).map(|hold| hold.reason), Some(HoldReason::Budget));
    let effects = state.on(Input::Tick, refills);
    assert_eq!(started(&effects).len(), 1, "everything due is one run: {effects:?}");

    // Only the share for sweeps is spent: the reserve is for the changes.
    let mut state = running(resync(&[]));
    state.on(ended(RunEnd::Suspended(Suspension::Budget(refills))), at(10));
    assert_eq!(started(&state.on(Input::Tick, at(300))).len(), 1);
}

#[test]
fn failures_delay_the_schedule_but_not_manual_jobs() {
    let mut state = running(Job::sync());
    let mut now = at(0);
    let mut waits = Vec::new();
    for _ in 0..9 {
        state.on(failed(FailureKind::Passing), now);
        let next = state.trouble.as_ref().unwrap().next_try;
        waits.push(next.since(now).as_secs() / 60);
        // With a check every minute, the five-minute schedule runs when the delay is over.
        let mut begun = state.on(Input::Tick, now);
        while started(&begun).is_empty() {
            now = now.plus(Duration::from_secs(60));
            begun = state.on(Input::Tick, now);
            assert!(started(&begun).is_empty() || now >= next);
        }
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    state.on(failed(FailureKind::Passing), now);
    let effects = state.on(Input::Asked(DaemonRequest::Run(Job::sync())), now);
    assert_eq!(started(&effects).len(), 1);
    assert_eq!(state.trouble.as_ref().map(|trouble| (trouble.runs, trouble.since)), Some((10, at(0))));
    state.on(ended(RunEnd::Done), now);
    assert_eq!(state.trouble, None);
}

#[test]
fn refused_key_is_retried_rarely_and_a_new_one_at_the_next_tick() {
    let mut state = running(Job::sync());
    state.on(failed(FailureKind::Key), at(0));
    assert_eq!(state.trouble.as_ref().unwrap().next_try, at(900));
    assert_eq!(started(&state.on(Input::Tick, at(300))), []);
    assert_eq!(started(&state.on(Input::NewKey, at(310))).len(), 1);
}

#[test]
fn pause_stops_scheduled_jobs_but_not_manual_ones() {
    let mut state = fresh();
    let effects = state.on(Input::Asked(DaemonRequest::Pause), at(0));
    assert_eq!(effects, [Effect::StorePause(Some(at(0)))]);
    assert_eq!(state.on(Input::Asked(DaemonRequest::Pause), at(5)), [Effect::StorePause(Some(at(0)))]);
    assert_eq!(state.paused_since, Some(at(0)));
    assert_eq!(state.on(Input::Tick, at(900)), []);
    assert_eq!(started(&state.on(Input::Asked(DaemonRequest::Run(Job::sync())), at(901))).len(), 1);
    state.on(ended(RunEnd::Done), at(902));
    let effects = state.on(Input::Asked(DaemonRequest::Resume), at(1000));
    assert_eq!(started(&effects), [("sync", 2, Trigger::Schedule)], "everything that became due meanwhile is one run");
    assert!(effects.contains(&Effect::StorePause(None)));

    let paused = PastRuns { paused_since: Some(at(0)), ..past([Instant::EPOCH; 3]) };
    let mut state = StateMachine::new(timetable(0.0), paused, at(10));
    assert_eq!(started(&state.on(Input::Tick, at(10))), [], "it survives the process");
}

#[test]
fn pause_stops_a_scheduled_run_at_a_page_but_not_a_manual_one() {
    let mut state = fresh();
    state.on(Input::Tick, at(300));
    assert!(state.on(Input::Asked(DaemonRequest::Pause), at(301)).contains(&Effect::Preempt));
    let effects = state.on(stopped(), at(302));
    assert_eq!((finished(&effects), started(&effects)), (vec![1], vec![]));

    let mut state = running(Job::sync());
    assert!(!state.on(Input::Asked(DaemonRequest::Pause), at(1)).contains(&Effect::Preempt));
}

#[test]
fn push_that_may_not_run_preempts_nothing() {
    let mut state = running(Job::verify());
    state.on(Input::EditsDue, at(1));
    state.on(Input::Asked(DaemonRequest::Pause), at(2));
    state.on(Input::Asked(DaemonRequest::Run(resync(&[]))), at(3));
    assert_eq!(started(&state.on(ended(RunEnd::Done), at(4)))[0].0, "resync");
    assert_eq!(state.on(Input::Tick, at(10)), []);
    assert_eq!(state.on(Input::Asked(DaemonRequest::Resume), at(11))[1..], [Effect::StorePause(None), Effect::Preempt]);
}

#[test]
fn configuration_is_reloaded_between_runs() {
    let mut state = fresh();
    assert_eq!(state.on(Input::Reload, at(0)), [Effect::Reload]);
    let mut state = running(resync(&[]));
    assert_eq!(state.on(Input::Reload, at(1)), [Effect::Preempt]);
    let effects = state.on(stopped(), at(2));
    assert_eq!(effects.last(), Some(&Effect::Reload));
    assert_eq!(started(&effects), []);
    let effects = state.on(Input::Reloaded(Some(timetable(0.0))), at(2));
    assert_eq!(effects[0], Effect::Reschedule);
    assert_eq!(started(&effects), [("sync", 1, Trigger::Manual)], "the rest runs with the new one");
    // An invalid one changes nothing; until that is known, nothing starts.
    let mut state = running(resync(&[]));
    state.on(Input::Reload, at(1));
    state.on(stopped(), at(2));
    assert_eq!(started(&state.on(Input::Tick, at(2))), []);
    assert_eq!(started(&state.on(Input::Reloaded(None), at(3))), [("sync", 1, Trigger::Manual)]);
}

#[test]
fn nothing_starts_after_a_stop() {
    assert_eq!(fresh().on(Input::Stop, at(0)), [Effect::Exit]);
    let mut state = running(resync(&[]));
    state.on(Input::Asked(DaemonRequest::Run(Job::sync())), at(1));
    assert_eq!(state.on(Input::Stop, at(2)), [Effect::Preempt]);
    let refused = state.on(Input::Asked(DaemonRequest::Run(Job::sync())), at(3));
    assert_eq!(refused, [Effect::Answer(DaemonAnswer::Unavailable("the daemon is stopping".into()))]);
    let effects = state.on(stopped(), at(4));
    assert_eq!((started(&effects), effects.last()), (vec![], Some(&Effect::Exit)));
    assert_eq!(state.on(Input::Stop, at(5)), [], "it stops once");
}

#[test]
fn clock_that_is_set_back_delays_nothing() {
    let day = Duration::from_secs(86_400);
    let mut state = fresh();
    state.on(Input::Tick, at(300));
    state.on(ended(RunEnd::Done), at(301));
    let before = at(301).minus(day);
    assert!(state.on(Input::ClockMoved, before).contains(&Effect::Reschedule));
    assert_eq!(started(&state.on(Input::Tick, before.plus(Duration::from_secs(300)))).len(), 1);
}

#[test]
fn clock_that_jumps_ahead_causes_one_run_of_each_kind() {
    let mut state = fresh();
    let effects = state.on(Input::ClockMoved, at(86_400));
    assert_eq!(started(&effects).len(), 1);
    assert_eq!(state.queue.len(), 2);
}

#[test]
fn wait_ends_despite_a_clock_that_is_set_back() {
    let mut state = running(Job::sync());
    state.on(failed(FailureKind::Key), at(0));
    let before = at(0).minus(Duration::from_secs(30 * 86_400));
    state.on(Input::ClockMoved, before);
    let next = state.trouble.as_ref().unwrap().next_try;
    assert!(next <= before.plus(Duration::from_secs(3600)), "{next}");
}

#[test]
fn part_that_failed_is_attempted_a_minute_later_at_the_earliest() {
    let mut state =
        StateMachine::new(timetable(0.0), past([at(0), at(0).minus(Duration::from_secs(86_400)), at(0)]), at(0));
    assert_eq!(started(&state.on(Input::Tick, at(0)))[0].0, "verify");
    // An audit that says that something is due now, and did not attempt it.
    let kind = FailureKind::Partial { next_try: at(10), attempted: false };
    assert_eq!(started(&state.on(failed(kind), at(10))), []);
    for second in 11..70 {
        assert_eq!(started(&state.on(Input::Tick, at(second))), [], "second {second}");
    }
    assert_eq!(started(&state.on(Input::Tick, at(70)))[0].0, "verify");
}
