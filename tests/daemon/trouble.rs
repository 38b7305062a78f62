//! Failures as the program reports them, and holds in real time.

use std::time::Duration;

use crm_mirror::model::Resource;
use crm_mirror::sandbox::{Fault, Rule};
use serde_json::{Value, json};

use crate::fixture::{DaemonFixture, verb};
use crate::socket;

#[test]
fn failing_runs_are_reported_with_reason_and_recovery() {
    let fixture = DaemonFixture::with(20, 2).set("CRM_MIRROR_WRITE_BACK__ENABLED", "true");
    let daemon = fixture.start();
    daemon.sync();
    fixture.service.sandbox.faults().add(Rule::new(Fault::Status(400)).forever());
    for runs in 1..=2 {
        let ended = daemon.job("/sync", &json!({}));
        assert_eq!((&ended["exit"], &ended["summary"]), (&json!(69), &Value::Null));
        assert!(ended["error"].as_str().unwrap().contains("400"), "{ended}");
        let status = daemon.status();
        let trouble = &status["daemon"]["trouble"];
        assert_eq!((&trouble["runs"], &status["trouble"]["runs"]), (&json!(runs), &json!(runs)));
        assert_eq!(trouble["why"], ended["error"]);
        assert!(trouble["since"].as_str() < trouble["next_try"].as_str());
    }
    let text = verb(&fixture, "status").done().out;
    assert!(text.contains("\nfailing: 2 runs in a row, the first ") && text.contains(": could not"), "{text}");
    assert!(text.contains("\nnext     Runs have failed since ") && text.contains("next attempt at "), "{text}");
    let why = text.lines().find(|line| line.starts_with("trouble  could not ")).expect(&text);
    assert!(why.chars().count() <= 80, "{why}");
    let metrics = daemon.get("/metrics").body;
    assert!(metrics.contains("\ncrm_mirror_failing_runs{workspace=\"default\"} 2\n"), "{metrics}");
    // During a pause there is no next attempt.
    daemon.post("/pause", &json!({})).with(200);
    let (paused, _) = daemon.until_notified("STATUS=The schedule has been paused");
    assert!(!paused.contains("next attempt"), "{paused}");
    daemon.post("/resume", &json!({})).with(200);
    // The mirror remains readable.
    assert_eq!(fixture.place.ask("SELECT count(*) FROM contacts_full"), "20");
    // A run that asked for nothing has not succeeded.
    assert_eq!(daemon.job("/push", &json!({}))["exit"], 0);
    fixture.service.sandbox.faults().clear();
    daemon.sync();
    let status = daemon.status();
    assert_eq!((&status["trouble"], &status["daemon"]["trouble"]), (&Value::Null, &Value::Null));
    let log = daemon.stop();
    // A failure is one event: what, why and what helps.
    let events: Vec<&str> = log.lines().filter(|line| line.contains(" WARN ") || line.contains("ERROR")).collect();
    assert_eq!(events.len(), 2, "{log}");
    assert!(events.iter().all(|line| line.contains("(manual): failed after ") && line.contains("400")), "{log}");
}

/// One list fails for ever, which nobody can do anything about but once.
#[test]
fn failure_that_is_not_repeated_is_no_second_warning() {
    let fixture = DaemonFixture::with(20, 2);
    let daemon = fixture.start();
    daemon.sync();
    fixture.service.sandbox.faults().add(Rule::new(Fault::Status(400)).on(Resource::Companies).forever());
    assert_eq!(daemon.job("/sync", &json!({}))["exit"], 69);
    let log = daemon.stop();
    let events: Vec<&str> = log.lines().filter(|line| line.contains(" WARN ") || line.contains("ERROR")).collect();
    assert_eq!(events.len(), 1, "{log}");
}

#[test]
fn run_that_waits_for_a_hold_goes_on_once_a_person_ends_it() {
    let fixture = DaemonFixture::with(60, 4);
    let daemon = fixture.start();
    let held = Fault::Wait { status: 429, body: Some(55), header: None };
    fixture.service.sandbox.faults().add(Rule::new(held).records().after(25));
    let mut events = daemon.events();
    let job = daemon.post("/sync", &json!({})).with(202).json()["job"].clone();
    events.until(|event| event["event"] == "holding");
    let ended_at = std::time::Instant::now();
    daemon.post("/hold/clear", &json!({})).with(200);
    assert_eq!(events.finished(&job).0["exit"], 0);
    assert!(ended_at.elapsed() < Duration::from_secs(40), "{:?}", ended_at.elapsed());
    daemon.stop();
    fixture.assert_exact();
}

#[test]
fn manual_jobs_send_nothing_during_a_hold() {
    let fixture = DaemonFixture::with(60, 4);
    let daemon = fixture.start();
    let held = Fault::Wait { status: 429, body: Some(7), header: None };
    fixture.service.sandbox.faults().add(Rule::new(held).records().after(25));
    let mut events = daemon.events();
    daemon.post("/sync", &json!({})).with(202);
    events.until(|event| event["event"] == "holding");
    // The hold applies at once and is in the file a moment later.
    socket::until("the hold is reported", || daemon.status()["hold_until"].is_string().then_some(()));
    let last = daemon.post("/verify", &json!({})).with(202).json()["job"].clone();
    daemon.post("/push", &json!({})).with(409);
    let (ended, _) = events.finished(&last);
    assert_eq!(ended["exit"], 0, "{ended}");
    let log = fixture.service.sandbox.log();
    let refused = log.entries().iter().find(|entry| entry.status == Some(429)).unwrap().at;
    let over = refused.plus(Duration::from_secs(7));
    // Requests in flight when the hold came may be answered after it.
    let between: Vec<_> = log
        .entries()
        .iter()
        .filter(|entry| entry.at > refused.plus(Duration::from_millis(500)) && entry.at < over)
        .collect();
    assert!(between.is_empty(), "{between:?}");
    assert!(log.entries().iter().any(|entry| entry.at >= over));
    assert_eq!(daemon.status()["hold_until"], Value::Null);
    daemon.stop();
    fixture.assert_exact();
}
