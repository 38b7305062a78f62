//! Edits on their way: what is sent, what each answer does, and that nothing is done twice or lost.

use std::collections::BTreeSet;

use crate::support::{Crm, Mirror, noon};
use crm_mirror::model::{DataType, Object, Resource, Ru};
use crm_mirror::sandbox::{Fault, LoggedRequest, NewField, RequestLine, Rule, World};
use crm_mirror::store::RunOutcome;
use crm_mirror::sync::{Job, PushTally, RunReport, SyncError};
use serde_json::{Value, json};

const CONTACT: Object = Object::Contact;
const DAY: u64 = 24 * 60 * 60;

fn world() -> World {
    let mut world = World::new(noon());
    for object in Object::ALL {
        for data_type in DataType::ALL {
            let key = data_type.as_str().to_lowercase();
            world.define(NewField::new(object, &key, data_type).options(&["x", "y"]));
        }
    }
    for id in ["a", "b"] {
        world.create(
            CONTACT,
            &json!({"id": id, "name": "Ann", "position": "CEO", "language": "en", "notes": "old", "email": "a@x.com",
                    "customFields": {"decimal": "1.50", "long_text": "long"}}),
        );
    }
    world.create(Object::Company, &json!({"id": "p", "name": "Acme", "industry": "Food"}));
    world
}

/// A mirror that is up to date; every request is sent once, so that what happens to it is seen by itself.
async fn mirrored() -> (Crm, Mirror) {
    let crm = Crm::serve(world()).await;
    let mut mirror = Mirror::one_at_a_time();
    mirror.settings.write_back = true;
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
    mirror.tries = 1;
    crm.wait(3_600);
    crm.sandbox.clear_log();
    (crm, mirror)
}

fn sql(mirror: &Mirror, sql: &str) {
    rusqlite::Connection::open(&mirror.path).unwrap().execute_batch(sql).unwrap();
}

fn set_position(mirror: &Mirror, id: &str, position: &str) {
    sql(mirror, &format!("UPDATE contacts_full SET position = '{position}' WHERE id = '{id}'"));
}

async fn push(mirror: &Mirror, crm: &Crm) -> RunReport {
    mirror.run(crm, &Job::Push).await.unwrap()
}

/// The states of all edits, in order.
fn states(mirror: &Mirror) -> String {
    mirror
        .one("SELECT group_concat(state, ' ') FROM (SELECT state FROM outbox ORDER BY id)")
        .trim_matches('\'')
        .to_string()
}

fn said(mirror: &Mirror, column: &str) -> Value {
    serde_json::from_str(mirror.one(&format!("SELECT {column} FROM outbox")).trim_matches('\'')).unwrap_or_default()
}

/// The updates that were carried out: record and body.
fn carried_out(crm: &Crm) -> Vec<(String, Value)> {
    let log = crm.sandbox.log();
    log.carried_out()
        .map(|entry| {
            let body = serde_json::from_str(entry.body.as_deref().unwrap()).unwrap();
            (entry.asked.path.clone(), body)
        })
        .collect()
}

fn patches(crm: &Crm) -> Vec<LoggedRequest> {
    let log = crm.sandbox.log();
    log.entries().iter().filter(|e| e.asked.method == "PATCH").cloned().collect()
}

fn there(crm: &Crm, id: &str, field: &str) -> Value {
    crm.sandbox.world().detail_json(CONTACT, id).unwrap()[field].clone()
}

/// What a request must repeat.
fn same_request(a: &LoggedRequest, b: &LoggedRequest) -> bool {
    (&a.body, &a.if_match, &a.idempotency_key) == (&b.body, &b.if_match, &b.idempotency_key)
}

#[tokio::test]
async fn an_update_in_sql_reaches_the_service_for_two_units_and_is_here_at_once() {
    let (crm, mirror) = mirrored().await;
    sql(
        &mirror,
        "UPDATE contacts_full SET position = 'CTO', language = 'de', cf_decimal = '2.50', cf_long_text = NULL,
                cf_boolean = 1, cf_multi_select = '[\"x\",\"y\"]' WHERE id = 'a';
         UPDATE companies_full SET industry = 'Tools' WHERE id = 'p'",
    );
    let report = push(&mirror, &crm).await;
    let applied = PushTally { sent: 2, applied: 2, ..PushTally::default() };
    assert_eq!((report.push, report.tally.ru, report.tally.updated), (applied, Ru::new(4), 2));
    assert_eq!(crm.charged(), 4);
    assert_eq!(
        carried_out(&crm),
        [
            (
                "/contacts/a".to_string(),
                json!({"position": "CTO", "language": "de", "customFields":
                       {"decimal": "2.50", "long_text": null, "boolean": true, "multi_select": ["x", "y"]}}),
            ),
            ("/companies/p".to_string(), json!({"industry": "Tools"})),
        ]
    );
    // Details too, although none was read: between the version replaced and the new one lies our update alone.
    mirror.assert_exact(&crm);
    assert_eq!(states(&mirror), "applied applied");
    let trail = "SELECT group_concat(coalesce(from_state, '') || '>' || to_state, ' ') FROM outbox_events
                 WHERE outbox_id = 1";
    assert_eq!(mirror.one(trail), "'>queued queued>sending sending>applied'");
    let history =
        "SELECT json_extract(fields, '$.position[1]') FROM changes WHERE record_id = 'a' ORDER BY seq LIMIT 1";
    assert_eq!(mirror.one(history), "'CTO'");
    let idle = mirror.sync(&crm).await;
    assert_eq!((idle.push, idle.tally.updated, idle.tally.details), (PushTally::default(), 0, 0));
    mirror.assert_exact(&crm);
}

#[tokio::test]
async fn what_an_answer_cannot_show_is_read_again() {
    let (crm, mirror) = mirrored().await;
    sql(&mirror, "UPDATE contacts_full SET notes = 'new' WHERE id = 'a'");
    push(&mirror, &crm).await;
    assert_eq!(mirror.one("SELECT notes FROM contacts_full WHERE id = 'a'"), "'new'");
    assert_eq!(mirror.one("SELECT details_current FROM contacts_full WHERE id = 'a'"), "0");
    mirror.assert_exact_lists(&crm);
    assert_eq!(mirror.sync(&crm).await.tally.details, 1);
    mirror.assert_exact(&crm);
}

#[tokio::test]
async fn nothing_is_sent_where_writing_back_is_off() {
    let (crm, mut mirror) = mirrored().await;
    set_position(&mirror, "a", "CTO");
    mirror.settings.write_back = false;
    let report = push(&mirror, &crm).await;
    assert!(report.warnings[0].contains("write_back.enabled"), "{:?}", report.warnings);
    mirror.sync(&crm).await;
    assert!(patches(&crm).is_empty());
    assert_eq!(states(&mirror), "queued");
}

#[tokio::test]
async fn each_refusal_has_its_end() {
    for (status, state, requests) in [
        (400, "rejected", 1),
        (403, "queued", 1),
        (405, "rejected", 1),
        (408, "sending", 1),
        (409, "applied", 2),
        (412, "applied", 2),
        (422, "rejected", 1),
        (428, "rejected", 1),
        (500, "sending", 1),
        (503, "sending", 1),
    ] {
        let (crm, mirror) = mirrored().await;
        set_position(&mirror, "a", "CTO");
        crm.sandbox.faults().add(Rule::new(Fault::Status(status)).method("PATCH"));
        let report = push(&mirror, &crm).await;
        assert_eq!(states(&mirror), state, "{status}");
        assert_eq!(patches(&crm).len(), requests, "{status}");
        assert_eq!(carried_out(&crm).len(), usize::from(state == "applied"), "{status}");
        let waits = u64::from(matches!(state, "queued" | "sending"));
        assert_eq!(report.push.waiting, waits, "{status}");
        assert_eq!(report.push.rejected, u64::from(state == "rejected"), "{status}");
        if state == "rejected" {
            assert_eq!(said(&mirror, "answer")["status"], json!(status));
        }
        // What waits is tried again after its delay; what is rejected stays so.
        crm.wait(60);
        mirror.sync(&crm).await;
        let end = if state == "rejected" { state } else { "applied" };
        assert_eq!(states(&mirror), end, "{status}");
        assert_eq!(carried_out(&crm).len(), usize::from(end == "applied"), "{status}");
        mirror.assert_exact(&crm);
    }
}

#[tokio::test]
async fn a_hold_is_waited_out_and_nothing_is_in_doubt() {
    for (wait, state, asked) in [(20, "applied", 2), (600, "queued", 1)] {
        let (crm, mirror) = mirrored().await;
        set_position(&mirror, "a", "CTO");
        let fault = Fault::TooMany { body: Some(wait), header: None };
        crm.sandbox.faults().add(Rule::new(fault).method("PATCH"));
        let report = push(&mirror, &crm).await;
        assert_eq!((states(&mirror).as_str(), patches(&crm).len()), (state, asked), "{wait} s");
        assert_eq!(report.suspension.is_some(), state == "queued", "{wait} s");
        crm.wait(600);
        mirror.sync(&crm).await;
        assert_eq!((states(&mirror).as_str(), carried_out(&crm).len()), ("applied", 1), "{wait} s");
    }
}

#[tokio::test]
async fn a_refusal_of_a_retry_does_not_hide_that_the_edit_came_through() {
    for (fault, state, updates) in [(Fault::ResetAfterApply, "applied", 1), (Fault::Reset, "rejected", 0)] {
        let (crm, mut mirror) = mirrored().await;
        mirror.tries = 2;
        set_position(&mirror, "a", "CTO");
        crm.sandbox.faults().add(Rule::new(fault).method("PATCH"));
        crm.sandbox.faults().add(Rule::new(Fault::Status(422)).method("PATCH").times(2));
        push(&mirror, &crm).await;
        crm.wait(10);
        push(&mirror, &crm).await;
        assert_eq!((states(&mirror).as_str(), carried_out(&crm).len()), (state, updates));
    }
}

#[tokio::test]
async fn a_second_409_under_a_fresh_key_is_a_refusal() {
    let (crm, mirror) = mirrored().await;
    set_position(&mirror, "a", "CTO");
    crm.sandbox.faults().add(Rule::new(Fault::Status(409)).method("PATCH").forever());
    push(&mirror, &crm).await;
    let sent = patches(&crm);
    assert_eq!((states(&mirror).as_str(), sent.len()), ("rejected", 2));
    assert_ne!(sent[0].idempotency_key, sent[1].idempotency_key);
}

#[tokio::test]
async fn a_refused_key_stops_everything_and_leaves_the_edit_queued() {
    let (crm, mirror) = mirrored().await;
    set_position(&mirror, "a", "CTO");
    crm.sandbox.faults().add(Rule::new(Fault::Status(401)).method("PATCH"));
    let error = mirror.run(&crm, &Job::sync()).await.unwrap_err();
    assert!(matches!(error, SyncError::Api { .. }), "{error:?}");
    assert_eq!((states(&mirror).as_str(), crm.sandbox.log().len()), ("queued", 1));
}

#[tokio::test]
async fn a_missing_write_scope_is_named_and_the_rest_goes_on() {
    let (crm, mut mirror) = mirrored().await;
    set_position(&mirror, "a", "CTO");
    set_position(&mirror, "b", "CTO");
    sql(&mirror, "UPDATE companies_full SET industry = 'Tools' WHERE id = 'p'");
    let reads = ["contacts:read", "companies:read", "custom-fields:read", "team-members:read"];
    mirror.key = Some(crm.sandbox.add_key(&[&reads[..], &["companies:write"]].concat()));
    crm.sandbox.with_world(|world| world.edit(CONTACT, "b", &json!({"name": "Bea"})));
    let report = mirror.sync(&crm).await;
    assert_eq!(report.outcome, RunOutcome::Done);
    assert_eq!(report.missing_scopes, [(Resource::Contacts, "contacts:write")]);
    assert_eq!(states(&mirror), "queued queued applied");
    let refused = patches(&crm).iter().filter(|e| e.status == Some(403)).count();
    assert_eq!(refused, 1, "the second contact was not tried");
    assert_eq!(mirror.one("SELECT name FROM contacts WHERE id = 'b'"), "'Bea'");
    assert!(mirror.one("SELECT value FROM state WHERE name = 'missing_scopes'").contains("contacts:write"));
    // Another key is tried at once.
    mirror.key = None;
    let report = mirror.sync(&crm).await;
    assert_eq!((report.push.applied, states(&mirror).as_str()), (2, "applied applied applied"));
    assert!(!mirror.one("SELECT value FROM state WHERE name = 'missing_scopes'").contains("write"));
    mirror.assert_exact(&crm);
}

#[tokio::test]
async fn a_plan_without_custom_values_holds_only_those() {
    let (crm, mirror) = mirrored().await;
    crm.sandbox.configure(|settings| settings.custom_fields_editable = false);
    sql(&mirror, "UPDATE contacts_full SET cf_decimal = '3' WHERE id = 'a'");
    set_position(&mirror, "b", "CTO");
    let report = push(&mirror, &crm).await;
    assert_eq!((states(&mirror).as_str(), report.push.waiting), ("queued applied", 1));
    assert!(report.missing_scopes.is_empty(), "{:?}", report.missing_scopes);
    assert!(report.warnings.iter().any(|w| w.contains("plan")), "{:?}", report.warnings);
}

#[tokio::test]
async fn a_lost_answer_is_found_again_with_the_same_request() {
    for fault in [Fault::ResetAfterApply, Fault::Truncated, Fault::NotJson, Fault::Reset, Fault::Status(500)] {
        let done = !matches!(fault, Fault::Reset | Fault::Status(_));
        let (crm, mirror) = mirrored().await;
        set_position(&mirror, "a", "CTO");
        crm.sandbox.faults().add(Rule::new(fault.clone()).method("PATCH"));
        assert_eq!(push(&mirror, &crm).await.push.waiting, 1, "{fault:?}");
        assert_eq!((states(&mirror).as_str(), carried_out(&crm).len()), ("sending", usize::from(done)), "{fault:?}");
        // Others change what we changed, before we hear of it: that stays.
        if done {
            crm.sandbox.with_world(|world| world.edit(CONTACT, "a", &json!({"position": "Chair"})));
        }
        crm.wait(23 * 3_600);
        let report = push(&mirror, &crm).await;
        assert_eq!((report.push.applied, carried_out(&crm).len()), (1, 1), "{fault:?}");
        let sent = patches(&crm);
        assert!(sent.len() == 2 && same_request(&sent[0], &sent[1]), "{fault:?}");
        assert_eq!(there(&crm, "a", "position"), if done { "Chair" } else { "CTO" }, "{fault:?}");
        mirror.sync(&crm).await;
        mirror.assert_exact(&crm);
    }
}

#[tokio::test]
async fn what_may_have_been_carried_out_is_read_back_before_anything_else() {
    for fault in [Fault::ResetAfterApply, Fault::Truncated, Fault::Status(408), Fault::Status(504)] {
        let (crm, mut mirror) = mirrored().await;
        // The client tries nothing by itself: the delay is stored.
        mirror.tries = 5;
        set_position(&mirror, "a", "CTO");
        crm.sandbox.faults().add(Rule::new(fault.clone()).method("PATCH"));
        push(&mirror, &crm).await;
        assert_eq!((crm.sandbox.log().len(), states(&mirror).as_str()), (1, "sending"), "{fault:?}");
        push(&mirror, &crm).await;
        assert_eq!(crm.sandbox.log().len(), 1, "not before its delay is over: {fault:?}");
        crm.wait(10);
        let report = push(&mirror, &crm).await;
        assert_eq!(crm.sandbox.log().entries()[1].asked.method, "GET", "{fault:?}");
        let (done, sent) = if matches!(fault, Fault::Status(_)) { (1, 2) } else { (1, 1) };
        assert_eq!((report.push.applied, carried_out(&crm).len(), patches(&crm).len()), (1, done, sent), "{fault:?}");
        mirror.sync(&crm).await;
        mirror.assert_exact(&crm);
    }
}

#[tokio::test]
async fn once_the_key_is_forgotten_the_record_is_read_first() {
    // What was done by the lost request, what others did since, how it ends, and the updates carried out in all.
    let other = json!({"name": "Bea"});
    let same = json!({"position": "Chair"});
    let part = json!({"language": "fr"});
    for (fault, since, end, updates) in [
        (Fault::ResetAfterApply, None, "applied", 1),
        (Fault::ResetAfterApply, Some(&other), "applied", 1),
        (Fault::ResetAfterApply, Some(&same), "conflict", 1),
        (Fault::ResetAfterApply, Some(&part), "conflict", 1),
        (Fault::Reset, None, "applied", 1),
        (Fault::Reset, Some(&other), "applied", 1),
        (Fault::Reset, Some(&same), "conflict", 0),
    ] {
        let name = format!("{fault:?}, {since:?}");
        let (crm, mirror) = mirrored().await;
        sql(&mirror, "UPDATE contacts_full SET position = 'CTO', language = 'de' WHERE id = 'a'");
        crm.sandbox.faults().add(Rule::new(fault).method("PATCH"));
        push(&mirror, &crm).await;
        crm.wait(DAY);
        if let Some(change) = since {
            crm.sandbox.with_world(|world| world.edit(CONTACT, "a", change));
        }
        let asked = crm.sandbox.log().len();
        push(&mirror, &crm).await;
        let log = crm.sandbox.log();
        assert_eq!(log.entries()[asked].asked.method, "GET", "{name}");
        assert_eq!((states(&mirror).as_str(), carried_out(&crm).len()), (end, updates), "{name}");
        let keys: BTreeSet<_> = patches(&crm).into_iter().map(|e| e.idempotency_key).collect();
        assert_eq!(keys.len(), patches(&crm).len(), "a new request has a new key: {name}");
        if end == "conflict" {
            let world = crm.sandbox.world().detail_json(CONTACT, "a").unwrap();
            let theirs = json!({"position": world["position"], "language": world["language"]});
            assert_eq!(said(&mirror, "theirs"), theirs, "{name}");
        }
        mirror.sync(&crm).await;
        mirror.assert_exact(&crm);
    }
}

#[tokio::test]
async fn values_that_the_mirror_saw_in_between_settle_what_became_of_a_request() {
    let (crm, mirror) = mirrored().await;
    set_position(&mirror, "a", "CTO");
    crm.sandbox.faults().add(Rule::new(Fault::ResetAfterApply).method("PATCH"));
    crm.sandbox.faults().add(Rule::new(Fault::Status(503)).method("PATCH").forever());
    mirror.sync(&crm).await;
    // The same run read our value; then somebody set it back.
    crm.sandbox.with_world(|world| world.edit(CONTACT, "a", &json!({"position": "CEO"})));
    crm.wait(DAY);
    crm.sandbox.faults().clear();
    mirror.sync(&crm).await;
    assert_eq!((states(&mirror).as_str(), carried_out(&crm).len()), ("applied", 1));
    assert_eq!(there(&crm, "a", "position"), "CEO");
}

#[tokio::test]
async fn an_edit_is_rebased_where_others_left_its_fields_alone() {
    for (theirs, end) in [
        (json!({"name": "Bea"}), "applied"),
        (json!({"notes": "theirs"}), "applied"),
        (json!({"position": "Chair"}), "conflict"),
        (json!({"position": "CTO"}), "applied"),
    ] {
        let (crm, mirror) = mirrored().await;
        set_position(&mirror, "a", "CTO");
        let etag = mirror.one("SELECT etag FROM contacts WHERE id = 'a'");
        crm.sandbox.with_world(|world| world.edit(CONTACT, "a", &theirs));
        let report = push(&mirror, &crm).await;
        assert_eq!(states(&mirror), end, "{theirs}");
        let sent = patches(&crm);
        let ours = !theirs.get("position").is_some_and(|_| true);
        assert_eq!((sent.len(), carried_out(&crm).len()), (1 + usize::from(ours), usize::from(ours)), "{theirs}");
        assert_eq!(sent[0].if_match.as_deref(), Some(etag.trim_matches('\'')), "{theirs}");
        if ours {
            assert_ne!(sent[0].idempotency_key, sent[1].idempotency_key, "{theirs}");
            assert_eq!(sent[0].body, sent[1].body, "{theirs}");
            assert_eq!(crm.charged(), 3, "a detail and an update: {theirs}");
        }
        assert_eq!(report.push.conflicts, u64::from(end == "conflict"), "{theirs}");
        mirror.sync(&crm).await;
        mirror.assert_exact(&crm);
        for (field, value) in theirs.as_object().unwrap() {
            assert_eq!(&there(&crm, "a", field), value, "theirs stays: {theirs}");
        }
    }
}

#[tokio::test]
async fn what_a_sync_brought_needs_no_refusal_to_be_known() {
    let (crm, mut mirror) = mirrored().await;
    set_position(&mirror, "a", "CTO");
    set_position(&mirror, "b", "CTO");
    mirror.settings.write_back = false;
    crm.sandbox.with_world(|world| {
        world.edit(CONTACT, "a", &json!({"name": "Bea"}));
        world.edit(CONTACT, "b", &json!({"position": "Chair"}));
    });
    mirror.sync(&crm).await;
    mirror.settings.write_back = true;
    crm.sandbox.clear_log();
    let report = push(&mirror, &crm).await;
    assert_eq!((states(&mirror).as_str(), patches(&crm).len(), crm.charged()), ("applied conflict", 1, 2));
    assert_eq!((report.push.applied, report.push.conflicts), (1, 1));
    assert_eq!(mirror.one("SELECT theirs FROM outbox WHERE id = 2"), "'{\"position\":\"Chair\"}'");
}

#[tokio::test]
async fn a_record_that_never_rests_waits_for_the_next_run() {
    let (crm, mirror) = mirrored().await;
    set_position(&mirror, "a", "CTO");
    let mut n = 0;
    crm.sandbox.before_request(move |world: &mut World, asked: &RequestLine| {
        if asked.method == "PATCH" {
            n += 1;
            world.edit(CONTACT, "a", &json!({"name": format!("Name {n}")}));
        }
    });
    let report = push(&mirror, &crm).await;
    assert_eq!((report.push.sent, report.push.waiting, states(&mirror).as_str()), (3, 1, "sending"));
    assert_eq!(crm.sandbox.log().len(), 5, "five requests an hour");
    crm.wait(3_599);
    push(&mirror, &crm).await;
    assert_eq!(crm.sandbox.log().len(), 5);
    crm.wait(1);
    crm.sandbox.clear_hook();
    assert_eq!(push(&mirror, &crm).await.push.applied, 1);
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
}

#[tokio::test]
async fn edits_that_wait_become_one_request_and_go_in_order() {
    let (crm, mirror) = mirrored().await;
    set_position(&mirror, "a", "CTO");
    sql(&mirror, "UPDATE contacts_full SET language = 'de' WHERE id = 'a'");
    set_position(&mirror, "a", "CFO");
    crm.sandbox.faults().add(Rule::new(Fault::Reset).method("PATCH"));
    push(&mirror, &crm).await;
    assert_eq!(states(&mirror), "replaced sending sending");
    // Made while the first request is on its way: it waits for that one's end, and is no conflict with it.
    set_position(&mirror, "a", "COO");
    crm.wait(10);
    let report = push(&mirror, &crm).await;
    assert_eq!((report.push.sent, report.push.applied), (2, 3));
    let bodies: Vec<Value> = carried_out(&crm).into_iter().map(|(_, body)| body).collect();
    assert_eq!(bodies, [json!({"position": "CFO", "language": "de"}), json!({"position": "COO"})]);
    assert_eq!(mirror.one("SELECT group_concat(merged_into) FROM outbox"), "'2'");
    mirror.assert_exact(&crm);
}

#[tokio::test]
async fn what_is_refused_together_is_sent_one_by_one() {
    let (crm, mirror) = mirrored().await;
    sql(&mirror, "UPDATE contacts_full SET language = 'de' WHERE id = 'a'");
    sql(&mirror, "UPDATE contacts_full SET cf_short_text = 's' WHERE id = 'a'");
    set_position(&mirror, "a", "CTO");
    // The mirror does not know it yet: the field has become read-only.
    crm.sandbox.with_world(|world| world.redefine(CONTACT, "short_text", |field| field.writable = false));
    let report = push(&mirror, &crm).await;
    assert_eq!(states(&mirror), "applied rejected applied");
    assert_eq!((report.push.sent, report.push.applied, report.push.rejected), (4, 2, 1));
    let why = "SELECT json_extract(answer, '$.details[0].field') FROM outbox WHERE id = 2";
    assert_eq!(mirror.one(why), "'customFields.short_text'");
    assert_eq!(crm.charged(), 4);
}

#[tokio::test]
async fn a_conflict_holds_what_is_behind_it() {
    let (crm, mirror) = mirrored().await;
    set_position(&mirror, "a", "CTO");
    crm.sandbox.with_world(|world| world.edit(CONTACT, "a", &json!({"position": "Chair"})));
    push(&mirror, &crm).await;
    sql(&mirror, "UPDATE contacts_full SET language = 'de' WHERE id = 'a'");
    let report = push(&mirror, &crm).await;
    assert_eq!((states(&mirror).as_str(), report.push.waiting), ("conflict queued", 1));
    assert!(carried_out(&crm).is_empty());
    sql(&mirror, "UPDATE outbox SET state = 'dropped' WHERE id = 1");
    push(&mirror, &crm).await;
    assert_eq!(states(&mirror), "dropped applied");
    assert_eq!(carried_out(&crm).len(), 1);
}

#[tokio::test]
async fn an_edit_of_a_record_that_is_gone_is_rejected_and_the_record_removed() {
    let (crm, mirror) = mirrored().await;
    set_position(&mirror, "a", "CTO");
    crm.sandbox.with_world(|world| world.remove(CONTACT, "a"));
    let report = push(&mirror, &crm).await;
    assert_eq!((states(&mirror).as_str(), report.tally.removed), ("rejected", 1));
    assert_eq!(crm.charged(), 1, "one list confirms it");
    mirror.assert_exact(&crm);
    // Where lists still have it, it stays.
    set_position(&mirror, "b", "CTO");
    crm.sandbox.faults().add(Rule::new(Fault::Status(404)).method("PATCH"));
    assert_eq!(push(&mirror, &crm).await.tally.removed, 0);
    assert_eq!(states(&mirror), "rejected rejected");
    mirror.assert_exact(&crm);
}

#[tokio::test]
async fn a_detail_that_is_not_current_is_read_before_an_edit_of_it() {
    let (crm, mut mirror) = mirrored().await;
    mirror.settings.details = false;
    crm.sandbox.with_world(|world| world.edit(CONTACT, "a", &json!({"notes": "theirs"})));
    mirror.sync(&crm).await;
    crm.sandbox.clear_log();
    sql(&mirror, "UPDATE contacts_full SET notes = 'ours' WHERE id = 'a'");
    let report = push(&mirror, &crm).await;
    assert_eq!((states(&mirror).as_str(), report.push.conflicts, crm.charged()), ("conflict", 1, 1));
    assert_eq!(there(&crm, "a", "notes"), "theirs");
    assert_eq!(said(&mirror, "theirs"), json!({"notes": "theirs"}));
}

#[tokio::test]
async fn units_are_kept_back_for_edits_that_wait() {
    let (crm, mut mirror) = mirrored().await;
    set_position(&mirror, "a", "CTO");
    crm.sandbox.faults().add(Rule::new(Fault::Status(503)).method("PATCH").forever());
    crm.sandbox.with_world(|world| world.edit(CONTACT, "b", &json!({"notes": "theirs"})));
    // Two for the lists of changes and three kept, for a reading and an update: nothing is left for the detail.
    mirror.limits.limit = Ru::new(mirror.ledger_total() + 5);
    let report = mirror.sync(&crm).await;
    assert_eq!((report.outcome, report.tally.details, report.pending_details), (RunOutcome::Suspended, 0, 1));
    crm.sandbox.faults().clear();
    crm.wait(10);
    let report = push(&mirror, &crm).await;
    assert_eq!((report.push.applied, report.tally.ru), (1, Ru::PATCH + Ru::GET));
}

#[tokio::test]
async fn without_units_nothing_is_sent_and_nothing_is_in_doubt() {
    let (crm, mut mirror) = mirrored().await;
    set_position(&mirror, "a", "CTO");
    mirror.limits.limit = Ru::new(mirror.ledger_total() + 1);
    let report = push(&mirror, &crm).await;
    assert_eq!((report.outcome, states(&mirror).as_str()), (RunOutcome::Suspended, "queued"));
    assert!(crm.sandbox.log().is_empty());
    assert_eq!(mirror.one("SELECT count(*) FROM outbox WHERE body IS NOT NULL"), "0");
}

#[tokio::test]
async fn a_service_that_fails_does_not_hold_up_the_rest_of_the_run() {
    let (crm, mirror) = mirrored().await;
    set_position(&mirror, "a", "CTO");
    set_position(&mirror, "b", "CTO");
    crm.sandbox.faults().add(Rule::new(Fault::Status(503)).record("a").method("PATCH").forever());
    crm.sandbox.with_world(|world| world.edit(Object::Company, "p", &json!({"name": "New"})));
    let report = mirror.sync(&crm).await;
    assert_eq!((states(&mirror).as_str(), report.outcome), ("sending applied", RunOutcome::Done));
    assert_eq!(mirror.one("SELECT name FROM companies"), "'New'");
}

#[tokio::test]
async fn a_kill_at_any_commit_neither_loses_nor_repeats_an_edit() {
    let mut commits = 0;
    loop {
        let (crm, mirror) = mirrored().await;
        set_position(&mirror, "a", "CTO");
        sql(&mirror, "UPDATE contacts_full SET notes = 'n' WHERE id = 'a'");
        sql(&mirror, "UPDATE companies_full SET industry = 'Tools' WHERE id = 'p'");
        set_position(&mirror, "b", "CTO");
        crm.sandbox.with_world(|world| world.edit(CONTACT, "b", &json!({"language": "fr"})));
        let killed = mirror.run_killed_after(&crm, &Job::Push, Some(commits)).await.is_err();
        crm.wait(3_600);
        mirror.sync(&crm).await;
        assert_eq!(states(&mirror), "applied applied applied applied", "after {commits} commits");
        assert_eq!(carried_out(&crm).len(), 3, "after {commits} commits");
        mirror.sync(&crm).await;
        mirror.assert_exact(&crm);
        assert_eq!(there(&crm, "b", "position"), "CTO");
        assert!(mirror.ledger_total() >= crm.charged());
        if !killed {
            break;
        }
        commits += 1;
    }
    assert!(commits >= 9, "only {commits} commits");
}
