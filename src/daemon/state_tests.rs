//! Tests of the decisions: each event in each state, and random histories against what must always hold.

use proptest::prelude::*;

use super::*;
use crate::config::{Config, Environment, Sources};
use crate::model::Resource;

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
fn fresh() -> State {
    State::new(timetable("0s"), [at(0); 3], None, at(0))
}

fn resync(objects: &[Resource]) -> Work {
    Work::Resync { objects: objects.to_vec(), accept_removals: false }
}

fn ended(end: End) -> Event {
    Event::Ended(Outcome { end, empty_until: None })
}

fn stopped() -> Event {
    ended(End::Paused(Suspension::Shutdown))
}

fn failed(failing: Failing) -> Event {
    let why = "no answer".to_string();
    ended(End::Failed { failing, why })
}

/// The jobs that are started, as words and numbers.
fn started(effects: &[Effect]) -> Vec<(&'static str, u64, Trigger)> {
    let started = |effect: &Effect| match effect {
        Effect::Start(job) => Some((job.work.as_str(), job.id, job.trigger)),
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
fn running(work: Work) -> State {
    let mut state = fresh();
    let effects = state.on(Event::Asked(1, Request::Run(work)), at(0));
    assert_eq!(started(&effects).len(), 1);
    state
}

#[test]
fn a_tick_starts_what_is_due_and_only_then() {
    let mut state = fresh();
    assert_eq!(state.on(Event::Tick, at(299)), []);
    let effects = state.on(Event::Tick, at(300));
    assert_eq!(started(&effects), [("sync", 1, Trigger::Schedule)]);
    assert_eq!(state.on(Event::Tick, at(301)), [], "told twice is due once");
    assert_eq!(finished(&state.on(ended(End::Done), at(302))), [1]);
}

#[test]
fn what_was_missed_in_a_downtime_is_one_run_of_each_kind() {
    let days_ago = at(0).minus(Duration::from_secs(3 * 86_400));
    let mut state = State::new(timetable("0s"), [days_ago; 3], None, at(0));
    let effects = state.on(Event::Tick, at(0));
    assert_eq!(started(&effects), [("sync", 1, Trigger::Schedule)]);
    let words: Vec<&str> = state.waiting().iter().map(|job| job.work.as_str()).collect();
    assert_eq!(words, ["verify", "resync"], "one of each, the cheap one first");
}

#[test]
fn a_fleet_that_starts_at_once_does_not_ask_at_once() {
    let mut state = State::new(timetable("10s"), [Instant::EPOCH, at(0), at(0)], None, at(0));
    assert_eq!(started(&state.on(Event::Tick, at(0))), []);
    assert_eq!(state.wakes_at(at(0)), Some(at(10)));
    assert_eq!(started(&state.on(Event::Tick, at(10))).len(), 1);
    // A person is not kept waiting.
    let mut state = State::new(timetable("10s"), [at(0); 3], None, at(0));
    assert_eq!(started(&state.on(Event::Asked(1, Request::Run(Work::SYNC)), at(0))).len(), 1);
}

#[test]
fn a_person_is_answered_at_once_and_served_in_turn() {
    let mut state = running(Work::Verify { objects: vec![], full: true, repair: false, accept_removals: false });
    let effects = state.on(Event::Asked(2, Request::Run(resync(&[]))), at(1));
    assert!(effects.contains(&Effect::Answer(2, Answer::Accepted { job: 2, waits_until: None })));
    assert_eq!(started(&effects), []);
    let again = state.on(Event::Asked(3, Request::Run(resync(&[]))), at(1));
    assert!(
        matches!(again[..], [Effect::Answer(3, Answer::Accepted { job: 2, .. })]),
        "the same work is one job: {again:?}"
    );
    state.on(Event::Asked(4, Request::Run(Work::SYNC)), at(1));
    let next = state.on(ended(End::Done), at(2));
    assert_eq!(started(&next), [("resync", 2, Trigger::Manual)], "in the order in which they were asked for");
    assert_eq!(started(&state.on(ended(End::Done), at(3))), [("sync", 3, Trigger::Manual)]);
}

#[test]
fn a_long_run_gives_way_to_changes_and_goes_on() {
    let mut state = running(resync(&[Resource::Contacts]));
    assert_eq!(state.on(Event::Tick, at(300)), [Effect::LetEnd]);
    assert_eq!(state.on(Event::Tick, at(301)), [], "asked once");
    let effects = state.on(stopped(), at(302));
    assert!(finished(&effects).is_empty(), "the job has not ended");
    assert!(matches!(&effects[0], Effect::Yielded(job) if job.id == 1));
    // One run brings the changes and what is left of the sweep.
    assert_eq!(started(&effects), [("sync", 1, Trigger::Manual)]);
    assert_eq!(state.waiting(), []);
    assert_eq!(finished(&state.on(ended(End::Done), at(310))), [1]);
}

#[test]
fn what_was_accepted_stays_accepted_over_a_turn() {
    let mut state = running(Work::Resync { objects: vec![], accept_removals: true });
    state.on(Event::Tick, at(300));
    let effects = state.on(stopped(), at(301));
    let Some(Effect::Start(job)) = effects.last() else { panic!("{effects:?}") };
    assert!(job.work.accepts_removals());
}

#[test]
fn a_run_that_ends_before_it_gave_way_leaves_the_changes_due() {
    let mut state = running(resync(&[]));
    state.on(Event::Tick, at(300));
    let effects = state.on(ended(End::Done), at(301));
    assert_eq!((finished(&effects), started(&effects)), (vec![1], vec![("sync", 2, Trigger::Schedule)]));
}

#[test]
fn a_young_run_is_let_be_and_a_count_is_not_interrupted() {
    let mut state = fresh();
    state.on(Event::Asked(1, Request::Run(resync(&[]))), at(290));
    let effects = state.on(Event::Tick, at(300));
    assert!(!effects.contains(&Effect::LetEnd), "{effects:?}");
    assert_eq!(state.waiting().len(), 1, "the changes wait for it");

    let audit = Work::of(Kind::Audit);
    let mut state = running(audit);
    assert!(!state.on(Event::Tick, at(300)).contains(&Effect::LetEnd));
    assert_eq!(started(&state.on(ended(End::Done), at(301))).len(), 1);
}

#[test]
fn a_run_of_the_same_kind_that_has_just_begun_serves_the_tick() {
    let mut state = fresh();
    state.on(Event::Asked(1, Request::Run(Work::SYNC)), at(299));
    assert_eq!(state.on(Event::Tick, at(300)), []);
    assert_eq!(started(&state.on(ended(End::Done), at(301))), []);
}

#[test]
fn an_edit_goes_first_and_what_it_interrupts_goes_on() {
    let mut state = running(resync(&[]));
    let effects = state.on(Event::Edited, at(1));
    assert!(!effects.contains(&Effect::LetEnd), "every run has a moment to itself");
    assert_eq!(state.wakes_at(at(1)), Some(at(2)));
    assert_eq!(state.on(Event::Tick, at(2)), [Effect::LetEnd]);
    let effects = state.on(stopped(), at(3));
    assert_eq!(started(&effects), [("push", 2, Trigger::Manual)]);
    let effects = state.on(ended(End::Done), at(4));
    assert_eq!(started(&effects), [("sync", 1, Trigger::Manual)]);
}

#[test]
fn edits_that_come_while_edits_are_sent_are_sent_after() {
    let mut state = fresh();
    assert_eq!(started(&state.on(Event::Edited, at(0))).len(), 1);
    state.on(Event::Edited, at(1));
    assert_eq!(started(&state.on(ended(End::Done), at(2))), [("push", 2, Trigger::Manual)]);
}

#[test]
fn a_hold_is_kept_by_everybody_and_ended_by_time() {
    let mut state = running(Work::SYNC);
    let until = at(100);
    let effects = state.on(ended(End::Paused(Suspension::Hold(until))), at(10));
    assert_eq!(finished(&effects), [1]);
    assert_eq!(state.wakes_at(at(10)), Some(until));
    let effects = state.on(Event::Asked(2, Request::Run(Work::SYNC)), at(20));
    assert!(effects.contains(&Effect::Answer(2, Answer::Accepted { job: 2, waits_until: Some(until) })));
    assert_eq!(started(&effects), []);
    assert_eq!(state.on(Event::Tick, at(99)), []);
    assert_eq!(started(&state.on(Event::Tick, until)).len(), 1);
}

#[test]
fn an_empty_budget_waits_for_its_end_and_a_spent_share_lets_changes_go_on() {
    let refills = at(3_600);
    let mut state = running(resync(&[]));
    let empty = Outcome { end: End::Paused(Suspension::Budget(refills)), empty_until: Some(refills) };
    state.on(Event::Ended(empty), at(10));
    assert_eq!(started(&state.on(Event::Tick, at(300))), []);
    assert_eq!(state.quiet(at(300)).map(|quiet| quiet.why), Some("budget"));
    let effects = state.on(Event::Tick, refills);
    assert_eq!(started(&effects).len(), 1, "what came due is one run: {effects:?}");

    // Only what may be spent on sweeps is spent: the reserve is for the changes.
    let mut state = running(resync(&[]));
    state.on(ended(End::Paused(Suspension::Budget(refills))), at(10));
    assert_eq!(started(&state.on(Event::Tick, at(300))).len(), 1);
}

#[test]
fn failures_make_the_schedule_wait_longer_and_a_person_need_not() {
    let mut state = running(Work::SYNC);
    let mut now = at(0);
    let mut waits = Vec::new();
    for _ in 0..9 {
        state.on(failed(Failing::Passing), now);
        let next = state.trouble().unwrap().next_try;
        waits.push(next.since(now).as_secs() / 60);
        // Looked at every minute, the schedule of five minutes tries when the wait is over.
        let mut begun = state.on(Event::Tick, now);
        while started(&begun).is_empty() {
            now = now.plus(Duration::from_secs(60));
            begun = state.on(Event::Tick, now);
            assert!(started(&begun).is_empty() || now >= next);
        }
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    state.on(failed(Failing::Passing), now);
    let effects = state.on(Event::Asked(2, Request::Run(Work::SYNC)), now);
    assert_eq!(started(&effects).len(), 1);
    assert_eq!(state.trouble().map(|trouble| (trouble.runs, trouble.since)), Some((10, at(0))));
    state.on(ended(End::Done), now);
    assert_eq!(state.trouble(), None);
}

#[test]
fn a_refused_key_is_tried_rarely_and_a_new_one_at_the_next_tick() {
    let mut state = running(Work::SYNC);
    state.on(failed(Failing::Key), at(0));
    assert_eq!(state.trouble().unwrap().next_try, at(900));
    assert_eq!(started(&state.on(Event::Tick, at(300))), []);
    assert_eq!(started(&state.on(Event::NewKey, at(310))).len(), 1);
}

#[test]
fn another_workspace_ends_the_daemon() {
    let mut state = running(Work::SYNC);
    let effects = state.on(failed(Failing::Config), at(0));
    assert_eq!((finished(&effects), effects.last()), (vec![1], Some(&Effect::Exit)));
}

#[test]
fn a_rest_lets_nothing_start_by_the_clock_and_everything_by_hand() {
    let mut state = fresh();
    let effects = state.on(Event::Asked(1, Request::Pause), at(0));
    assert_eq!(effects, [Effect::Remember(Some(at(0))), Effect::Answer(1, Answer::Done)]);
    assert_eq!(state.on(Event::Asked(2, Request::Pause), at(5)), [Effect::Answer(2, Answer::Done)]);
    assert_eq!(state.paused_since(), Some(at(0)));
    assert_eq!(state.on(Event::Tick, at(900)), []);
    assert_eq!(started(&state.on(Event::Asked(3, Request::Run(Work::SYNC)), at(901))).len(), 1);
    state.on(ended(End::Done), at(902));
    let effects = state.on(Event::Asked(4, Request::Resume), at(1000));
    assert_eq!(started(&effects), [("sync", 2, Trigger::Schedule)], "what came due meanwhile is one run");
    assert!(effects.contains(&Effect::Remember(None)));

    let mut state = State::new(timetable("0s"), [Instant::EPOCH; 3], Some(at(0)), at(10));
    assert_eq!(started(&state.on(Event::Tick, at(10))), [], "it outlives the process");
}

#[test]
fn a_rest_ends_the_scheduled_run_at_a_page_and_leaves_a_persons() {
    let mut state = fresh();
    state.on(Event::Tick, at(300));
    assert!(state.on(Event::Asked(1, Request::Pause), at(301)).contains(&Effect::LetEnd));
    let effects = state.on(stopped(), at(302));
    assert_eq!((finished(&effects), started(&effects)), (vec![1], vec![]));

    let mut state = running(Work::SYNC);
    assert!(!state.on(Event::Asked(2, Request::Pause), at(1)).contains(&Effect::LetEnd));
}

#[test]
fn a_resync_is_stopped_wherever_it_is() {
    let mut idle = fresh();
    let effects = idle.on(Event::Asked(1, Request::StopSweeps), at(0));
    assert_eq!(effects, [Effect::ForgetSweeps, Effect::Answer(1, Answer::Done)], "one that was interrupted");

    let mut state = running(resync(&[]));
    let effects = state.on(Event::Asked(2, Request::StopSweeps), at(1));
    assert_eq!(effects, [Effect::LetEnd, Effect::Answer(2, Answer::Done)]);
    // Changes that come due meanwhile do not bring it back.
    state.on(Event::Tick, at(300));
    let effects = state.on(stopped(), at(301));
    assert!(matches!(&effects[..2], [Effect::ForgetSweeps, Effect::Finished(_)]), "{effects:?}");

    let mut waiting = running(Work::of(Kind::Audit));
    waiting.on(Event::Asked(2, Request::Run(resync(&[]))), at(1));
    waiting.on(Event::Asked(3, Request::StopSweeps), at(2));
    assert_eq!(waiting.waiting(), []);
}

#[test]
fn a_configuration_is_read_between_runs() {
    let mut state = fresh();
    assert_eq!(state.on(Event::Reload, at(0)), [Effect::Reload]);
    let mut state = running(resync(&[]));
    assert_eq!(state.on(Event::Reload, at(1)), [Effect::LetEnd]);
    let effects = state.on(stopped(), at(2));
    assert_eq!(effects.last(), Some(&Effect::Reload));
    assert_eq!(started(&effects), []);
    let effects = state.on(Event::Reloaded(timetable("0s")), at(2));
    assert_eq!(effects[0], Effect::Reschedule);
    assert_eq!(started(&effects), [("sync", 1, Trigger::Manual)], "the rest is done with the new one");
    // One that cannot be used changes nothing: the loop goes on with a tick.
    let mut state = running(resync(&[]));
    state.on(Event::Reload, at(1));
    state.on(stopped(), at(2));
    assert_eq!(started(&state.on(Event::Tick, at(2))), [("sync", 1, Trigger::Manual)]);
}

#[test]
fn asked_to_end_nothing_new_starts() {
    assert_eq!(fresh().on(Event::Stop, at(0)), [Effect::Exit]);
    let mut state = running(resync(&[]));
    state.on(Event::Asked(2, Request::Run(Work::SYNC)), at(1));
    assert_eq!(state.on(Event::Stop, at(2)), [Effect::LetEnd]);
    let refused = state.on(Event::Asked(3, Request::Run(Work::SYNC)), at(3));
    assert_eq!(refused, [Effect::Answer(3, Answer::Ending)]);
    let effects = state.on(stopped(), at(4));
    assert_eq!((started(&effects), effects.last()), (vec![], Some(&Effect::Exit)));
    assert_eq!(state.on(Event::Stop, at(5)), [], "it ends once");
}

#[test]
fn a_clock_that_is_set_back_keeps_nothing_from_being_due() {
    let day = Duration::from_secs(86_400);
    let mut state = fresh();
    state.on(Event::Tick, at(300));
    state.on(ended(End::Done), at(301));
    let before = at(301).minus(day);
    assert!(state.on(Event::ClockMoved, before).contains(&Effect::Reschedule));
    assert_eq!(started(&state.on(Event::Tick, before.plus(Duration::from_secs(300)))).len(), 1);
}

#[test]
fn a_clock_that_jumps_ahead_brings_one_run_of_each_kind() {
    let mut state = fresh();
    let effects = state.on(Event::ClockMoved, at(86_400));
    assert_eq!(started(&effects).len(), 1);
    assert_eq!(state.waiting().len(), 2);
}

#[test]
fn a_wait_does_not_outlive_a_clock_that_is_set_back() {
    let mut state = running(Work::SYNC);
    state.on(failed(Failing::Key), at(0));
    let before = at(0).minus(Duration::from_secs(30 * 86_400));
    state.on(Event::ClockMoved, before);
    let next = state.trouble().unwrap().next_try;
    assert!(next <= before.plus(Duration::from_secs(3600)), "{next}");
}

/// What may happen in a random history.
fn any_event() -> impl Strategy<Value = Event> {
    let work = prop_oneof![
        Just(Work::SYNC),
        Just(Work::Push),
        Just(Work::of(Kind::Audit)),
        Just(resync(&[])),
        Just(resync(&[Resource::Contacts])),
    ];
    prop_oneof![
        4 => Just(Event::Tick),
        1 => Just(Event::ClockMoved),
        2 => work.prop_map(|work| Event::Asked(7, Request::Run(work))),
        1 => Just(Event::Asked(7, Request::StopSweeps)),
        1 => Just(Event::Asked(7, Request::Pause)),
        1 => Just(Event::Asked(7, Request::Resume)),
        1 => Just(Event::Edited),
        3 => Just(ended(End::Done)),
        1 => Just(stopped()),
        1 => Just(failed(Failing::Passing)),
        1 => (1u64..5_000).prop_map(|wait| ended(End::Paused(Suspension::Hold(at(wait))))),
        1 => Just(Event::Reload),
        1 => Just(Event::NewKey),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn runs_never_overlap_every_question_is_answered_and_every_job_ends(
        history in prop::collection::vec((any_event(), 0u64..400), 1..60)
    ) {
        let mut state = fresh();
        let mut now = at(0);
        let mut under_way: Option<u64> = None;
        let mut open = std::collections::BTreeSet::new();
        let mut events: Vec<(Event, u64)> = history;
        // In the end whoever let it rest lets it go on, everything is read, and time passes.
        events.push((Event::Asked(7, Request::Resume), 1));
        events.extend((0..40).flat_map(|_| [(ended(End::Done), 1), (Event::Reloaded(timetable("0s")), 1), (Event::Tick, 7_200)]));
        for (event, wait) in events {
            now = now.plus(Duration::from_secs(wait));
            let asked = matches!(event, Event::Asked(..));
            let ends = matches!(event, Event::Ended(_));
            if matches!(event, Event::Reloaded(_)) && under_way.is_some() {
                continue;
            }
            if ends {
                under_way = None;
            }
            let effects = state.on(event, now);
            let answers = effects.iter().filter(|effect| matches!(effect, Effect::Answer(..))).count();
            prop_assert_eq!(answers, usize::from(asked));
            for effect in &effects {
                match effect {
                    Effect::Queued(job) => prop_assert!(open.insert(job.id)),
                    Effect::Start(job) => {
                        prop_assert_eq!(under_way.replace(job.id), None, "two at once");
                        prop_assert!(open.contains(&job.id));
                        prop_assert!(state.quiet(now).is_none());
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
