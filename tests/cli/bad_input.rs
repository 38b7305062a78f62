//! Every error is one sentence with a hint, has its exit code, and writes nothing.

use std::process::Stdio;

use crm_mirror::model::Resource;
use crm_mirror::sandbox::SCOPES;
use crm_mirror::store::Store;
use rusqlite::Connection;
use serde_json::json;

use crate::binary::{Ended, SECRET, Service, TestDir};

/// Asserts that the command fails and writes nothing.
#[track_caller]
fn refused(place: &TestDir, line: &str, code: i32, parts: &[&str]) {
    let before = place.files();
    let ended = place.run(line).code(code);
    assert_eq!(place.files(), before, "{line} wrote something");
    sentence(&ended, parts);
}

#[track_caller]
fn sentence(ended: &Ended, parts: &[&str]) {
    assert!(ended.out.is_empty(), "{}", ended.out);
    // A failed run logs its line before the error.
    let printed: Vec<&str> =
        ended.err.lines().filter(|line| !line.contains(" INFO ") && !line.contains(" WARN ")).collect();
    assert!(printed[0].starts_with("error: "), "{}", ended.err);
    assert!(printed.len() <= 2, "{}", ended.err);
    for part in parts {
        assert!(ended.err.contains(part), "{part}: {}", ended.err);
    }
}

fn configured() -> TestDir {
    TestDir::empty().set("CRM_MIRROR_API__BASE_URL", "http://127.0.0.1:9/v1").set("CRM_MIRROR_API__KEY", SECRET)
}

#[test]
fn invalid_configuration_exits_with_78() {
    let url = "CRM_MIRROR_API__BASE_URL";
    for (place, parts) in [
        (configured().unset("CRM_MIRROR_API__KEY"), &["no API key", "hint: "][..]),
        (configured().unset(url), &["`api.base_url` is not set", "hint: `crm-mirror init --base-url URL`"]),
        (configured().set(url, "http://127.0.0.1:9/v2"), &["must end in the version segment /v1"]),
        (configured().set(url, "http://crm.example.com/v1"), &["use https"]),
        (configured().set(url, "crm.example.com"), &["not an absolute URL"]),
        (configured().set("CRM_MIRROR_SYNC__OVERLAPP", "1s"), &["overlapp", "hint: "]),
        (configured().set("CRM_MIRROR_SYNC__SCHEDULE", "often"), &["`sync.schedule`", "cron"]),
        (
            configured().set("CRM_MIRROR_API__KEY_FILE", "/none/key").unset("CRM_MIRROR_API__KEY"),
            &["/none/key", "hint: "],
        ),
    ] {
        for verb in ["sync", "resync"] {
            refused(&place, verb, 78, parts);
        }
    }
}

#[test]
fn invalid_configuration_file_exits_with_78_and_is_named() {
    let place = configured();
    for (text, parts) in [
        ("[sync]\nschedul = \"0 0 * * * *\"\n", &["unknown key `sync.schedul`", "c.toml"][..]),
        ("[sync]\nschedule = \"*/5 * * *\"\n", &["`sync.schedule` in ", "c.toml", "cron"]),
        ("[log]\nlevel = \"warning\"\n", &["`log.level` in ", "c.toml", "must be error, warn"]),
        ("[api\n", &["c.toml is not TOML"]),
        (&format!("[api]\nkey = \"{SECRET}\"\n"), &["`api.key` in ", "is a secret", "hint: "]),
    ] {
        std::fs::write(place.path("c.toml"), text).unwrap();
        refused(&place, "sync --config c.toml", 78, parts);
    }
    refused(&place, "sync --config none.toml", 78, &["none.toml", "crm-mirror init"]);
}

#[test]
fn invalid_arguments_exit_with_2() {
    let place = configured();
    place.run("sync deals").code(2);
    place.run("resync --accept").code(2);
    place.run("sandbox --fault latency:soon").code(2);
    let limited = configured().set("CRM_MIRROR_SYNC__OBJECTS", "contacts");
    for verb in ["sync", "resync", "verify"] {
        refused(&limited, &format!("{verb} companies"), 2, &["`companies` is not among `sync.objects`"]);
    }
}

#[test]
fn file_that_is_not_a_mirror_exits_with_74_and_is_not_changed() {
    let place = configured();
    std::fs::write(place.path("notes.txt"), "these are notes, and notes they stay".repeat(40)).unwrap();
    let other = Connection::open(place.path("other.db")).unwrap();
    other.execute_batch("CREATE TABLE t (x)").unwrap();
    drop(other);
    mirror_of_version(&place, "newer.db", 999);
    mirror_of_version(&place, "unversioned.db", 0);
    for (path, parts) in [
        ("notes.txt", &["notes.txt is not a mirror: it is not an SQLite file", "hint: "][..]),
        ("other.db", &["other.db is not a mirror: it is a database of something else", "hint: "]),
        ("newer.db", &["has schema 999", "hint: "]),
        ("unversioned.db", &["unversioned.db is not a mirror: its schema has no version", "hint: "]),
        (".", &["is not a mirror: it is not a file"]),
        ("none/mirror.db", &["none/mirror.db", "hint: check that its folder exists"]),
        ("notes.txt/mirror.db", &["notes.txt/mirror.db", "hint: "]),
    ] {
        let place_with = ["sync", "resync"];
        for verb in place_with {
            let before = place.files();
            let mut command = place.command(&[verb]);
            command.env("CRM_MIRROR_DATABASE__PATH", path);
            let ended = Ended::from(command.output().unwrap()).code(74);
            assert_eq!(place.files(), before, "{path}");
            sentence(&ended, parts);
        }
    }
}

fn mirror_of_version(place: &TestDir, name: &str, version: u32) {
    let path = place.path(name);
    drop(crm_mirror::store::open::create(&path).unwrap());
    let conn = Connection::open(&path).unwrap();
    conn.pragma_update(None, "journal_mode", "delete").unwrap();
    conn.pragma_update(None, "user_version", version).unwrap();
}

#[test]
fn second_writer_exits_with_74_and_names_the_first() {
    let place = configured();
    let store = Store::open(&place.path("mirror.db")).unwrap();
    let ended = place.run("sync").code(74);
    let pid = format!("process {}", std::process::id());
    sentence(&ended, &["another crm-mirror", &pid, "hint: "]);
    drop(store);
}

#[test]
fn unreachable_service_exits_with_69() {
    let service = Service::with(0, 0);
    let elsewhere = service.base_url.replace("/v1", "/elsewhere/v1");
    let place = TestDir::of(&service).set("CRM_MIRROR_API__BASE_URL", &elsewhere);
    sentence(&place.run("sync").code(69), &["the service answered 404"]);
    // A port that was free just before.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let place = configured().set("CRM_MIRROR_API__BASE_URL", &format!("http://127.0.0.1:{port}/v1"));
    sentence(&place.run("sync").code(69), &["could not reach the service", "hint: check `api.base_url`"]);
    assert_eq!(place.ask("SELECT count(*) FROM contacts"), "0");
}

#[test]
fn refused_key_exits_with_77_after_one_request() {
    let service = Service::with(30, 3);
    let place = TestDir::of(&service).set("CRM_MIRROR_API__KEY", "crm_other_key");
    sentence(&place.run("sync").code(77), &["401", "hint: "]);
    assert_eq!(service.sandbox.log().len(), 1);
    assert_eq!(place.ask("SELECT outcome FROM sync_runs"), "failed");
    // Revoking a key later removes nothing.
    let place = TestDir::of(&service);
    place.run("sync").done();
    service.sandbox.revoke_key(SECRET);
    place.run("sync").code(77);
    assert_eq!(place.ask("SELECT count(*) FROM contacts"), "30");
}

#[test]
fn missing_scope_is_a_warning_and_no_scope_exits_with_77() {
    let service = Service::with(30, 3);
    let without = |scope: &str| -> Vec<&str> { SCOPES.into_iter().filter(|s| *s != scope).collect() };
    service.sandbox.set_key(SECRET, &without("companies:read"));
    let place = TestDir::of(&service);
    let ended = place.run("sync --json").done();
    assert!(ended.err.contains("warning: companies were skipped: the key lacks `companies:read`"), "{}", ended.err);
    assert_eq!(ended.json()["missing_scopes"][0]["object"], "companies");
    assert_eq!(place.ask("SELECT count(*) FROM contacts"), "30");
    let status = place.run("status").done();
    assert!(status.out.contains("missing: the key lacks `companies:read`"), "{}", status.out);
    // Once fixed, the warning is gone.
    service.sandbox.set_key(SECRET, &SCOPES);
    place.run("sync").done();
    assert_eq!(place.run("status --json").json()["missing_scopes"], json!([]));
    // Also when some lists are not due and are not requested.
    service.sandbox.set_key(SECRET, &[]);
    sentence(&place.run("sync").code(77), &["contacts:read", "hint: "]);
    let fresh = TestDir::of(&service);
    sentence(&fresh.run("sync").code(77), &["contacts:read", "team-members:read"]);
}

/// Whatever the schedule of the list says.
#[test]
fn list_that_was_refused_is_read_by_the_next_run_of_a_person() {
    let service = Service::with(5, 1);
    let place = TestDir::of(&service);
    place.run("sync").done();
    for (list, resource) in [("team-members", Resource::TeamMembers), ("custom-fields", Resource::CustomFields)] {
        let scope = format!("{list}:read");
        let without: Vec<&str> = SCOPES.into_iter().filter(|known| *known != scope).collect();
        service.sandbox.set_key(SECRET, &without);
        place.run("resync").done();
        let missing = place.run("status --json").json()["missing_scopes"].clone();
        assert_eq!((&missing[0]["object"], &missing[0]["scope"]), (&json!(list), &json!(scope)));
        service.sandbox.set_key(SECRET, &SCOPES);
        place.run("sync").done();
        assert_eq!(place.run("status --json").json()["missing_scopes"], json!([]), "{list}");
        // Once it is read, its schedule holds again.
        service.sandbox.clear_log();
        place.run("sync").done();
        assert_eq!(service.sandbox.log().lists(resource), 0);
    }
}

/// Each verb waits for as long as SQLite does, so they wait side by side.
#[test]
fn lock_of_a_shell_suspends_whatever_writes() {
    let service = Service::with(5, 1);
    let contact = service.sandbox.world().ids(Resource::Contacts)[0].to_string();
    let edit = format!("edit contact {contact} position=Chief");
    let begun = ["sync", "verify", "push", "resume --now", &edit].map(|line| {
        let place = TestDir::of(&service).set("CRM_MIRROR_WRITE_BACK__ENABLED", "true");
        place.run("sync").done();
        let shell = Connection::open(place.path("mirror.db")).unwrap();
        shell.execute_batch("BEGIN IMMEDIATE").unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let child = place.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        (line.to_string(), place, shell, child)
    });
    for (line, _place, _shell, child) in begun {
        let ended = Ended::from(child.wait_with_output().unwrap());
        assert_eq!(ended.code, Some(75), "{line}: {}", ended.err);
        assert!(ended.err.contains("such as a shell with an open transaction"), "{line}: {}", ended.err);
    }
}

#[test]
fn different_workspace_is_not_written_unless_accepted() {
    let (mine, other) = (
        Service::with(60, 5),
        Service::of(crm_mirror::sandbox::generate(
            99,
            60,
            5,
            crm_mirror::model::Instant::system_now().minus(std::time::Duration::from_secs(7777)),
        )),
    );
    let place = TestDir::of(&mine);
    place.run("sync").done();
    let place = place.set("CRM_MIRROR_API__BASE_URL", &other.base_url);
    // One answer may be an outage: only an hour later it is another workspace.
    sentence(&place.run("sync").code(69), &["0 of 50 known records", "--accept-workspace"]);
    assert_eq!(other.sandbox.log().lists(Resource::TeamMembers), 0);
    place.run("sync --accept-workspace").done();
}
