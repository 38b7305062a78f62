//! Stops and kills at any moment: the daemon ends within seconds, the file is intact, and the next daemon ends with an
//! exact mirror.

use std::time::Duration;

use crm_mirror::model::Object;
use crm_mirror::sandbox::{Fault, Rule};
use serde_json::{Value, json};

use crate::fixture::{Daemon, DaemonFixture, verb};

const CONTACTS: usize = 250;

/// Brings the daemon to a state, ends it there, and asserts that nothing was lost.
fn ended_at(moment: impl Fn(&DaemonFixture, &Daemon)) {
    for kill in [false, true] {
        let fixture = DaemonFixture::with(CONTACTS, 12);
        fixture
            .service
            .sandbox
            .faults()
            .add(Rule::new(Fault::Slow(Duration::from_millis(15), Duration::from_millis(15))).forever());
        let daemon = fixture.start();
        moment(&fixture, &daemon);
        if kill {
            daemon.kill();
            assert!(fixture.place.path("mirror.db.sock").exists(), "left behind");
        } else {
            daemon.stop();
            assert!(!fixture.place.path("mirror.db.sock").exists());
        }
        fixture.assert_consistent();
        fixture.service.sandbox.faults().clear();
        let daemon = fixture.start();
        // A hold that still applies is waited for.
        let ended = daemon.job("/sync", &json!({}));
        assert_eq!(ended["exit"], 0, "{ended}");
        daemon.stop();
        fixture.assert_exact();
        assert_eq!(fixture.column("SELECT count(*) FROM sync_runs WHERE outcome = 'running'"), ["0"]);
    }
}

/// Requests a job and waits for an event of it.
fn begun(daemon: &Daemon, path: &str, is: impl Fn(&Value) -> bool) {
    let mut events = daemon.events();
    daemon.post(path, &json!({})).with(202);
    events.until(is);
}

#[test]
fn stop_during_a_first_copy_loses_nothing() {
    ended_at(|_, daemon| begun(daemon, "/sync", |event| event["event"] == "stored" && event["resource"] == "contacts"));
}

#[test]
fn stop_during_details_loses_nothing() {
    ended_at(|_, daemon| begun(daemon, "/sync", |event| event["event"] == "begins" && event["work"] == "details"));
}

#[test]
fn stop_during_a_sweep_loses_nothing() {
    ended_at(|fixture, daemon| {
        daemon.sync();
        fixture.service.sandbox.with_world(|world| {
            let ids = world.ids(crm_mirror::model::Resource::Contacts);
            world.remove(Object::Contact, &ids[7]);
            world.edit(Object::Contact, &ids[8], &json!({ "name": "Changed" }));
        });
        begun(daemon, "/resync", |event| event["event"] == "begins" && event["work"] == "sweep");
        // The sweep that continues after the restart finds the removal.
    });
}

#[test]
fn at_rest() {
    ended_at(|_, daemon| daemon.sync());
}

#[test]
fn during_a_hold() {
    ended_at(|fixture, daemon| {
        let held = Fault::Wait { status: 429, body: Some(3), header: None };
        fixture.service.sandbox.faults().add(Rule::new(held).records().after(20));
        begun(daemon, "/sync", |event| event["event"] == "holding");
    });
}

/// The tick that it was due by is long past, and the next one a year away.
#[test]
fn first_copy_that_was_cut_off_goes_on_after_a_restart() {
    // In the lists, and in the details.
    for (requests, kill) in [(4, false), (4, true), (60, false), (60, true)] {
        let fixture = DaemonFixture::with(CONTACTS, 12).set("CRM_MIRROR_SYNC__SCHEDULE", "0 0 3 1 1 *");
        fixture
            .service
            .sandbox
            .faults()
            .add(Rule::new(Fault::Slow(Duration::from_millis(15), Duration::from_millis(15))).forever());
        let daemon = fixture.start();
        crate::socket::until("its requests", || (fixture.requests() >= requests).then_some(()));
        if kill {
            daemon.kill()
        } else {
            drop(daemon.stop())
        }
        let ended = || fixture.column("SELECT coalesce(outcome, 'running') FROM sync_runs");
        assert_eq!(ended(), [if kill { "running" } else { "suspended" }]);
        let an_hour_ago = "UPDATE sync_runs SET started_at = strftime('%Y-%m-%dT%H:%M:%SZ', 'now', '-1 hour')";
        rusqlite::Connection::open(fixture.place.path("mirror.db")).unwrap().execute(an_hour_ago, []).unwrap();

        // A daemon that has nothing to do is not what a run of the last one is running in.
        let fixture = fixture.set("CRM_MIRROR_SYNC__SCHEDULE", "off");
        let daemon = fixture.start();
        let status = verb(&fixture, "status --json").json();
        assert_eq!((&status["running"], status["runs"][0]["ru"].is_null()), (&Value::Null, kill), "it had spent some");
        assert_eq!(fixture.column("SELECT outcome FROM sync_runs"), [if kill { "failed" } else { "suspended" }]);
        daemon.stop();

        let fixture = fixture.set("CRM_MIRROR_SYNC__SCHEDULE", "0 0 3 1 1 *");
        let daemon = fixture.start();
        let done = || fixture.column("SELECT outcome FROM sync_runs WHERE id = 2").first().is_some_and(|o| o == "done");
        crate::socket::until("the rest of the first copy", || done().then_some(()));
        daemon.stop();
        fixture.assert_exact();
        assert_eq!(fixture.column("SELECT kind || ' ' || \"trigger\" FROM sync_runs"), ["sync schedule"; 2]);
    }
}

#[test]
fn sigterm_while_a_request_hangs_ends_in_time() {
    ended_at(|fixture, daemon| {
        fixture.service.sandbox.faults().clear();
        let slow = Fault::Slow(Duration::from_secs(20), Duration::from_secs(20));
        fixture.service.sandbox.faults().add(Rule::new(slow).records().after(20));
        begun(daemon, "/sync", |event| event["event"] == "begins" && event["work"] == "details");
        let asked = || fixture.service.sandbox.log().details(Object::Contact);
        crate::socket::until("the request that hangs", || (asked() > 40).then_some(()));
    });
}

#[test]
fn events_before_the_end_are_delivered() {
    let fixture = DaemonFixture::with(CONTACTS, 12);
    fixture
        .service
        .sandbox
        .faults()
        .add(Rule::new(Fault::Slow(Duration::from_millis(15), Duration::from_millis(15))).forever());
    let daemon = fixture.start();
    let mut events = daemon.events();
    let job = daemon.post("/sync", &json!({})).with(202).json()["job"].clone();
    events.until(|event| event["event"] == "stored");
    daemon.stop();
    let (ended, before) = events.finished(&job);
    assert!(before.iter().any(|event| event["event"] == "stopping"), "{before:#?}");
    assert_eq!((&ended["exit"], &ended["summary"]["outcome"]), (&json!(75), &json!("suspended")));
    assert_eq!(events.next(), None);
}
