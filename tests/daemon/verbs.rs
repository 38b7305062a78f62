//! The verbs with a daemon and without one: the same words, the same document, the same code.

use std::collections::BTreeSet;
use std::time::Duration;

use crm_mirror::model::{Object, Resource};
use crm_mirror::sandbox::{Fault, Rule};
use serde_json::{Value, json};

use crate::binary::{Going, SECRET};
use crate::scene::{Scene, verb};

/// Every path of a document; the numbers in it do not matter.
fn paths(value: &Value, at: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| paths(value, &format!("{at}.{key}"), into)),
        Value::Array(list) => list.iter().for_each(|value| paths(value, &format!("{at}[]"), into)),
        _ => {
            into.insert(at.to_string());
        }
    }
}

fn shape(value: &Value) -> BTreeSet<String> {
    let mut into = BTreeSet::new();
    paths(value, "", &mut into);
    into
}

/// The words of a text; its numbers do not matter.
fn words(text: &str) -> Vec<String> {
    let words = text.split_whitespace().filter(|word| !word.chars().any(|c| c.is_ascii_digit()));
    words.filter(|word| !["ms", "s"].contains(word)).map(String::from).collect()
}

#[test]
fn a_verb_says_the_same_with_a_daemon_and_without_one() {
    let scene = Scene::with(150, 6);
    verb(&scene, "sync").done();
    let lines = ["sync --json", "resync --json", "verify --json", "verify --full --json"];
    let texts = ["sync", "resync contacts", "verify"];
    let run = |line: &&str| verb(&scene, line).done();
    let alone: Vec<_> = lines.iter().map(run).collect();
    let alone_texts: Vec<_> = texts.iter().map(run).collect();
    let daemon = scene.start();
    for (line, alone) in lines.iter().zip(&alone) {
        let through = verb(&scene, line).done();
        assert_eq!(shape(&through.json()), shape(&alone.json()), "{line}");
        assert!(through.err.contains("the daemon runs it (job "), "{}", through.err);
    }
    for (line, alone) in texts.iter().zip(&alone_texts) {
        assert_eq!(words(&verb(&scene, line).done().out), words(&alone.out), "{line}");
    }
    assert_eq!(scene.column("SELECT DISTINCT \"trigger\" FROM sync_runs"), ["manual"], "a person asked");
    daemon.stop();
}

#[test]
fn what_is_found_and_mended_is_told_with_the_same_code() {
    let scene = Scene::with(150, 6);
    verb(&scene, "sync").done();
    let daemon = scene.start();
    scene.service.sandbox.with_world(|world| {
        let ids = world.ids(Resource::Contacts);
        world.remove(Object::Contact, &ids[3]);
    });
    let found = verb(&scene, "verify --json").code(1).json();
    assert_eq!(found["objects"][0]["lingering"], 1, "{found}");
    let found = verb(&scene, "verify --repair").done();
    assert!(found.out.contains("1 lingering here"), "{}", found.out);
    daemon.stop();
    scene.assert_exact();
}

#[test]
fn a_failed_job_ends_with_the_code_and_the_hint_that_it_has_alone() {
    let scene = Scene::with(30, 3);
    verb(&scene, "sync").done();
    let faults = scene.service.sandbox.faults();
    let told = |code: i32| {
        let ended = verb(&scene, "sync --log-level off").code(code);
        let said = ended.err.lines().filter(|line| !line.starts_with("the daemon runs it"));
        said.map(String::from).collect::<Vec<_>>()
    };
    // The same three failures, alone and through the daemon.
    let failures = || {
        scene.service.sandbox.revoke_key(SECRET);
        let refused = told(77);
        scene.service.sandbox.set_key(SECRET, &crm_mirror::sandbox::SCOPES);
        faults.add(Rule::new(Fault::Status(400)).forever());
        let down = told(70);
        faults.clear();
        faults.add(Rule::new(Fault::TooMany { body: Some(90), header: None }));
        let held = told(75);
        faults.clear();
        (refused, down, held)
    };
    let daemon = scene.start();
    let through = failures();
    // A hold binds whoever asks by hand, too: nothing is sent, and the job is done when it is over.
    scene.service.sandbox.clear_log();
    let waits = verb(&scene, "sync").code(75);
    assert!(waits.err.contains("when the hold ends"), "{}", waits.err);
    assert_eq!(scene.requests(), 0);
    let status = daemon.status();
    assert_eq!(status["daemon"]["hold"]["reason"], "rate-limit");
    assert_eq!(status["daemon"]["hold"]["until"], status["hold_until"]);
    assert_eq!(status["daemon"]["waiting"][0]["work"], "sync");
    daemon.stop();
    // A new mirror: the hold of the old one binds.
    for file in ["mirror.db", "mirror.db-wal", "mirror.db-shm", "mirror.db.lock"] {
        let _ = std::fs::remove_file(scene.place.path(file));
    }
    verb(&scene, "sync").done();
    let alone = failures();
    for (through, alone) in [(&through.0, &alone.0), (&through.1, &alone.1)] {
        assert_eq!(through, alone);
        assert!(through.iter().any(|line| line.starts_with("error: ")), "{through:?}");
    }
    assert!(alone.0.iter().any(|line| line.starts_with("hint: ")), "{alone:?}");
    let kind = |lines: &[String]| words(&lines.join("\n"));
    assert_eq!(kind(&through.2), kind(&alone.2));
}

#[test]
fn options_that_need_the_mirror_alone_say_so() {
    let scene = Scene::with(3, 1);
    let daemon = scene.start();
    for line in ["sync --dry-run", "resync --accept-workspace"] {
        let refused = verb(&scene, line).code(74);
        assert!(refused.err.contains("the daemon keeps this mirror"), "{}", refused.err);
        assert!(refused.err.contains("hint: stop the daemon first"), "{}", refused.err);
    }
    assert_eq!(scene.requests(), 0);
    daemon.stop();
}

#[test]
fn ctrl_c_leaves_the_job_to_the_daemon_and_stop_ends_it_without_a_trace() {
    let scene = Scene::with(900, 6);
    let daemon = scene.start();
    daemon.sync();
    let gone = scene.service.sandbox.with_world(|world| {
        let ids = world.ids(Resource::Contacts);
        world.remove(Object::Contact, &ids[5]);
        ids[5].clone()
    });
    scene.service.sandbox.configure(|settings| settings.latency = Duration::from_millis(250));
    let mut events = daemon.events();
    let mut going = Going::start(scene.place.command(&["resync"]));
    going.until_told("the daemon runs it");
    events.until(|event| event["event"] == "begins" && event["work"] == "sweep");
    events.until(|event| event["event"] == "stored");
    going.signal("-INT");
    let (code, rest) = going.end();
    assert_eq!(code, Some(75), "{rest}");
    assert!(rest.contains("the daemon continues; `crm-mirror resync --stop` stops it"), "{rest}");
    assert_eq!(daemon.status()["daemon"]["running"]["work"], "resync");

    let stopped = verb(&scene, "resync --stop").done();
    assert!(stopped.err.contains("no record was removed"), "{}", stopped.err);
    let (ended, _) = events.until(|event| event["event"] == "finished");
    assert_eq!((&ended["exit"], &ended["summary"]["outcome"]), (&json!(75), &json!("suspended")));
    scene.service.sandbox.configure(|settings| settings.latency = Duration::ZERO);
    // Nothing is under way, nothing was removed, and changes go on as ever.
    daemon.until_logged("The sweep of contacts was stopped");
    scene.service.sandbox.with_world(|world| {
        let ids = world.ids(Resource::Contacts);
        world.edit(Object::Contact, &ids[9], &json!({ "name": "Later" }));
    });
    scene.service.sandbox.clear_log();
    let ended = daemon.job("/sync", &json!({}));
    assert_eq!((&ended["exit"], &ended["summary"]["kind"]), (&json!(0), &json!("sync")));
    let sweeps = scene.service.sandbox.log();
    let swept = sweeps.entries().iter().filter(|entry| entry.asked.param("sort") == Some("createdAt"));
    assert_eq!(swept.count(), 0, "the sweep is forgotten");
    assert!(scene.column("SELECT name FROM contacts").contains(&"Later".to_string()));
    assert_eq!(scene.column("SELECT count(*) FROM removed_records"), ["0"]);
    assert_eq!(scene.column(&format!("SELECT count(*) FROM contacts WHERE id = '{gone}'")), ["1"]);
    let none = verb(&scene, "resync --stop").code(2);
    assert!(none.err.contains("no resync is under way"), "{}", none.err);
    // A new one finds it.
    let progress = verb(&scene, "resync --log-level debug").done();
    assert!(progress.err.contains("contacts: sweep, "), "{}", progress.err);
    daemon.stop();
    scene.assert_exact();
}

#[test]
fn a_resync_that_waits_is_taken_back_and_whoever_waits_for_it_is_told() {
    let scene = Scene::with(300, 6);
    let daemon = scene.start();
    daemon.sync();
    scene.service.sandbox.configure(|settings| settings.latency = Duration::from_millis(200));
    let mut events = daemon.events();
    daemon.post("/verify", &json!({"full": true})).with(202);
    events.until(|event| event["event"] == "started");
    let mut going = Going::start(scene.place.command(&["resync"]));
    going.until_told("the daemon runs it");
    verb(&scene, "resync --stop").done();
    let (code, rest) = going.end();
    assert_eq!(code, Some(75), "{rest}");
    assert!(rest.contains("the job was withdrawn before it began"), "{rest}");
    daemon.stop();
}

#[test]
fn pause_and_resume_need_a_daemon_and_outlive_it() {
    let scene = Scene::with(30, 3).set("CRM_MIRROR_SYNC__SCHEDULE", "* * * * * *");
    let none = verb(&scene, "pause").code(69);
    assert!(none.err.contains("no daemon of this mirror listens on "), "{}", none.err);
    let daemon = scene.start();
    let mut events = daemon.events();
    events.until(|event| event["event"] == "finished");
    let said = verb(&scene, "pause").done();
    assert!(said.err.contains("the schedule is paused"), "{}", said.err);
    let since = daemon.status()["daemon"]["paused_since"].clone();
    assert!(since.is_string());
    daemon.stop();

    let daemon = scene.start();
    assert_eq!(daemon.status()["daemon"]["paused_since"], since);
    let text = verb(&scene, "status").done().out;
    assert!(text.contains("next     paused since "), "{text}");
    scene.service.sandbox.clear_log();
    let mut events = daemon.events();
    // Whoever asks by hand is served all the same: so the ticks of this second have been looked at, too.
    let ended = daemon.job("/sync", &json!({}));
    assert_eq!(ended["exit"], 0);
    std::thread::sleep(Duration::from_millis(1_600));
    let said = verb(&scene, "resume").done();
    assert!(said.err.contains("the schedule is resumed"), "{}", said.err);
    let (_, before) = events.until(|event| event["event"] == "resumed");
    let started: Vec<&Value> = before.iter().filter(|event| event["event"] == "started").collect();
    assert_eq!(started.len(), 1, "{started:?}");
    assert_eq!(started[0]["trigger"], "manual");
    let (begun, _) = events.until(|event| event["event"] == "started");
    assert_eq!(begun["trigger"], "schedule");
    assert_eq!(daemon.status()["daemon"]["paused_since"], Value::Null);
    daemon.stop();
}
