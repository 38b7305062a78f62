//! The control socket: who may use it, what it answers, and what it does not take.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::scene::Scene;
use crate::socket::{self, Events};

#[test]
fn the_socket_is_the_owners_alone_and_one_that_was_left_behind_is_replaced() {
    let scene = Scene::with(3, 1);
    let path = scene.place.path("mirror.db.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let daemon = scene.start();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    daemon.get("/status").with(200);
    daemon.stop();
    assert!(!path.exists());
    let left: Vec<_> = scene.place.files().into_keys().collect();
    assert!(left.iter().all(|file| !file.to_string_lossy().contains(".sock.")), "{left:?}");
}

#[test]
fn what_is_not_there_is_answered_in_json() {
    let scene = Scene::with(3, 1);
    let daemon = scene.start();
    let huge = vec![b' '; 5_000_000];
    let not_an_object = b"[1]".to_vec();
    for (method, path, body, status, error) in [
        ("GET", "/", vec![], 404, "there is nothing here"),
        ("GET", "/status/", vec![], 404, "there is nothing here"),
        ("POST", "/removal", vec![], 404, "there is nothing here"),
        ("POST", "/status", vec![], 405, "not with this method"),
        ("GET", "/sync", vec![], 405, "not with this method"),
        ("DELETE", "/resync", vec![], 405, "not with this method"),
        ("POST", "/sync", b"{\"objets\": []}".to_vec(), 400, "unknown field `objets`"),
        ("POST", "/resync", b"{\"objects\": [\"deals\"]}".to_vec(), 400, "deals"),
        ("POST", "/verify", b"{\"full\": \"yes\"}".to_vec(), 400, "the body is not understood"),
        ("POST", "/sync", b"{".to_vec(), 400, "the body is not understood"),
        ("POST", "/sync", b"\xff\xfe".to_vec(), 400, "the body is not understood"),
        ("POST", "/sync", not_an_object, 400, "the body is not understood"),
        ("POST", "/sync", huge, 413, "the body was refused"),
        ("POST", "/push", vec![], 409, "write-back is off"),
        ("POST", "/resync/stop", vec![], 409, "no resync is under way"),
    ] {
        let reply = socket::ask(&daemon.socket, method, path, &body).with(status);
        assert!(reply.head.contains("content-type: application/json"), "{reply:?}");
        let told = reply.json();
        assert!(told["error"].as_str().unwrap().contains(error), "{method} {path}: {told}");
        assert!(told.get("hint").is_some(), "{told}");
    }
    assert_eq!(scene.requests(), 0);
    assert_eq!(daemon.status()["daemon"]["waiting"], json!([]));
    daemon.stop();
}

#[test]
fn what_is_not_configured_is_not_read() {
    let scene = Scene::with(3, 1).set("CRM_MIRROR_SYNC__OBJECTS", "contacts");
    let daemon = scene.start();
    let refused = daemon.post("/sync", &json!({"objects": ["companies"]})).with(400).json();
    assert_eq!(refused["error"], "`companies` is not among `sync.objects`");
    let ended = daemon.job("/sync", &json!({"objects": ["contacts"]}));
    assert_eq!(ended["exit"], 0);
    assert_eq!(scene.column("SELECT count(*) FROM contacts"), ["3"]);
    assert_eq!(scene.column("SELECT count(*) FROM companies"), ["0"]);
    daemon.stop();
}

#[test]
fn a_job_is_told_from_its_place_in_the_queue_to_its_end() {
    let scene = Scene::with(120, 4);
    let daemon = scene.start();
    let mut lines = daemon.events();
    assert!(lines.head.contains("content-type: application/x-ndjson"), "{}", lines.head);
    let mut sse = Events::listen(&daemon.socket, "text/event-stream");
    assert!(sse.head.contains("content-type: text/event-stream"), "{}", sse.head);

    let accepted = daemon.post("/sync", &Value::Null).with(400);
    assert!(accepted.json()["error"].as_str().unwrap().contains("not understood"));
    let accepted = socket::ask(&daemon.socket, "POST", "/sync", b"").with(202).json();
    assert_eq!(accepted, json!({"job": 1, "waits_until": null}));
    let (ended, before) = lines.finished(&json!(1));
    assert_eq!(before[0], json!({"event": "queued", "job": 1, "work": "sync"}));
    assert_eq!(before[1], json!({"event": "started", "job": 1, "work": "sync", "trigger": "manual"}));
    let of = |event: &str, resource: &str, work: &str| {
        before
            .iter()
            .find(|told| {
                told["event"] == event && told["resource"] == resource && (work.is_empty() || told["work"] == work)
            })
            .unwrap_or_else(|| panic!("{event} {resource}: {before:#?}"))
            .clone()
    };
    assert!(of("begins", "contacts", "full copy").get("total").is_some());
    let stored = of("stored", "contacts", "");
    assert!(stored["rows"].as_u64().unwrap() > 0 && stored["ru"].as_u64().unwrap() > 0);
    assert_eq!(of("begins", "contacts", "details")["total"], 120);
    of("ends", "companies", "");
    assert_eq!((&ended["exit"], &ended["error"], &ended["hint"]), (&json!(0), &Value::Null, &Value::Null));
    assert_eq!(ended["found"], json!([]));
    let summary = &ended["summary"];
    assert_eq!((&summary["outcome"], &summary["kind"]), (&json!("done"), &json!("sync")));
    assert_eq!(summary["details_read"], 124);

    // The same lines, framed for a browser.
    let first = sse.line().unwrap();
    assert_eq!(
        first,
        format!("data: {}", before[0]).replace("{\"event\":\"queued\",\"job\":1", "{\"event\":\"queued\",\"job\":1")
    );

    let verified = daemon.job("/verify", &json!({"full": true}));
    assert_eq!(verified["exit"], 0, "what was found is not an error of the job");
    assert_eq!(verified["found"].as_array().unwrap().len(), 2, "{verified}");
    assert_eq!(verified["found"][0][0], "contact");
    daemon.stop();
    assert!(lines.until(|event| event["event"] == "stopping").0.is_object());
    assert_eq!(lines.next(), None, "the stream ends with the daemon");
}

#[test]
fn jobs_asked_at_once_are_one_job_and_run_one_after_the_other() {
    let scene = Scene::with(120, 4);
    let daemon = scene.start();
    let mut events = daemon.events();
    let job = |path: &str| daemon.post(path, &json!({})).with(202).json()["job"].as_u64().unwrap();
    let first = job("/sync");
    let (second, third, again) = (job("/resync"), job("/verify"), job("/resync"));
    assert_eq!(second, again, "what waits already is not asked for twice");
    let mut open = 0;
    let mut ended = 0;
    while ended < 3 {
        match events.next().unwrap()["event"].as_str().unwrap() {
            "started" => open += 1,
            "finished" | "preempted" => {
                open -= 1;
                ended += 1;
            }
            _ => {}
        }
        assert!((0..=1).contains(&open));
    }
    assert!(first < second && second < third);
    daemon.stop();
    assert_eq!(
        scene.column("SELECT \"trigger\" || ' ' || outcome FROM sync_runs"),
        ["manual done", "manual done", "manual done"]
    );
    scene.assert_exact();
}
