//! Tests of the decisions: each event in each state, and random histories against what must always hold.

use proptest::prelude::*;

use super::*;
use crate::config::{Config, Environment, Sources};
use crate::daemon::input::{DaemonAnswer, DaemonRequest};
use crate::daemon::job::{RunEnd, RunEnding};
use crate::model::Resource;
use crate::sync::Suspension;

fn timetable(jitter: &str) -> Timetable {
    let flags = vec![("sync.sweep_schedule", "0 0 3 * * *".into()), ("sync.jitter", jitter.into())];
    let sources = Sources { file: None, default_file: "/nowhere".into(), environment: Environment::default(), flags };
    Timetable::new(&Config::load(&sources).unwrap().sync, 1.0)
}

/// Noon of a day, and so many seconds.
fn at(seconds: u64) -> Instant {
    let noon: Instant = "2026-03-04T12:00:00Z".parse().unwrap();
    noon.plus(Duration::from_secs(seconds))
}

/// A daemon at noon, for which nothing is due.
fn fresh() -> StateMachine {
    StateMachine::new(timetable("0s"), past([at(0); 3]), at(0))
}

/// A mirror that was copied, and whose kinds have run up to these times.
fn past(covered: [Instant; 3]) -> PastRuns {
    PastRuns { covered, paused_since: None, is_empty: false }
}

fn resync(objects: &[Resource]) -> Job {
    Job::resync().of(objects)
}

fn ended(end: RunEnd) -> Input {
    Input::Ended(RunEnding { end, empty_until: None })
}

fn stopped() -> Input {
    ended(RunEnd::Suspended(Suspension::Shutdown))
}

fn failed(kind: FailureKind) -> Input {
    ended(RunEnd::Failed { kind, reason: "no answer".into(), exit: 69 })
}

/// The jobs that are started, as words and numbers.
fn started(effects: &[Effect]) -> Vec<(&'static str, u64, Trigger)> {
    let started = |effect: &Effect| match effect {
        Effect::Start(job) => Some((job.job.kind(), job.id, job.trigger)),
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

/// A daemon with a run under way since noon.
fn running(work: Job) -> StateMachine {
    let mut state = fresh();
    let effects = state.on(Input::Asked(1, DaemonRequest::Run(work)), at(0));
    assert_eq!(started(&effects).len(), 1);
    state
}

#[test]
fn a_tick_starts_what_is_due_and_only_then() {
    let mut state = fresh();
    assert_eq!(state.on(Input::Tick, at(299)), []);
    let effects = state.on(Input::Tick, at(300));
    assert_eq!(started(&effects), [("sync", 1, Trigger::Schedule)]);
    assert_eq!(state.on(Input::Tick, at(301)), [], "announced twice is due once");
    assert_eq!(finished(&state.on(ended(RunEnd::Done), at(302))), [1]);
}

#[test]
fn what_was_missed_in_a_downtime_is_one_run_of_each_kind() {
    let days_ago = at(0).minus(Duration::from_secs(3 * 86_400));
    let mut state = StateMachine::new(timetable("0s"), past([days_ago; 3]), at(0));
    let effects = state.on(Input::Tick, at(0));
    assert_eq!(started(&effects), [("sync", 1, Trigger::Schedule)]);
    let words: Vec<&str> = state.waiting().iter().map(|job| job.job.kind()).collect();
    assert_eq!(words, ["verify", "resync"], "one of each, the cheap one first");
}

#[test]
fn a_fleet_that_starts_at_once_does_not_ask_at_once() {
    let mut state = StateMachine::new(timetable("10s"), past([Instant::EPOCH, at(0), at(0)]), at(0));
    assert_eq!(started(&state.on(Input::Tick, at(0))), []);
    assert_eq!(state.wakes_at(at(0)), Some(at(10)));
    assert_eq!(started(&state.on(Input::Tick, at(10))).len(), 1);
    // A person is not kept waiting.
    let mut state = StateMachine::new(timetable("10s"), past([at(0); 3]), at(0));
    assert_eq!(started(&state.on(Input::Asked(1, DaemonRequest::Run(Job::sync())), at(0))).len(), 1);
}

#[test]
fn a_person_is_answered_at_once_and_served_in_turn() {
    let mut state = running(Job::Verify {
        objects: crate::sync::Selection::All,
        full: true,
        repair: false,
        accept: Acceptance::default(),
    });
    let effects = state.on(Input::Asked(2, DaemonRequest::Run(resync(&[]))), at(1));
    assert!(effects.contains(&Effect::Answer(2, DaemonAnswer::Accepted { job: 2, waits_until: None })));
    assert_eq!(started(&effects), []);
    let again = state.on(Input::Asked(3, DaemonRequest::Run(resync(&[]))), at(1));
    assert!(
        matches!(again[..], [Effect::Answer(3, DaemonAnswer::Accepted { job: 2, .. })]),
        "the same work is one job: {again:?}"
    );
    state.on(Input::Asked(4, DaemonRequest::Run(Job::sync())), at(1));
    let next = state.on(ended(RunEnd::Done), at(2));
    assert_eq!(started(&next), [("resync", 2, Trigger::Manual)], "in the order in which they were asked for");
    assert_eq!(started(&state.on(ended(RunEnd::Done), at(3))), [("sync", 3, Trigger::Manual)]);
}

#[test]
fn a_long_run_gives_way_to_changes_and_goes_on() {
    let mut state = running(resync(&[Resource::Contacts]));
    assert_eq!(state.on(Input::Tick, at(300)), [Effect::Preempt]);
    assert_eq!(state.on(Input::Tick, at(301)), [], "asked once");
    let effects = state.on(stopped(), at(302));
    assert!(finished(&effects).is_empty(), "the job has not ended");
    assert!(matches!(&effects[0], Effect::Preempted(job) if job.id == 1));
    // One run brings the changes and what is left of the sweep.
    assert_eq!(started(&effects), [("sync", 1, Trigger::Manual)]);
    assert_eq!(state.waiting(), []);
    assert_eq!(finished(&state.on(ended(RunEnd::Done), at(310))), [1]);
}

#[test]
fn what_was_accepted_stays_accepted_over_a_turn() {
    let mut state = running(Job::resync().accepting_removals());
    state.on(Input::Tick, at(300));
    let effects = state.on(stopped(), at(301));
    let Some(Effect::Start(job)) = effects.last() else { panic!("{effects:?}") };
    assert!(job.job.accept().removals);
}

#[test]
fn a_run_that_ends_before_it_gave_way_leaves_the_changes_due() {
    let mut state = running(resync(&[]));
    state.on(Input::Tick, at(300));
    let effects = state.on(ended(RunEnd::Done), at(301));
    assert_eq!((finished(&effects), started(&effects)), (vec![1], vec![("sync", 2, Trigger::Schedule)]));
}

#[test]
fn a_young_run_is_let_be_and_a_count_is_not_interrupted() {
    let mut state = fresh();
    state.on(Input::Asked(1, DaemonRequest::Run(resync(&[]))), at(290));
    let effects = state.on(Input::Tick, at(300));
    assert!(!effects.contains(&Effect::Preempt), "{effects:?}");
    assert_eq!(state.waiting().len(), 1, "the changes wait for it");

    let audit = job::scheduled(ScheduleKind::Audit);
    let mut state = running(audit);
    assert!(!state.on(Input::Tick, at(300)).contains(&Effect::Preempt));
    assert_eq!(started(&state.on(ended(RunEnd::Done), at(301))).len(), 1);
}

#[test]
fn a_run_of_the_same_kind_that_has_just_begun_serves_the_tick() {
    let mut state = fresh();
    state.on(Input::Asked(1, DaemonRequest::Run(Job::sync())), at(299));
    assert_eq!(state.on(Input::Tick, at(300)), []);
    assert_eq!(started(&state.on(ended(RunEnd::Done), at(301))), []);
}

#[test]
fn an_edit_goes_first_and_what_it_interrupts_goes_on() {
    let mut state = running(resync(&[]));
    let effects = state.on(Input::Edited, at(1));
    assert!(!effects.contains(&Effect::Preempt), "every run has a moment to itself");
    assert_eq!(state.wakes_at(at(1)), Some(at(2)));
    assert_eq!(state.on(Input::Tick, at(2)), [Effect::Preempt]);
    let effects = state.on(stopped(), at(3));
    assert_eq!(started(&effects), [("push", 2, Trigger::Manual)]);
    let effects = state.on(ended(RunEnd::Done), at(4));
    assert_eq!(started(&effects), [("sync", 1, Trigger::Manual)]);
}

#[test]
fn edits_that_come_while_edits_are_sent_are_sent_after() {
    let mut state = fresh();
    assert_eq!(started(&state.on(Input::Edited, at(0))).len(), 1);
    state.on(Input::Edited, at(1));
    assert_eq!(started(&state.on(ended(RunEnd::Done), at(2))), [("push", 2, Trigger::Manual)]);
}

#[test]
fn a_hold_is_kept_by_everybody_and_ended_by_time() {
    let mut state = running(Job::sync());
    let until = at(100);
    let effects = state.on(ended(RunEnd::Suspended(Suspension::Hold(until))), at(10));
    assert_eq!(finished(&effects), [1]);
    assert_eq!(state.wakes_at(at(10)), Some(until));
    let effects = state.on(Input::Asked(2, DaemonRequest::Run(Job::sync())), at(20));
    assert!(effects.contains(&Effect::Answer(2, DaemonAnswer::Accepted { job: 2, waits_until: Some(until) })));
    assert_eq!(started(&effects), []);
    assert_eq!(state.on(Input::Tick, at(99)), []);
    assert_eq!(started(&state.on(Input::Tick, until)).len(), 1);
}

#[test]
fn an_empty_budget_waits_for_its_end_and_a_spent_share_lets_changes_go_on() {
    let refills = at(3_600);
    let mut state = running(resync(&[]));
    let empty = RunEnding { end: RunEnd::Suspended(Suspension::Budget(refills)), empty_until: Some(refills) };
    state.on(Input::Ended(empty), at(10));
    assert_eq!(started(&state.on(Input::Tick, at(300))), []);
    assert_eq!(state.hold(at(300)).map(|hold| hold.reason), Some(HoldReason::Budget));
    let effects = state.on(Input::Tick, refills);
    assert_eq!(started(&effects).len(), 1, "what came due is one run: {effects:?}");

    // Only what may be spent on sweeps is spent: the reserve is for the changes.
    let mut state = running(resync(&[]));
    state.on(ended(RunEnd::Suspended(Suspension::Budget(refills))), at(10));
    assert_eq!(started(&state.on(Input::Tick, at(300))).len(), 1);
}

#[test]
fn failures_make_the_schedule_wait_longer_and_a_person_need_not() {
    let mut state = running(Job::sync());
    let mut now = at(0);
    let mut waits = Vec::new();
    for _ in 0..9 {
        state.on(failed(FailureKind::Passing), now);
        let next = state.trouble().unwrap().next_try;
        waits.push(next.since(now).as_secs() / 60);
        // Looked at every minute, the schedule of five minutes tries when the wait is over.
        let mut begun = state.on(Input::Tick, now);
        while started(&begun).is_empty() {
            now = now.plus(Duration::from_secs(60));
            begun = state.on(Input::Tick, now);
            assert!(started(&begun).is_empty() || now >= next);
        }
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    state.on(failed(FailureKind::Passing), now);
    let effects = state.on(Input::Asked(2, DaemonRequest::Run(Job::sync())), now);
    assert_eq!(started(&effects).len(), 1);
    assert_eq!(state.trouble().map(|trouble| (trouble.runs, trouble.since)), Some((10, at(0))));
    state.on(ended(RunEnd::Done), now);
    assert_eq!(state.trouble(), None);
}

#[test]
fn a_refused_key_is_tried_rarely_and_a_new_one_at_the_next_tick() {
    let mut state = running(Job::sync());
    state.on(failed(FailureKind::Key), at(0));
    assert_eq!(state.trouble().unwrap().next_try, at(900));
    assert_eq!(started(&state.on(Input::Tick, at(300))), []);
    assert_eq!(started(&state.on(Input::NewKey, at(310))).len(), 1);
}

#[test]
fn a_pause_lets_nothing_start_by_schedule_and_everything_by_hand() {
    let mut state = fresh();
    let effects = state.on(Input::Asked(1, DaemonRequest::Pause), at(0));
    assert_eq!(effects, [Effect::StorePause(1, Some(at(0)))]);
    assert_eq!(state.on(Input::Asked(2, DaemonRequest::Pause), at(5)), [Effect::StorePause(2, Some(at(0)))]);
    assert_eq!(state.paused_since(), Some(at(0)));
    assert_eq!(state.on(Input::Tick, at(900)), []);
    assert_eq!(started(&state.on(Input::Asked(3, DaemonRequest::Run(Job::sync())), at(901))).len(), 1);
    state.on(ended(RunEnd::Done), at(902));
    let effects = state.on(Input::Asked(4, DaemonRequest::Resume), at(1000));
    assert_eq!(started(&effects), [("sync", 2, Trigger::Schedule)], "what came due meanwhile is one run");
    assert!(effects.contains(&Effect::StorePause(4, None)));

    let paused = PastRuns { paused_since: Some(at(0)), ..past([Instant::EPOCH; 3]) };
    let mut state = StateMachine::new(timetable("0s"), paused, at(10));
    assert_eq!(started(&state.on(Input::Tick, at(10))), [], "it outlives the process");
}

#[test]
fn a_pause_ends_the_scheduled_run_at_a_page_and_leaves_a_persons() {
    let mut state = fresh();
    state.on(Input::Tick, at(300));
    assert!(state.on(Input::Asked(1, DaemonRequest::Pause), at(301)).contains(&Effect::Preempt));
    let effects = state.on(stopped(), at(302));
    assert_eq!((finished(&effects), started(&effects)), (vec![1], vec![]));

    let mut state = running(Job::sync());
    assert!(!state.on(Input::Asked(2, DaemonRequest::Pause), at(1)).contains(&Effect::Preempt));
}

#[test]
fn a_resync_is_stopped_wherever_it_is() {
    let mut idle = fresh();
    let effects = idle.on(Input::Asked(1, DaemonRequest::StopSweeps), at(0));
    assert_eq!(effects, [Effect::ForgetSweeps, Effect::Answer(1, DaemonAnswer::Done)], "one that was interrupted");

    let mut state = running(resync(&[]));
    let effects = state.on(Input::Asked(2, DaemonRequest::StopSweeps), at(1));
    assert_eq!(effects, [Effect::Preempt, Effect::Answer(2, DaemonAnswer::Done)]);
    // Changes that come due meanwhile do not bring it back.
    state.on(Input::Tick, at(300));
    let effects = state.on(stopped(), at(301));
    assert!(matches!(&effects[..2], [Effect::ForgetSweeps, Effect::Finished(_)]), "{effects:?}");

    let mut waiting = running(job::scheduled(ScheduleKind::Audit));
    waiting.on(Input::Asked(2, DaemonRequest::Run(resync(&[]))), at(1));
    waiting.on(Input::Asked(3, DaemonRequest::StopSweeps), at(2));
    assert_eq!(waiting.waiting(), []);
}

#[test]
fn a_configuration_is_read_between_runs() {
    let mut state = fresh();
    assert_eq!(state.on(Input::Reload, at(0)), [Effect::Reload]);
    let mut state = running(resync(&[]));
    assert_eq!(state.on(Input::Reload, at(1)), [Effect::Preempt]);
    let effects = state.on(stopped(), at(2));
    assert_eq!(effects.last(), Some(&Effect::Reload));
    assert_eq!(started(&effects), []);
    let effects = state.on(Input::Reloaded(Some(timetable("0s"))), at(2));
    assert_eq!(effects[0], Effect::Reschedule);
    assert_eq!(started(&effects), [("sync", 1, Trigger::Manual)], "the rest is done with the new one");
    // An invalid one changes nothing; until that is known, nothing starts.
    let mut state = running(resync(&[]));
    state.on(Input::Reload, at(1));
    state.on(stopped(), at(2));
    assert_eq!(started(&state.on(Input::Tick, at(2))), []);
    assert_eq!(started(&state.on(Input::Reloaded(None), at(3))), [("sync", 1, Trigger::Manual)]);
}

#[test]
fn asked_to_end_nothing_new_starts() {
    assert_eq!(fresh().on(Input::Stop, at(0)), [Effect::Exit]);
    let mut state = running(resync(&[]));
    state.on(Input::Asked(2, DaemonRequest::Run(Job::sync())), at(1));
    assert_eq!(state.on(Input::Stop, at(2)), [Effect::Preempt]);
    let refused = state.on(Input::Asked(3, DaemonRequest::Run(Job::sync())), at(3));
    assert_eq!(refused, [Effect::Answer(3, DaemonAnswer::Unavailable { reason: "the daemon is ending".into() })]);
    let effects = state.on(stopped(), at(4));
    assert_eq!((started(&effects), effects.last()), (vec![], Some(&Effect::Exit)));
    assert_eq!(state.on(Input::Stop, at(5)), [], "it ends once");
}

#[test]
fn a_clock_that_is_set_back_keeps_nothing_from_being_due() {
    let day = Duration::from_secs(86_400);
    let mut state = fresh();
    state.on(Input::Tick, at(300));
    state.on(ended(RunEnd::Done), at(301));
    let before = at(301).minus(day);
    assert!(state.on(Input::ClockMoved, before).contains(&Effect::Reschedule));
    assert_eq!(started(&state.on(Input::Tick, before.plus(Duration::from_secs(300)))).len(), 1);
}

#[test]
fn a_clock_that_jumps_ahead_brings_one_run_of_each_kind() {
    let mut state = fresh();
    let effects = state.on(Input::ClockMoved, at(86_400));
    assert_eq!(started(&effects).len(), 1);
    assert_eq!(state.waiting().len(), 2);
}

#[test]
fn a_wait_does_not_outlive_a_clock_that_is_set_back() {
    let mut state = running(Job::sync());
    state.on(failed(FailureKind::Key), at(0));
    let before = at(0).minus(Duration::from_secs(30 * 86_400));
    state.on(Input::ClockMoved, before);
    let next = state.trouble().unwrap().next_try;
    assert!(next <= before.plus(Duration::from_secs(3600)), "{next}");
}

/// What may happen in a random history.
fn any_input() -> impl Strategy<Value = Input> {
    let work = prop_oneof![
        Just(Job::sync()),
        Just(Job::Push),
        Just(job::scheduled(ScheduleKind::Audit)),
        Just(resync(&[])),
        Just(resync(&[Resource::Contacts])),
    ];
    prop_oneof![
        4 => Just(Input::Tick),
        1 => Just(Input::ClockMoved),
        2 => work.prop_map(|work| Input::Asked(7, DaemonRequest::Run(work))),
        1 => Just(Input::Asked(7, DaemonRequest::StopSweeps)),
        1 => Just(Input::Asked(7, DaemonRequest::ClearHold)),
        2 => Just(Input::Maintained),
        1 => Just(Input::Asked(7, DaemonRequest::Pause)),
        1 => Just(Input::Asked(7, DaemonRequest::Resume)),
        1 => Just(Input::Edited),
        3 => Just(ended(RunEnd::Done)),
        1 => Just(stopped()),
        1 => Just(failed(FailureKind::Passing)),
        1 => (1u64..5_000).prop_map(|wait| ended(RunEnd::Suspended(Suspension::Hold(at(wait))))),
        1 => Just(Input::Reload),
        1 => Just(Input::NewKey),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn runs_never_overlap_every_question_is_answered_and_every_job_ends(
        history in prop::collection::vec((any_input(), 0u64..400), 1..60)
    ) {
        let mut state = fresh();
        let mut now = at(0);
        let mut under_way: Option<u64> = None;
        let mut open = std::collections::BTreeSet::new();
        let mut events: Vec<(Input, u64)> = history;
        // In the end the schedule is resumed, everything is read, and time passes.
        events.push((Input::Asked(7, DaemonRequest::Resume), 1));
        events.extend((0..40).flat_map(|_| [(ended(RunEnd::Done), 1), (Input::Maintained, 0), (Input::Reloaded(Some(timetable("0s"))), 1), (Input::Tick, 7_200)]));
        for (event, wait) in events {
            now = now.plus(Duration::from_secs(wait));
            let asked = matches!(event, Input::Asked(..));
            let ends = matches!(event, Input::Ended(_));
            if matches!(event, Input::Reloaded(_)) && under_way.is_some() {
                continue;
            }
            if ends {
                under_way = None;
            }
            let effects = state.on(event, now);
            let answers = effects.iter().filter(|e| matches!(e, Effect::Answer(..) | Effect::StorePause(..))).count();
            prop_assert_eq!(answers, usize::from(asked));
            for effect in &effects {
                match effect {
                    Effect::Queued(job) => prop_assert!(open.insert(job.id)),
                    Effect::Start(job) => {
                        prop_assert_eq!(under_way.replace(job.id), None, "two at once");
                        prop_assert!(open.contains(&job.id));
                        prop_assert!(state.hold(now).is_none());
                    }
                    Effect::Finished(job) => prop_assert!(open.remove(&job.id), "ended twice"),
                    Effect::Reload => prop_assert_eq!(under_way, None),
                    _ => {}
                }
            }
            prop_assert_eq!(state.running().map(|(job, _)| job.id), under_way);
        }
        for job in state.waiting() {
            // Only what the last tick brought.
            prop_assert!(matches!(job.trigger, Trigger::Schedule), "{:?} starved", job);
        }
    }
}
