//! Holds: during a requested wait no request is sent.

use std::time::Duration;

use crate::support::prepared::prepared;
use crate::support::{Crm, Mirror, noon};
use crm_mirror::model::{Clock, DataType, Instant, Object, Resource};
use crm_mirror::sandbox::{Fault, LoggedRequest, NewField, Route, Rule, World, generate};
use crm_mirror::store::RunOutcome;
use crm_mirror::sync::{Job, Suspension, SyncError};
use serde_json::json;

fn held(body: u64) -> Fault {
    Fault::Wait { status: 429, body: Some(body), header: None }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_is_sent_until_the_hold_is_over() {
    let crm = Crm::serve(generate(41, 300, 20, noon())).await;
    let mirror = Mirror::empty();
    // In the middle of the details, with four workers.
    crm.sandbox.faults().add(Rule::new(held(7)).records().after(50));
    let report = mirror.sync(&crm).await;
    assert_eq!(report.outcome, RunOutcome::Done);
    mirror.assert_exact(&crm);
    let log = crm.sandbox.log();
    let refused = log.entries().iter().find(|entry| entry.status == Some(429)).unwrap().at;
    let over = refused.plus(Duration::from_secs(7));
    // The clock jumps while requests of the three other workers are under way: those may arrive late.
    let late = log.entries().iter().filter(|entry| entry.at > refused && entry.at < over).count();
    assert!(late <= 3, "{late} requests during the hold");
    assert!(log.entries().iter().any(|entry| entry.at >= over), "then it continues");
}

/// The definitions are requested beside details that wait for their turn.
#[tokio::test]
async fn details_beside_a_hold_that_show_a_new_field_are_all_read() {
    let crm = Crm::serve(generate(43, 30, 0, noon())).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    crm.wait(600);
    crm.sandbox.with_world(|world| {
        for id in world.ids(Resource::Contacts) {
            assert!(world.edit(Object::Contact, &id, &json!({ "notes": "New" })));
        }
    });
    crm.sandbox.faults().add(Rule::new(held(7)).records());
    let mut details = 0;
    crm.sandbox.before_request(move |world: &mut World, asked| {
        details += u32::from(matches!(asked.route, Route::One(..)));
        // The first is refused, and the answers to those beside it have the field.
        if details == 1 {
            world.fields().define(NewField::new(Object::Contact, "story", DataType::LongText));
            for id in world.ids(Resource::Contacts) {
                world.edit_silently(Object::Contact, &id, &json!({ "customFields": { "story": "Long" } }));
            }
        }
    });
    assert_eq!(mirror.sync(&crm).await.outcome, RunOutcome::Done);
    let filled = mirror.count("contact_details WHERE cf_story = 'Long'");
    assert!(filled > 0, "the field has its column in the same run");
    crm.sandbox.clear_hook();
    crm.wait(600);
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
}

#[tokio::test]
async fn long_hold_ends_the_run_and_applies_to_the_next_process() {
    let crm = Crm::serve(generate(42, 250, 3, noon())).await;
    let mut mirror = Mirror::empty();
    mirror.patience = Duration::from_secs(5);
    crm.sandbox.faults().add(
        Rule::new(Fault::Wait { status: 429, body: None, header: Some(90) }).on(Resource::Contacts).lists().after(1),
    );
    let until = crm.clock.now().plus(Duration::from_secs(90));
    let report = mirror.sync(&crm).await;
    assert_eq!((report.outcome, report.suspension), (RunOutcome::Suspended, Some(Suspension::Hold(until))));
    crm.sandbox.clear_log();
    crm.wait(30);
    let again = mirror.sync(&crm).await;
    assert_eq!(again.suspension, Some(Suspension::Hold(until)));
    assert!(crm.sandbox.log().is_empty(), "not one request");
    crm.wait(60);
    assert_eq!(mirror.sync(&crm).await.outcome, RunOutcome::Done);
    mirror.assert_exact(&crm);
    let hold = mirror.one("SELECT value ->> 'hold' IS NULL FROM state WHERE name = 'ledger'");
    assert_eq!(hold, "1", "the hold is over");
}

#[tokio::test]
async fn hold_of_any_status_survives_a_clock_change() {
    let day = 86_400;
    let begin = noon();
    for (status, to) in [(429, -30_i64), (503, -30), (503, 10 * 86_400), (404, -10 * 86_400), (302, -30)] {
        let crm = Crm::serve(generate(47, 20, 3, begin)).await;
        let mut mirror = Mirror::one_at_a_time();
        mirror.patience = Duration::from_secs(5);
        mirror.tries = 1;
        let fault = Fault::Wait { status, body: Some(7), header: Some(day) };
        crm.sandbox.faults().add(Rule::new(fault).on(Resource::Contacts).lists());
        let _ = mirror.run(&crm, &Job::sync()).await;
        crm.sandbox.clear_log();
        let now = crm.clock.now();
        crm.clock.jump(Instant::from_secs(now.as_secs() + to).unwrap());
        let report = mirror.sync(&crm).await;
        assert!(matches!(report.suspension, Some(Suspension::Hold(_))), "{status} {to}: {:?}", report.suspension);
        assert!(crm.sandbox.log().is_empty(), "{status} {to}: not one request");
        crm.clock.jump(now);
        crm.wait(day);
        mirror.sync(&crm).await;
        mirror.assert_exact(&crm);
    }
}

#[tokio::test]
async fn refusals_without_retry_after_wait_longer_each_time() {
    let crm = Crm::serve(generate(43, 5, 2, noon())).await;
    let mut mirror = Mirror::one_at_a_time();
    mirror.patience = Duration::from_secs(1_000);
    crm.sandbox.faults().add(Rule::new(Fault::Wait { status: 429, body: None, header: None }).times(3));
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
    let times: Vec<_> = crm.sandbox.log().entries().iter().take(4).map(|entry| entry.at).collect();
    let waits: Vec<u64> = times.windows(2).map(|pair| pair[1].since(pair[0]).as_secs()).collect();
    assert!(waits[0] >= 5 && waits[1] >= 10 && waits[2] >= 20, "{waits:?}");
}

#[tokio::test]
async fn missing_scope_skips_its_object_and_is_reported() {
    let crm = Crm::serve(generate(44, 20, 5, noon())).await;
    let mut mirror = Mirror::empty();
    mirror.key = Some(crm.sandbox.add_key(&["companies:read", "custom-fields:read", "team-members:read"]));
    let report = mirror.sync(&crm).await;
    assert_eq!(report.outcome, RunOutcome::Done);
    let named: Vec<&str> = report.missing_scopes.iter().map(|(_, scope)| *scope).collect();
    assert_eq!(named, ["contacts:read"]);
    assert_eq!((mirror.count("contacts"), mirror.count("companies")), (0, 5));
    // The scope is granted: the object is copied as usual.
    mirror.key = None;
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
}

#[tokio::test]
async fn refused_key_ends_the_run_at_the_first_request() {
    let crm = Crm::serve(generate(45, 20, 5, noon())).await;
    let mut mirror = Mirror::empty();
    mirror.key = Some("crm_test_v1_of_somebody_else".into());
    let error = mirror.run(&crm, &Job::sync()).await.unwrap_err();
    assert!(matches!(error, SyncError::Api { .. }));
    assert_eq!(crm.sandbox.log().len(), 1, "no hammering");
    assert!(!format!("{error:?} {error}").contains("somebody_else"));
    mirror.key = Some(crm.sandbox.add_key(&[]));
    let error = mirror.run(&crm, &Job::sync()).await.unwrap_err();
    assert!(matches!(error, SyncError::NoScope { .. }), "{error:?}");
}

/// Scheduled runs every ten minutes, and one at the end of each hold, as the daemon makes them; `is_fresh` is called after each
/// of them. Returns how many requests of an object were refused in an hour, at most.
async fn refused_in_an_hour(crm: &Crm, mirror: &Mirror, mut is_fresh: impl FnMut(usize)) -> usize {
    crm.sandbox.clear_log();
    for n in 0..24 {
        crm.wait(600);
        crm.sandbox.with_world(|world| {
            for (object, id) in [(Object::Contact, "ct0"), (Object::Company, "co")] {
                assert!(world.edit(object, id, &json!({ "name": format!("Name {n}") })));
            }
        });
        // Two kinds of request that are refused make two holds.
        for _ in 0..3 {
            let ended = mirror.try_scheduled(crm, &Job::sync()).await;
            let Ok(Some(Suspension::Hold(until))) = ended.map(|report| report.suspension) else { break };
            crm.wait(until.since(crm.clock.now()).as_secs() + 1);
        }
        is_fresh(n);
    }
    let (log, hour) = (crm.sandbox.log(), Duration::from_secs(3_600));
    let of_object = |object: Object| {
        let is_refused = |entry: &&LoggedRequest| {
            entry.status == Some(429) && entry.asked.path.starts_with(object.resource().path())
        };
        let refused: Vec<_> = log.entries().iter().filter(is_refused).map(|entry| entry.at).collect();
        let within = |from: &Instant| refused.iter().filter(|at| from <= at && at.since(*from) < hour).count();
        refused.iter().map(within).max().unwrap_or(0)
    };
    Object::ALL.map(of_object).into_iter().max().unwrap()
}

async fn two_objects() -> (Crm, Mirror) {
    let make = || async move {
        let mut world = World::new(noon());
        for n in 0..150 {
            world.create(Object::Contact, &json!({"id": format!("ct{n}")}));
        }
        world.create(Object::Company, &json!({"id": "co"}));
        let crm = Crm::serve(world).await;
        let mirror = Mirror::empty();
        for _ in 0..2 {
            mirror.sync(&crm).await;
            crm.wait(3_600);
        }
        (crm, mirror)
    };
    prepared("holds".into(), make).await
}

/// The service refuses one kind of request for ever. It holds all of them each time, and nothing else fails.
#[tokio::test]
async fn counts_that_are_always_refused_hold_up_nothing_else() {
    for (body, most) in [(None, 30), (Some(5), 48), (Some(1_800), 2)] {
        let (crm, mirror) = two_objects().await;
        let fault = Fault::Wait { status: 429, body, header: None };
        crm.sandbox.faults().add(Rule::new(fault.clone()).with_param("count").forever());
        let refused = refused_in_an_hour(&crm, &mirror, |n| {
            for table in ["contacts", "companies"] {
                let fresh = mirror.count(&format!("{table} WHERE name = 'Name {n}'"));
                assert_eq!(fresh, 1, "run {n}, {fault:?}: {table}");
            }
        });
        let refused = refused.await;
        assert!((1..=most).contains(&refused), "{fault:?}: {refused} in an hour");
        crm.sandbox.faults().clear();
        crm.wait(7_200);
        mirror.scheduled(&crm, &Job::sync()).await;
        mirror.assert_exact(&crm);
        assert_eq!(mirror.count("state WHERE name = 'step_failures'"), 0);
    }
}

#[tokio::test]
async fn detail_that_is_always_refused_holds_up_no_other() {
    for body in [None, Some(5), Some(1_800)] {
        let (crm, mirror) = two_objects().await;
        let fault = Fault::Wait { status: 429, body, header: None };
        crm.sandbox.faults().add(Rule::new(fault.clone()).records().record("ct7").forever());
        crm.sandbox.with_world(|world| {
            for n in 0..20 {
                assert!(world.edit(Object::Contact, &format!("ct{n}"), &json!({ "notes": "New" })));
            }
        });
        let refused = refused_in_an_hour(&crm, &mirror, |n| {
            let read = mirror.count("contact_details WHERE notes = 'New'");
            assert_eq!(read, 19, "run {n}, {fault:?}");
        });
        let refused = refused.await;
        assert!((1..=8).contains(&refused), "{fault:?}: {refused} in an hour");
        crm.sandbox.faults().clear();
        crm.wait(86_400);
        mirror.scheduled(&crm, &Job::sync()).await;
        mirror.assert_exact(&crm);
    }
}

/// A service that refuses everything makes no step fail: when it answers again, the next run reads everything.
#[tokio::test]
async fn service_that_refuses_everything_makes_no_step_wait() {
    for body in [None, Some(1), Some(1_800)] {
        let (crm, mirror) = two_objects().await;
        crm.sandbox.with_world(|world| world.edit(Object::Company, "co", &json!({ "name": "New" })));
        crm.sandbox.faults().add(Rule::new(Fault::Wait { status: 429, body, header: None }).forever());
        _ = mirror.try_scheduled(&crm, &Job::sync()).await;
        assert_eq!(mirror.count("state WHERE name = 'step_failures'"), 0, "{body:?}");
        crm.sandbox.faults().clear();
        crm.wait(1_800);
        mirror.scheduled(&crm, &Job::sync()).await;
        mirror.assert_exact(&crm);
    }
}
