//! The documented shape of `status`: the same from the socket and the command line, with and without a daemon.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::fixture::{DaemonFixture, verb};
use crate::socket;

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn words(text: &str) -> BTreeSet<&str> {
    text.split_whitespace().collect()
}

#[test]
fn status_document_is_the_same_from_every_source() {
    let fixture = DaemonFixture::with(60, 4).set("CRM_MIRROR_SYNC__SCHEDULE", "0 0 0 1 1 *");
    let daemon = fixture.start();
    // The first copy is due at once.
    socket::until("the first copy", || {
        let status = daemon.status();
        (status["runs"][0]["outcome"] == "done" && status["daemon"]["running"].is_null()).then_some(())
    });
    let mut from_socket = daemon.status();
    let mut from_verb = verb(&fixture, "status --json").done().json();
    assert!(from_socket["database"].as_str().unwrap().starts_with('/'));
    // Only a process outside the daemon can determine this.
    assert_eq!(from_verb.as_object_mut().unwrap().remove("daemon_state"), Some(json!("running")));
    for document in [&mut from_socket, &mut from_verb] {
        let path = document["database"].take();
        assert!(path.as_str().unwrap().ends_with("mirror.db"), "{path}");
        assert!(document["read_at"].take().is_string());
    }
    assert_eq!(from_socket, from_verb);
    assert_eq!(
        keys(&from_verb),
        words(
            "base_url broken_objects bytes daemon database edits history_since hold_until missing_scopes objects \
             oddities paused_since read_at ru running runs trouble up_to_date wal_bytes"
        )
    );
    assert_eq!(
        keys(&from_verb["daemon"]),
        words("hold next paused_since pid reload_failed running since time_zone trouble version waiting waiting_for")
    );
    let next = from_verb["daemon"]["next"].as_array().unwrap();
    let kinds: Vec<&str> = next.iter().map(|next| next["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["changes", "audit", "sweep"]);
    assert_eq!(next[1], json!({"kind": "audit", "at": null}));
    let text = verb(&fixture, "status").done().out;
    let process = format!("daemon   process {}, since ", daemon.child.id());
    assert!(text.contains(&process) && text.contains(": idle\n"), "{text}");
    assert!(text.contains("\nnext     changes in "), "{text}");
    daemon.stop();

    let mut alone = verb(&fixture, "status --json").done().json();
    alone.as_object_mut().unwrap().remove("daemon_state");
    assert_eq!(alone["daemon"], Value::Null);
    alone["daemon"] = from_verb["daemon"].take();
    alone["database"] = Value::Null;
    alone["read_at"] = Value::Null;
    // Closing the file empties its WAL.
    for of in ["bytes", "wal_bytes"] {
        alone[of] = Value::Null;
        from_verb[of] = Value::Null;
    }
    alone["daemon"] = Value::Null;
    assert_eq!(alone, from_verb);
    assert!(verb(&fixture, "status").done().out.contains("\ndaemon   not running"));
}

#[test]
fn running_and_queued_jobs_are_shown() {
    let fixture = DaemonFixture::with(300, 4);
    let (reached, at_gate) = std::sync::mpsc::channel();
    let (open, opened) = std::sync::mpsc::channel::<()>();
    let mut first = true;
    fixture.service.sandbox.before_request(move |_, asked| {
        if std::mem::take(&mut first) || asked.param("cursor").is_some() {
            let _ = reached.send(());
            let _ = opened.recv();
        }
    });
    let daemon = fixture.start();
    daemon.post("/sync", &json!({})).with(202);
    daemon.post("/verify", &json!({})).with(202);
    at_gate.recv().unwrap();
    let daemon_status = daemon.status()["daemon"].take();
    assert_eq!(keys(&daemon_status["running"]), words("job since trigger work"));
    assert_eq!((&daemon_status["running"]["job"], &daemon_status["running"]["work"]), (&json!(1), &json!("sync")));
    assert_eq!(daemon_status["waiting"], json!([{"job": 2, "work": "verify", "trigger": "manual", "since": null}]));
    let text = verb(&fixture, "status").done().out;
    assert!(text.contains(": running sync, started "), "{text}");
    drop(open);
    fixture.service.sandbox.clear_hook();
    daemon.stop();
}
