//! Stops and kills, whatever the daemon is doing: it ends within seconds, the file is whole, and the next one ends with
//! an exact mirror.

use std::time::Duration;

use crm_mirror::model::Object;
use crm_mirror::sandbox::{Fault, Rule};
use serde_json::{Value, json};

use crate::scene::{Daemon, Scene};

const CONTACTS: usize = 250;

/// Brings the daemon to the moment, ends it there, and makes sure that nothing was lost.
fn ended_at(moment: impl Fn(&Scene, &Daemon)) {
    for kill in [false, true] {
        let scene = Scene::with(CONTACTS, 12);
        scene.service.sandbox.configure(|settings| settings.latency = Duration::from_millis(15));
        let daemon = scene.start();
        moment(&scene, &daemon);
        if kill {
            daemon.kill();
            assert!(scene.place.path("mirror.db.sock").exists(), "left behind");
        } else {
            daemon.stop();
            assert!(!scene.place.path("mirror.db.sock").exists());
        }
        scene.assert_consistent();
        scene.service.sandbox.faults().clear();
        scene.service.sandbox.configure(|settings| settings.latency = Duration::ZERO);
        let daemon = scene.start();
        // A hold that is still in force is waited for.
        let ended = daemon.job("/sync", &json!({}));
        assert_eq!(ended["exit"], 0, "{ended}");
        daemon.stop();
        scene.assert_exact();
        assert_eq!(scene.column("SELECT count(*) FROM sync_runs WHERE outcome = 'running'"), ["0"]);
    }
}

/// Asks for a job and waits for a word of it.
fn begun(daemon: &Daemon, path: &str, is: impl Fn(&Value) -> bool) {
    let mut events = daemon.events();
    daemon.post(path, &json!({})).with(202);
    events.until(is);
}

#[test]
fn in_a_first_copy() {
    ended_at(|_, daemon| begun(daemon, "/sync", |event| event["event"] == "stored" && event["resource"] == "contacts"));
}

#[test]
fn in_the_details() {
    ended_at(|_, daemon| begun(daemon, "/sync", |event| event["event"] == "begins" && event["work"] == "details"));
}

#[test]
fn in_a_sweep() {
    ended_at(|scene, daemon| {
        daemon.sync();
        scene.service.sandbox.with_world(|world| {
            let ids = world.ids(crm_mirror::model::Resource::Contacts);
            world.remove(Object::Contact, &ids[7]);
            world.edit(Object::Contact, &ids[8], &json!({ "name": "Changed" }));
        });
        begun(daemon, "/resync", |event| event["event"] == "begins" && event["work"] == "sweep");
        // The removal is found by the sweep that goes on after the restart.
    });
}

#[test]
fn at_rest() {
    ended_at(|_, daemon| daemon.sync());
}

#[test]
fn during_a_hold() {
    ended_at(|scene, daemon| {
        let held = Fault::TooMany { body: Some(3), header: None };
        scene.service.sandbox.faults().add(Rule::new(held).records().after(20));
        begun(daemon, "/sync", |event| event["event"] == "holding");
    });
}

#[test]
fn while_a_request_hangs_for_longer_than_anybody_waits() {
    ended_at(|scene, daemon| {
        let slow = Fault::Slow(Duration::from_secs(20));
        scene.service.sandbox.faults().add(Rule::new(slow).records().after(20));
        begun(daemon, "/sync", |event| event["event"] == "begins" && event["work"] == "details");
        let asked = || scene.service.sandbox.log().details(Object::Contact);
        crate::socket::until("the request that hangs", || (asked() > 40).then_some(()));
    });
}

#[test]
fn what_was_told_before_the_end_is_heard() {
    let scene = Scene::with(CONTACTS, 12);
    scene.service.sandbox.configure(|settings| settings.latency = Duration::from_millis(15));
    let daemon = scene.start();
    let mut events = daemon.events();
    let job = daemon.post("/sync", &json!({})).with(202).json()["job"].clone();
    events.until(|event| event["event"] == "stored");
    daemon.stop();
    let (ended, before) = events.finished(&job);
    assert!(before.iter().any(|event| event["event"] == "stopping"), "{before:#?}");
    assert_eq!((&ended["exit"], &ended["summary"]["outcome"]), (&json!(75), &json!("suspended")));
    assert_eq!(events.next(), None);
}
