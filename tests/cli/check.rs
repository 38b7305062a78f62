//! `check`: what it finds wrong, how it says to mend it, what it asks and what it leaves alone.

use std::os::unix::fs::PermissionsExt;

use crm_mirror::model::Resource;
use crm_mirror::sandbox::{Fault, Rule};
use crm_mirror::store::Store;
use serde_json::Value;

use crate::binary::{Ended, Place, SECRET, Service};

/// The line of this name.
#[track_caller]
fn line(document: &Value, name: &str) -> Value {
    let checks = document["checks"].as_array().unwrap();
    let found = checks.iter().find(|line| line["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {document:#}")).clone()
}

/// The line of this name: its state, and what it says with how to mend it.
#[track_caller]
fn state(document: &Value, name: &str) -> (String, String) {
    let line = line(document, name);
    let mend = line["mend"].as_str().unwrap_or_default();
    (
        line["state"].as_str().unwrap().into(),
        format!("{} | {mend}", line["says"].as_str().unwrap()),
    )
}

#[track_caller]
fn is(document: &Value, name: &str, expected: &str, parts: &[&str]) {
    let (found, says) = state(document, name);
    assert_eq!(found, expected, "{name}: {says}");
    for part in parts {
        assert!(says.contains(part), "{name} lacks `{part}`: {says}");
    }
}

/// A place whose PATH holds a `sqlite3` of this version and nothing else.
fn with_shell(place: Place, version: &str) -> Place {
    let bin = place.path("bin");
    std::fs::create_dir(&bin).unwrap();
    let shell = bin.join("sqlite3");
    std::fs::write(&shell, format!("#!/bin/sh\necho '{version} 2026-01-01'\n")).unwrap();
    std::fs::set_permissions(&shell, PermissionsExt::from_mode(0o755)).unwrap();
    let path = bin.to_str().unwrap().to_string();
    place.set("PATH", &path)
}

fn private(place: &Place) {
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
fn a_good_setup_is_ok_and_costs_one_request_a_resource() {
    let service = Service::with(130, 12);
    let place = with_shell(Place::of(&service), "3.54.1");
    private(&place);
    place.run("sync").done();
    let before = place.run("status --json").done().json()["ru"]["total"]
        .as_u64()
        .unwrap();
    service.sandbox.clear_log();
    let document = place.run("check --json").done().json();
    assert_eq!(document["verdict"], "ok", "{document:#}");
    one_list_each(&service);
    let after = place.run("status --json").done().json()["ru"]["total"]
        .as_u64()
        .unwrap();
    assert_eq!(
        after - before,
        service.sandbox.log().ru().get(),
        "the ledger has what was charged"
    );
    is(&document, "key.source", "ok", &["CRM_MIRROR_API__KEY"]);
    is(&document, "service.contacts", "ok", &["contacts:read", "130"]);
    is(&document, "service.cost", "ok", &["4 RU", "in the mirror's ledger"]);
    is(&document, "mirror.file", "ok", &["130 contacts, 12 companies"]);
    is(&document, "mirror.workspace", "ok", &["of this address and key"]);
    is(&document, "readers.file", "ok", &["(0640)"]);
    // 288 runs of 2 RU, and what one first copy cost is not what a run costs.
    is(&document, "budget.needs", "ok", &["of 10,000 RU in 1 d: changes 576"]);

    let text = place.run("check").done().out;
    assert!(text.ends_with("\nverdict: ok\n"), "{text}");
    assert!(text.lines().all(|line| line.len() <= 120), "{text}");
}

#[test]
fn without_a_mirror_everything_is_asked_and_nothing_is_made() {
    let service = Service::with(130, 12);
    let place = with_shell(Place::of(&service), "3.54.1");
    private(&place);
    let before = place.files();
    let document = place.run("check --json").done().json();
    assert_eq!(place.files(), before);
    one_list_each(&service);
    assert_eq!(document["verdict"], "ok", "{document:#}");
    is(&document, "mirror.file", "ok", &["there is no mirror at mirror.db yet"]);
    is(&document, "service.cost", "ok", &["4 RU", "in no ledger"]);
    // 2 pages, 2 counts, 130 details; 1 page, 12 details; 5 for definitions and the team.
    is(
        &document,
        "budget.first-copy",
        "ok",
        &["152 RU, which fits in this window"],
    );
}

#[test]
fn without_configuration_it_says_what_is_missing_and_looks_at_the_rest() {
    let place = Place::empty();
    let ended = place.run("check --json").code(78);
    let document = ended.json();
    assert_eq!(document["verdict"], "fail");
    is(
        &document,
        "config.base_url",
        "fail",
        &["is not set", "CRM_MIRROR_API__BASE_URL"],
    );
    is(
        &document,
        "key.source",
        "fail",
        &["there is no API key", "`api.key_file`"],
    );
    is(&document, "service.scopes", "skip", &["an address and a key"]);
    is(&document, "disk.folder", "ok", &[]);
    is(&document, "schedule.changes", "ok", &["next at 20"]);
    assert!(place.files().is_empty());

    std::fs::write(place.path("c.toml"), "[sync]\nshedule = \"off\"\n").unwrap();
    let ended = place.run("check --config c.toml").code(78);
    assert!(
        ended.out.contains("FAIL  settings  unknown key `sync.shedule`"),
        "{}",
        ended.out
    );
    assert!(ended.out.contains("mend: "), "{}", ended.out);
}

#[test]
fn a_key_file_that_others_can_read_is_a_warning_and_the_key_is_never_shown() {
    let service = Service::with(5, 1);
    let place = Place::of(&service)
        .unset("CRM_MIRROR_API__KEY")
        .set("CRM_MIRROR_API__KEY_FILE", "key");
    std::fs::write(place.path("key"), SECRET).unwrap();
    std::fs::set_permissions(place.path("key"), PermissionsExt::from_mode(0o644)).unwrap();
    // `Ended` makes sure that the key is in no output.
    let document = place.run("check --offline --json").done().json();
    is(&document, "key.source", "ok", &["from key"]);
    is(&document, "key.permissions", "warn", &["(0644)", "chmod 600 key"]);
    is(&document, "service.scopes", "skip", &["--offline"]);
    assert!(service.sandbox.log().is_empty());
}

#[test]
fn a_refused_key_ends_the_asking_and_not_the_looking() {
    let service = Service::with(20, 5);
    let place = Place::of(&service).set("CRM_MIRROR_API__KEY", "crm_wrong");
    let document = place.run("check --json").code(77).json();
    assert_eq!(service.sandbox.log().len(), 1);
    is(&document, "service.contacts", "fail", &["401", "whole"]);
    is(&document, "service.companies", "skip", &[]);
    is(&document, "disk.space", "skip", &["free"]);
    is(&document, "schedule.sweeps", "ok", &[]);
}

#[test]
fn a_missing_scope_is_a_warning_and_no_scope_at_all_a_failure() {
    let service = Service::with(20, 5);
    let key = service
        .sandbox
        .add_key(&["contacts:read", "custom-fields:read", "team-members:read"]);
    let place = Place::of(&service).set("CRM_MIRROR_API__KEY", &key);
    let document = place.run("check --json").done().json();
    assert_eq!(document["verdict"], "warn");
    is(
        &document,
        "service.companies",
        "warn",
        &["the key lacks `companies:read`", "give the key this scope"],
    );
    is(&document, "service.contacts", "ok", &["contacts:read", "20"]);
    let none = service.sandbox.add_key(&[]);
    let place = place.set("CRM_MIRROR_API__KEY", &none);
    let document = place.run("check --json").code(77).json();
    is(
        &document,
        "service.team-members",
        "fail",
        &["lacks `team-members:read`"],
    );
}

#[test]
fn only_what_the_configuration_wants_is_asked_for() {
    let service = Service::with(20, 5);
    let place = Place::of(&service)
        .set("CRM_MIRROR_SYNC__OBJECTS", "companies")
        .set("CRM_MIRROR_WRITE_BACK__ENABLED", "true");
    let document = place.run("check --json").done().json();
    let log = service.sandbox.log();
    assert_eq!(
        (
            log.len(),
            log.lists(Resource::Companies),
            log.lists(Resource::CustomFields)
        ),
        (2, 1, 1)
    );
    is(
        &document,
        "service.write",
        "skip",
        &["companies:write cannot be tried without a write"],
    );
}

#[test]
fn a_service_that_is_down_is_tried_once() {
    let service = Service::with(20, 5);
    let place = Place::of(&service);
    place.run("sync").done();
    service.sandbox.clear_log();
    service.sandbox.faults().add(Rule::new(Fault::Reset).forever());
    let document = place.run("check --json").code(69).json();
    assert_eq!(service.sandbox.log().len(), 1);
    is(
        &document,
        "service.contacts",
        "fail",
        &["could not reach the service", "`api.base_url`"],
    );
    is(&document, "mirror.file", "ok", &["20 contacts"]);
    let nowhere = place.set("CRM_MIRROR_API__BASE_URL", "http://127.0.0.1:1/v1");
    let document = nowhere.run("check --json").code(69).json();
    is(&document, "service.cost", "ok", &["0 RU"]);
}

#[test]
fn a_clock_that_is_off_is_a_warning() {
    let service = Service::with(5, 1);
    let date = Some("Sun, 06 Nov 1994 08:49:37 GMT".to_string());
    service.sandbox.configure(|settings| settings.date_header = date);
    let document = Place::of(&service).run("check --json").done().json();
    is(
        &document,
        "service.clock",
        "warn",
        &["behind this machine's", "timedatectl"],
    );
}

#[test]
fn a_folder_that_cannot_be_written_is_a_failure() {
    let service = Service::with(5, 1);
    let place = Place::of(&service).set("CRM_MIRROR_DATABASE__PATH", "gone/mirror.db");
    let document = place.run("check --json").code(74).json();
    is(
        &document,
        "disk.folder",
        "fail",
        &["does not exist", "mkdir -p /", "/gone"],
    );
    is(&document, "service.contacts", "ok", &[]);
    assert!(place.files().is_empty());
}

#[test]
fn a_file_of_something_else_is_named_and_left_alone() {
    let service = Service::with(5, 1);
    let place = Place::of(&service).set("CRM_MIRROR_DATABASE__PATH", "notes.txt");
    std::fs::write(place.path("notes.txt"), "notes").unwrap();
    let before = place.files();
    let document = place.run("check --json").code(74).json();
    is(
        &document,
        "mirror.file",
        "fail",
        &["is not a mirror", "`database.path`"],
    );
    assert_eq!(place.files(), before);
}

#[test]
fn another_workspaces_mirror_is_a_failure_of_the_configuration() {
    let ours = Service::with(60, 5);
    let place = Place::of(&ours);
    place.run("sync").done();
    let theirs = Service::of(crm_mirror::sandbox::generate(
        8,
        60,
        5,
        crm_mirror::model::Instant::system_now(),
    ));
    let place = place.set("CRM_MIRROR_API__BASE_URL", &theirs.base_url);
    let offline = place.run("check --offline --json").done().json();
    is(&offline, "mirror.workspace", "warn", &["another key or address"]);
    let document = place.run("check --json").code(78).json();
    is(
        &document,
        "mirror.workspace",
        "fail",
        &["another workspace's", "own key"],
    );
    assert_eq!(
        theirs.sandbox.log().len(),
        5,
        "known records are looked up with one more request"
    );
    // It stays whose it was: the next look finds the same.
    place.run("check --json").code(78);
    // Another key of the same workspace is none of that.
    let key = ours.sandbox.add_key(&["contacts:read"]);
    let place = Place::of(&ours)
        .set("CRM_MIRROR_API__KEY", &key)
        .set("CRM_MIRROR_DATABASE__PATH", place.path("mirror.db").to_str().unwrap());
    let document = place.run("check --json").done().json();
    is(&document, "mirror.workspace", "ok", &["the same workspace"]);
}

#[test]
fn during_a_hold_nothing_is_asked() {
    let service = Service::with(20, 5);
    let place = Place::of(&service);
    place.run("sync").done();
    let hold = Fault::TooMany {
        body: Some(3600),
        header: None,
    };
    service.sandbox.faults().add(Rule::new(hold));
    // The first check meets it, and stores it for whoever comes next.
    place.run("check").code(75);
    service.sandbox.clear_log();
    let document = place.run("check --json").code(75).json();
    assert!(service.sandbox.log().is_empty());
    is(&document, "mirror.hold", "fail", &["quiet until 20", "(in "]);
    is(&document, "service.scopes", "skip", &["asked for quiet"]);
    place.run("sync").code(75);
    assert!(service.sandbox.log().is_empty());
}

#[test]
fn without_a_mirror_a_hold_ends_the_asking() {
    let service = Service::with(20, 5);
    let hold = Fault::TooMany {
        body: Some(3600),
        header: None,
    };
    service.sandbox.faults().add(Rule::new(hold));
    let place = Place::of(&service);
    let document = place.run("check --json").code(75).json();
    assert_eq!(service.sandbox.log().len(), 1);
    is(&document, "service.contacts", "fail", &["asked to wait until", "wait"]);
    assert!(place.files().is_empty());
}

#[test]
fn while_another_process_writes_nothing_is_asked() {
    let service = Service::with(20, 5);
    let place = Place::of(&service);
    place.run("sync").done();
    service.sandbox.clear_log();
    let writer = Store::open(&place.path("mirror.db")).unwrap();
    let document = place.run("check --json").done().json();
    drop(writer);
    assert!(service.sandbox.log().is_empty());
    let pid = format!("process {}", std::process::id());
    is(&document, "service.scopes", "skip", &[&pid, "`crm-mirror status`"]);
    is(&document, "mirror.writer", "ok", &[&pid]);
    is(&document, "mirror.workspace", "ok", &["of this address and key"]);
}

#[test]
fn a_budget_that_is_too_small_is_a_warning_that_says_how_much_is_needed() {
    let service = Service::with(230, 5);
    let place = Place::of(&service).set("CRM_MIRROR_BUDGET__LIMIT", "100");
    let document = place.run("check --json").done().json();
    is(
        &document,
        "budget.needs",
        "warn",
        &["of 100 RU in 1 d", "set `budget.limit` to 6"],
    );
    // 3 pages, 3 counts, 230 details; 6; 5: 247 RU. 100 now, and 50 a window beside the runs for changes.
    is(
        &document,
        "budget.first-copy",
        "ok",
        &["247 RU, so about 4 windows of 1 d"],
    );
    place.run("sync").code(75);
    let document = place.run("check --json").done().json();
    is(&document, "budget.window", "warn", &["all 100 RU", "it refills at"]);
    is(
        &document,
        "service.contacts",
        "skip",
        &["budget of this window is spent"],
    );
}

#[test]
fn readers_are_told_of_an_old_shell_and_an_open_folder() {
    let service = Service::with(5, 1);
    let place = with_shell(Place::of(&service), "3.40.1");
    std::fs::set_permissions(place.path("."), PermissionsExt::from_mode(0o770)).unwrap();
    let document = place.run("check --offline --json").done().json();
    is(
        &document,
        "readers.sqlite3",
        "warn",
        &["3.40.1", "-readonly", "mode=ro"],
    );
    is(&document, "readers.folder", "warn", &["(0770)", "chmod g-w /"]);
}

#[test]
fn the_text_has_a_mark_a_line_and_the_mend_below() {
    let service = Service::with(5, 1);
    let place = with_shell(Place::of(&service), "3.40.1");
    let ended: Ended = place.run("check --offline").done();
    let lines: Vec<&str> = ended.out.lines().collect();
    let at = lines.iter().position(|line| line.contains("sqlite3 3.40.1")).unwrap();
    assert!(lines[at].starts_with("  warn  sqlite3 "), "{}", ended.out);
    assert!(
        lines[at + 1].trim_start().starts_with("mend: open the mirror"),
        "{}",
        ended.out
    );
    assert!(
        lines.last().unwrap().starts_with("verdict: it works, with "),
        "{}",
        ended.out
    );
}
