//! An idle daemon does nothing; and its output never contains a secret or personal data.

use std::time::Duration;

use crm_mirror::sandbox::{Fault, SCOPES};
use serde_json::json;

use crate::binary::SECRET;
use crate::fixture::DaemonFixture;

/// The resident memory of a process, in kilobytes.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[test]
fn idle_daemon_sends_and_writes_nothing() {
    let fixture = DaemonFixture::with(200, 10)
        .set("CRM_MIRROR_NOTIFY__WEBHOOK", "http://127.0.0.1:9/")
        .set("CRM_MIRROR_SYNC__SCHEDULE", "0 0 0 1 1 *")
        .set("CRM_MIRROR_SYNC__SWEEP_SCHEDULE", "0 0 0 1 1 *");
    let daemon = fixture.start();
    let mut events = daemon.events();
    // The first copy is due at once.
    daemon.post("/sync", &json!({})).with(202);
    events.until(|event| event["event"] == "finished");
    crate::socket::until("everything is done", || {
        let status = daemon.status();
        (status["daemon"]["running"].is_null() && status["daemon"]["waiting"] == json!([])).then_some(())
    });
    crate::socket::until("the first look of who tells people", || {
        (fixture.column("SELECT count(*) FROM state WHERE name = 'reported'") == ["1"]).then_some(())
    });
    let reader = fixture.conn();
    let version =
        |conn: &rusqlite::Connection| -> i64 { conn.query_row("PRAGMA data_version", [], |row| row.get(0)).unwrap() };
    let written = || {
        let of = |name: &str| {
            let meta = std::fs::metadata(fixture.place.path(name)).unwrap();
            (meta.len(), meta.modified().unwrap())
        };
        ["mirror.db", "mirror.db-wal", "mirror.db.lock"].map(of)
    };
    let read = || {
        let io = std::fs::read_to_string(format!("/proc/{}/io", daemon.child.id())).unwrap();
        io.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse::<u64>().ok()).unwrap()
    };
    let before = (version(&reader), written(), fixture.requests());
    // Who tells people of trouble asks again and again whether anything changed, and reads nothing for it.
    crate::socket::until("three seconds in which little is read", || {
        let so_far = read();
        std::thread::sleep(Duration::from_secs(3));
        (read() - so_far < 20_000).then_some(())
    });
    assert_eq!((version(&reader), written(), fixture.requests()), before);
    println!("resident while idle: {} KiB", resident(daemon.child.id()));
    daemon.stop();
}

#[test]
fn daemon_output_contains_no_secret_and_no_personal_data() {
    let fixture = DaemonFixture::with(60, 5).set("CRM_MIRROR_LOG__LEVEL", "trace");
    let daemon = fixture.start();
    let output = std::cell::RefCell::new(Vec::new());
    let mut events = daemon.events();
    let mut job = |path: &str, body: &serde_json::Value| {
        let job = daemon.post(path, body).with(202).json()["job"].clone();
        let (ended, before) = events.finished(&job);
        output.borrow_mut().extend(before.iter().chain([&ended]).map(ToString::to_string));
        ended
    };
    job("/sync", &json!({}));
    let faults = fixture.service.sandbox.faults();
    fixture.service.sandbox.revoke_key(SECRET);
    assert_eq!(job("/sync", &json!({}))["exit"], 77);
    fixture.service.sandbox.set_key(SECRET, &SCOPES);
    for fault in [Fault::Status(400), Fault::Status(500), Fault::Truncated, Fault::StatusAfterApply(200), Fault::Reset]
    {
        faults.next(fault);
        job("/sync", &json!({}));
    }
    faults.next(Fault::RepeatedPage);
    job("/resync", &json!({}));
    fixture.service.sandbox.with_world(|world| {
        let ids = world.ids(crm_mirror::model::Resource::Contacts);
        world.remove(crm_mirror::model::Object::Contact, &ids[0]);
        world.edit_silently(crm_mirror::model::Object::Contact, &ids[1], &json!({ "name": "Somebody Unheard Of" }));
    });
    let found = job("/verify", &json!({"full": true}));
    assert!(found.to_string().contains("Somebody Unheard Of"), "the caller of a verification sees the differences");
    output.borrow_mut().pop();
    job("/resync", &json!({}));
    let mut output = output.into_inner();
    output.extend([daemon.status().to_string(), daemon.get("/metrics").body]);
    let private = fixture.column(
        "SELECT name FROM contacts_full WHERE length(name) > 6 UNION SELECT email FROM contacts_full WHERE email IS NOT NULL
         UNION SELECT name FROM companies_full WHERE length(name) > 6 UNION SELECT email FROM team_members WHERE email IS NOT NULL
         UNION SELECT substr(notes, 1, 25) FROM contacts_full WHERE length(notes) > 25",
    );
    assert!(private.len() > 100);
    output.push(daemon.stop());
    for text in &output {
        assert!(!text.contains(SECRET));
        for word in &private {
            assert!(!text.contains(word.as_str()), "`{word}` is in\n{}", &text[..text.len().min(4_000)]);
        }
    }
    assert!(output.last().unwrap().contains("DEBUG"), "the log is at the most verbose level");
}
