//! `sync.exclude`: what is read of fields that are excluded, and of those that are mirrored again.

use crm_mirror::model::{DataType, Instant, Object};
use crm_mirror::sandbox::{NewField, RequestLine, World};
use serde_json::{Value, json};

use crate::binary::{Service, TestDir};

#[test]
fn no_detail_is_read_for_excluded_fields_alone() {
    let mut world = World::new(Instant::system_now());
    for n in 0..12 {
        world.create(Object::Contact, &json!({"name": format!("Name {n}"), "notes": "Notes"}));
    }
    (0..3).for_each(|n| _ = world.create(Object::Company, &json!({"name": format!("Company {n}")})));
    let service = Service::of(world);
    let all: Vec<String> = Object::Contact.detail_fields().map(|field| format!("contacts.{}", field.column)).collect();
    let place = TestDir::of(&service).set("CRM_MIRROR_SYNC__EXCLUDE", &all.join(","));
    let reads = |object| service.sandbox.log().details(object);
    place.run("sync contacts companies").done();
    assert_eq!(Object::ALL.map(reads), [0, 3]);
    assert_eq!(place.run("status --json").code(0).json()["objects"][0]["details_pending"], Value::Null);
    // A long text is in details only.
    let story = NewField::new(Object::Contact, "story", DataType::LongText);
    service.sandbox.with_world(|world| _ = world.fields().define(story));
    place.run("resync contacts custom-fields").done();
    assert_eq!(reads(Object::Contact), 12);
}

/// Only what becomes mirrored is read again: the lists of an object whose field that is, or its details.
#[test]
fn naming_a_field_no_longer_reads_again_what_becomes_mirrored() {
    let mut world = World::new(Instant::system_now());
    for (key, data_type) in [("tier", DataType::ShortText), ("story", DataType::LongText)] {
        world.fields().define(NewField::new(Object::Contact, key, data_type));
    }
    for n in 0..12 {
        let custom = if n < 4 { json!({"tier": "gold", "story": "Long"}) } else { json!({}) };
        let contact = json!({"name": format!("Name {n}"), "mobile": "+4", "notes": "Notes", "customFields": custom});
        world.create(Object::Contact, &contact);
    }
    (0..3).for_each(|n| _ = world.create(Object::Company, &json!({"name": format!("Company {n}"), "notes": "Notes"})));
    let service = Service::of(world);
    let mut place = TestDir::of(&service);
    // Lists beside those of changes, and details, of contacts and companies.
    for (before, after, lists, details) in [
        ("contacts.mobile", "", [1, 0], [0, 0]),
        ("mobile,notes", "contacts.mobile,notes", [0, 0], [0, 0]),
        ("notes", "contacts.notes", [0, 1], [0, 3]),
        ("contacts.cf_never,industry", "industry", [0, 0], [0, 0]),
        ("cf_tier", "", [1, 0], [0, 0]),
        ("cf_story", "", [1, 0], [4, 0]),
    ] {
        place = place.set("CRM_MIRROR_SYNC__EXCLUDE", before);
        (0..2).for_each(|_| _ = place.run("sync").done());
        service.sandbox.clear_log();
        place = place.set("CRM_MIRROR_SYNC__EXCLUDE", after);
        place.run("sync").done();
        let log = service.sandbox.log();
        let others = |object: Object| {
            let of_changes = |asked: &RequestLine| asked.param("sort").is_some_and(|sort| sort.contains("updatedAt"));
            let lists = log.entries().iter().filter(|entry| entry.asked.lists(object.resource()));
            lists.filter(|entry| !of_changes(&entry.asked)).count()
        };
        let requests: Vec<String> = log.entries().iter().map(|entry| entry.asked.line()).collect();
        assert_eq!(Object::ALL.map(others), lists, "{before} to {after}: {requests:#?}");
        assert_eq!(Object::ALL.map(|object| log.details(object)), details, "{before} to {after}: {requests:#?}");
    }
    let held = "SELECT count(mobile), count(notes), count(cf_tier), count(cf_story) FROM contacts_full";
    assert_eq!(place.ask(held), "12,12,4,4");
    place.run("verify --full").done();
}
