//! `edit`: what it queues, what it refuses, and that it needs no lock.

use crm_mirror::model::Object;
use serde_json::json;

use crate::binary::{Ended, Service, TestDir};

/// A mirror with write-back enabled, and the ids of a contact and a company.
fn mirrored() -> (Service, TestDir, String, String) {
    let service = Service::with(20, 4);
    let place = TestDir::of(&service).set("CRM_MIRROR_WRITE_BACK__ENABLED", "true");
    place.run("sync").done();
    let contact = place.ask("SELECT id FROM contacts WHERE position NOT GLOB '*[^a-zA-Z ]*' ORDER BY id LIMIT 1");
    let company = place.ask("SELECT id FROM companies ORDER BY id LIMIT 1");
    (service, place, contact, company)
}

fn edit(place: &TestDir, args: &[&str]) -> Ended {
    let args: Vec<&str> = ["edit"].iter().chain(args).copied().collect();
    place.command(&args).output().unwrap().into()
}

fn queued(place: &TestDir) -> String {
    place.ask("SELECT count(*) FROM outbox")
}

#[test]
fn edit_is_queued_with_its_changes_and_its_history() {
    let (_service, place, contact, company) = mirrored();
    let before = place.ask(&format!("SELECT position FROM contacts WHERE id = '{contact}'"));
    let ended = edit(
        &place,
        &["contact", &contact, "position=Chief Data Officer", "cf_tier=", "cf_topics=pricing,api", "notes=Two\nlines."],
    )
    .done();
    assert!(ended.out.starts_with(&format!("edit 1 of contact {contact} is queued\n")), "{}", ended.out);
    assert!(ended.out.contains(&format!("  position: \"{before}\" -> \"Chief Data Officer\"\n")), "{}", ended.out);
    assert_eq!(
        place.ask("SELECT object_type, record_id, state, source, base_etag IS NOT NULL FROM outbox"),
        format!("contact,{contact},queued,edit,1")
    );
    assert_eq!(
        place.ask("SELECT json_extract(fields, '$.notes[1]') = 'Two' || char(10) || 'lines.', json_extract(fields, '$.cf_topics[1]') = '[\"pricing\",\"api\"]' FROM outbox"),
        "1,1"
    );
    assert_eq!(
        place.ask("SELECT outbox_id, from_state IS NULL, to_state, why FROM outbox_events"),
        "1,1,queued,changed with `crm-mirror edit`"
    );
    let document = edit(&place, &["company", &company, "industry=Toys", "--json"]).done().json();
    assert_eq!(
        (&document["edit"], &document["object"], &document["id"]),
        (&json!(2), &json!("company"), &json!(company))
    );
    assert_eq!(document["fields"]["industry"][1], json!("Toys"));
    // What waits already is not queued again; what is new is.
    let again = edit(&place, &["contact", &contact, "position=Chief Data Officer"]).done();
    assert_eq!(again.out, "nothing to do: edit 1 already waits with these values\n");
    let both = edit(&place, &["contact", &contact, "position=Chief Data Officer", "language=xx", "--json"]).done();
    let document = both.json();
    assert_eq!((&document["edit"], &document["waiting"]), (&json!(3), &json!(1)));
    assert_eq!(document["fields"].as_object().unwrap().keys().collect::<Vec<_>>(), ["language"]);
    let planned = edit(&place, &["contact", &contact, &format!("position={before}"), "--dry-run"]).done().json();
    assert_eq!(
        (&planned["cancelled"], &planned["fields"], &planned["body"]),
        (&json!(["position"]), &json!({}), &json!({}))
    );
    // An edit to the stored value cancels the waiting edit; a second one does nothing.
    for message in ["cancelled: the waiting edits of position", "nothing to do"] {
        let ended = edit(&place, &["contact", &contact, &format!("position={before}")]).done();
        assert!(ended.out.contains(message), "{}", ended.out);
    }
    assert_eq!(queued(&place), "3");
}

#[test]
fn dry_run_shows_the_request_and_queues_nothing() {
    let (_service, place, contact, _) = mirrored();
    let etag = place.ask(&format!("SELECT replace(etag, '\"', '') FROM contacts WHERE id = '{contact}'"));
    let args = ["contact", &contact, "position=CTO", "cf_lifetime_value=12.5", "cf_newsletter=", "cf_children=3"];
    // A dry run needs no write-back, and no lock.
    let held = rusqlite::Connection::open(place.path("mirror.db")).unwrap();
    held.execute_batch("BEGIN IMMEDIATE").unwrap();
    let place = place.unset("CRM_MIRROR_WRITE_BACK__ENABLED");
    let document = edit(&place, &[&args[..], &["--dry-run"]].concat()).done().json();
    assert_eq!(document, edit(&place, &[&args[..], &["--dry-run", "--json"]].concat()).done().json());
    assert_eq!(document["if_match"], json!(format!("\"{etag}\"")));
    assert_eq!(document["body"]["position"], json!("CTO"));
    assert_eq!(document["body"]["customFields"]["lifetime_value"], json!("12.5"));
    assert_eq!(document["body"]["customFields"]["children"], json!(3));
    assert_eq!(queued(&place), "0");
}

#[test]
fn edit_that_the_service_would_refuse_is_a_usage_error_and_queues_nothing() {
    let (_service, place, contact, company) = mirrored();
    for (args, message) in [
        (vec!["contact", &contact, "email=x@example.com"], "`email` is read-only at the service"),
        (vec!["contact", &contact, "positon=CTO"], "`positon` is not a column of contacts_full"),
        (
            vec!["contact", &contact, "cf_tier=platinum"],
            "`cf_tier` takes the value of one of its options, see select_labels: gold, silver, bronze",
        ),
        (
            vec!["contact", &contact, "position=x", "cf_tier=platinum"],
            "`cf_tier` takes the value of one of its options",
        ),
        (vec!["contact", &contact, "position=a", "position=b"], "`position` is given twice"),
        (vec!["contact", &contact, "details_current=1"], "`details_current` is derived"),
        (vec!["contact", &contact, "position"], "`position` is not of the form field=value"),
        (vec!["contact", &contact, "cf_tier:=gold"], "`cf_tier:`"),
        (vec!["contact", "nobody", "position=x"], "there is no contact `nobody` in the mirror"),
        (vec!["company", &company, "industry=  "], "`industry` must contain a character"),
        (vec!["company", &company, "notes=x"], "`notes` is read-only at the service"),
        (vec!["person", &contact, "position=x"], "possible values: contact, company"),
    ] {
        let ended = edit(&place, &args).code(2);
        assert!(ended.err.contains(message), "{args:?}: {}", ended.err);
        assert!(ended.out.is_empty(), "{args:?}: {}", ended.out);
    }
    assert_eq!(queued(&place), "0");
}

#[test]
fn edit_without_write_back_shows_how_to_enable_it() {
    let (_service, place, contact, _) = mirrored();
    let place = place.unset("CRM_MIRROR_WRITE_BACK__ENABLED");
    let ended = edit(&place, &["contact", &contact, "position=CTO"]).code(78);
    assert!(ended.err.contains("hint: set `enabled = true` under `[write_back]`"), "{}", ended.err);
    // A plan says so.
    std::fs::write(place.path("rows.csv"), format!("id,position\n{contact},CTO\n")).unwrap();
    for args in
        [&["contact", &contact, "position=CTO", "--dry-run"][..], &["contact", "--from", "rows.csv", "--dry-run"]]
    {
        let planned = edit(&place, args).done();
        assert_eq!(planned.err, "writing back is disabled: without `--dry-run` this is refused\n", "{args:?}");
    }
    assert_eq!(place.run("push").code(78).err, ended.err);
    assert_eq!(queued(&place), "0");
    let empty = TestDir::empty().set("CRM_MIRROR_WRITE_BACK__ENABLED", "true");
    for line in ["edit contact x position=y", "push"] {
        assert!(empty.run(line).code(74).err.contains("there is no mirror at "), "{line}");
    }
    assert!(empty.files().is_empty());
}

#[test]
fn edit_needs_no_lock() {
    let (_service, place, contact, _) = mirrored();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let held = crm_mirror::store::Store::open(&place.path("mirror.db")).unwrap();
    place.run("sync").code(74);
    edit(&place, &["contact", &contact, "position=CTO"]).done();
    assert_eq!(queued(&place), "1");
    runtime.block_on(held.close());
}

#[test]
fn edit_behind_a_conflict_names_it() {
    let (service, place, contact, _) = mirrored();
    edit(&place, &["contact", &contact, "position=mine"]).done();
    service.sandbox.with_world(|world| world.edit(Object::Contact, &contact, &json!({"position": "theirs"})));
    place.run("push").code(1);
    service.sandbox.clear_log();
    let why = "edit 1 of the same record is in conflict";
    edit(&place, &["contact", &contact, "language=xx"]).done();
    let shown = place.run("outbox show 2").done().out;
    assert!(shown.contains(why), "{shown}");
    assert_eq!(place.run("outbox show 2 --json").done().json()["behind"], json!(1));
    place.run("push").code(1);
    assert_eq!(service.sandbox.log().patches(Object::Contact), 0);
    place.run("outbox resolve 1 --theirs --yes").done();
    assert!(!place.run("outbox show 2").done().out.contains(why));
    place.run("push").done();
    assert_eq!(place.ask("SELECT state FROM outbox WHERE id = 2"), "applied");
}
