//! `check` and the service: its requests, how it interprets the answers, and when it sends nothing.

use crm_mirror::model::Resource;
use crm_mirror::sandbox::{Fault, Rule};
use crm_mirror::store::Store;

use crate::binary::{Service, TestDir};
use crate::check::is;

#[test]
fn refused_key_ends_the_requests_but_not_the_check() {
    let service = Service::with(20, 5);
    let place = TestDir::of(&service).set("CRM_MIRROR_API__KEY", "crm_wrong");
    let document = place.run("check --json").code(77).json();
    assert_eq!(service.sandbox.log().len(), 1);
    is(&document, "service.contacts", "fail", &["401", "complete"]);
    is(&document, "service.companies", "skip", &[]);
    is(&document, "disk.folder", "ok", &[]);
}

#[test]
fn missing_scope_is_a_warning_and_no_scope_is_a_failure() {
    let service = Service::with(20, 5);
    let key = service.sandbox.add_key(&["contacts:read", "custom-fields:read", "team-members:read"]);
    let place = TestDir::of(&service).set("CRM_MIRROR_API__KEY", &key);
    let document = place.run("check --json").done().json();
    assert_eq!(document["verdict"], "warn");
    is(&document, "service.companies", "warn", &["the key lacks `companies:read`", "give the key this scope"]);
    is(&document, "service.contacts", "ok", &["contacts:read", "20"]);
    let none = service.sandbox.add_key(&[]);
    let place = place.set("CRM_MIRROR_API__KEY", &none);
    let document = place.run("check --json").code(77).json();
    is(&document, "service.team-members", "fail", &["lacks `team-members:read`"]);
}

#[test]
fn only_configured_objects_are_requested() {
    let service = Service::with(20, 5);
    let place = TestDir::of(&service)
        .set("CRM_MIRROR_SYNC__OBJECTS", "companies")
        .set("CRM_MIRROR_WRITE_BACK__ENABLED", "true");
    place.run("check --json").done();
    let log = service.sandbox.log();
    assert_eq!((log.len(), log.lists(Resource::Companies), log.lists(Resource::CustomFields)), (2, 1, 1));
}

#[test]
fn unreachable_service_is_tried_once() {
    let service = Service::with(20, 5);
    let place = TestDir::of(&service);
    place.run("sync").done();
    service.sandbox.clear_log();
    service.sandbox.faults().add(Rule::new(Fault::Reset).forever());
    let document = place.run("check --json").code(69).json();
    assert_eq!(service.sandbox.log().len(), 1);
    is(&document, "service.contacts", "fail", &["closed the connection without an answer", "`api.base_url`"]);
    is(&document, "mirror.file", "ok", &["mirror.db, "]);
    let nowhere = place.set("CRM_MIRROR_API__BASE_URL", "http://127.0.0.1:1/v1");
    nowhere.run("check --json").code(69);
}

#[test]
fn check_sends_nothing_during_a_hold() {
    let service = Service::with(20, 5);
    let place = TestDir::of(&service);
    place.run("sync").done();
    let hold = Fault::Wait { status: 429, body: Some(3600), header: None };
    service.sandbox.faults().add(Rule::new(hold));
    // The first check receives the hold and stores it for the next process.
    place.run("check").code(75);
    service.sandbox.clear_log();
    let document = place.run("check --json").code(75).json();
    assert!(service.sandbox.log().is_empty());
    is(&document, "service.contacts", "fail", &["asked to wait until", "resume --now"]);
    is(&document, "service.companies", "skip", &["no request sent"]);
    place.run("sync").code(75);
    assert!(service.sandbox.log().is_empty());
}

#[test]
fn hold_without_a_mirror_ends_the_requests() {
    let service = Service::with(20, 5);
    let hold = Fault::Wait { status: 429, body: Some(3600), header: None };
    service.sandbox.faults().add(Rule::new(hold));
    let place = TestDir::of(&service);
    let document = place.run("check --json").code(75).json();
    assert_eq!(service.sandbox.log().len(), 1);
    is(&document, "service.contacts", "fail", &["asked to wait until", "wait"]);
    assert!(place.files().is_empty());
}

#[test]
fn check_sends_nothing_while_another_process_writes() {
    let service = Service::with(20, 5);
    let place = TestDir::of(&service);
    place.run("sync").done();
    service.sandbox.clear_log();
    let writer = Store::open(&place.path("mirror.db")).unwrap();
    let document = place.run("check --json").done().json();
    drop(writer);
    assert!(service.sandbox.log().is_empty());
    let pid = format!("process {}", std::process::id());
    is(&document, "service.scopes", "skip", &[&pid, "`crm-mirror status`"]);
}
