//! The schedule: every tick starts a run, never two at once, and a long run yields.

use std::sync::mpsc::channel;
use std::time::Duration;

use crm_mirror::model::{Object, Resource};
use crm_mirror::sandbox::{Fault, Rule, generate};
use serde_json::json;

use crate::binary::Going;
use crate::fixture::DaemonFixture;
use crate::inside::Inside;
use crate::support::noon;

#[test]
fn runs_follow_the_schedule_and_never_overlap() {
    let fixture = DaemonFixture::with(30, 3)
        .set("CRM_MIRROR_SYNC__SCHEDULE", "* * * * * *")
        .set("CRM_MIRROR_SYNC__AUDIT_SCHEDULE", "* * * * * *")
        .set("CRM_MIRROR_SYNC__SWEEP_SCHEDULE", "*/2 * * * * *");
    // A run takes longer than a second.
    fixture
        .service
        .sandbox
        .faults()
        .add(Rule::new(Fault::Slow(Duration::from_millis(300), Duration::from_millis(300))).forever());
    let daemon = fixture.start();
    let mut events = daemon.events();
    let mut seen = std::collections::BTreeSet::new();
    let mut ended = 0;
    while seen.len() < 3 || ended < 6 {
        let event = events.next().unwrap();
        match event["event"].as_str().unwrap() {
            "started" => {
                assert_eq!(event["trigger"], "schedule");
                seen.insert(event["work"].as_str().unwrap().to_string());
            }
            "finished" => {
                assert_eq!(event["exit"], 0, "{event}");
                ended += 1;
                assert!(ended < 40, "only {seen:?}");
            }
            _ => {}
        }
    }
    daemon.stop();
    let together = "SELECT a.id || ' and ' || b.id FROM sync_runs a JOIN sync_runs b ON a.id < b.id AND b.started_at < a.finished_at";
    assert_eq!(fixture.column(together), Vec::<String>::new());
    assert_eq!(fixture.column("SELECT DISTINCT \"trigger\" FROM sync_runs"), ["schedule"]);
    fixture.assert_exact();
}

#[test]
fn long_sweep_is_preempted_by_changes_and_continues_in_the_same_job() {
    let inside =
        Inside::start(generate(9, 1_000, 3, noon()), &[("SYNC__SCHEDULE", "0 */5 * * * *"), ("SYNC__DETAILS", "off")]);
    inside.settle();
    inside.crm.wait(120);
    inside.crm.sandbox.with_world(|world| {
        let ids = world.ids(Resource::Contacts);
        world.edit(Object::Contact, &ids[2], &json!({ "name": "Changed" }));
        world.remove(Object::Contact, &ids[4]);
    });
    inside.crm.sandbox.clear_log();
    let (reached, at_gate) = channel();
    let (open, opened) = channel::<()>();
    let mut pages = 0;
    inside.crm.sandbox.before_request(move |_, asked| {
        pages += usize::from(asked.lists(Resource::Contacts) && asked.param("sort") == Some("createdAt"));
        if pages == 3 {
            let _ = reached.send(());
            // A dropped sender opens the gate.
            let _ = opened.recv();
        }
    });
    let mut events = inside.events();
    let job = inside.post("/resync", &json!({})).with(202).json()["job"].clone();
    at_gate.recv().unwrap();
    // Three minutes and the longest delay later changes are due, and the sweep has had its share of time.
    inside.crm.wait(190);
    inside.nudge();
    drop(open);
    let (_, before) = events.until(|event| event["event"] == "preempted");
    assert!(before.iter().all(|event| event["event"] != "finished" || event["job"] != job));
    let (again, _) = events.until(|event| event["event"] == "started");
    assert_eq!(again["job"], job, "the same job continues");
    let (ended, _) = events.finished(&job);
    assert_eq!(ended["exit"], 0, "{ended}");
    inside.settle();
    let log = inside.crm.sandbox.log();
    let lists = log
        .entries()
        .iter()
        .filter(|entry| entry.asked.lists(Resource::Contacts) && entry.asked.param("limit") == Some("100"));
    let lists: Vec<_> = lists.collect();
    let lists: Vec<bool> = lists.iter().map(|entry| entry.asked.param("sort") == Some("createdAt")).collect();
    let first = lists.iter().position(|sweep| *sweep).unwrap();
    let changes = first + lists[first..].iter().position(|sweep| !sweep).unwrap();
    assert!(lists[changes..].contains(&true), "changes between the pages of the sweep: {lists:?}");
    let swept = lists.iter().filter(|sweep| **sweep).count();
    assert!((11..=12).contains(&swept), "{swept} pages of the sweep: each was read once");
    assert!(ended["summary"]["rows_read"].as_u64().unwrap() >= 999, "the job reports all its runs: {ended}");
    assert_eq!(ended["summary"]["removed"], 1);
    inside.mirror.assert_exact_lists(&inside.crm);
}

#[test]
fn job_that_fails_after_it_was_preempted_is_reported_as_failed() {
    let inside =
        Inside::start(generate(9, 500, 3, noon()), &[("SYNC__SCHEDULE", "0 */5 * * * *"), ("SYNC__DETAILS", "off")]);
    inside.settle();
    let (reached, at_gate) = channel();
    let (open, opened) = channel::<()>();
    let mut sweeps = false;
    inside.crm.sandbox.before_request(move |_, asked| {
        sweeps |= asked.param("sort") == Some("createdAt");
        if sweeps {
            let _ = (reached.send(()), opened.recv());
        }
    });
    let mut events = inside.events();
    let resync = Going::start(inside.command(&["resync"], &[("API__KEY", &inside.crm.key)]));
    at_gate.recv().unwrap();
    inside.crm.wait(310);
    inside.nudge();
    open.send(()).unwrap();
    events.until(|event| event["event"] == "preempted");
    inside.crm.sandbox.faults().add(Rule::new(Fault::Status(400)).forever());
    drop(open);
    let (code, said) = resync.end();
    assert_eq!(code, Some(69), "{said}");
    assert!(said.contains("error: ") && said.contains("400"), "{said}");
}

/// A list fails in every run, and the others are polled as often as the budget allows.
#[test]
fn automatic_schedule_follows_the_budget_while_a_list_fails_for_ever() {
    let settings = [
        ("SYNC__SCHEDULE", "auto"),
        ("SYNC__MIN_INTERVAL", "15s"),
        ("SYNC__DETAILS", "off"),
        ("BUDGET__LIMIT", "2000"),
    ];
    let inside = Inside::start(generate(11, 20, 3, noon()), &settings);
    let fails = Rule::new(Fault::Status(400)).on(Resource::TeamMembers).forever();
    inside.crm.sandbox.faults().add(fails);
    inside.settle();
    inside.pass(600);
    inside.crm.sandbox.clear_log();
    (0..60).for_each(|_| inside.pass(60));
    let polls = inside.crm.sandbox.log().lists(Resource::Contacts);
    // Half of the budget pays for 500 polls in the half day that is left: one in 86 seconds.
    assert!((4..=30).contains(&polls), "{polls} polls in an hour");
    assert_eq!(inside.status()["daemon"]["trouble"]["partial"], true);
}
