//! The verbs with and without a daemon: the same text, the same document, the same exit code.

use std::collections::BTreeSet;
use std::time::Duration;

use crm_mirror::model::{Object, Resource};
use crm_mirror::sandbox::{Fault, Rule};
use serde_json::{Value, json};

use crate::binary::{Going, SECRET};
use crate::documented::DocumentTable;
use crate::fixture::{DaemonFixture, verb};

/// Every path of a document; its numbers do not matter.
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
fn verb_prints_the_same_with_and_without_a_daemon() {
    let fixture = DaemonFixture::with(150, 6);
    verb(&fixture, "sync").done();
    let lines = ["sync --json", "resync --json", "verify --json", "verify --full --json"];
    let texts = ["sync", "resync contacts", "verify"];
    let run = |line: &&str| verb(&fixture, line).done();
    let alone: Vec<_> = lines.iter().map(run).collect();
    let alone_texts: Vec<_> = texts.iter().map(run).collect();
    let daemon = fixture.start();
    for (line, alone) in lines.iter().zip(&alone) {
        let through = verb(&fixture, line).done();
        assert_eq!(shape(&through.json()), shape(&alone.json()), "{line}");
        assert!(through.err.contains("the daemon runs it (job "), "{}", through.err);
    }
    for (line, alone) in texts.iter().zip(&alone_texts) {
        assert_eq!(words(&verb(&fixture, line).done().out), words(&alone.out), "{line}");
    }
    assert_eq!(fixture.column("SELECT DISTINCT \"trigger\" FROM sync_runs"), ["manual"], "the trigger is manual");
    daemon.stop();
}

#[test]
fn findings_and_repairs_are_printed_with_the_same_exit_code() {
    let fixture = DaemonFixture::with(150, 6);
    verb(&fixture, "sync").done();
    let daemon = fixture.start();
    fixture.service.sandbox.with_world(|world| {
        let ids = world.ids(Resource::Contacts);
        world.remove(Object::Contact, &ids[3]);
    });
    let found = verb(&fixture, "verify --json").code(1).json();
    assert_eq!(found["objects"][0]["extra"], 1, "{found}");
    let found = verb(&fixture, "verify --repair").done();
    assert!(found.out.contains("1 extra"), "{}", found.out);
    daemon.stop();
    fixture.assert_exact();
}

#[test]
fn failed_job_has_the_exit_code_and_hint_of_the_verb() {
    let fixture = DaemonFixture::with(30, 3);
    verb(&fixture, "sync").done();
    let faults = fixture.service.sandbox.faults();
    let error_of = |code: i32| {
        let ended = verb(&fixture, "sync --log-level off").code(code);
        let said = ended.err.lines().filter(|line| !line.starts_with("the daemon runs it"));
        said.map(String::from).collect::<Vec<_>>()
    };
    // The same three failures without and with a daemon.
    let failures = || {
        fixture.service.sandbox.revoke_key(SECRET);
        let refused = error_of(77);
        fixture.service.sandbox.set_key(SECRET, &crm_mirror::sandbox::SCOPES);
        faults.add(Rule::new(Fault::Status(400)).forever());
        let down = error_of(69);
        faults.clear();
        faults.add(Rule::new(Fault::Wait { status: 429, body: Some(90), header: None }));
        let held = error_of(75);
        faults.clear();
        (refused, down, held)
    };
    let daemon = fixture.start();
    let through = failures();
    // A hold applies to manual jobs, too: nothing is sent, and the job runs when the hold is over.
    fixture.service.sandbox.clear_log();
    let waits = verb(&fixture, "sync").code(75);
    assert!(waits.err.contains("when the hold ends"), "{}", waits.err);
    assert_eq!(fixture.requests(), 0);
    let status = daemon.status();
    assert_eq!(status["daemon"]["hold"]["reason"], "rate-limit");
    // Each is what is left of it, from the moment that it was asked for.
    let until = |at: &Value| at.as_str().unwrap().parse::<crm_mirror::model::Instant>().unwrap();
    let (loops, stored) = (until(&status["daemon"]["hold"]["until"]), until(&status["hold_until"]));
    assert!(loops.since(stored).max(stored.since(loops)).as_secs() < 5, "{status:#}");
    assert_eq!(status["daemon"]["waiting"][0]["work"], "sync");
    DocumentTable::read("status", &[0]).check(&[status]);
    // A person ends the hold through the daemon: the job that waits runs, and so does the next.
    let cleared = verb(&fixture, "resume --now").done();
    assert!(cleared.err.contains("no request waits for a rate limit"), "{}", cleared.err);
    verb(&fixture, "sync").done();
    assert!(fixture.requests() > 0);
    assert_eq!(daemon.status()["hold_until"], Value::Null);
    daemon.stop();
    // A new mirror, to which the old mirror's hold applies.
    for file in ["mirror.db", "mirror.db-wal", "mirror.db-shm", "mirror.db.lock"] {
        let _ = std::fs::remove_file(fixture.place.path(file));
    }
    verb(&fixture, "sync").done();
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
fn verification_that_was_served_nothing_does_not_end_the_trouble() {
    let fixture = DaemonFixture::with(30, 3);
    let daemon = fixture.start();
    daemon.sync();
    fixture.service.sandbox.set_key(SECRET, &[]);
    verb(&fixture, "sync").code(77);
    verb(&fixture, "verify").code(77);
    let status = daemon.status();
    let trouble = &status["daemon"]["trouble"];
    assert_eq!((&trouble["exit"], &trouble["runs"]), (&Value::from(77), &Value::from(2)), "{trouble}");
    daemon.stop();
}

#[test]
fn options_that_need_exclusive_access_are_refused() {
    let fixture = DaemonFixture::with(3, 1);
    let daemon = fixture.start();
    for line in ["sync --dry-run", "resync --accept-workspace"] {
        let refused = verb(&fixture, line).code(74);
        assert!(refused.err.contains("exclusive access"), "{}", refused.err);
        assert!(refused.err.contains("hint: stop the daemon first"), "{}", refused.err);
    }
    assert_eq!(fixture.requests(), 0);
    daemon.stop();
}

#[test]
fn ctrl_c_leaves_the_job_to_the_daemon() {
    let fixture = DaemonFixture::with(900, 6);
    let daemon = fixture.start();
    daemon.sync();
    fixture.service.sandbox.with_world(|world| {
        let ids = world.ids(Resource::Contacts);
        world.remove(Object::Contact, &ids[5]);
    });
    fixture
        .service
        .sandbox
        .faults()
        .add(Rule::new(Fault::Slow(Duration::from_millis(250), Duration::from_millis(250))).forever());
    let mut events = daemon.events();
    let mut going = Going::start(fixture.place.command(&["resync"]));
    going.until_logged("the daemon runs it");
    events.until(|event| event["event"] == "begins" && event["work"] == "sweep");
    events.until(|event| event["event"] == "stored");
    going.signal("-INT");
    let (code, rest) = going.end();
    assert_eq!(code, Some(75), "{rest}");
    assert!(rest.contains("the daemon continues; `crm-mirror status` shows it"), "{rest}");
    let status = daemon.status();
    assert_eq!(status["daemon"]["running"]["work"], "resync");
    DocumentTable::read("status", &[0]).check(&[status]);

    fixture.service.sandbox.faults().clear();
    let (ended, _) = events.until(|event| event["event"] == "finished");
    assert_eq!((&ended["exit"], &ended["summary"]["removed"]), (&json!(0), &json!(1)));
    daemon.stop();
    fixture.assert_exact();
}

/// Its queue is full, so that it accepts no connection: nobody waits for one.
#[test]
fn daemon_that_hangs_is_named_by_every_verb() {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};
    let fixture = DaemonFixture::with(3, 1);
    verb(&fixture, "sync").done();
    let path = fixture.place.path("mirror.db.sock");
    let hangs = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    bind(&hangs, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    listen(&hangs, 0).unwrap();
    let _queued = std::os::unix::net::UnixStream::connect(&path).unwrap();
    for line in ["pause", "sync", "verify", "resume"] {
        let ended = verb(&fixture, line).code(69);
        assert!(ended.err.contains("the daemon does not answer on its control socket"), "{line}: {}", ended.err);
    }
    assert_eq!(verb(&fixture, "status --json").done().json()["daemon_state"], "unresponsive");
}

#[test]
fn pause_and_resume_need_a_daemon_and_survive_its_restart() {
    let fixture = DaemonFixture::with(30, 3).set("CRM_MIRROR_SYNC__SCHEDULE", "* * * * * *");
    let none = verb(&fixture, "pause").code(69);
    assert!(none.err.contains("no daemon of this mirror listens on "), "{}", none.err);
    let daemon = fixture.start();
    let mut events = daemon.events();
    events.until(|event| event["event"] == "finished");
    let said = verb(&fixture, "pause").done();
    assert!(said.err.contains("the schedule is paused"), "{}", said.err);
    let since = daemon.status()["daemon"]["paused_since"].clone();
    assert!(since.is_string());
    daemon.stop();

    let daemon = fixture.start();
    assert_eq!(daemon.status()["daemon"]["paused_since"], since);
    let text = verb(&fixture, "status").done().out;
    assert!(text.contains("next     The schedule has been paused since "), "{text}");
    fixture.service.sandbox.clear_log();
    let mut events = daemon.events();
    // A manual job still runs; after it the ticks of this second have been processed as well.
    let ended = daemon.job("/sync", &json!({}));
    assert_eq!(ended["exit"], 0);
    std::thread::sleep(Duration::from_millis(1_600));
    let said = verb(&fixture, "resume").done();
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
