//! Failures in the program's own words, and holds as they pass in real time.

use std::time::Duration;

use crm_mirror::sandbox::{Fault, Rule};
use serde_json::{Value, json};

use crate::scene::{Scene, verb};
use crate::socket;

#[test]
fn since_when_and_why_runs_fail_is_told_and_that_they_succeed_again() {
    let scene = Scene::with(20, 2);
    let daemon = scene.start();
    daemon.sync();
    let succeeded = daemon.status()["last_success"].clone();
    scene.service.sandbox.faults().add(Rule::new(Fault::Status(400)).forever());
    for runs in 1..=2 {
        let ended = daemon.job("/sync", &json!({}));
        assert_eq!((&ended["exit"], &ended["summary"]), (&json!(70), &Value::Null));
        assert!(ended["error"].as_str().unwrap().contains("400"), "{ended}");
        let status = daemon.status();
        let trouble = &status["daemon"]["trouble"];
        assert_eq!((&trouble["runs"], &status["trouble"]["runs"]), (&json!(runs), &json!(runs)));
        assert_eq!(trouble["why"], ended["error"]);
        assert!(trouble["since"].as_str() < trouble["next_try"].as_str());
        assert_eq!(status["last_success"], succeeded);
    }
    let text = verb(&scene, "status").done().out;
    assert!(text.contains("\nfailing  since ") && text.contains("2 runs in a row: could not"), "{text}");
    assert!(text.contains("\nnext     next try "), "{text}");
    assert!(daemon.get("/metrics").body.contains("\ncrm_mirror_failing_runs 2\n"));
    assert!(daemon.get("/metrics").body.contains("crm_mirror_jobs_total{work=\"sync\",exit=\"70\"} 2\n"));
    // It is read as ever.
    assert_eq!(scene.place.ask("SELECT count(*) FROM contacts_full"), "20");
    scene.service.sandbox.faults().clear();
    daemon.sync();
    let status = daemon.status();
    assert_eq!((&status["trouble"], &status["daemon"]["trouble"]), (&Value::Null, &Value::Null));
    let log = daemon.stop();
    for part in ["A run failed: could not", "2 in a row: could not", "Runs succeed again; they had failed since "] {
        assert_eq!(log.matches(part).count(), 1, "{part}\n{log}");
    }
}

#[test]
fn during_a_hold_nothing_is_asked_by_whoever_asks_by_hand_either() {
    let scene = Scene::with(60, 4);
    let daemon = scene.start();
    let held = Fault::TooMany { body: Some(7), header: None };
    scene.service.sandbox.faults().add(Rule::new(held).records().after(25));
    let mut events = daemon.events();
    daemon.post("/sync", &json!({})).with(202);
    let (holding, _) = events.until(|event| event["event"] == "holding");
    // It binds at once, and is in the file a moment later.
    socket::until("the hold is told", || (daemon.status()["hold_until"] == holding["until"]).then_some(()));
    let last = daemon.post("/verify", &json!({})).with(202).json()["job"].clone();
    daemon.post("/push", &json!({})).with(409);
    let (ended, _) = events.finished(&last);
    assert_eq!(ended["exit"], 0, "{ended}");
    let log = scene.service.sandbox.log();
    let refused = log.entries().iter().find(|entry| entry.status == Some(429)).unwrap().at;
    let over = refused.plus(Duration::from_secs(7));
    // Requests that were under way when it came may be answered after it.
    let between: Vec<_> = log
        .entries()
        .iter()
        .filter(|entry| entry.at > refused.plus(Duration::from_millis(500)) && entry.at < over)
        .collect();
    assert!(between.is_empty(), "{between:?}");
    assert!(log.entries().iter().any(|entry| entry.at >= over));
    assert_eq!(daemon.status()["hold_until"], Value::Null);
    daemon.stop();
    scene.assert_exact();
}
