//! Edits while the daemon runs: however they are made, the service receives each within seconds, exactly once.

use std::process::Command;

use crm_mirror::model::{DataType, Object};
use crm_mirror::sandbox::{Fault, NewField, Rule, generate};
use serde_json::{Value, json};

use crate::fixture::{Daemon, DaemonFixture, verb};
use crate::inside::Inside;
use crate::socket::until;
use crate::support::{noon, shell};

/// A daemon with write-back enabled and a complete copy. Only edits cause requests.
fn editing() -> (DaemonFixture, Daemon, String) {
    let fixture = DaemonFixture::with(30, 5).set("CRM_MIRROR_WRITE_BACK__ENABLED", "true");
    let daemon = fixture.start();
    daemon.sync();
    let id = fixture.column("SELECT id FROM contacts ORDER BY id LIMIT 1").remove(0);
    fixture.service.sandbox.clear_log();
    (fixture, daemon, id)
}

/// The updates sent to the service.
fn patches(fixture: &DaemonFixture) -> usize {
    fixture.service.sandbox.log().patches(Object::Contact)
}

#[track_caller]
fn until_applied(fixture: &DaemonFixture, edits: usize) {
    until("every edit is applied", || {
        let states = fixture.column("SELECT state FROM outbox");
        (states.len() == edits && states.iter().all(|state| state == "applied")).then_some(())
    });
}

fn there(fixture: &DaemonFixture, id: &str, field: &str) -> Value {
    let sandbox = &fixture.service.sandbox;
    let detail = sandbox.with_world(|world| world.detail_json(Object::Contact, id));
    detail.unwrap()[field].clone()
}

#[test]
fn update_in_a_stock_shell_reaches_the_service_within_seconds() {
    if !shell::is_there() {
        return;
    }
    let (fixture, daemon, id) = editing();
    let change = format!("UPDATE contacts_full SET position = 'CTO' WHERE id = '{id}'");
    shell::write(&fixture.place.path("mirror.db"), &change).unwrap();
    until_applied(&fixture, 1);
    assert_eq!(there(&fixture, &id, "position"), json!("CTO"));
    assert_eq!((patches(&fixture), fixture.requests()), (1, 1), "one update, and nothing else");
    let here = fixture.column(&format!("SELECT position FROM contacts WHERE id = '{id}'"));
    assert_eq!(here, ["CTO"], "the answer is in the mirror at once");
    daemon.stop();
}

#[test]
fn edits_made_while_the_daemon_was_stopped_are_sent_once_after_its_start() {
    let (fixture, daemon, id) = editing();
    daemon.stop();
    assert_eq!(
        fixture.place.run(&format!("edit contact {id} position=COO")).done().err,
        "`crm-mirror push` sends what waits at once; `crm-mirror outbox show 1` shows what becomes of it\n"
    );
    let daemon = fixture.start();
    until_applied(&fixture, 1);
    assert_eq!((patches(&fixture), there(&fixture, &id, "position")), (1, json!("COO")));
    daemon.stop();

    let runs = fixture.column("SELECT count(*) FROM sync_runs WHERE kind = 'push'");
    let daemon = fixture.start();
    daemon.sync();
    daemon.stop();
    assert_eq!(patches(&fixture), 1);
    let after = fixture.column("SELECT count(*) FROM sync_runs WHERE kind = 'push'");
    assert_eq!(runs, after, "an applied edit starts no run");
}

/// The contents of a file, written over those of another one.
fn write_over(from: &str, to: &str, fixture: &DaemonFixture) {
    let [from, mut to] = [from, to].map(|name| rusqlite::Connection::open(fixture.place.path(name)).unwrap());
    let copying = rusqlite::backup::Backup::new(&from, &mut to).unwrap();
    assert_eq!(copying.step(-1).unwrap(), rusqlite::backup::StepResult::Done);
}

/// No edit that people make raises what tells older contents from the last ones.
#[test]
fn older_contents_are_a_copy_although_they_were_edited_since() {
    let (fixture, daemon, id) = editing();
    daemon.post("/pause", &json!({})).with(200);
    fixture.edit(&id, "CFO");
    write_over("mirror.db", "older.db", &fixture);
    daemon.post("/resume", &json!({})).with(200);
    until_applied(&fixture, 1);
    daemon.stop();
    let set_back = json!({"position": "Set back"});
    fixture.service.sandbox.with_world(|world| world.edit(Object::Contact, &id, &set_back));
    write_over("older.db", "mirror.db", &fixture);
    for other in fixture.column(&format!("SELECT id FROM contacts WHERE id <> '{id}' LIMIT 3")) {
        fixture.place.run(&format!("edit contact {other} position=COO")).done();
    }
    let daemon = fixture.start();
    daemon.post("/resume", &json!({})).with(200);
    daemon.sync();
    assert_eq!(fixture.column("SELECT state FROM outbox"), ["held"; 4]);
    assert_eq!((patches(&fixture), there(&fixture, &id, "position")), (1, json!("Set back")));
    daemon.stop();
}

/// Contents from before a run that sent nothing are recognised by what has no numbers: followers of the lost changes.
#[test]
fn contents_from_before_the_last_run_are_a_copy() {
    let (fixture, daemon, id) = editing();
    let cursor = || {
        let stream = fixture.place.run("export --snapshot").done().out;
        serde_json::from_str::<Value>(stream.lines().last().unwrap()).unwrap()["cursor"].as_str().unwrap().to_string()
    };
    let name = |name: &str| {
        fixture.service.sandbox.with_world(|world| world.edit(Object::Contact, &id, &json!({ "name": name })));
        daemon_sync(&fixture);
    };
    let mirror_id = || fixture.column("SELECT value FROM state WHERE name = 'mirror_id'");
    write_over("mirror.db", "older.db", &fixture);
    name("lost");
    let (seen, before) = (cursor(), mirror_id());
    daemon.stop();
    // As by `cp`: another program's lock on the file does not matter.
    std::fs::copy(fixture.place.path("older.db"), fixture.place.path("mirror.db")).unwrap();
    let daemon = fixture.start();
    name("other");
    let refused = fixture.place.run(&format!("export --snapshot --since {seen}")).code(74).err;
    assert!(refused.contains("cannot be continued"), "{refused}");
    assert_ne!(mirror_id(), before);
    let log = daemon.stop();
    assert!(log.contains("is a copy of a mirror"), "{log}");
}

fn daemon_sync(fixture: &DaemonFixture) {
    fixture.place.run("sync").done();
}

/// `.restore` into the file that the daemon has open.
#[test]
fn older_contents_written_under_the_daemon_are_a_copy() {
    let (fixture, daemon, id) = editing();
    daemon.post("/pause", &json!({})).with(200);
    fixture.edit(&id, "CFO");
    write_over("mirror.db", "older.db", &fixture);
    daemon.post("/resume", &json!({})).with(200);
    until_applied(&fixture, 1);
    fixture.service.sandbox.with_world(|world| {
        world.fields().define(NewField::new(Object::Contact, "zip", DataType::ShortText));
        world.edit(Object::Contact, &id, &json!({"position": "Set back", "customFields": {"zip": "1000"}}));
    });
    fixture.place.run("sync custom-fields").done();
    daemon.sync();
    write_over("older.db", "mirror.db", &fixture);
    daemon.sync();
    daemon.post("/resume", &json!({})).with(200);
    fixture.place.run("sync custom-fields").done();
    daemon.sync();
    assert_eq!(fixture.column("SELECT state FROM outbox"), ["held"]);
    assert_eq!((patches(&fixture), there(&fixture, &id, "position")), (1, json!("Set back")));
    fixture.assert_consistent();
    fixture.assert_exact();
    let log = daemon.stop();
    assert!(log.contains("by other contents") && log.contains("is a copy of a mirror"), "{log}");
}

/// A kill leaves what people wrote last in the WAL: with its file, however that is copied, and with no other one.
#[test]
fn wal_of_a_killed_daemon_stays_with_its_file() {
    let (fixture, daemon, id) = editing();
    let path = |name: &str| fixture.place.path(name);
    fixture.place.run("backup backup.db").done();
    daemon.post("/pause", &json!({})).with(200);
    fixture.edit(&id, "CFO");
    daemon.kill();
    assert!(path("mirror.db-wal").metadata().unwrap().len() > 0);
    let elsewhere = tempfile::tempdir().unwrap();
    let copied = elsewhere.path().join("copied");
    let ended = Command::new("cp").arg("-a").args([&path(""), &copied]).status();
    assert!(ended.is_ok_and(|status| status.success()));
    let edits = "SELECT count(*) FROM outbox";
    std::fs::rename(path("mirror.db"), path("old.db")).unwrap();
    std::fs::copy(path("backup.db"), path("mirror.db")).unwrap();
    let _ = std::fs::remove_file(path("mirror.db-shm"));
    // A reader sees none of it, and leaves it.
    assert_eq!((fixture.place.ask(edits).as_str(), path("mirror.db-wal").exists()), ("0", true));
    fixture.place.run("sync").done();
    fixture.assert_consistent();
    fixture.place.run("verify --full").done();
    assert_eq!(fixture.column(edits), ["0"]);
    // The file that was moved away gets it back, and the copy of the folder has its own.
    std::fs::rename(path("mirror.db-wal.left"), path("old.db-wal")).unwrap();
    for file in [path("old.db"), copied.join("mirror.db")] {
        let found = rusqlite::Connection::open(&file).unwrap();
        assert_eq!(found.query_row(edits, [], |row| row.get::<_, i64>(0)).unwrap(), 1, "{file:?}");
    }
}

#[test]
fn without_write_back_no_edit_is_accepted() {
    let fixture = DaemonFixture::with(5, 1);
    let daemon = fixture.start();
    daemon.sync();
    let id = fixture.column("SELECT id FROM contacts LIMIT 1").remove(0);
    verb(&fixture, &format!("edit contact {id} position=x")).code(78);
    let refused = daemon.post("/push", &json!({})).with(409).json();
    assert!(refused["hint"].to_string().contains("write_back.enabled"), "{refused}");
    assert_eq!(fixture.column("SELECT count(*) FROM outbox"), ["0"]);
    daemon.stop();
}

/// No waiting ends it, and users who only read keep their files.
#[test]
fn unfinished_edit_of_a_field_that_is_excluded_ends_the_daemon_at_its_start() {
    let (fixture, daemon, id) = editing();
    daemon.stop();
    fixture.edit(&id, "CFO");
    let mut command = fixture.place.command(&["daemon"]);
    command.env("CRM_MIRROR_SYNC__EXCLUDE", "position");
    let mut daemon = fixture.spawn_command(command);
    assert_eq!(daemon.end(), Some(78), "{}", daemon.log());
    assert!(daemon.log().contains("edit 1") && daemon.log().contains("outbox drop"), "{}", daemon.log());
    assert!(["-wal", "-shm"].iter().all(|file| fixture.place.path(&format!("mirror.db{file}")).exists()));
}

#[test]
fn failed_edit_is_retried_without_a_schedule() {
    let inside = Inside::start(generate(3, 5, 1, noon()), &[("WRITE_BACK__ENABLED", "true")]);
    inside.job("/sync");
    let crm = &inside.crm;
    crm.sandbox.faults().add(Rule::new(Fault::Status(503)).method("PATCH").forever());
    crm.sandbox.clear_log();
    let conn = rusqlite::Connection::open(&inside.mirror.path).unwrap();
    let change = "UPDATE contacts_full SET position = 'Keeper' WHERE id = (SELECT min(id) FROM contacts)";
    conn.execute_batch(change).unwrap();
    let is = |state: &str| {
        until(state, || (inside.mirror.count(&format!("outbox WHERE state = '{state}'")) == 1).then_some(()));
    };
    is("sending");
    until("the end of the run", || inside.status()["daemon"]["running"].is_null().then_some(()));
    crm.sandbox.faults().clear();
    // No requests, only the passage of time.
    crm.wait(3_600);
    is("applied");
    assert_eq!(inside.mirror.count("sync_runs WHERE kind = 'push' AND \"trigger\" <> 'schedule'"), 0);
}

#[test]
fn edit_waits_for_the_end_of_a_pause_unless_pushed() {
    let (fixture, daemon, id) = editing();
    daemon.post("/pause", &json!({})).with(200);
    fixture.edit(&id, "CFO");
    let ended = daemon.job("/push", &json!({}));
    assert_eq!((&ended["exit"], patches(&fixture)), (&json!(0), 1), "asked for, it is sent");
    verb(&fixture, &format!("edit contact {id} position=CTO")).done();
    daemon.sync();
    assert_eq!(
        (patches(&fixture), fixture.column("SELECT state FROM outbox WHERE id = 2")),
        (1, vec!["queued".into()])
    );
    daemon.post("/resume", &json!({})).with(200);
    until_applied(&fixture, 2);
    daemon.stop();
}
