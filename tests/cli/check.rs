//! `check`: the problems that it finds on this machine, the fixes that it suggests, and what it must not change.

use std::os::unix::fs::PermissionsExt;

use crm_mirror::model::Resource;
use serde_json::Value;

use crate::binary::{Ended, SECRET, Service, TestDir};

/// The line with this name.
#[track_caller]
fn line(document: &Value, name: &str) -> Value {
    let checks = document["checks"].as_array().unwrap();
    let found = checks.iter().find(|line| line["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {document:#}")).clone()
}

/// The state of the line with this name, and its text with the fix.
#[track_caller]
fn state(document: &Value, name: &str) -> (String, String) {
    let line = line(document, name);
    let fix = line["fix"].as_str().unwrap_or_default();
    (line["state"].as_str().unwrap().into(), format!("{} | {fix}", line["message"].as_str().unwrap()))
}

/// Asserts the state of the line with this name, and that its text and fix contain all parts.
#[track_caller]
pub fn is(document: &Value, name: &str, expected: &str, parts: &[&str]) {
    let (found, text) = state(document, name);
    assert_eq!(found, expected, "{name}: {text}");
    for part in parts {
        assert!(text.contains(part), "{name} lacks `{part}`: {text}");
    }
}

fn private(place: &TestDir) {
    std::fs::set_permissions(place.path("."), PermissionsExt::from_mode(0o750)).unwrap();
}

fn one_list_each(service: &Service) {
    let log = service.sandbox.log();
    let lists = Resource::ALL.map(|resource| log.lists(resource));
    assert_eq!((log.len(), lists), (4, [1; 4]));
    let row_and_count = |(name, value): (&str, &str)| log.entries().iter().all(|e| e.asked.param(name) == Some(value));
    assert!([("limit", "1"), ("count", "exact")].into_iter().all(row_and_count));
}

#[test]
fn valid_setup_is_ok_and_costs_one_request_per_resource() {
    let service = Service::with(130, 12);
    let place = TestDir::of(&service);
    private(&place);
    place.run("sync").done();
    let before = place.run("status --json").done().json()["ru"]["total"].as_u64().unwrap();
    service.sandbox.clear_log();
    let document = place.run("check --json").done().json();
    assert_eq!(document["verdict"], "ok", "{document:#}");
    one_list_each(&service);
    let after = place.run("status --json").done().json()["ru"]["total"].as_u64().unwrap();
    assert_eq!(after - before, service.sandbox.log().ru().get(), "the ledger has what was charged");
    is(&document, "key.source", "ok", &["CRM_MIRROR_API__KEY"]);
    is(&document, "service.contacts", "ok", &["contacts:read", "130"]);
    is(&document, "mirror.file", "ok", &["mirror.db, "]);
    is(&document, "readers.file", "ok", &["(0640)"]);
    // The cost of the first copy does not count as the cost of a run.
    is(&document, "budget.run", "ok", &["about 2 of 10,000 RU in 1 d"]);

    let text = place.run("check").done().out;
    assert!(text.ends_with("\nverdict: ok\n"), "{text}");
    assert!(text.lines().all(|line| line.len() <= 120), "{text}");
}

#[test]
fn check_without_a_mirror_contacts_the_service_and_creates_nothing() {
    let service = Service::with(130, 12);
    let place = TestDir::of(&service);
    private(&place);
    let before = place.files();
    let document = place.run("check --json").done().json();
    assert_eq!(place.files(), before);
    one_list_each(&service);
    assert_eq!(document["verdict"], "ok", "{document:#}");
    is(&document, "mirror.file", "ok", &["there is no mirror at mirror.db yet"]);
}

#[test]
fn check_and_forecast_create_only_what_readers_need() {
    let service = Service::with(130, 12);
    let place = TestDir::of(&service);
    place.run("sync").done();
    let id = || -> String {
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
        let conn = rusqlite::Connection::open_with_flags(place.path("mirror.db"), flags).unwrap();
        conn.query_row("SELECT value FROM state WHERE name = 'mirror_id'", [], |row| row.get(0)).unwrap()
    };
    let original = id();
    // A mirror that was copied from elsewhere consists of the file alone.
    for beside in ["mirror.db-wal", "mirror.db-shm", "mirror.db.lock"] {
        std::fs::remove_file(place.path(beside)).unwrap();
    }
    let names = |place: &TestDir| place.files().into_keys().collect::<Vec<_>>();
    let total = |place: &TestDir| place.run("status --json").done().json()["ru"]["total"].as_u64().unwrap();
    let needed = |place: &TestDir| ["mirror.db", "mirror.db-shm", "mirror.db-wal"].map(|name| place.path(name));
    service.sandbox.clear_log();
    assert_eq!(names(&place).len(), 1);
    let spent = total(&place);
    place.run("check --offline").done();
    assert_eq!(names(&place), needed(&place));
    assert_eq!(id(), original);
    place.run("check").done();
    let copy = id();
    assert_ne!(copy, original, "from now on it is a mirror of its own");
    for verb in ["check", "sync --dry-run", "resync --dry-run", "status"] {
        place.run(verb).done();
        assert_eq!(id(), copy, "{verb}");
    }
    assert_eq!(total(&place) - spent, service.sandbox.log().ru().get(), "what they cost is in the ledger");
    let before = names(&place);
    assert_eq!(before.len(), 4, "and the lock file, which says that it is no copy any more");
    place.run("sync").done();
    for verb in ["check", "sync --dry-run", "status"] {
        place.run(verb).done();
        assert_eq!(names(&place), before, "{verb}");
    }
    // After a kill and a restart of the machine: a WAL with contents, and no index of it.
    let writer = rusqlite::Connection::open(place.path("mirror.db")).unwrap();
    writer.execute_batch("PRAGMA wal_autocheckpoint = 0; UPDATE state SET value = value").unwrap();
    for verb in ["check --offline", "status", "check", "sync --dry-run"] {
        let killed = TestDir::of(&service);
        for name in ["mirror.db", "mirror.db-wal"] {
            std::fs::copy(place.path(name), killed.path(name)).unwrap();
        }
        killed.run(verb).done();
        let mut unneeded = names(&killed);
        unneeded.retain(|name| !needed(&killed).contains(name) && *name != killed.path("mirror.db.lock"));
        assert!(unneeded.is_empty(), "{verb}: {unneeded:?}");
    }
}

/// Removes the WAL and its index as SQLite's shell does when it is the last to close the mirror.
fn close_by_sqlite(place: &TestDir) {
    for beside in ["mirror.db-wal", "mirror.db-shm"] {
        let _ = std::fs::remove_file(place.path(beside));
    }
}

#[test]
fn readers_are_not_locked_out_by_what_another_program_removed() {
    use std::os::unix::fs::{PermissionsExt, chown};
    use std::os::unix::process::CommandExt;

    let service = Service::with(20, 3);
    let place = TestDir::of(&service);
    place.run("sync").done();
    // From then on the mirror notes which records change, which only its owner can begin.
    place.run("export --snapshot").done();
    let folder = place.path("mirror.db").parent().unwrap().to_path_buf();
    // Only root can be another user, who may read the mirror and write nothing.
    if chown(&folder, Some(4242), Some(4343)).is_err() {
        eprintln!("SKIPPED: only root can try what another user may do");
        return;
    }
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o750)).unwrap();
    for file in place.files().into_keys() {
        chown(&file, Some(4242), Some(4343)).unwrap();
    }
    let reader = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        crate::binary::Ended::from(place.command_as((4444, 4343), &words).output().unwrap())
    };
    let verbs = [
        "status",
        "sql VALUES(1)",
        "describe",
        "describe --format datasette",
        "export --snapshot",
        "outbox list",
        "mcp",
        "show contact nobody",
        "check --offline",
    ];
    for verb in verbs {
        close_by_sqlite(&place);
        let ended = reader(verb);
        let is_locked_out = ended.err.contains("readonly") || ended.err.contains("could not open the mirror");
        assert!(!is_locked_out && !ended.out.contains("could not open"), "{verb}: {}{}", ended.out, ended.err);
        // A check says that this user cannot write, and there is nobody of that name.
        let expected = if verb.starts_with("check") { 74 } else { i32::from(verb.starts_with("show")) * 2 };
        assert_eq!(ended.code, Some(expected), "{verb}: {}", ended.err);
        assert!(!place.path("mirror.db-wal").exists(), "{verb}: this user cannot create it");
    }
    // Any command of the owner, and root's, creates what the others need.
    place.run("status").done();
    assert!(place.path("mirror.db-wal").exists() && place.path("mirror.db-shm").exists());
    if crate::binary::has_sqlite3() {
        let mut shell = std::process::Command::new("sqlite3");
        shell.args(["-readonly", place.path("mirror.db").to_str().unwrap(), "SELECT count(*) FROM contacts"]);
        assert_eq!(shell.uid(4444).gid(4343).output().unwrap().stdout, b"20\n");
    }
}

#[test]
fn check_without_configuration_reports_what_is_missing_and_continues() {
    let place = TestDir::empty();
    let ended = place.run("check --json").code(78);
    let document = ended.json();
    assert_eq!(document["verdict"], "fail");
    is(&document, "config.base_url", "fail", &["is not set", "CRM_MIRROR_API__BASE_URL"]);
    is(&document, "key.source", "fail", &["there is no API key", "`api.key_file`"]);
    is(&document, "service.scopes", "skip", &["an address and a key"]);
    is(&document, "disk.folder", "ok", &[]);
    assert!(place.files().is_empty());

    place.run("init").done();
    let document = place.run("check --json").code(78).json();
    is(&document, "config.settings", "ok", &["from crm-mirror.toml"]);
    is(&document, "config.base_url", "fail", &["is not set"]);

    std::fs::write(place.path("c.toml"), "[sync]\nshedule = \"off\"\n").unwrap();
    let ended = place.run("check --config c.toml").code(78);
    assert!(ended.out.contains("FAIL  config.settings  unknown key `sync.shedule`"), "{}", ended.out);
    assert!(ended.out.contains("fix: "), "{}", ended.out);
}

#[test]
fn key_file_that_others_can_read_is_a_warning_and_the_key_is_never_shown() {
    let service = Service::with(5, 1);
    let place = TestDir::of(&service).unset("CRM_MIRROR_API__KEY").set("CRM_MIRROR_API__KEY_FILE", "key");
    std::fs::write(place.path("key"), SECRET).unwrap();
    std::fs::set_permissions(place.path("key"), PermissionsExt::from_mode(0o644)).unwrap();
    // `Ended` asserts that the key is in no output.
    let document = place.run("check --offline --json").done().json();
    is(&document, "key.source", "ok", &["from key"]);
    is(&document, "key.permissions", "warn", &["(0644)", "chmod g-wx,o= key"]);
    is(&document, "service.scopes", "skip", &["--offline"]);
    assert!(service.sandbox.log().is_empty());
}

#[test]
fn directory_that_cannot_be_written_is_a_failure() {
    let service = Service::with(5, 1);
    let place = TestDir::of(&service).set("CRM_MIRROR_DATABASE__PATH", "gone/mirror.db");
    let document = place.run("check --json").code(74).json();
    is(&document, "disk.folder", "fail", &["No such file or directory", "mkdir -p /", "/gone"]);
    is(&document, "service.contacts", "ok", &[]);
    assert!(place.files().is_empty());
}

#[test]
fn file_that_is_not_a_mirror_is_named_and_not_changed() {
    let service = Service::with(5, 1);
    let place = TestDir::of(&service).set("CRM_MIRROR_DATABASE__PATH", "notes.txt");
    std::fs::write(place.path("notes.txt"), "notes").unwrap();
    let before = place.files();
    let document = place.run("check --json").code(74).json();
    is(&document, "mirror.file", "fail", &["is not a mirror", "`database.path`"]);
    assert_eq!(place.files(), before);
}

#[test]
fn spent_budget_leaves_the_service_unasked() {
    let service = Service::with(230, 5);
    let place = TestDir::of(&service).set("CRM_MIRROR_BUDGET__LIMIT", "100").set("CRM_MIRROR_SYNC__SCHEDULE", "off");
    place.run("sync").code(75);
    let document = place.run("check --json").done().json();
    is(&document, "service.contacts", "skip", &["budget of this window is spent"]);
}

#[test]
fn writable_directory_is_reported() {
    let service = Service::with(5, 1);
    let place = TestDir::of(&service);
    std::fs::set_permissions(place.path("."), PermissionsExt::from_mode(0o770)).unwrap();
    let document = place.run("check --offline --json").done().json();
    is(&document, "readers.folder", "warn", &["(0770)", "chmod go-w /"]);
}

#[test]
fn text_has_one_line_per_finding_with_its_fix_below() {
    let service = Service::with(5, 1);
    let place = TestDir::of(&service);
    std::fs::set_permissions(place.path("."), PermissionsExt::from_mode(0o770)).unwrap();
    let ended: Ended = place.run("check --offline").done();
    let lines: Vec<&str> = ended.out.lines().collect();
    let at = lines.iter().position(|line| line.contains("(0770)")).unwrap();
    assert!(lines[at].starts_with("warn  readers.folder "), "{}", ended.out);
    assert!(lines[at + 1].trim_start().starts_with("fix: chmod go-w /"), "{}", ended.out);
    assert_eq!(*lines.last().unwrap(), "verdict: warn", "{}", ended.out);
}

#[test]
fn secret_in_a_fifo_is_refused_and_a_url_that_everybody_can_write_is_reported() {
    use std::os::unix::fs::PermissionsExt;

    let service = Service::with(3, 1);
    let place = TestDir::of(&service);
    place.run("sync").done();
    let fifo = place.path("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let at = fifo.display().to_string();
    let place = place.unset("CRM_MIRROR_API__KEY").set("CRM_MIRROR_API__KEY_FILE", &at);
    assert!(place.run("sync").code(78).err.contains("it is not a regular file"));
    let place = place.set("CRM_MIRROR_PUBLISH__URL_FILE", &at);
    assert!(place.run("publish").code(78).err.contains("it is not a regular file"));
    let url = place.path("url");
    std::fs::write(&url, "postgres://u:s3cret@localhost/d").unwrap();
    std::fs::set_permissions(&url, PermissionsExt::from_mode(0o666)).unwrap();
    let place = place.set("CRM_MIRROR_PUBLISH__URL_FILE", &url.display().to_string());
    let told = place.run("check --offline").out;
    assert!(told.contains("others can read or change it") && told.contains("chmod g-wx,o="), "{told}");
    std::fs::write(&url, "mysql://u:s3cret@localhost/d").unwrap();
    let document = place.run("check --offline --json").json();
    is(&document, "publish.url", "fail", &["it does not begin with postgres://", "the form is postgres://user"]);
    assert!(!document.to_string().contains("s3cret"), "{document}");
}

#[test]
fn daemon_that_does_not_answer_is_no_internal_error() {
    let place = TestDir::of(&Service::with(1, 1));
    let socket = std::os::unix::net::UnixListener::bind(place.path("mirror.db.sock")).unwrap();
    std::thread::spawn(move || socket.incoming().for_each(drop));
    let ended = place.run("pause");
    assert_eq!(ended.code, Some(69), "{}", ended.err);
    assert!(ended.err.contains("does not answer on its control socket"), "{}", ended.err);
}

#[test]
fn files_beside_the_mirror_are_for_its_owner_and_its_readers_only() {
    let service = Service::with(1, 1);
    let place = TestDir::of(&service).set("CRM_MIRROR_PUBLISH__URL", "postgres://u:p@127.0.0.1:1/d");
    place.run("sync").done();
    place.run("publish").code(69);
    for (name, mode) in [("", 0o640), ("-wal", 0o640), ("-shm", 0o640), (".lock", 0o640), (".publish.lock", 0o600)] {
        let meta = std::fs::metadata(place.path(&format!("mirror.db{name}"))).unwrap();
        assert_eq!(meta.permissions().mode() & 0o777, mode, "{name}");
    }
}
