//! SIGHUP and the replacement of a key.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use crm_mirror::model::{Object, Resource};
use crm_mirror::sandbox::{Fault, Rule, SCOPES};
use serde_json::{Value, json};

use crate::alerts;
use crate::alerts_publish::Published;
use crate::binary::SECRET;
use crate::fixture::{Daemon, DaemonFixture, verb};
use crate::socket;

const NEW_KEY: &str = "crm_secret_the_next_one";

fn write_key(fixture: &DaemonFixture, key: &str) {
    let path = fixture.place.path("key");
    std::fs::write(&path, format!("{key}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

fn write_config(fixture: &DaemonFixture, schedule: &str, limit: u64) {
    let text = format!(
        "[api]\nkey_file = \"./key\"\n[sync]\nschedule = \"{schedule}\"\n[budget]\nlimit = {limit}\nwindow = \"1d\"\n"
    );
    std::fs::write(fixture.place.path("c.toml"), text).unwrap();
}

fn with_file(contacts: usize, schedule: &str, limit: u64) -> (DaemonFixture, Daemon) {
    let mut fixture = DaemonFixture::with(contacts, 3);
    for name in ["API__KEY", "SYNC__SCHEDULE", "BUDGET__LIMIT"] {
        fixture.place = fixture.place.unset(&format!("CRM_MIRROR_{name}"));
    }
    write_key(&fixture, SECRET);
    write_config(&fixture, schedule, limit);
    let daemon = fixture.spawn(&["daemon", "--config", "c.toml"]);
    daemon.until_notified("READY=1");
    (fixture, daemon)
}

fn reload(daemon: &Daemon) {
    daemon.signal("-HUP");
    daemon.until_notified("RELOADING=1");
    daemon.until_notified("READY=1");
}

#[test]
fn valid_configuration_is_applied_and_an_invalid_one_is_not() {
    let (fixture, daemon) = with_file(10, "0 0 0 1 1 *", 500);
    // To the minute: a run is delayed by up to ten seconds.
    let at = |daemon: &Daemon| daemon.status()["daemon"]["next"][0]["at"].as_str().unwrap()[4..16].to_string();
    assert_eq!(at(&daemon), "-01-01T00:00");
    write_config(&fixture, "0 30 6 2 7 *", 900);
    let mut events = daemon.events();
    reload(&daemon);
    events.until(|event| event["event"] == "reloaded");
    assert_eq!((at(&daemon).as_str(), daemon.status()["ru"]["limit"].clone()), ("-07-02T06:30", json!(900)));

    std::fs::write(fixture.place.path("c.toml"), "[sync]\nschedule = \"0 0 0 29 2 *\"\nshedule = 1\n").unwrap();
    reload(&daemon);
    daemon.until_logged("The new configuration is not active");
    assert!(daemon.log().contains("shedule"), "the log has the reason: {}", daemon.log());
    assert_eq!((at(&daemon).as_str(), daemon.status()["ru"]["limit"].clone()), ("-07-02T06:30", json!(900)));
    daemon.sync();
    daemon.stop();
    fixture.assert_exact();
}

#[test]
fn reload_during_a_run_waits_for_the_page_and_the_run_continues() {
    let (fixture, daemon) = with_file(250, "off", 100_000);
    fixture
        .service
        .sandbox
        .faults()
        .add(Rule::new(Fault::Slow(Duration::from_millis(20), Duration::from_millis(20))).forever());
    let mut events = daemon.events();
    let job = daemon.post("/sync", &json!({})).with(202).json()["job"].clone();
    events.until(|event| event["event"] == "begins" && event["work"] == "details");
    write_config(&fixture, "off", 90_000);
    daemon.signal("-HUP");
    events.until(|event| event["event"] == "preempted");
    events.until(|event| event["event"] == "reloaded");
    let (ended, _) = events.finished(&job);
    assert_eq!((&ended["exit"], &ended["summary"]["details_read"]), (&json!(0), &json!(253)));
    assert_eq!(ended["summary"]["ru"]["limit"], 90_000);
    daemon.stop();
    fixture.assert_exact();
}

#[test]
fn larger_budget_ends_the_wait_for_the_window() {
    let (fixture, daemon) = with_file(60, "off", 30);
    let ended = daemon.job("/sync", &json!({}));
    assert_eq!((&ended["exit"], &ended["summary"]["pause"]["reason"]), (&json!(75), &json!("budget")));
    assert_eq!(daemon.status()["daemon"]["hold"]["reason"], "budget");
    let mut events = daemon.events();
    write_config(&fixture, "off", 1_000);
    reload(&daemon);
    let (ended, _) = events.until(|event| event["event"] == "finished");
    assert_eq!(ended["exit"], 0, "{ended}");
    assert_eq!(daemon.status()["daemon"]["hold"], Value::Null);
    daemon.stop();
    fixture.assert_exact();
}

#[test]
fn refused_key_is_not_retried_and_a_new_one_is_used_at_once() {
    let (fixture, daemon) = with_file(20, "* * * * * *", 100_000_000);
    let mut events = daemon.events();
    events.until(|event| event["event"] == "finished" && event["exit"] == 0);
    fixture.service.sandbox.clear_log();
    fixture.service.sandbox.revoke_key(SECRET);
    let (refused, _) = events.until(|event| event["event"] == "finished" && event["exit"] != 0);
    assert_eq!(refused["exit"], 77);
    assert!(refused["hint"].is_string(), "{refused}");
    // More than two ticks, each of which was processed.
    let sandbox = &fixture.service.sandbox;
    std::thread::sleep(Duration::from_millis(2_200));
    assert_eq!(sandbox.log().with_status(401), 1, "one request, and then none");
    assert_eq!(daemon.status()["daemon"]["trouble"]["runs"], 1);
    sandbox.set_key(NEW_KEY, &SCOPES);
    write_key(&fixture, NEW_KEY);
    // The same workspace: nobody needs to do anything else.
    let (ended, _) = events.until(|event| event["event"] == "finished");
    assert_eq!(ended["exit"], 0, "{ended}");
    socket::until("the trouble is over", || daemon.status()["trouble"].is_null().then_some(()));
    let log = daemon.stop();
    assert!(log.contains("API key changed; using the new key"), "{log}");
    assert!(!log.contains(NEW_KEY) && !log.contains(SECRET));
    assert_eq!(sandbox.log().with_status(401), 1);
}

/// The old key stays active, which the log says once and the status until the key can be used.
#[test]
fn key_that_cannot_be_used_is_shown_and_the_old_one_stays() {
    let (fixture, daemon) = with_file(10, "off", 100_000);
    let says = || {
        let text = verb(&fixture, "status --config c.toml").out;
        (daemon.status()["daemon"]["reload_failed"].clone(), text.contains("config   what is on disk is not active"))
    };
    for key in ["", "two\nlines"] {
        write_key(&fixture, key);
        daemon.sync();
        daemon.sync();
        assert_eq!(says(), (json!(true), true), "{key}");
    }
    write_key(&fixture, SECRET);
    daemon.sync();
    assert_eq!(says(), (json!(false), false));
    let log = daemon.stop();
    assert_eq!(log.matches("The API key on disk is not active, and the old one stays").count(), 2, "{log}");
    assert!(!log.contains(SECRET));
}

#[test]
fn key_of_a_different_workspace_writes_nothing_and_the_right_one_is_used() {
    let (fixture, daemon) = with_file(30, "off", 100_000);
    daemon.sync();
    fixture.service.sandbox.revoke_key(SECRET);
    let refused = daemon.job("/sync", &json!({}));
    assert_eq!(refused["exit"], 77);
    // Also after an earlier failure of another kind.
    let ours = fixture.service.sandbox.with_world(|world| {
        let other = crm_mirror::sandbox::generate(99, 30, 3, world.now);
        std::mem::replace(world, other)
    });
    fixture.service.sandbox.set_key(NEW_KEY, &SCOPES);
    write_key(&fixture, NEW_KEY);
    let before = fixture.column("SELECT name FROM contacts ORDER BY id");
    let refused = daemon.job("/sync", &json!({}));
    // At a second moment, an hour later, it would be another workspace's for certain.
    assert_eq!(refused["exit"], 69, "{refused}");
    assert_eq!(fixture.column("SELECT name FROM contacts ORDER BY id"), before);
    assert!(daemon.status()["daemon"]["trouble"]["why"].as_str().unwrap().contains("known records"));
    fixture.service.sandbox.with_world(|world| *world = ours);
    daemon.sync();
    assert_eq!(daemon.status()["daemon"]["trouble"], Value::Null);
    daemon.stop();
    fixture.assert_exact();
}

#[test]
fn right_key_after_that_of_a_different_workspace_is_used_by_itself() {
    let (fixture, daemon) = with_file(30, "* * * * * *", 100_000_000);
    let mut events = daemon.events();
    events.until(|event| event["event"] == "finished" && event["exit"] == 0);
    // Another workspace's key: its service shows other records.
    let sandbox = &fixture.service.sandbox;
    let other = sandbox.with_world(|world| crm_mirror::sandbox::generate(99, 30, 3, world.now));
    let ours = sandbox.with_world(|world| std::mem::replace(world, other));
    sandbox.set_key(NEW_KEY, &SCOPES);
    sandbox.revoke_key(SECRET);
    write_key(&fixture, NEW_KEY);
    events.until(|event| event["event"] == "finished" && event["exit"] == 69);
    let written = |fixture: &DaemonFixture| {
        let changes = "SELECT count(*) || (SELECT group_concat(name ORDER BY id) FROM contacts) FROM changes";
        fixture.column(changes)
    };
    let before = written(&fixture);
    let asked = sandbox.log().len();
    // Nothing more is asked on the schedule of every second, and nothing is written.
    std::thread::sleep(Duration::from_millis(1_500));
    assert_eq!((written(&fixture), sandbox.log().len()), (before, asked));
    sandbox.with_world(|world| *world = ours);
    sandbox.set_key(SECRET, &SCOPES);
    write_key(&fixture, SECRET);
    events.until(|event| event["event"] == "finished" && event["exit"] == 0);
    socket::until("the trouble is over", || daemon.status()["daemon"]["trouble"].is_null().then_some(()));
    daemon.stop();
    fixture.assert_exact();
}

#[test]
fn edits_are_refused_at_once_after_write_back_is_switched_off() {
    let (fixture, daemon) = with_file(5, "off", 100_000);
    daemon.sync();
    let runs = fixture.column("SELECT count(*) FROM sync_runs");
    let conn = rusqlite::Connection::open(fixture.place.path("mirror.db")).unwrap();
    let change =
        || conn.execute_batch("UPDATE contacts_full SET position = position WHERE id = (SELECT min(id) FROM contacts)");
    for enabled in [true, false, true] {
        write_config(&fixture, "off", 100_000);
        let mut text = std::fs::read_to_string(fixture.place.path("c.toml")).unwrap();
        text.push_str(&format!("[write_back]\nenabled = {enabled}\n"));
        std::fs::write(fixture.place.path("c.toml"), text).unwrap();
        reload(&daemon);
        let changed = change();
        assert_eq!(changed.is_ok(), enabled, "{changed:?}");
        if let Err(error) = changed {
            assert!(error.to_string().contains("writing back is off"), "{error}");
        }
    }
    assert_eq!(fixture.column("SELECT count(*) FROM sync_runs"), runs, "without a run in between");
    daemon.stop();
}

#[test]
fn mirror_that_is_published_is_the_one_that_is_written_until_a_restart() {
    let Some(published) = Published::start() else { return };
    let fixture = DaemonFixture::with(5, 2).set("CRM_MIRROR_PUBLISH__URL", &published.url);
    let write = |path: &str| {
        let text = format!("[database]\npath = \"{path}\"\n[daemon]\nsocket = \"mirror.db.sock\"\n");
        std::fs::write(fixture.place.path("c.toml"), text).unwrap();
    };
    write("mirror.db");
    let daemon = fixture.spawn(&["daemon", "-c", "c.toml"]);
    daemon.until_notified("READY=1");
    daemon.sync();
    let is_published = |sql: &str| socket::until(sql, || (published.one(sql) == "true").then_some(()));
    is_published("SELECT (to_regclass('crm.contacts') IS NOT NULL)::text");
    write("other.db");
    fixture.service.sandbox.with_world(|world| {
        let ids = world.ids(Resource::Contacts);
        world.edit(Object::Contact, &ids[2], &json!({ "name": "Later" }));
    });
    daemon.sync();
    is_published("SELECT (count(*) = 1)::text FROM crm.contacts WHERE name = 'Later'");
    daemon.stop();
}

#[test]
fn object_that_is_not_mirrored_any_more_asks_for_nothing() {
    let (fixture, daemon, hook, _) = alerts::process();
    let sandbox = &fixture.service.sandbox;
    sandbox.with_world(|world| {
        let ids = world.ids(Resource::Contacts);
        ids[..15].iter().for_each(|id| _ = world.remove(Object::Contact, id));
    });
    assert_eq!(daemon.job("/resync", &json!({}))["exit"], 65);
    let scopes: Vec<&str> = SCOPES.into_iter().filter(|scope| *scope != "companies:read").collect();
    sandbox.set_key(SECRET, &scopes);
    assert_eq!(daemon.job("/sync", &json!({}))["exit"], 0);
    let value = |name: &str| {
        let page = daemon.get("/metrics").with(200).body;
        let line = page.lines().find(|line| line.starts_with(&format!("crm_mirror_{name}{{")));
        line.unwrap().rsplit_once(' ').unwrap().1.to_string()
    };
    let alarms = || ["refused_removals", "undecided_removals", "missing_scopes"].map(value);
    assert_eq!(alarms(), ["15", "15", "1"]);
    let mut all = Vec::new();
    let mut until_told = |messages: [&str; 2]| {
        socket::until("the messages", || {
            all.extend(alerts::told(&hook));
            messages.iter().all(|message| all.iter().any(|told| told == message)).then_some(())
        });
    };
    until_told(["refused-removals begins", "missing-scope begins"]);
    std::fs::write(fixture.place.path("c.toml"), "[sync]\nobjects = [\"team-members\"]\n").unwrap();
    reload(&daemon);
    assert_eq!(alarms(), ["0", "0", "0"]);
    until_told(["refused-removals over", "missing-scope over"]);
    assert_eq!(all.len(), 4, "{all:?}");
    daemon.stop();
}

#[test]
fn nothing_is_owed_to_a_database_that_is_not_published_to_any_more() {
    let fixture = DaemonFixture::with(5, 2);
    let write = |name: &str, text: &str| {
        std::fs::write(fixture.place.path(name), text).unwrap();
        std::fs::set_permissions(fixture.place.path(name), std::fs::Permissions::from_mode(0o600)).unwrap();
    };
    write("url", "postgres://u:p@127.0.0.1:1/d");
    write("c.toml", "[publish]\nurl_file = \"./url\"\n");
    let daemon = fixture.spawn(&["daemon", "-c", "c.toml"]);
    daemon.until_notified("READY=1");
    // From the beginning, also before anything failed.
    assert_eq!(daemon.status()["publish"]["equal_at"], Value::Null);
    daemon.sync();
    socket::until("a failure", || daemon.status()["publish"]["failed_at"].is_string().then_some(()));
    let failed_at = daemon.status()["publish"]["failed_at"].clone();
    let value = |name: &str| {
        let page = daemon.get("/metrics").with(200).body;
        let line = page.lines().find(|line| line.starts_with(&format!("crm_mirror_publish_{name}{{")));
        line.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap())
    };
    let at: crm_mirror::model::Instant = failed_at.as_str().unwrap().parse().unwrap();
    assert_eq!(value("equal_timestamp_seconds"), Some(at.as_micros() as f64 / 1e6));
    socket::until("another failure", || (daemon.status()["publish"]["failures"].as_u64() > Some(1)).then_some(()));
    assert_eq!(daemon.status()["publish"]["failed_at"], failed_at, "since the first one");
    let text = fixture.place.run("status -c c.toml").out;
    assert!(text.contains("publish  no whole copy is known; could not connect"), "{text}");
    write("c.toml", "");
    reload(&daemon);
    assert_eq!((daemon.status()["publish"].clone(), value("lag_seconds")), (Value::Null, None));
    assert!(!fixture.place.run("status -c c.toml").out.contains("publish "));
    daemon.stop();
}

#[test]
fn what_is_known_of_one_published_copy_is_not_said_of_another() {
    let Some(published) = Published::start() else { return };
    let fixture = DaemonFixture::with(5, 2);
    let write = |name: &str, text: &str| {
        std::fs::write(fixture.place.path(name), text).unwrap();
        std::fs::set_permissions(fixture.place.path(name), std::fs::Permissions::from_mode(0o600)).unwrap();
    };
    write("a", &published.url);
    write("b", "postgres://u:p@127.0.0.1:1/d");
    let publish_to = |file: &str, schema: &str| {
        write("c.toml", &format!("[publish]\nurl_file = \"./{file}\"\nschema = \"{schema}\"\n"));
    };
    publish_to("a", "crm");
    let daemon = fixture.spawn(&["daemon", "-c", "c.toml"]);
    daemon.until_notified("READY=1");
    daemon.sync();
    let until = |what: &str, member: &str| {
        socket::until(what, || Some(daemon.status()["publish"].clone()).filter(|publish| publish[member].is_string()))
    };
    for (file, schema) in [("b", "crm"), ("missing", "crm"), ("a", "other")] {
        published.accept(true);
        publish_to("a", "crm");
        reload(&daemon);
        until("the copy is equal", "equal_at");
        published.accept(schema == "crm");
        publish_to(file, schema);
        reload(&daemon);
        let publish = until("a failure", "last_error");
        let known = ["published_at", "compared_at", "equal_at"].map(|member| publish[member].is_string());
        assert_eq!(known, [false; 3], "{file} {schema}: {publish}");
        let text = fixture.place.run("status -c c.toml").out;
        assert!(text.contains("publish  no whole copy is known; "), "{text}");
    }
    daemon.stop();
}
