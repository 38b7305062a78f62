//! The control socket: its access rights, its answers, and the requests that it refuses.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::fixture::DaemonFixture;
use crate::socket;

const INTERFACES: &str = include_str!("../../docs/interfaces.md");

#[test]
fn socket_is_private_and_a_leftover_one_is_replaced() {
    let fixture = DaemonFixture::with(3, 1);
    let path = fixture.place.path("mirror.db.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let daemon = fixture.start();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    daemon.get("/status").with(200);
    daemon.stop();
    assert!(!path.exists());
    let left: Vec<_> = fixture.place.files().into_keys().collect();
    assert!(left.iter().all(|file| !file.to_string_lossy().contains(".sock.")), "{left:?}");
}

#[test]
fn socket_is_private_whatever_the_umask() {
    let fixture = DaemonFixture::with(3, 1);
    let daemon = fixture.place.command(&["daemon"]);
    let mut command = std::process::Command::new("/bin/sh");
    command.args(["-c", "umask 000; exec \"$0\" \"$@\""]).arg(daemon.get_program()).args(daemon.get_args()).env_clear();
    command.envs(daemon.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(folder) = daemon.get_current_dir() {
        command.current_dir(folder);
    }
    let daemon = fixture.spawn_command(command);
    daemon.until_notified("READY=1");
    let mode = std::fs::metadata(&daemon.socket).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    daemon.stop();
}

#[test]
fn invalid_requests_are_answered_in_json() {
    let fixture = DaemonFixture::with(3, 1);
    let daemon = fixture.start();
    let huge = vec![b' '; 5_000_000];
    let not_an_object = b"[1]".to_vec();
    for (method, path, body, status, error) in [
        ("GET", "/", vec![], 404, "unknown path"),
        ("GET", "/status/", vec![], 404, "unknown path"),
        ("POST", "/removal", vec![], 404, "unknown path"),
        ("POST", "/status", vec![], 405, "method not allowed"),
        ("GET", "/sync", vec![], 405, "method not allowed"),
        ("DELETE", "/resync", vec![], 405, "method not allowed"),
        ("POST", "/sync", b"{\"objets\": []}".to_vec(), 400, "unknown field `objets`"),
        ("POST", "/resync", b"{\"objects\": [\"deals\"]}".to_vec(), 400, "deals"),
        ("POST", "/verify", b"{\"full\": \"yes\"}".to_vec(), 400, "the body is invalid"),
        ("POST", "/sync", b"{".to_vec(), 400, "the body is invalid"),
        ("POST", "/sync", b"\xff\xfe".to_vec(), 400, "the body is invalid"),
        ("POST", "/sync", not_an_object, 400, "the body is invalid"),
        ("POST", "/sync", huge, 413, "the body was refused"),
        ("POST", "/push", vec![], 409, "write-back is off"),
    ] {
        let reply = socket::ask(&daemon.socket, method, path, &body).with(status);
        assert!(reply.head.contains("content-type: application/json"), "{reply:?}");
        let document = reply.json();
        assert!(document["error"].as_str().unwrap().contains(error), "{method} {path}: {document}");
        assert!(document.get("hint").is_some(), "{document}");
    }
    assert_eq!(fixture.requests(), 0);
    assert_eq!(daemon.status()["daemon"]["waiting"], json!([]));
    daemon.stop();
}

/// The names between backticks.
fn names(text: &str) -> BTreeSet<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

#[test]
fn requests_bodies_and_answers_are_the_documented_ones() {
    let fixture = DaemonFixture::with(3, 1).set("CRM_MIRROR_WRITE_BACK__ENABLED", "true");
    let daemon = fixture.start();
    daemon.sync();
    let section = INTERFACES.split("\n## ").find(|section| section.starts_with("Requests\n")).unwrap();
    let mut documented = BTreeSet::new();
    for row in section.lines().filter(|line| line.starts_with("| `GET ") || line.starts_with("| `POST ")) {
        let [_, requests, body, answer, _] = row.split('|').collect::<Vec<_>>()[..] else { panic!("{row}") };
        for request in names(requests) {
            documented.insert(request);
            let Some(path) = request.strip_prefix("POST ") else { continue };
            let post = |body: &str| socket::ask(&daemon.socket, "POST", path, body.as_bytes());
            if !names(body).is_empty() {
                let refused = post(r#"{"": 0}"#).with(400).json();
                let (_, known) = refused["error"].as_str().unwrap().split_once("expected").unwrap();
                assert_eq!(names(known), names(body), "{request}");
            }
            let answered = post("");
            assert!(answer.trim().starts_with(&answered.status.to_string()), "{request}: {answered:?}");
            let members = answered.json();
            let members: BTreeSet<&str> = members.as_object().unwrap().keys().map(String::as_str).collect();
            assert_eq!(members, names(answer), "{request}");
        }
    }
    let unknown = daemon.get("/").with(404).json();
    let known = unknown["hint"].as_str().unwrap().split("; ").map(|of| of.split_once(' ').unwrap());
    let known = known.flat_map(|(method, paths)| paths.split(", ").map(move |path| format!("{method} {path}")));
    assert_eq!(known.collect::<BTreeSet<_>>(), documented.into_iter().map(String::from).collect());
    daemon.stop();
}

#[test]
fn unconfigured_objects_are_not_read() {
    let fixture = DaemonFixture::with(3, 1).set("CRM_MIRROR_SYNC__OBJECTS", "contacts");
    let daemon = fixture.start();
    let refused = daemon.post("/sync", &json!({"objects": ["companies"]})).with(400).json();
    assert_eq!(refused["error"], "`companies` is not among `sync.objects`");
    let ended = daemon.job("/sync", &json!({"objects": ["contacts"]}));
    assert_eq!(ended["exit"], 0);
    assert_eq!(fixture.column("SELECT count(*) FROM contacts"), ["3"]);
    assert_eq!(fixture.column("SELECT count(*) FROM companies"), ["0"]);
    daemon.stop();
}

#[test]
fn job_publishes_events_from_queueing_to_its_end() {
    let fixture = DaemonFixture::with(120, 4);
    let daemon = fixture.start();
    let mut lines = daemon.events();
    assert!(lines.head.contains("content-type: application/x-ndjson"), "{}", lines.head);

    let accepted = daemon.post("/sync", &Value::Null).with(400);
    assert!(accepted.json()["error"].as_str().unwrap().contains("is invalid"));
    let accepted = socket::ask(&daemon.socket, "POST", "/sync", b"").with(202).json();
    assert_eq!(accepted, json!({"job": 1, "waits_until": null}));
    let (ended, before) = lines.finished(&json!(1));
    assert_eq!(before[0], json!({"event": "queued", "job": 1, "work": "sync"}));
    assert_eq!(before[1], json!({"event": "started", "job": 1, "work": "sync", "trigger": "manual"}));
    let of = |event: &str, resource: &str, work: &str| {
        before
            .iter()
            .find(|line| {
                line["event"] == event && line["resource"] == resource && (work.is_empty() || line["work"] == work)
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

    let verified = daemon.job("/verify", &json!({"full": true}));
    assert_eq!(verified["exit"], 0, "findings are not an error of the job");
    assert_eq!(verified["found"].as_array().unwrap().len(), 2, "{verified}");
    assert_eq!(verified["found"][0][0], "contact");
    daemon.stop();
    assert!(lines.until(|event| event["event"] == "stopping").0.is_object());
    assert_eq!(lines.next(), None, "the stream ends with the daemon");
}

#[test]
fn equal_jobs_are_merged_and_others_run_in_order() {
    let fixture = DaemonFixture::with(120, 4);
    let daemon = fixture.start();
    let mut events = daemon.events();
    let job = |path: &str| daemon.post(path, &json!({})).with(202).json()["job"].as_u64().unwrap();
    let first = job("/sync");
    let (second, third, again) = (job("/resync"), job("/verify"), job("/resync"));
    assert_eq!(second, again, "a waiting job is not queued twice");
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
        fixture.column("SELECT \"trigger\" || ' ' || outcome FROM sync_runs"),
        ["manual done", "manual done", "manual done"]
    );
    fixture.assert_exact();
}
