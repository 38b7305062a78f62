//! The database locked by another process, as by a shell in a transaction: the daemon answers, reports the correct
//! state, and stops in time. A mirror that another process writes, or that is missing, is waited for.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crm_mirror::model::{Object, Resource};
use crm_mirror::sandbox::{RequestLine, World};

use crate::alerts_publish::Published;
use crate::fixture::{Daemon, DaemonFixture, verb};
use crate::socket;

/// The longest acceptable time for an answer that needs no database. Waiting for a locked database takes thirty seconds.
const PROMPT: Duration = Duration::from_secs(2);

/// A shell's transaction that locks the database until it is dropped.
fn held(fixture: &DaemonFixture) -> rusqlite::Connection {
    locked(&fixture.place.path("mirror.db"))
}

fn locked(mirror: &Path) -> rusqlite::Connection {
    let conn = rusqlite::Connection::open(mirror).unwrap();
    conn.busy_timeout(Duration::from_secs(20)).unwrap();
    conn.execute_batch("BEGIN IMMEDIATE").unwrap();
    conn
}

/// The shortest of a few tries, so that other load on the machine does not matter.
fn quickest<T>(mut ask: impl FnMut() -> T) -> Duration {
    let times = (0..5).map(|_| {
        let began = Instant::now();
        ask();
        began.elapsed()
    });
    times.min().unwrap()
}

fn begun(daemon: &Daemon) -> Value {
    let mut events = daemon.events();
    daemon.post("/sync", &json!({})).with(202);
    events.until(|event| event["event"] == "started").0
}

#[test]
fn locked_database_delays_no_answer_and_a_pause_reports_whether_it_is_stored() {
    let fixture = DaemonFixture::with(30, 2);
    let daemon = fixture.start();
    daemon.sync();
    let shell = held(&fixture);
    begun(&daemon);
    let paused = daemon.post("/pause", &json!({})).with(503).json();
    assert!(paused["error"].as_str().unwrap().contains("in effect, but not stored yet: "), "{paused}");
    assert!(daemon.status()["daemon"]["paused_since"].is_string());
    assert_eq!(fixture.column("SELECT count(*) FROM state WHERE name = 'paused_since'"), ["0"]);
    daemon.signal("-HUP");
    assert!(quickest(|| daemon.status()) < PROMPT);
    drop(shell);
    socket::until("the pause is stored", || {
        (fixture.column("SELECT count(*) FROM state WHERE name = 'paused_since'") == ["1"]).then_some(())
    });
    daemon.until_logged("Configuration reloaded");
    let resumed = daemon.post("/resume", &json!({})).with(200).json();
    assert_eq!(resumed, json!({"paused": false}));
    daemon.stop();
}

/// Who has the lock has it for longer than anybody waits: a run and publishing give up, and neither has failed.
#[test]
fn run_and_publishing_beside_a_held_lock_go_on_after_it_and_have_not_failed() {
    let Some(published) = Published::start() else { return };
    let fixture = DaemonFixture::with(30, 4)
        .set("CRM_MIRROR_PUBLISH__URL", &published.url)
        .set("CRM_MIRROR_LOG__LEVEL", "info,crm_mirror::publish=debug")
        // Due once, as nothing was copied yet: what goes on later is no other scheduled run.
        .set("CRM_MIRROR_SYNC__SCHEDULE", "0 0 0 1 1 *");
    let shell: Arc<Mutex<Option<rusqlite::Connection>>> = Arc::default();
    let (taken, path) = (shell.clone(), fixture.place.path("mirror.db"));
    fixture.service.sandbox.before_request(move |_: &mut World, asked: &RequestLine| {
        let mut taken = taken.lock().unwrap();
        if taken.is_none() && asked.lists(Resource::Companies) && asked.param("cursor").is_none() {
            *taken = Some(locked(&path));
        }
    });
    let daemon = fixture.start();
    let mut events = daemon.events();
    daemon.until_logged("Publishing waits");
    // The run has waited from the hook's request on, so it gave up before publishing did. Its end is still to be stored.
    fixture.service.sandbox.clear_hook();
    assert!(shell.lock().unwrap().take().is_some());
    let suspended = events.until(|event| event["event"] == "finished").0;
    assert_eq!(suspended["exit"], 75, "{suspended}");
    let waits = "another program has kept the mirror locked since ";
    assert!(daemon.status()["daemon"]["waiting_for"].as_str().unwrap_or_default().starts_with(waits));
    daemon.until_notified(&format!("STATUS=Waiting: {waits}"));
    let runs =
        || fixture.column("SELECT trigger || ' ' || outcome FROM sync_runs WHERE outcome IS NOT NULL ORDER BY id");
    socket::until("the run goes on", || (runs() == ["schedule suspended", "schedule done"]).then_some(()));
    socket::until("a comparison", || daemon.status()["publish"]["equal_at"].is_string().then_some(()));
    let companies = || published.one("SELECT count(*)::text FROM crm.companies");
    socket::until("everything is published", || (companies() == "4").then_some(()));
    let status = daemon.status();
    assert_eq!((&status["publish"]["failures"], &status["publish"]["last_error"]), (&json!(0), &Value::Null));
    assert_eq!(status["daemon"]["waiting_for"], Value::Null);
    let log = daemon.stop();
    assert_eq!(log.matches("WARN Waiting: another program has kept the mirror locked").count(), 1, "{log}");
    assert!(!log.to_lowercase().contains("failed"), "{log}");
    fixture.assert_exact();
}

/// No run finds out during a pause whether the lock is gone.
#[test]
fn wait_for_a_held_lock_is_not_over_because_of_a_pause() {
    let fixture = DaemonFixture::with(30, 2);
    let daemon = fixture.start();
    daemon.sync();
    let shell = held(&fixture);
    let mut events = daemon.events();
    daemon.post("/sync", &json!({})).with(202);
    assert_eq!(events.until(|event| event["event"] == "finished").0["exit"], 75);
    let waits = "Waiting: another program has kept the mirror locked";
    daemon.until_logged(&format!("WARN {waits}"));
    daemon.post("/pause", &json!({})).with(503);
    drop(shell);
    daemon.post("/resume", &json!({}));
    daemon.sync();
    daemon.until_logged(&format!("INFO Over: {waits}"));
    let log = daemon.stop();
    assert_eq!((log.matches(&format!("WARN {waits}")).count(), log.matches("Over: ").count()), (1, 1), "{log}");
}

#[test]
fn sigterm_while_the_database_is_locked_ends_in_time() {
    let nothing: fn(&Daemon) = |_| {};
    let run: fn(&Daemon) = |daemon| drop(begun(daemon));
    let reload: fn(&Daemon) = |daemon| daemon.signal("-HUP");
    let everything: fn(&Daemon) = |daemon| {
        begun(daemon);
        daemon.post("/push", &json!({}));
        daemon.signal("-HUP");
        daemon.status();
    };
    for begin in [nothing, run, reload, everything] {
        let fixture = DaemonFixture::with(120, 4).set("CRM_MIRROR_WRITE_BACK__ENABLED", "true");
        let daemon = fixture.start();
        daemon.sync();
        let shell = held(&fixture);
        begin(&daemon);
        // Held until the daemon has ended: nothing of this waits for it.
        daemon.status();
        daemon.stop();
        drop(shell);
        fixture.assert_consistent();
        let daemon = fixture.start();
        daemon.sync();
        daemon.stop();
        fixture.assert_exact();
    }
}

#[test]
fn mirror_that_another_process_writes_is_waited_for() {
    let fixture = DaemonFixture::with(20, 2);
    let lock = std::fs::File::create(fixture.place.path("mirror.db.lock")).unwrap();
    std::fs::write(fixture.place.path("mirror.db.lock"), "4711\n").unwrap();
    lock.lock().unwrap();
    let daemon = fixture.start();
    daemon.until_logged("another crm-mirror (process 4711) is writing ");
    let refused = daemon.post("/sync", &json!({})).with(503).json();
    assert!(refused["error"].as_str().unwrap().contains("4711"), "{refused}");
    let status = socket::ask(&daemon.socket, "GET", "/status", b"").with(503).json();
    assert!(status["daemon"]["waiting_for"].as_str().unwrap().contains("4711"), "{status}");
    daemon.signal("-HUP");
    lock.unlock().unwrap();
    daemon.until_logged("The mirror is open");
    socket::until("it works", || {
        let reply = socket::ask(&daemon.socket, "GET", "/status", b"");
        (reply.status == 200 && reply.json()["daemon"]["waiting_for"].is_null()).then_some(())
    });
    daemon.sync();
    daemon.stop();
    fixture.assert_exact();
}

/// Its writer waits for the lock of the database with the settings that it began with.
#[test]
fn configuration_that_is_reloaded_while_the_mirror_is_opened_is_that_of_the_runs() {
    let mut fixture = DaemonFixture::with(20, 2);
    verb(&fixture, "sync").done();
    fixture.place = fixture.place.unset("CRM_MIRROR_BUDGET__LIMIT");
    let write = |limit: u64| {
        let text = format!("[budget]\nlimit = {limit}\nwindow = \"1d\"\n");
        std::fs::write(fixture.place.path("c.toml"), text).unwrap();
    };
    write(90_000);
    let shell = held(&fixture);
    let daemon = fixture.spawn(&["daemon", "--config", "c.toml"]);
    socket::until("it listens", || std::os::unix::net::UnixStream::connect(&daemon.socket).ok());
    assert_eq!(daemon.post("/sync", &json!({})).status, 503, "the mirror is being opened");
    write(80_000);
    daemon.signal("-HUP");
    daemon.until_logged("Configuration reloaded");
    drop(shell);
    daemon.until_notified("READY=1");
    assert_eq!(daemon.job("/sync", &json!({}))["summary"]["ru"]["limit"], 80_000);
    daemon.stop();
    fixture.assert_exact();
}

#[test]
fn sigterm_while_waiting_for_the_mirror_ends_in_time() {
    let fixture = DaemonFixture::with(3, 1);
    let lock = std::fs::File::create(fixture.place.path("mirror.db.lock")).unwrap();
    lock.lock().unwrap();
    let daemon = fixture.start();
    let log = daemon.stop();
    assert!(log.contains("another crm-mirror is writing "), "{log}");
}

#[test]
fn missing_directory_is_waited_for() {
    let fixture = DaemonFixture::with(20, 2).set("CRM_MIRROR_DATABASE__PATH", "data/mirror.db");
    let fixture = fixture.set("CRM_MIRROR_DAEMON__SOCKET", "mirror.db.sock");
    let daemon = fixture.start();
    daemon.until_logged("which cannot be opened");
    std::fs::create_dir(fixture.place.path("data")).unwrap();
    daemon.until_logged("The mirror is open");
    daemon.sync();
    // The file disappears under a working daemon: no new file is created, and work continues when it is back.
    std::fs::rename(fixture.place.path("data"), fixture.place.path("away")).unwrap();
    std::fs::create_dir(fixture.place.path("data")).unwrap();
    let failed = daemon.job("/sync", &json!({}));
    assert_eq!(failed["exit"], 74, "{failed}");
    assert_eq!(std::fs::read_dir(fixture.place.path("data")).unwrap().count(), 0);
    // It is still this mirror's daemon, and the verbs reach it.
    let paused = verb(&fixture, "pause").code(75).err;
    assert!(paused.contains("not stored yet: there is no mirror at"), "{paused}");
    verb(&fixture, "resume").code(75);
    let failed = verb(&fixture, "sync").code(74).err;
    assert!(failed.contains("the daemon runs it") && failed.contains("there is no mirror at"), "{failed}");
    std::fs::remove_dir(fixture.place.path("data")).unwrap();
    std::fs::rename(fixture.place.path("away"), fixture.place.path("data")).unwrap();
    daemon.sync();
    daemon.stop();
}

#[test]
fn replaced_file_is_reopened() {
    let fixture = DaemonFixture::with(20, 2).set("CRM_MIRROR_WRITE_BACK__ENABLED", "true");
    let daemon = fixture.start();
    daemon.sync();
    // A restore from a backup replaces the file like this.
    let (file, copy) = (fixture.place.path("mirror.db"), fixture.place.path("copy.db"));
    rusqlite::Connection::open(&file).unwrap().execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
    daemon.sync();
    let used = || daemon.status()["ru"]["used"].as_u64().unwrap();
    let before = used();
    // Somebody takes the lock file, which has the request units since, for one of the old mirror's.
    for name in ["mirror.db-wal", "mirror.db-shm", "mirror.db.lock"] {
        let _ = std::fs::remove_file(fixture.place.path(name));
    }
    std::fs::rename(&copy, &file).unwrap();
    daemon.post("/pause", &json!({})).with(503);
    fixture.service.sandbox.with_world(|world| {
        let ids = world.ids(Resource::Contacts);
        world.edit(Object::Contact, &ids[3], &json!({ "name": "Changed" }));
    });
    let spent = daemon.job("/sync", &json!({}))["summary"]["ru"]["spent"].as_u64().unwrap();
    assert_eq!((spent > 0, used()), (true, before + spent), "the budget does not begin anew");
    assert_eq!(fixture.column("SELECT count(*) FROM contacts WHERE name = 'Changed'"), ["1"]);
    // The run has stored the pause in it: no edit is sent, by this process or the next.
    let id = fixture.column("SELECT id FROM contacts ORDER BY id LIMIT 1").remove(0);
    fixture.edit(&id, "CFO");
    daemon.sync();
    assert_eq!(fixture.service.sandbox.log().patches(Object::Contact), 0);
    assert!(daemon.stop().contains("was replaced by another file"));
    let daemon = fixture.start();
    assert!(daemon.status()["daemon"]["paused_since"].is_string());
    daemon.post("/pause", &json!({})).with(200);
    daemon.stop();
}

/// The mirror is the file at the end of a link, also of one that is set to another file.
#[test]
fn file_that_a_link_leads_to_is_followed() {
    let fixture = DaemonFixture::with(20, 2).set("CRM_MIRROR_WRITE_BACK__ENABLED", "true");
    let [link, former, socket] = ["mirror.db", "first.db", "mirror.db.sock"].map(|name| fixture.place.path(name));
    let fixture = fixture.set("CRM_MIRROR_DAEMON__SOCKET", socket.to_str().unwrap());
    symlink("first.db", &link).unwrap();
    let daemon = fixture.start();
    daemon.sync();
    fixture.place.run("backup second.db").done();
    std::fs::remove_file(&link).unwrap();
    symlink("second.db", &link).unwrap();
    let ids = fixture.service.sandbox.with_world(|world| {
        let ids = world.ids(Resource::Contacts);
        world.edit(Object::Contact, &ids[3], &json!({ "name": "Changed" }));
        ids
    });
    let used = || daemon.status()["ru"]["used"].as_u64().unwrap();
    let before = used();
    let spent = daemon.job("/sync", &json!({}))["summary"]["ru"]["spent"].as_u64().unwrap();
    assert_eq!((spent > 0, used()), (true, before + spent), "the budget does not begin anew");
    let changed = "SELECT count(*) FROM contacts WHERE name = 'Changed'";
    assert_eq!(fixture.column(changed), ["1"]);
    let at_former = rusqlite::Connection::open(&former).unwrap().query_row(changed, [], |row| row.get::<_, i64>(0));
    assert_eq!(at_former.unwrap(), 0, "nothing is written to the other file");
    fixture.edit(&ids[4], "CFO");
    socket::until("the edit", || (fixture.service.sandbox.log().patches(Object::Contact) == 1).then_some(()));
    socket::until("the answer", || (fixture.column("SELECT state FROM outbox") == ["applied"]).then_some(()));
    // The answer to an update is no detail.
    daemon.sync();
    daemon.stop();
    fixture.assert_exact();
}

/// What the file and its lock file say of the process that writes it.
fn writers(fixture: &DaemonFixture) -> [Value; 2] {
    let lock = std::fs::read_to_string(fixture.place.path("mirror.db.lock")).unwrap();
    let stored = fixture.column("SELECT value FROM state WHERE name = 'last_writer'").remove(0);
    [&stored, lock.lines().last().unwrap()].map(|text| serde_json::from_str::<Value>(text).unwrap()["nonce"].clone())
}

/// A file has no part in the WAL of the one whose place it takes: what the daemon commits on it stays there.
#[test]
fn edits_of_a_file_that_takes_the_place_of_the_mirror_are_held_whatever_wal_is_left() {
    for writes_last in [false, true] {
        let fixture = DaemonFixture::with(20, 2).set("CRM_MIRROR_WRITE_BACK__ENABLED", "true");
        let daemon = fixture.start();
        daemon.sync();
        let id = fixture.column("SELECT id FROM contacts ORDER BY id LIMIT 1").remove(0);
        daemon.post("/pause", &json!({})).with(200);
        fixture.edit(&id, "CFO");
        let (file, copy) = (fixture.place.path("mirror.db"), fixture.place.path("copy.db"));
        fixture.conn().execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
        daemon.post("/resume", &json!({})).with(200);
        socket::until("the edit is applied", || {
            (fixture.column("SELECT state FROM outbox") == ["applied"]).then_some(())
        });
        fixture.service.sandbox.with_world(|world| {
            world.edit(Object::Contact, &id, &json!({ "position": "Set back" }));
        });
        daemon.sync();
        let is_empty = || std::fs::metadata(fixture.place.path("mirror.db-wal")).unwrap().len() == 0;
        socket::until("the run has ended", || is_empty().then_some(()));
        // A pause writes, and no run follows the file before the edit is tried.
        if writes_last {
            daemon.post("/pause", &json!({})).with(200);
        }
        assert_eq!(is_empty(), !writes_last);
        fixture.service.sandbox.clear_log();
        std::fs::rename(&copy, &file).unwrap();
        // Until the daemon follows the file, an edit would get into the WAL of the other one.
        verb(&fixture, &format!("edit contact {id} position=COO")).code(74);
        daemon.sync();
        assert_eq!(fixture.column("SELECT state FROM outbox"), ["held"]);
        assert_eq!(fixture.service.sandbox.log().patches(Object::Contact), 0);
        let [stored, locked] = writers(&fixture);
        assert_eq!(stored, locked);
        fixture.assert_consistent();
        fixture.assert_exact();
        let log = daemon.stop();
        assert!(log.contains("may have sent them: 1;"), "{log}");
    }
}

#[test]
fn mirror_that_is_back_after_another_file_was_refused_is_written_under_its_lock() {
    let fixture = DaemonFixture::with(20, 2);
    let daemon = fixture.start();
    daemon.sync();
    let (file, away) = (fixture.place.path("mirror.db"), fixture.place.path("away.db"));
    std::fs::rename(&file, &away).unwrap();
    std::fs::write(&file, "a text of some length, longer than a header of SQLite would be in any case, and more")
        .unwrap();
    let failed = daemon.job("/sync", &json!({}));
    assert_eq!(failed["exit"], 74, "{failed}");
    std::fs::rename(&away, &file).unwrap();
    daemon.sync();
    assert_eq!(crm_mirror::store::lock::current_writer(&file), Some(Some(daemon.child.id())));
    let [stored, locked] = writers(&fixture);
    assert_eq!(stored, locked);
    assert!(!daemon.stop().contains("held"), "it is no copy");
    fixture.assert_exact();
}

#[test]
fn newer_schema_ends_the_daemon() {
    let fixture = DaemonFixture::with(3, 1);
    verb(&fixture, "sync").done();
    rusqlite::Connection::open(fixture.place.path("mirror.db"))
        .unwrap()
        .execute_batch("PRAGMA user_version = 9999")
        .unwrap();
    let mut daemon = fixture.spawn(&["daemon"]);
    assert_eq!(daemon.end(), Some(74));
    assert!(daemon.log().contains("install the newer crm-mirror"), "{}", daemon.log());
}
