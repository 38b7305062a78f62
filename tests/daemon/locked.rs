//! The database held from outside, as a shell in a transaction holds it: the daemon answers, says what is true, and ends
//! in time; and a mirror that another process writes, or that is not there, is waited for.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::scene::{Daemon, Scene, verb};
use crate::socket;

/// What a person may wait for an answer that needs no database.
/// A database that is waited for takes ten seconds.
const PROMPT: Duration = Duration::from_secs(2);

/// A shell that holds the database until it is dropped.
fn held(scene: &Scene) -> rusqlite::Connection {
    let conn = rusqlite::Connection::open(scene.place.path("mirror.db")).unwrap();
    conn.busy_timeout(Duration::from_secs(20)).unwrap();
    conn.execute_batch("BEGIN IMMEDIATE").unwrap();
    conn
}

/// The least of a few tries: what the machine does beside this test must not decide.
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
fn a_held_database_delays_no_answer_and_a_pause_says_whether_it_is_stored() {
    let scene = Scene::with(30, 2);
    let daemon = scene.start();
    daemon.sync();
    let shell = held(&scene);
    begun(&daemon);
    let paused = daemon.post("/pause", &json!({})).with(202).json();
    assert_eq!((&paused["paused"], &paused["stored"]), (&json!(true), &json!(false)));
    assert!(paused["reason"].is_string(), "{paused}");
    assert!(daemon.status()["daemon"]["paused_since"].is_string());
    assert_eq!(scene.column("SELECT count(*) FROM state WHERE name = 'paused_since'"), ["0"]);
    daemon.signal("-HUP");
    assert!(quickest(|| daemon.status()) < PROMPT);
    drop(shell);
    socket::until("the pause is stored", || {
        (scene.column("SELECT count(*) FROM state WHERE name = 'paused_since'") == ["1"]).then_some(())
    });
    daemon.until_logged("The configuration was read again");
    let resumed = daemon.post("/resume", &json!({})).with(200).json();
    assert_eq!(resumed, json!({"paused": false, "stored": true}));
    daemon.stop();
}

#[test]
fn sigterm_ends_it_in_time_while_the_database_is_held() {
    for idle in [true, false] {
        let scene = Scene::with(120, 4);
        let daemon = scene.start();
        daemon.sync();
        let shell = held(&scene);
        if !idle {
            begun(&daemon);
        }
        daemon.stop();
        drop(shell);
        scene.assert_consistent();
        let daemon = scene.start();
        daemon.sync();
        daemon.stop();
        scene.assert_exact();
    }
}

#[test]
fn a_mirror_that_another_process_writes_is_waited_for() {
    let scene = Scene::with(20, 2);
    let lock = std::fs::File::create(scene.place.path("mirror.db.lock")).unwrap();
    std::fs::write(scene.place.path("mirror.db.lock"), "4711\n").unwrap();
    lock.lock().unwrap();
    let daemon = scene.start();
    daemon.until_logged("process 4711 is writing the mirror");
    let refused = daemon.post("/sync", &json!({})).with(503).json();
    assert!(refused["error"].as_str().unwrap().contains("4711"), "{refused}");
    let status = socket::ask(&daemon.socket, "GET", "/status", b"").with(503).json();
    assert!(status["daemon"]["waiting_for"].as_str().unwrap().contains("4711"), "{status}");
    daemon.signal("-HUP");
    lock.unlock().unwrap();
    daemon.until_logged("The mirror is open now");
    socket::until("it works", || {
        let reply = socket::ask(&daemon.socket, "GET", "/status", b"");
        (reply.status == 200 && reply.json()["daemon"]["waiting_for"].is_null()).then_some(())
    });
    daemon.sync();
    daemon.stop();
    scene.assert_exact();
}

#[test]
fn sigterm_ends_it_while_it_waits_for_the_mirror() {
    let scene = Scene::with(3, 1);
    let lock = std::fs::File::create(scene.place.path("mirror.db.lock")).unwrap();
    lock.lock().unwrap();
    let daemon = scene.start();
    let log = daemon.stop();
    assert!(log.contains("another process is writing the mirror"), "{log}");
}

#[test]
fn a_folder_that_is_missing_for_a_while_is_waited_for() {
    let scene = Scene::with(20, 2).set("CRM_MIRROR_DATABASE__PATH", "data/mirror.db");
    let scene = scene.set("CRM_MIRROR_DAEMON__SOCKET", "mirror.db.sock");
    let daemon = scene.start();
    daemon.until_logged("cannot be opened yet");
    std::fs::create_dir(scene.place.path("data")).unwrap();
    daemon.until_logged("The mirror is open now");
    daemon.sync();
    // Away under a daemon that works: nothing is made in its place, and it is taken up again where it was.
    std::fs::rename(scene.place.path("data"), scene.place.path("away")).unwrap();
    std::fs::create_dir(scene.place.path("data")).unwrap();
    let failed = daemon.job("/sync", &json!({}));
    assert_eq!(failed["exit"], 74, "{failed}");
    assert_eq!(std::fs::read_dir(scene.place.path("data")).unwrap().count(), 0);
    std::fs::remove_dir(scene.place.path("data")).unwrap();
    std::fs::rename(scene.place.path("away"), scene.place.path("data")).unwrap();
    daemon.sync();
    daemon.stop();
}

#[test]
fn a_file_that_was_replaced_is_opened_again() {
    let scene = Scene::with(20, 2);
    let daemon = scene.start();
    daemon.sync();
    // As a restore from a backup does.
    let (file, copy) = (scene.place.path("mirror.db"), scene.place.path("copy.db"));
    rusqlite::Connection::open(&file).unwrap().execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
    for name in ["mirror.db-wal", "mirror.db-shm"] {
        let _ = std::fs::remove_file(scene.place.path(name));
    }
    std::fs::rename(&copy, &file).unwrap();
    scene.service.sandbox.with_world(|world| {
        let ids = world.ids(crm_mirror::model::Resource::Contacts);
        world.edit(crm_mirror::model::Object::Contact, &ids[3], &json!({ "name": "Changed" }));
    });
    daemon.sync();
    assert_eq!(scene.column("SELECT count(*) FROM contacts WHERE name = 'Changed'"), ["1"]);
    assert!(daemon.stop().contains("Another file has taken the place"));
}

#[test]
fn a_newer_schema_is_the_one_that_ends_it() {
    let scene = Scene::with(3, 1);
    verb(&scene, "sync").done();
    rusqlite::Connection::open(scene.place.path("mirror.db"))
        .unwrap()
        .execute_batch("PRAGMA user_version = 9999")
        .unwrap();
    let mut daemon = scene.spawn(&["daemon"]);
    assert_eq!(daemon.end(), Some(74));
    assert!(daemon.log().contains("install the newer crm-mirror"), "{}", daemon.log());
}
