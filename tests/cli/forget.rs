//! `forget`: what a removed record leaves behind, and how it is deleted.

use crm_mirror::model::{DataType, Instant, Object, Resource};
use crm_mirror::sandbox::NewField;
use serde_json::json;

use crate::binary::{Ended, Service, TestDir};

#[test]
fn removed_record_is_erased_from_the_whole_file() {
    let service = Service::with(12, 3);
    let place = TestDir::of(&service).set("CRM_MIRROR_WRITE_BACK__ENABLED", "true");
    let contact = service.sandbox.with_world(|world| {
        world.fields().define(NewField::new(Object::Contact, "former", DataType::ShortText));
        let contact = world.ids(Resource::Contacts)[0].to_string();
        world.edit(Object::Contact, &contact, &json!({"customFields": {"former": "Xqponmlkji"}}));
        contact
    });
    place.run("sync").done();
    let copied = place.ask("SELECT coalesce(max(seq), 0) FROM changes");
    let secret = "Zyxwvutsrq";
    let fields = json!({"position": secret, "notes": secret, "firstName": secret});
    service.sandbox.with_world(|world| world.edit(Object::Contact, &contact, &fields));
    place.run("sync").done();
    // The values from before its type changed wait for those that take their place.
    service.sandbox.with_world(|world| {
        world.fields().redefine(Object::Contact, "former", |definition| definition.data_type = "LONG_TEXT".into());
    });
    place.run("sync custom-fields").done();
    let change = ["edit", "contact", &contact, "position=Qrstuvwxyz"];
    Ended::from(place.command(&change).output().unwrap()).done();
    let still = place.run(&format!("forget contact {contact} --yes")).code(2);
    assert!(still.err.contains("is still in the mirror"), "{}", still.err);
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
    for table in ["removed_records WHERE id", "ended_values WHERE record_id", "outbox WHERE record_id"] {
        assert_eq!(place.ask(&format!("SELECT count(*) FROM {table} = '{contact}'")), "0", "{table}");
    }
    // Who follows the feed drops the record too, and misses nothing.
    let entries = format!("SELECT kind, fields FROM changes WHERE record_id = '{contact}'");
    assert_eq!(place.ask(&entries), "update,{}\nremove,{}");
    for since in ["0", copied.trim()] {
        let feed = place.ask(&format!("SELECT record_id, kind, fields FROM changes WHERE seq > {since} ORDER BY seq"));
        let last = feed.lines().rfind(|line| line.contains(&contact)).unwrap();
        assert!(last.contains("remove") && feed.contains("Newest"), "{since}: {feed}");
    }
    let then = Instant::system_now();
    assert!(place.run(&format!("show contact {contact} --at {then}")).code(2).err.contains("was not in the mirror"));
    assert_eq!(place.ask("SELECT count(*) FROM outbox_events"), "0");
    let again = place.run(&format!("forget contact {contact} --yes")).code(2);
    assert!(again.err.contains("unknown contact"), "{}", again.err);
    // Without its free pages the file contains nothing of the record, the search index included.
    place.run("backup copy.db").done();
    rusqlite::Connection::open(place.path("copy.db")).unwrap().execute_batch("VACUUM").unwrap();
    let bytes = std::fs::read(place.path("copy.db")).unwrap();
    let holds = |text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(!holds(secret) && !holds("Qrstuvwxyz") && !holds("qponmlkji"), "contents stay in the file");
    assert!(!holds("xwvutsrq"), "words stay in the search index");
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
