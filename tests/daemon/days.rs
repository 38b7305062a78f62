//! Situations that last days: a service that is down, a refused key, an empty budget, a clock that jumps.

use std::collections::BTreeSet;

use crm_mirror::model::{Instant, Object, Resource};
use crm_mirror::sandbox::{Fault, Rule, generate};
use serde_json::{Value, json};

use crate::inside::Inside;
use crate::socket::until;
use crate::support::noon;

const DAY: u64 = 86_400;
const DAY_PART: std::time::Duration = std::time::Duration::from_secs(3_600);
const EVERY_FIVE_MINUTES: (&str, &str) = ("SYNC__SCHEDULE", "0 */5 * * * *");

#[test]
fn service_that_is_down_for_a_day_gets_few_runs_and_recovery_is_automatic() {
    let inside = Inside::start(generate(3, 40, 4, noon()), &[EVERY_FIVE_MINUTES]);
    inside.settle();
    inside.mirror.assert_exact(&inside.crm);
    inside.crm.sandbox.faults().add(Rule::new(Fault::Reset).forever());
    inside.crm.sandbox.clear_log();
    let down_since = inside.now();
    // A manual run is tried, too, and its caller need not wait for the answer.
    assert_eq!(inside.job("/sync")["exit"], 69);
    while inside.now().since(down_since).as_secs() < DAY {
        inside.pass(900);
    }
    let (runs, requests) = (inside.runs("failed"), inside.crm.sandbox.log().len());
    assert!((15..=40).contains(&runs), "{runs} runs");
    assert!(requests <= 40 * 10, "{requests} requests");
    println!("a day without the service: {runs} runs, {requests} requests");
    // The mirror remains readable and reports the error with its start.
    assert_eq!(inside.mirror.count("contacts"), 40);
    let status = inside.status();
    let (stored, trouble) = (&status["trouble"], &status["daemon"]["trouble"]);
    assert_eq!((&stored["runs"], &trouble["runs"]), (&json!(runs), &json!(runs)));
    let since: Instant = trouble["since"].as_str().unwrap().parse().unwrap();
    assert!(since.since(down_since).as_secs() < 600, "{since}");
    for why in [&stored["error"], &trouble["why"]] {
        assert!(why.as_str().unwrap().contains("the service closed the connection without an answer"), "{why}");
    }

    inside.crm.sandbox.faults().clear();
    inside.crm.sandbox.with_world(|world| {
        let ids = world.ids(Resource::Contacts);
        world.edit(Object::Contact, &ids[1], &json!({ "name": "Meanwhile" }));
    });
    let mut waited = 0;
    while inside.status()["trouble"] != Value::Null {
        inside.pass(300);
        waited += 300;
        assert!(waited <= 3_900, "an hour is the longest wait");
    }
    inside.mirror.assert_exact(&inside.crm);
    assert_eq!(inside.status()["daemon"]["trouble"], Value::Null);
}

/// One list fails for ever: the rest follows the schedule, the failing list is asked for at growing intervals, and the status
/// names it.
#[test]
fn list_that_fails_for_ever_delays_nothing_else() {
    let inside = Inside::start(generate(10, 20, 4, noon()), &[EVERY_FIVE_MINUTES, ("SYNC__DETAILS", "off")]);
    inside.settle();
    let companies = Rule::new(Fault::Status(400)).on(Resource::Companies).forever();
    inside.crm.sandbox.faults().add(companies);
    inside.crm.sandbox.clear_log();
    let since = inside.now();
    while inside.now().since(since).as_secs() < DAY / 8 {
        let name = format!("Named at {}", inside.now());
        inside.crm.sandbox.with_world(|world| {
            let ids = world.ids(Resource::Contacts);
            world.edit(Object::Contact, &ids[1], &json!({ "name": name }));
        });
        inside.pass(300);
        let fresh = inside.mirror.count(&format!("contacts WHERE name = '{name}'"));
        assert_eq!(fresh, 1, "with the next run: {:#}", inside.status());
    }
    let log = inside.crm.sandbox.log();
    let asked = log.entries().iter().filter(|entry| entry.asked.lists(Resource::Companies)).count();
    assert!((5..=12).contains(&asked), "{asked} requests for companies in three hours");
    // A moment without any answer delays the schedule by a minute, and starts no quick attempts at the list that fails.
    inside.crm.sandbox.clear_log();
    inside.crm.sandbox.faults().add(Rule::new(Fault::Status(400)).on(Resource::Contacts));
    inside.pass(300);
    assert_eq!(inside.crm.sandbox.log().lists(Resource::Contacts), 1);
    inside.pass(60);
    assert_eq!(inside.crm.sandbox.log().lists(Resource::Contacts), 2);
    inside.pass(240);
    assert!(inside.crm.sandbox.log().lists(Resource::Companies) <= 1);
    let status = inside.status();
    let trouble = &status["daemon"]["trouble"];
    assert_eq!(trouble["partial"], true);
    assert!(trouble["why"].as_str().unwrap().contains("could not list"), "{trouble}");
    assert!(status["objects"][1]["changes_as_of"].as_str().unwrap() < since.plus(DAY_PART).to_string().as_str());
    inside.crm.sandbox.faults().clear();
    inside.crm.sandbox.with_world(|world| {
        let ids = world.ids(Resource::Companies);
        world.edit(Object::Company, &ids[1], &json!({ "name": "Meanwhile" }));
    });
    let mut waited = 0;
    while inside.status()["trouble"] != Value::Null {
        inside.pass(300);
        waited += 300;
        assert!(waited <= 3_900, "an hour is the longest wait");
    }
    inside.mirror.assert_exact_lists(&inside.crm);
    assert_eq!(inside.status()["daemon"]["trouble"], Value::Null);
}

#[test]
fn failed_run_is_retried_before_the_next_scheduled_time() {
    // At the first start changes are due at once, then not before the next year.
    let world = generate(4, 20, 2, noon());
    let inside = Inside::start(world, &[("SYNC__SCHEDULE", "0 0 0 1 1 *")]);
    inside.settle();
    inside.crm.sandbox.faults().add(Rule::new(Fault::Status(400)));
    // A run is delayed by up to ten seconds.
    inside.crm.clock.set("2027-01-01T00:00:10Z".parse().unwrap());
    inside.settle();
    assert_eq!(inside.status()["daemon"]["trouble"]["runs"], 1);
    let done = inside.runs("done");
    inside.pass(59);
    assert_eq!(inside.runs("done"), done);
    inside.pass(1);
    assert_eq!((inside.runs("done"), inside.runs("failed")), (done + 1, 1));
    assert_eq!(inside.status()["daemon"]["trouble"], Value::Null);
}

#[test]
fn refused_key_is_retried_a_few_times_a_day() {
    let inside = Inside::start(generate(5, 20, 2, noon()), &[EVERY_FIVE_MINUTES]);
    inside.settle();
    inside.crm.sandbox.revoke_key(&inside.crm.key);
    inside.crm.sandbox.clear_log();
    for _ in 0..DAY / 900 {
        inside.pass(900);
    }
    let requests = inside.crm.sandbox.log().len();
    assert_eq!(requests as i64, inside.runs("failed"), "one request a run");
    // Every jump of the clock shortens the wait to an hour; otherwise it grows to six.
    assert!((5..=26).contains(&requests), "{requests} requests");
    assert!(inside.status()["daemon"]["trouble"]["why"].as_str().unwrap().contains("401"));
}

#[test]
fn exhausted_budget_is_waited_for_and_the_job_continues_afterwards() {
    let inside = Inside::start(
        generate(6, 90, 4, noon()),
        &[("SYNC__SCHEDULE", "0 0 * * * *"), ("BUDGET__LIMIT", "40"), ("BUDGET__WINDOW", "1h")],
    );
    inside.settle();
    assert_eq!(inside.crm.charged(), 40);
    let hold = inside.status()["daemon"]["hold"].clone();
    assert_eq!(hold, json!({"reason": "budget", "until": "2026-03-04T13:00:00.000000Z"}));
    // A manual request waits as well, and its answer says until when.
    let waits = inside.post("/sync", &json!({})).with(202).json();
    assert_eq!(
        waits["waits_until"].as_str().unwrap().parse::<Instant>().unwrap(),
        noon().plus(std::time::Duration::from_secs(3600))
    );
    for _ in 0..5 {
        inside.pass(600);
    }
    assert_eq!(inside.crm.charged(), 40, "no request is sent");
    for window in 2..=4 {
        inside.pass(600);
        inside.settle();
        assert!(inside.crm.charged() <= 40 * window, "{} RU", inside.crm.charged());
        for _ in 0..5 {
            inside.pass(600);
        }
    }
    assert_eq!(inside.status()["daemon"]["hold"], Value::Null);
    inside.mirror.assert_exact(&inside.crm);
    assert_eq!(inside.status()["ru"]["total"], json!(inside.crm.charged()));
}

#[test]
fn long_hold_applies_to_every_job_and_ends_by_itself() {
    let inside = Inside::start(generate(7, 60, 4, noon()), &[]);
    let held = Fault::Wait { status: 429, body: Some(3_600), header: None };
    inside.crm.sandbox.faults().add(Rule::new(held).records().after(30));
    let ended = inside.job("/sync");
    assert_eq!((&ended["exit"], &ended["summary"]["pause"]["reason"]), (&json!(75), &json!("hold")));
    let refused_at = inside.now();
    for path in ["/sync", "/resync", "/verify"] {
        let waits = inside.post(path, &json!({})).with(202).json();
        assert!(waits["waits_until"].is_string(), "{path}: {waits}");
    }
    let asked = inside.crm.sandbox.log().len();
    for _ in 0..5 {
        inside.pass(600);
    }
    assert_eq!(inside.crm.sandbox.log().len(), asked, "no request is sent");
    inside.pass(700);
    inside.settle();
    let log = inside.crm.sandbox.log();
    let over = refused_at.plus(std::time::Duration::from_secs(3_590));
    assert!(log.entries()[asked..].iter().all(|entry| entry.at >= over));
    // The record whose request was refused is not the first one to be asked for.
    inside.pass(900);
    assert_eq!(inside.job("/sync")["exit"], 0);
    inside.mirror.assert_exact(&inside.crm);
}

/// Edits come before what is read, but not again and again.
#[test]
fn rate_limit_on_updates_alone_leaves_the_reads_their_turn() {
    let inside = Inside::start(generate(7, 30, 4, noon()), &[EVERY_FIVE_MINUTES, ("WRITE_BACK__ENABLED", "true")]);
    inside.settle();
    let held = Fault::Wait { status: 429, body: Some(90), header: None };
    inside.crm.sandbox.faults().add(Rule::new(held).method("PATCH").forever());
    inside.crm.sandbox.with_world(|world| {
        let id = world.ids(Resource::Contacts)[0].clone();
        assert!(world.edit(Object::Contact, &id, &json!({ "name": "New" })));
    });
    let conn = rusqlite::Connection::open(&inside.mirror.path).unwrap();
    conn.execute_batch("UPDATE contacts_full SET position = 'CTO'").unwrap();
    // Several may be under way when the first is refused.
    let sent = || -> BTreeSet<Instant> {
        let log = inside.crm.sandbox.log();
        log.entries().iter().filter(|entry| entry.asked.method == "PATCH").map(|entry| entry.at).collect()
    };
    until("an update is refused", || (!sent().is_empty()).then_some(()));
    inside.settle();
    for _ in 0..8 {
        inside.pass(100);
    }
    assert_eq!(inside.mirror.count("contacts WHERE name = 'New'"), 1);
    assert!(sent().len() <= 3, "updates at {:?}", sent());
    assert!(inside.crm.sandbox.log().patches(Object::Contact) <= 8 + 2, "after a hold, one at once");
    inside.crm.sandbox.faults().clear();
    until("every edit is applied", || {
        inside.pass(100);
        (inside.mirror.count("outbox WHERE state <> 'applied'") == 0).then_some(())
    });
}

/// A resync that had not begun is carried out, and one that had is ended by a sync: either way with what was accepted.
#[test]
fn resync_that_meets_a_long_hold_is_carried_out_after_it_with_what_was_accepted() {
    for requests in [0, 3] {
        let inside = Inside::start(generate(9, 400, 4, noon()), &[("SYNC__DETAILS", "off")]);
        inside.job("/sync");
        inside.pass(600);
        inside.crm.sandbox.with_world(|world| {
            for id in world.ids(Resource::Contacts).iter().take(300) {
                world.remove(Object::Contact, id);
            }
        });
        let held = Fault::Wait { status: 429, body: Some(3_600), header: None };
        inside.crm.sandbox.faults().add(Rule::new(held).after(requests));
        let mut events = inside.events();
        let accepted = json!({"objects": ["contacts"], "accept_removals": true});
        let job = inside.post("/resync", &accepted).with(202).json()["job"].clone();
        assert_eq!(events.finished(&job).0["exit"], 75);
        // Another run meets the hold as well.
        inside.post("/sync", &json!({})).with(202);
        inside.pass(3_700);
        inside.pass(60);
        let begun = inside.mirror.count("sync_runs WHERE kind = 'resync'");
        assert_eq!((begun, inside.mirror.count("contacts")), (1, 100), "{requests}");
        inside.mirror.assert_exact_lists(&inside.crm);
    }
}

#[test]
fn clock_that_jumps_a_day_stops_neither_schedule_nor_budget() {
    let inside = Inside::start(generate(8, 30, 3, noon()), &[EVERY_FIVE_MINUTES, ("BUDGET__LIMIT", "1000")]);
    inside.settle();
    let runs = |inside: &Inside| inside.mirror.count("sync_runs");
    assert_eq!(runs(&inside), 1);
    inside.pass(DAY);
    assert_eq!(runs(&inside), 2, "missed ticks become one run");
    let back = inside.now().minus(std::time::Duration::from_secs(DAY));
    inside.crm.clock.set(back);
    inside.settle();
    let before = runs(&inside);
    for _ in 0..3 {
        inside.pass(300);
    }
    assert_eq!(runs(&inside), before + 3, "the schedule continues");
    let ru = inside.status()["ru"].clone();
    assert_eq!(ru["total"], json!(inside.crm.charged()), "every request is in the ledger");
    let refills: Instant = ru["refills_at"].as_str().unwrap().parse().unwrap();
    assert!(refills > inside.now() && refills.since(inside.now()).as_secs() <= DAY, "{refills}");
    assert!(ru["used"].as_u64().unwrap() <= 1_000);
    inside.mirror.assert_exact(&inside.crm);
}
