//! Answers that say nothing about the edit itself: what is reported, what waits, and that the rest continues.

use crate::outbox_bench::{patches, push, set_position, sql, states};
use crate::support::prepared::prepared;
use crate::support::{Crm, Mirror, noon};
use crm_mirror::model::{Clock, DataType, Object, Resource, Ru};
use crm_mirror::outbox::typed_values::Given;
use crm_mirror::outbox::{EditRequest, queue};
use crm_mirror::sandbox::{Fault, NewField, RequestLine, Rule, World};
use crm_mirror::store::{StoreError, write_beside};
use crm_mirror::sync::{Job, SyncError};
use serde_json::json;

const CONTACT: Object = Object::Contact;
const HOUR: u64 = 3_600;

/// So many contacts, of which `c0` is the first, and a company. Every request is sent once.
async fn mirrored(contacts: usize) -> (Crm, Mirror) {
    let make = || async move {
        let mut world = World::new(noon());
        world.fields().define(NewField::new(CONTACT, "word", DataType::ShortText));
        world.fields().define(NewField::new(CONTACT, "must", DataType::ShortText));
        world.fields().redefine(CONTACT, "must", |field| field.required = true);
        for n in 0..contacts {
            world.create(CONTACT, &json!({"id": format!("c{n}"), "name": "Ann", "position": "CEO", "notes": "old"}));
        }
        world.create(Object::Company, &json!({"id": "p", "name": "Acme", "industry": "Food"}));
        let crm = Crm::serve(world).await;
        let mut mirror = Mirror::one_at_a_time();
        mirror.settings.write_back = true;
        mirror.sync(&crm).await;
        mirror.tries = 1;
        crm.wait(HOUR);
        crm.sandbox.clear_log();
        (crm, mirror)
    };
    prepared(format!("outbox_answers {contacts}"), make).await
}

/// A contact whose edit may have been applied, and whose delay is over.
async fn in_doubt(fault: Fault) -> (Crm, Mirror) {
    let (crm, mirror) = mirrored(2).await;
    set_position(&mirror, "c0", "CTO");
    crm.sandbox.faults().add(Rule::new(fault).method("PATCH"));
    push(&mirror, &crm).await;
    assert_eq!(states(&mirror), "sending");
    crm.wait(10);
    crm.sandbox.clear_log();
    (crm, mirror)
}

fn fault(crm: &Crm, method: &'static str, record: &str, fault: Fault) {
    crm.sandbox.faults().add(Rule::new(fault).method(method).record(record).forever());
}

/// The methods of the requests so far.
fn methods(crm: &Crm) -> String {
    let log = crm.sandbox.log();
    log.entries().iter().map(|entry| entry.asked.method.as_str()).collect::<Vec<_>>().join(" ")
}

fn delays(mirror: &Mirror) -> String {
    let sql = "SELECT coalesce(group_concat(scope || ' ' || requests, ', '), '') FROM
               (SELECT scope, requests FROM outbox_delays ORDER BY scope, record_id)";
    mirror.one(sql).trim_matches('\'').to_string()
}

#[tokio::test]
async fn record_that_cannot_be_read_back_waits_and_its_reason_is_reported() {
    let other = {
        let (crm, _) = mirrored(2).await;
        json!({"data": crm.sandbox.world().detail_json(CONTACT, "c1").unwrap()}).to_string()
    };
    for (answer, warning, requests) in [
        (Fault::Status(403), "the key lacks `contacts:read`", "GET"),
        (Fault::Body("{}".into()), "could not be decoded", "GET"),
        (Fault::Body(other), "could not be decoded", "GET"),
        (Fault::Status(500), "", "GET"),
        // The second request is a list, which has the contact.
        (Fault::Status(404), "", "GET GET"),
    ] {
        let name = format!("{answer:?}");
        let (crm, mirror) = in_doubt(Fault::ResetAfterApply).await;
        fault(&crm, "GET", "c0", answer);
        let report = push(&mirror, &crm).await;
        assert_eq!((states(&mirror).as_str(), methods(&crm).as_str()), ("sending", requests), "{name}");
        let reported = report.warnings.iter().any(|text| !warning.is_empty() && text.contains(warning));
        assert_eq!((reported, report.warnings.len()), (!warning.is_empty(), usize::from(reported)), "{name}");
        crm.sandbox.faults().clear();
        crm.wait(HOUR);
        assert_eq!(push(&mirror, &crm).await.push.applied, 1, "{name}");
        mirror.sync(&crm).await;
        mirror.assert_exact(&crm);
    }
}

#[tokio::test]
async fn read_without_budget_is_no_attempt() {
    let (crm, mut mirror) = in_doubt(Fault::Reset).await;
    mirror.limits.limit = Ru::new(mirror.ledger_total());
    for _ in 0..3 {
        push(&mirror, &crm).await;
    }
    assert_eq!((methods(&crm).as_str(), delays(&mirror).as_str()), ("", "record 1"));
    mirror.limits.limit = Ru::new(1_000_000);
    assert_eq!(push(&mirror, &crm).await.push.applied, 1);
}

#[tokio::test]
async fn outdated_answer_to_a_read_decides_nothing() {
    let (crm, mut mirror) = mirrored(1).await;
    mirror.settings.details = false;
    let before = crm.clock.now();
    crm.wait(60);
    crm.sandbox.with_world(|world| world.edit(CONTACT, "c0", &json!({"notes": "theirs"})));
    mirror.sync(&crm).await;
    crm.sandbox.clear_log();
    sql(&mirror, "UPDATE contacts_full SET notes = 'ours' WHERE id = 'c0'");
    fault(&crm, "GET", "c0", Fault::AsOf(before));
    push(&mirror, &crm).await;
    // Another version with an earlier time is a doubt: the record is looked up, after a witness for it was found.
    assert_eq!((states(&mirror).as_str(), methods(&crm).as_str()), ("queued", "GET GET GET"));
    assert_eq!(mirror.count("doubts WHERE version IS NOT NULL"), 0, "the lookup shows the row's version");
    crm.sandbox.faults().clear();
    crm.wait(10);
    push(&mirror, &crm).await;
    assert_eq!(states(&mirror), "conflict");
}

#[tokio::test]
async fn answers_are_counted_by_what_they_change_in_the_mirror() {
    for (theirs, details, updated) in [(json!({"name": "Bea"}), 1, 2), (json!({"position": "Chair"}), 1, 1)] {
        let (crm, mirror) = mirrored(1).await;
        set_position(&mirror, "c0", "CTO");
        crm.sandbox.with_world(|world| world.edit(CONTACT, "c0", &theirs));
        let tally = push(&mirror, &crm).await.tally;
        assert_eq!((tally.details, tally.updated), (details, updated), "{theirs}");
    }
    // The record that is read back is unchanged; then the update is applied.
    let (crm, mirror) = in_doubt(Fault::Reset).await;
    let tally = push(&mirror, &crm).await.tally;
    assert_eq!((tally.details, tally.updated, methods(&crm).as_str()), (1, 1, "GET PATCH"));
}

#[tokio::test]
async fn success_that_does_not_show_the_update_is_read_back_and_reported() {
    let other = {
        let (crm, _) = mirrored(2).await;
        json!({"data": crm.sandbox.world().detail_json(CONTACT, "c1").unwrap()}).to_string()
    };
    for body in ["{}".to_string(), other] {
        let (crm, mirror) = mirrored(2).await;
        set_position(&mirror, "c0", "CTO");
        crm.sandbox.faults().add(Rule::new(Fault::Body(body.clone())).method("PATCH"));
        let report = push(&mirror, &crm).await;
        assert_eq!((states(&mirror).as_str(), methods(&crm).as_str()), ("applied", "PATCH GET"), "{body}");
        assert!(report.warnings.len() == 1 && report.warnings[0].contains("did not show the update"), "{report:?}");
        let why = mirror.one("SELECT why FROM outbox_events ORDER BY id DESC LIMIT 1");
        assert!(why.contains("the record has these values"), "{body}: {why}");
    }
    let (crm, mirror) = mirrored(1).await;
    set_position(&mirror, "c0", "CTO");
    assert!(push(&mirror, &crm).await.warnings.is_empty());
}

#[tokio::test]
async fn confirmation_with_an_unknown_key_reads_the_definitions() {
    for known in [true, false] {
        let (crm, mirror) = mirrored(1).await;
        set_position(&mirror, "c0", "CTO");
        if !known {
            crm.sandbox.with_world(|world| {
                world.fields().define(NewField::new(CONTACT, "new", DataType::ShortText));
                // The version stays, so that the update is accepted.
                let version = world.detail_json(CONTACT, "c0").unwrap()["etag"].clone();
                world.edit(CONTACT, "c0", &json!({"etag": version, "customFields": {"new": "value"}}));
            });
        }
        push(&mirror, &crm).await;
        assert_eq!(states(&mirror), "applied", "known: {known}");
        assert_eq!(methods(&crm) == "PATCH", known, "known: {known}: {}", methods(&crm));
    }
}

#[tokio::test]
async fn object_waits_after_failures_in_a_row_and_others_continue() {
    // What the third contact is answered, and whether the contacts after the fourth are tried.
    for (third, continues) in [(None, true), (Some(Fault::Status(422)), true), (Some(Fault::Status(503)), false)] {
        let name = format!("{third:?}");
        let (crm, mirror) = mirrored(5).await;
        sql(&mirror, "UPDATE contacts_full SET position = 'a'; UPDATE companies_full SET industry = 'a'");
        for record in ["c0", "c1", "c3"] {
            fault(&crm, "PATCH", record, Fault::Status(503));
        }
        if let Some(answer) = third {
            fault(&crm, "PATCH", "c2", answer);
        }
        let report = push(&mirror, &crm).await;
        assert_eq!(patches(&crm).len(), if continues { 6 } else { 4 }, "{name}");
        let of = |id: &str| mirror.one(&format!("SELECT state FROM outbox WHERE record_id = '{id}'"));
        assert_eq!((of("c4") == "'applied'", of("p").as_str()), (continues, "'applied'"), "{name}");
        let warned = report.warnings.iter().any(|warning| warning.contains("edits of contacts are waiting"));
        let counted = delays(&mirror).contains("object 1");
        assert_eq!((warned, counted), (!continues, !continues), "{name}: {:?}", report.warnings);
    }
}

#[tokio::test]
async fn records_that_fail_to_be_read_make_their_object_wait() {
    let (crm, mirror) = mirrored(4).await;
    crm.sandbox.faults().add(Rule::new(Fault::Reset).method("PATCH").times(2));
    set_position(&mirror, "c0", "a");
    set_position(&mirror, "c1", "a");
    push(&mirror, &crm).await;
    crm.sandbox.faults().add(Rule::new(Fault::Reset).method("PATCH").times(2));
    set_position(&mirror, "c2", "a");
    set_position(&mirror, "c3", "a");
    push(&mirror, &crm).await;
    assert_eq!(
        (states(&mirror).as_str(), delays(&mirror).contains("object")),
        ("sending sending sending sending", false)
    );
    crm.wait(10);
    crm.sandbox.clear_log();
    for record in ["c0", "c1", "c2", "c3"] {
        fault(&crm, "GET", record, Fault::Status(503));
    }
    let report = push(&mirror, &crm).await;
    assert_eq!((methods(&crm).as_str(), delays(&mirror).contains("object 1")), ("GET GET GET", true));
    assert!(report.warnings.iter().any(|warning| warning.contains("edits of contacts are waiting")), "{report:?}");
}

#[tokio::test]
async fn redirect_ends_the_push_and_delays_the_object() {
    let (crm, mirror) = mirrored(2).await;
    set_position(&mirror, "c0", "a");
    set_position(&mirror, "c1", "a");
    let redirect = Fault::Redirect { status: 302, location: "https://example.com/".into() };
    crm.sandbox.faults().add(Rule::new(redirect).method("PATCH").forever());
    let error = mirror.run(&crm, &Job::push()).await.unwrap_err();
    assert!(matches!(error, SyncError::Api { .. }), "{error:?}");
    assert_eq!((states(&mirror).as_str(), methods(&crm).as_str()), ("queued queued", "PATCH"));
    assert_eq!(delays(&mirror), "object 1, record 1");
    crm.wait(10);
    push(&mirror, &crm).await;
    assert_eq!(methods(&crm), "PATCH", "nothing else is sent before the object's delay is over");
    crm.sandbox.faults().clear();
    crm.wait(50);
    assert_eq!(push(&mirror, &crm).await.push.applied, 2);
}

#[tokio::test]
async fn hold_of_a_request_in_doubt_leaves_it_to_the_next_push() {
    let (crm, mirror) = in_doubt(Fault::Reset).await;
    let hold = Fault::Wait { status: 429, body: Some(20), header: None };
    crm.sandbox.faults().add(Rule::new(hold).method("PATCH"));
    push(&mirror, &crm).await;
    assert_eq!((states(&mirror).as_str(), methods(&crm).as_str()), ("sending", "GET PATCH"));
    crm.wait(20 + 60);
    assert_eq!(push(&mirror, &crm).await.push.applied, 1);
}

#[tokio::test]
async fn object_of_which_only_custom_values_are_edited_and_refused_lacks_the_scope() {
    for (also, missing) in [(None, true), (Some("c1"), false), (Some("p"), true)] {
        let (crm, mirror) = mirrored(2).await;
        crm.sandbox.configure(|settings| settings.custom_fields_read_only = true);
        sql(&mirror, "UPDATE contacts_full SET cf_word = 'w' WHERE id = 'c0'");
        match also {
            Some("p") => sql(&mirror, "UPDATE companies_full SET industry = 'Tools' WHERE id = 'p'"),
            Some(contact) => set_position(&mirror, contact, "CTO"),
            None => {}
        }
        let report = push(&mirror, &crm).await;
        let expected: &[(Resource, &str)] = if missing { &[(Resource::Contacts, "contacts:write")] } else { &[] };
        assert_eq!(report.missing_scopes, expected, "{also:?}");
        assert_eq!(report.push.applied, u64::from(also.is_some()), "{also:?}");
    }
}

/// The other worker finishes what it has begun.
#[tokio::test]
async fn refused_key_stops_every_worker() {
    let (crm, mut mirror) = mirrored(60).await;
    mirror.settings.concurrency = 2;
    sql(&mirror, "UPDATE contacts_full SET position = 'a'");
    crm.sandbox.faults().add(Rule::new(Fault::Status(401)).method("PATCH").times(1));
    mirror.run(&crm, &Job::push()).await.unwrap_err();
    let sent = patches(&crm).len();
    assert!(sent < 60, "{sent} updates were sent");
}

#[tokio::test]
async fn value_that_changes_nothing_is_validated_too() {
    let (crm, mirror) = mirrored(1).await;
    let now = crm.clock.now();
    let queued = |changes: Vec<(String, Given)>| {
        let request = EditRequest { object: CONTACT, record: "c0".into(), changes };
        write_beside(&mirror.path, |tx| Ok::<_, StoreError>(queue(tx, &request, now).map(drop)))
    };
    let (position, must) =
        (("position".to_string(), Given::Text("CTO".into())), ("cf_must".to_string(), Given::Json(json!(null))));
    let refused = queued(vec![position.clone(), must]).unwrap().unwrap_err();
    assert!(refused.to_string().contains("`cf_must` cannot be cleared"), "{refused}");
    queued(vec![position]).unwrap().unwrap();
}

/// A restore of the file alone must find what its edits have cost.
#[tokio::test]
async fn cost_of_an_update_is_stored_with_its_edit() {
    for commits in 0.. {
        let (crm, mirror) = mirrored(1).await;
        let before = mirror.ledger_total();
        set_position(&mirror, "c0", "CTO");
        let killed = mirror.run_killed_after(&crm, &Job::push(), Some(commits)).await.is_err();
        assert!(killed, "{commits} commits suffice");
        if states(&mirror) == "applied" {
            assert_eq!(mirror.ledger_total(), before + crm.charged(), "after {commits} commits");
            break;
        }
    }
}

#[tokio::test]
async fn record_without_a_usable_version_is_read_as_often_as_its_delay_allows() {
    // Neither the record's list item nor its detail has a version, or the detail alone has none.
    for (etag, edit) in [(Some("null"), "position = 'CTO'"), (Some("7"), "position = 'CTO'"), (None, "notes = 'new'")] {
        let (crm, mut mirror) = mirrored(1).await;
        mirror.settings.details = etag.is_some();
        crm.sandbox.with_world(|world| match etag {
            Some(source) => world.edit(CONTACT, "c0", &json!({})) && world.set_raw(CONTACT, "c0", "etag", source),
            None => world.edit(CONTACT, "c0", &json!({"notes": "theirs"})),
        });
        mirror.sync(&crm).await;
        if etag.is_none() {
            crm.sandbox.with_world(|world| world.leave_out(CONTACT, "c0", "etag"));
        }
        sql(&mirror, &format!("UPDATE contacts_full SET {edit} WHERE id = 'c0'"));
        mirror.limits.limit = Ru::new(mirror.ledger_total() + 50);
        crm.sandbox.clear_log();
        for (wait, read) in [(0, 1), (0, 0), (10, 1), (60, 1), (600, 1), (600, 0), (HOUR, 1)] {
            crm.wait(wait);
            let warned = push(&mirror, &crm).await.warnings.iter().any(|warning| warning.contains("no usable `etag`"));
            assert_eq!((crm.sandbox.log().len(), states(&mirror).as_str()), (read, "queued"), "{etag:?}");
            assert_eq!(warned, read == 1, "{etag:?}");
            crm.sandbox.clear_log();
        }
    }
}

/// No address can name one record, and no header can hold the version of the other.
#[tokio::test]
async fn update_that_cannot_be_a_request_is_refused_here_and_not_counted_as_sent() {
    for (id, etag, what) in [("..", r#""v1""#, "identifier"), ("odd", r#""v\n1""#, "etag")] {
        let crm = Crm::serve(World::new(noon())).await;
        crm.sandbox.with_world(|world| {
            world.create(CONTACT, &json!({"id": id, "name": "Ann", "position": "CEO"}));
            world.create(CONTACT, &json!({"id": "c1", "name": "Bea", "position": "CEO"}));
            world.set_raw(CONTACT, id, "etag", etag);
        });
        let mut mirror = Mirror::one_at_a_time();
        mirror.settings.write_back = true;
        mirror.settings.details = false;
        mirror.sync(&crm).await;
        crm.sandbox.clear_log();
        set_position(&mirror, id, "CTO");
        set_position(&mirror, "c1", "CTO");
        let pushed = push(&mirror, &crm).await.push;
        assert_eq!((pushed.sent, pushed.applied, pushed.rejected, patches(&crm).len()), (1, 1, 1, 1), "{what}");
        let why = format!("'this {what} cannot be sent in a request: crm-mirror refused it, and nothing was sent'");
        assert_eq!(mirror.one("SELECT why FROM outbox_events WHERE outbox_id = 1 ORDER BY id DESC"), why);
        let of_it = "FROM outbox_events WHERE outbox_id = 1";
        assert_eq!(mirror.one(&format!("SELECT count(*) {of_it} AND to_state = 'sending'")), "0", "{what}");
        assert_eq!(mirror.one("SELECT status FROM outbox WHERE id = 1"), "NULL", "{what}");
    }
}

#[tokio::test]
async fn options_in_another_order_are_the_same_value() {
    let (crm, mirror) = mirrored(1).await;
    crm.sandbox.with_world(|world| {
        world.fields().define(NewField::new(CONTACT, "set", DataType::MultiSelect).options(&["x", "y", "z"]));
    });
    mirror.sync(&crm).await;
    crm.sandbox.clear_log();
    let sorted = |body: &str, _: &str| body.replace(r#"["y","x"]"#, r#"["x","y"]"#);
    crm.sandbox.faults().add(Rule::new(Fault::Rewritten(sorted, String::new())).forever());
    for (value, held, sent) in [(r#"["y","x"]"#, r#"["x","y"]"#, 1), (r#"["y","x"]"#, r#"["x","y"]"#, 2)] {
        sql(&mirror, &format!("UPDATE contacts_full SET cf_set = '{value}' WHERE id = 'c0'"));
        push(&mirror, &crm).await;
        assert_eq!(patches(&crm).len(), sent, "an edit of the order is one, too");
        assert!(states(&mirror).split(' ').all(|state| state == "applied"), "{}", states(&mirror));
        assert_eq!(mirror.one("SELECT cf_set FROM contacts WHERE id = 'c0'"), format!("'{held}'"));
    }
    // In doubt, the record that is read back shows that it was applied.
    crm.sandbox.faults().clear();
    crm.sandbox.faults().add(Rule::new(Fault::ResetAfterApply).method("PATCH"));
    let sorted = |body: &str, _: &str| body.replace(r#"["z","x"]"#, r#"["x","z"]"#);
    crm.sandbox.faults().add(Rule::new(Fault::Rewritten(sorted, String::new())).method("GET").forever());
    sql(&mirror, r#"UPDATE contacts_full SET cf_set = '["z","x"]' WHERE id = 'c0'"#);
    push(&mirror, &crm).await;
    crm.wait(HOUR);
    push(&mirror, &crm).await;
    assert_eq!((states(&mirror).as_str(), patches(&crm).len()), ("applied applied applied", 3));
}

/// A service that trims texts: no other version follows, so nobody else has changed anything.
#[tokio::test]
async fn value_that_the_service_stores_in_another_form_is_nobody_elses_change() {
    for is_changed in [false, true] {
        let (crm, mirror) = mirrored(1).await;
        let trimmed = |body: &str, _: &str| body.replace(r#""  Boss ""#, r#""Boss""#);
        crm.sandbox.faults().add(Rule::new(Fault::Rewritten(trimmed, String::new())).forever());
        set_position(&mirror, "c0", "  Boss ");
        sql(&mirror, "UPDATE contacts_full SET language = 'de' WHERE id = 'c0'");
        crm.sandbox.before_request(move |world: &mut World, asked: &RequestLine| {
            if is_changed && asked.method == "GET" {
                world.edit(CONTACT, "c0", &json!({"name": "Bea"}));
            }
        });
        push(&mirror, &crm).await;
        // What was stored as it was sent is applied, beside what was not.
        let expected = if is_changed { "conflict conflict" } else { "conflict applied" };
        assert_eq!((states(&mirror).as_str(), methods(&crm).as_str()), (expected, "PATCH GET"));
        assert_eq!(mirror.one("SELECT theirs FROM outbox WHERE id = 1"), r#"'{"position":"Boss"}'"#);
        let why = mirror.one("SELECT why FROM outbox_events WHERE outbox_id = 1 ORDER BY id DESC LIMIT 1");
        assert_eq!(why.contains("stored another value than was sent"), !is_changed, "{why}");
        assert_eq!(why.contains("somebody else's change"), is_changed, "{why}");
    }
}

/// A service that answers with the record as it is, and does not carry the update out: the version is somebody else's.
#[tokio::test]
async fn success_with_the_values_from_before_does_not_claim_that_the_update_was_stored() {
    let (crm, mirror) = mirrored(1).await;
    set_position(&mirror, "c0", "CTO");
    crm.sandbox.with_world(|world| world.edit(CONTACT, "c0", &json!({"name": "Bea"})));
    crm.sandbox.faults().add(Rule::new(Fault::NotApplied).method("PATCH"));
    push(&mirror, &crm).await;
    assert_eq!((states(&mirror).as_str(), methods(&crm).as_str()), ("conflict", "PATCH GET"));
    let why = mirror.one("SELECT why FROM outbox_events ORDER BY id DESC LIMIT 1");
    assert!(why.contains("may have been applied before somebody else's change"), "{why}");
}

/// The answer to an update is no detail: what it has in place of fields that only details show, and of a group, tells nothing.
#[tokio::test]
async fn answer_to_an_update_tells_nothing_of_what_was_not_submitted_and_only_details_show() {
    let (crm, mirror) = mirrored(1).await;
    crm.sandbox.with_world(|world| world.edit(CONTACT, "c0", &json!({"language": "en", "location": {"city": "Bern"}})));
    mirror.sync(&crm).await;
    let compact = |body: &str, _: &str| {
        let mut body: serde_json::Value = serde_json::from_str(body).unwrap();
        for name in ["notes", "language", "location", "customFields"] {
            body["data"][name] = json!(null);
        }
        body.to_string()
    };
    crm.sandbox.faults().add(Rule::new(Fault::Rewritten(compact, String::new())).method("PATCH"));
    set_position(&mirror, "c0", "CTO");
    push(&mirror, &crm).await;
    let row = "SELECT position || notes || language || location_city || details_current FROM contacts_full";
    assert_eq!((states(&mirror).as_str(), mirror.one(row).as_str()), ("applied", "'CTOoldenBern0'"));
    assert_eq!(mirror.sync(&crm).await.tally.details, 1);
    mirror.assert_exact(&crm);
}
