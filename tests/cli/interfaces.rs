//! The JSON documents of the verbs are the ones of `docs/interfaces.md`.

use crm_mirror::model::Object;
use serde_json::Value;

use crate::binary::{Service, TestDir};
use crate::documented::DocumentTable;

/// A copied workspace with write-back enabled.
fn copied() -> (Service, TestDir) {
    let service = Service::with(20, 3);
    let place = TestDir::of(&service).set("CRM_MIRROR_WRITE_BACK__ENABLED", "true");
    place.run("sync").done();
    (service, place)
}

#[track_caller]
fn check(heading: &str, positions: &[usize], documents: &[Value]) {
    DocumentTable::read(heading, positions).check(documents);
}

#[test]
fn output_of_read_verbs_is_documented() {
    let service = Service::with(20, 3);
    let place = TestDir::of(&service);
    check("check", &[0], &[place.run("check --json").done().json()]);
    check("sync --dry-run", &[0], &[place.run("sync --dry-run --json").done().json()]);
    let first = place.run("sync --json").done().json();
    let definitions = place.run("sync custom-fields --json").done().json();
    check("sync, resync, push", &[0], &[first, definitions, place.run("resync --json").done().json()]);
    let own = "CREATE VIEW mine AS SELECT missing FROM contacts_full";
    rusqlite::Connection::open(place.path("mirror.db")).unwrap().execute_batch(own).unwrap();
    let fresh = place.run("status --max-age 15m --json").done().json();
    check("status", &[0, 1], &[fresh, place.run("status --json").done().json()]);
    check("describe", &[0], &[place.run("describe contacts_full --json").done().json()]);
    for table in place.run("describe --json").done().json()["tables"].as_array().unwrap() {
        check("describe", &[0], std::slice::from_ref(table));
    }
    check("backup", &[0], &[place.run("backup copy.db --json").done().json()]);
}

#[test]
fn output_of_verify_is_documented() {
    let (service, place) = copied();
    let id = place.ask("SELECT id FROM contacts LIMIT 1");
    service.sandbox.with_world(|world| world.remove(Object::Contact, &id));
    check("verify", &[0], &[place.run("verify --json").code(1).json()]);
    place.run("verify --repair --json").done();
    let line = format!("show contact {id} --json");
    check("show", &[0], &[place.run(&line).done().json()]);
    check("forget", &[0], &[place.run(&format!("forget contact {id} --yes --json")).done().json()]);
}

#[test]
fn output_of_edit_verbs_is_documented() {
    let (_service, place) = copied();
    let id = place.ask("SELECT id FROM contacts LIMIT 1");
    let edit = |value: &str, flags: &str| place.run(&format!("edit contact {id} position={value} {flags} --json"));
    check("edit --dry-run", &[0], &[edit("Chief", "--dry-run").done().json()]);
    check("edit", &[0], &[edit("Chief", "").done().json()]);
    let pending = place.run(&format!("show contact {id} --json")).done().json();
    let list = place.run("outbox --json").done().json();
    check("outbox", &[0], list["edits"].as_array().unwrap());
    check("outbox", &[0, 1], &[place.run("outbox show 1 --json").done().json()]);
    check("sync, resync, push", &[0], &[place.run("push --json").done().json()]);
    let changed = place.run(&format!("show contact {id} --json")).done().json();
    check("show", &[0], &[pending, changed]);
    let undone = place.run("outbox undo 1 --yes --json").done().json();
    check("outbox", &[3], undone["edits"].as_array().unwrap());
    let dropped = place.run("outbox drop 2 --yes --json").done().json();
    let retried = place.run("outbox retry 2 --json").done().json();
    check("outbox", &[2], &[dropped, retried]);
}

/// Every value of a member, at any depth.
fn members<'a>(value: &'a Value, name: &str, into: &mut Vec<&'a Value>) {
    match value {
        Value::Object(map) => {
            into.extend(map.get(name));
            map.values().for_each(|value| members(value, name, into));
        }
        Value::Array(list) => list.iter().for_each(|value| members(value, name, into)),
        _ => {}
    }
}

#[test]
fn lists_and_records_have_one_name_in_all_documents() {
    let (service, place) = copied();
    let id = place.ask("SELECT id FROM contacts LIMIT 1");
    service.sandbox.with_world(|world| world.remove(Object::Contact, &id));
    service.sandbox.set_key(crate::binary::SECRET, &["contacts:read", "team-members:read", "custom-fields:read"]);
    let synced = place.run("sync --json").json();
    let status = place.run("status --json").done().json();
    assert_eq!(status["missing_scopes"], synced["missing_scopes"]);
    assert_eq!(status["missing_scopes"][0]["object"], "companies");
    let verified = place.run("verify --json").json();
    let found: Vec<&Value> = verified["objects"].as_array().unwrap().iter().map(|of| &of["object"]).collect();
    assert_eq!(found, ["contacts"]);
    let forecast = place.run("sync --dry-run --json").done().json();
    // What is read is a list; what is changed is a record.
    let mut lists = Vec::new();
    for document in [&synced, &status, &forecast] {
        members(document, "object", &mut lists);
    }
    let known = ["contacts", "companies", "team-members", "custom-fields"];
    assert!(lists.len() > 5 && lists.iter().all(|name| known.contains(&name.as_str().unwrap())), "{lists:?}");
    let mut records = Vec::new();
    members(&verified["objects"][0]["differences"], "object", &mut records);
    assert_eq!(records, ["contact"]);
}
