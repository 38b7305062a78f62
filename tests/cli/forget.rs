//! `forget`: what a removed record leaves behind, and how it is deleted.

use crm_mirror::model::{Object, Resource};
use serde_json::json;

use crate::binary::{Ended, Service, TestDir};

#[test]
fn removed_record_is_erased_from_the_whole_file() {
    let service = Service::with(12, 3);
    let place = TestDir::of(&service).set("CRM_MIRROR_WRITE_BACK__ENABLED", "true");
    place.run("sync").done();
    let contact = place.ask("SELECT id FROM contacts ORDER BY id LIMIT 1");
    let secret = "Zyxwvutsrq";
    service.sandbox.with_world(|world| world.edit(Object::Contact, &contact, &json!({"position": secret})));
    place.run("sync").done();
    let change = ["edit", "contact", &contact, "position=Qrstuvwxyz"];
    Ended::from(place.command(&change).output().unwrap()).done();
    let still = place.run(&format!("forget contact {contact} --yes")).code(2);
    assert!(still.err.contains("exists at the service"), "{}", still.err);
    service.sandbox.with_world(|world| {
        world.remove(Object::Contact, &contact);
        // An answer as new as the removed record decides at once.
        let other = world.ids(Resource::Contacts)[0].clone();
        world.edit(Object::Contact, &other, &json!({"position": "Newest"}));
    });
    place.run("resync").done();
    let asked = place.run(&format!("forget contact {contact}")).code(2);
    assert!(asked.err.contains("pass `--yes` to confirm"), "{}", asked.err);
    assert_eq!(place.ask("SELECT count(*) FROM removed_records"), "1");
    let erased = place.run(&format!("forget contact {contact} --yes --json")).done().json();
    assert_eq!((&erased["record"], &erased["edits"]), (&json!(true), &json!(1)));
    for table in ["removed_records WHERE id", "changes WHERE record_id", "outbox WHERE record_id"] {
        assert_eq!(place.ask(&format!("SELECT count(*) FROM {table} = '{contact}'")), "0", "{table}");
    }
    assert_eq!(place.ask("SELECT count(*) FROM outbox_events"), "0");
    let again = place.run(&format!("forget contact {contact} --yes")).code(2);
    assert!(again.err.contains("unknown contact"), "{}", again.err);
    // Without its free pages the file contains nothing of the record, the search index included.
    place.run("backup copy.db").done();
    rusqlite::Connection::open(place.path("copy.db")).unwrap().execute_batch("VACUUM").unwrap();
    let bytes = std::fs::read(place.path("copy.db")).unwrap();
    let holds = |text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(!holds(secret) && !holds("Qrstuvwxyz"), "contents stay in the file");
    place.run("verify --full").done();
}

#[test]
fn without_a_mirror_nothing_is_made() {
    let place = TestDir::empty();
    assert!(place.run("forget contact x --yes").code(74).err.contains("there is no mirror"));
    assert!(place.files().is_empty());
    place.run("forget deal x --yes").code(2);
    place.run("forget contact").code(2);
}
