//! Random histories of inputs check the invariants of the state machine.

use proptest::prelude::*;

use super::*;

fn any_input() -> impl Strategy<Value = Input> {
    let work = prop_oneof![
        Just(Job::sync()),
        Just(Job::push()),
        Just(job::scheduled(ScheduleKind::Audit)),
        Just(resync(&[])),
        Just(resync(&[Resource::Contacts])),
    ];
    prop_oneof![
        4 => Just(Input::Tick),
        1 => Just(Input::ClockMoved),
        2 => work.prop_map(|work| Input::Asked(DaemonRequest::Run(work))),
        1 => Just(Input::Asked(DaemonRequest::ClearHold)),
        2 => Just(Input::Maintained),
        1 => Just(Input::Asked(DaemonRequest::Pause)),
        1 => Just(Input::Asked(DaemonRequest::Resume)),
        1 => Just(Input::EditsDue),
        3 => Just(ended(RunEnd::Done)),
        1 => Just(stopped()),
        1 => Just(failed(FailureKind::Passing)),
        1 => (1u64..5_000).prop_map(|wait| ended(RunEnd::Suspended(Suspension::Hold(at(wait))))),
        1 => Just(Input::Reload),
        1 => Just(Input::NewKey),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]

    #[test]
    fn runs_never_overlap_every_request_is_answered_and_every_job_ends(
        history in prop::collection::vec((any_input(), 0u64..400), 1..60)
    ) {
        let mut state = fresh();
        let mut now = at(0);
        let mut under_way: Option<u64> = None;
        let mut open = std::collections::BTreeSet::new();
        let mut events: Vec<(Input, u64)> = history;
        // At the end the schedule is resumed, the configuration is read, and time passes.
        events.push((Input::Asked(DaemonRequest::Resume), 1));
        events.extend((0..40).flat_map(|_| [(ended(RunEnd::Done), 1), (Input::Maintained, 0), (Input::Reloaded(Some(timetable(0.0))), 1), (Input::Tick, 7_200)]));
        for (event, wait) in events {
            now = now.plus(Duration::from_secs(wait));
            let is_request = matches!(event, Input::Asked(..));
            let ends = matches!(event, Input::Ended(_));
            if matches!(event, Input::Reloaded(_)) && under_way.is_some() {
                continue;
            }
            if ends {
                under_way = None;
            }
            let effects = state.on(event, now);
            let answers = effects.iter().filter(|e| matches!(e, Effect::Answer(..) | Effect::StorePause(..))).count();
            prop_assert_eq!(answers, usize::from(is_request));
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
        for job in state.queue {
            // Only jobs of the last tick remain.
            prop_assert!(matches!(job.trigger, Trigger::Schedule), "{:?} starved", job);
        }
    }
}
