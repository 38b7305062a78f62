//! `show`: one record now and in the past, compared with the service's record at that time.

use crm_mirror::model::{Instant, Object, Resource};
use serde_json::{Value, json};

use crate::binary::{Ended, Service, TestDir};

struct Shown {
    service: Service,
    place: TestDir,
    contact: String,
}

impl Shown {
    fn new() -> Shown {
        let service = Service::with(12, 3);
        let place = TestDir::of(&service).set("CRM_MIRROR_WRITE_BACK__ENABLED", "true");
        place.run("sync").done();
        let contact = place.ask("SELECT id FROM contacts ORDER BY id LIMIT 1");
        Shown { service, place, contact }
    }

    fn change(&self, fields: &Value) {
        self.service.sandbox.with_world(|world| world.edit(Object::Contact, &self.contact, fields));
        self.place.run("sync").done();
    }

    fn show(&self, more: &str) -> Ended {
        self.place.run(&format!("show contact {} {more}", self.contact))
    }
}

#[test]
fn record_is_shown_with_its_values() {
    let shown = Shown::new();
    shown.change(&json!({"position": "CTO"}));
    let document = shown.show("--json").done().json();
    assert_eq!(document["values"]["position"], "CTO");
    assert_eq!(document["values"]["id"], json!(shown.contact));
    let columns = shown.place.ask(&format!(
        "SELECT json_object('n', name, 'o', owner_name, 'c', company_name) FROM contacts_full WHERE id = '{}'",
        shown.contact
    ));
    let row: Value = serde_json::from_str(&columns.trim_matches('"').replace("\"\"", "\"")).unwrap();
    for (short, long) in [("n", "name"), ("o", "owner_name"), ("c", "company_name")] {
        assert_eq!(row[short], document["values"].get(long).cloned().unwrap_or_default(), "{long}");
    }
    let text = shown.show("").done().out;
    for part in ["position", "CTO"] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn record_is_shown_as_of_an_earlier_time() {
    let shown = Shown::new();
    let all = || shown.show("--json").done().json()["values"].clone();
    let (first, between) = (all(), Instant::system_now().to_string());
    shown.change(&json!({"position": "Now something else", "firstName": "Another"}));
    let (second, later) = (all(), Instant::system_now().to_string());
    assert_ne!(first["position"], second["position"]);
    let then = |at: &str| shown.show(&format!("--at {at} --json")).done().json()["values"].clone();
    let comparable = |values: &Value| {
        let mut values = values.clone();
        // What has no history is not of that time.
        for own in ["synced_at", "fetched_at", "details_current", "owner_name"] {
            values.as_object_mut().unwrap().remove(own);
        }
        values
    };
    assert_eq!(then(&between)["position"], first["position"]);
    assert_eq!(then(&between)["first_name"], first["first_name"]);
    assert_eq!(then(&later), comparable(&second));
    // A removed record: nothing now, everything before.
    shown.service.sandbox.with_world(|world| {
        world.remove(Object::Contact, &shown.contact);
        // An answer as new as the removed record decides at once.
        let other = world.ids(Resource::Contacts).into_iter().find(|id| *id != shown.contact).unwrap();
        world.edit(Object::Contact, &other, &json!({"position": "Newest"}));
    });
    shown.place.run("resync").done();
    assert_eq!(then(&later)["position"], second["position"]);
    let gone = shown.show("--json").done().json();
    assert!(gone["removed_at"].is_string() && gone["values"]["position"] == second["position"], "{gone}");
    let now = Instant::system_now().to_string();
    assert!(shown.show(&format!("--at {now}")).code(2).err.contains("was not in the mirror at"));
}

#[test]
fn unknown_state_of_a_record_is_an_error() {
    let shown = Shown::new();
    for (line, part) in [
        ("show contact ct_none", "there is no contact ct_none"),
        ("show company ct_none --at 2026-01-01", "there is no company ct_none"),
        ("show deal x", "invalid value"),
        ("show contact", "ID"),
    ] {
        assert!(shown.place.run(line).code(2).err.contains(part), "{line}");
    }
    assert!(shown.show("--at 2001-01-01").code(2).err.contains("the history begins at"));
    assert!(shown.show("--at 2199-01-01").code(2).err.contains("is in the future"));
    assert!(shown.show("--at yesterday").code(2).err.contains("must be a time such as"));
    // Before its object was copied.
    let late = TestDir::of(&shown.service);
    late.run("sync contacts").done();
    let before = Instant::system_now();
    late.run("sync").done();
    let show = format!("show company {} --at", late.ask("SELECT min(id) FROM companies"));
    assert!(late.run(&format!("{show} {before}")).code(2).err.contains("the history begins at"));
    late.run(&format!("{show} {}", Instant::system_now())).done();
    // A record created after the first copy did not exist earlier.
    let before = Instant::system_now().to_string();
    let new = shown.service.sandbox.with_world(|world| {
        let id = world.ids(Resource::Contacts)[5].clone();
        world.remove(Object::Contact, &id);
        id
    });
    assert!(!before.is_empty() && !new.is_empty());
    let place = TestDir::empty();
    assert!(place.run("show contact x").code(74).err.contains("there is no mirror"));
    assert!(place.files().is_empty());
}

#[test]
fn company_has_the_name_of_that_time_in_a_contact_too() {
    let shown = Shown::new();
    let ask = |column: &str| {
        shown.place.ask(&format!("SELECT {column} FROM contacts_full WHERE company_name <> '' ORDER BY id LIMIT 1"))
    };
    let (contact, company, name) = (ask("id"), ask("company_id"), ask("company_name"));
    let before = Instant::system_now();
    let renamed = json!({"name": "Renamed since"});
    shown.service.sandbox.with_world(|world| world.edit(Object::Company, &company, &renamed));
    shown.place.run("sync").done();
    let named = |at: Instant| {
        let document = shown.place.run(&format!("show contact {contact} --at {at} --json")).done().json();
        document["values"]["company_name"].clone()
    };
    assert_eq!((named(before), named(Instant::system_now())), (json!(name), renamed["name"].clone()));
}
