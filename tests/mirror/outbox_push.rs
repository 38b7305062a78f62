//! Sending edits: the requests, the effect of each answer, and that nothing is sent twice or lost.

use std::time::Duration;

use crate::outbox_bench::{
    CONTACT, DAY, carried_out, decide, mirrored, patches, push, said, same_request, set_position, sql, states, there,
};
use crm_mirror::model::{Clock, Resource, Ru};
use crm_mirror::outbox::user_decisions::{self, Decision};
use crm_mirror::sandbox::{Fault, Rule};
use crm_mirror::store::{RunOutcome, write_beside};
use crm_mirror::sync::{Job, PushTally, Suspension, SyncError};
use serde_json::json;

#[tokio::test]
async fn update_in_sql_reaches_the_service_for_two_units_and_is_mirrored_at_once() {
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
    mirror.assert_exact_lists(&crm);
    assert_eq!(states(&mirror), "applied applied");
    let trail = "SELECT group_concat(coalesce(from_state, '') || '>' || to_state, ' ') FROM outbox_events
                 WHERE outbox_id = 1";
    assert_eq!(mirror.one(trail), "'>queued queued>sending sending>applied'");
    let history =
        "SELECT json_extract(fields, '$.position[1]') FROM changes WHERE record_id = 'a' ORDER BY seq LIMIT 1";
    assert_eq!(mirror.one(history), "'CTO'");
    let idle = mirror.sync(&crm).await;
    assert_eq!((idle.push, idle.tally.updated, idle.tally.details), (PushTally::default(), 0, 2));
    mirror.assert_exact(&crm);
}

#[tokio::test]
async fn fields_missing_in_an_answer_are_read_again() {
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
async fn nothing_is_sent_without_write_back() {
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
async fn each_refusal_leads_to_its_final_state() {
    for (status, state, requests) in [
        (400, "rejected", 1),
        (403, "queued", 1),
        (404, "queued", 1),
        (405, "rejected", 1),
        (408, "sending", 1),
        (409, "applied", 2),
        (412, "sending", 1),
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
        // Waiting edits are retried after their delay; rejected ones are final.
        crm.wait(60);
        mirror.sync(&crm).await;
        let end = if state == "rejected" { state } else { "applied" };
        assert_eq!(states(&mirror), end, "{status}");
        assert_eq!(carried_out(&crm).len(), usize::from(end == "applied"), "{status}");
        // An edit that was rejected before needs a decision, too.
        assert_eq!(push(&mirror, &crm).await.push.needs_attention(), end == "rejected", "{status}");
        mirror.assert_exact(&crm);
    }
}

#[tokio::test]
async fn edits_wait_for_a_hold_in_the_outbox_and_the_reads_of_a_run_go_on() {
    for wait in [20, 600] {
        let (crm, mirror) = mirrored().await;
        set_position(&mirror, "a", "CTO");
        sql(&mirror, "UPDATE companies_full SET industry = 'Tools' WHERE id = 'p'");
        let fault = Fault::Wait { status: 429, body: Some(wait), header: None };
        crm.sandbox.faults().add(Rule::new(fault).method("PATCH"));
        let until = crm.clock.now().plus(Duration::from_secs(wait));
        assert_eq!(push(&mirror, &crm).await.suspension, Some(Suspension::Hold(until)), "{wait} s");
        assert_eq!((states(&mirror).as_str(), patches(&crm).len()), ("queued queued", 1), "{wait} s");
        crm.sandbox.with_world(|world| world.edit(CONTACT, "b", &json!({ "name": "Bea" })));
        assert_eq!(mirror.sync(&crm).await.suspension, Some(Suspension::Hold(until)), "{wait} s");
        let is_read = mirror.count("contacts WHERE name = 'Bea'") == 1;
        assert_eq!((is_read, patches(&crm).len()), (wait == 20, 1), "{wait} s");
        decide(&mirror, &crm, [2], Decision::Drop);
        crm.wait(700);
        mirror.sync(&crm).await;
        assert_eq!((states(&mirror).as_str(), carried_out(&crm).len()), ("applied dropped", 1), "{wait} s");
    }
}

#[tokio::test]
async fn refused_retry_does_not_hide_an_applied_edit() {
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
async fn second_409_under_a_new_key_is_a_refusal() {
    let (crm, mirror) = mirrored().await;
    set_position(&mirror, "a", "CTO");
    crm.sandbox.faults().add(Rule::new(Fault::Status(409)).method("PATCH").forever());
    push(&mirror, &crm).await;
    let sent = patches(&crm);
    assert_eq!((states(&mirror).as_str(), sent.len()), ("rejected", 2));
    assert_ne!(sent[0].idempotency_key, sent[1].idempotency_key);
}

#[tokio::test]
async fn refused_key_ends_the_push_and_leaves_the_edit_queued() {
    let (crm, mirror) = mirrored().await;
    set_position(&mirror, "a", "CTO");
    crm.sandbox.faults().add(Rule::new(Fault::Status(401)).method("PATCH"));
    let error = mirror.run(&crm, &Job::sync()).await.unwrap_err();
    assert!(matches!(error, SyncError::Api { .. }), "{error:?}");
    assert_eq!((states(&mirror).as_str(), crm.sandbox.log().len()), ("queued", 1));
}

#[tokio::test]
async fn missing_write_scope_is_reported_and_the_rest_continues() {
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
    assert!(
        mirror
            .one("SELECT coalesce(group_concat(definition), '') FROM goals WHERE kind = 'missing scope'")
            .contains("contacts:write")
    );
    // A new key is tried at once.
    mirror.key = None;
    let report = mirror.sync(&crm).await;
    assert_eq!((report.push.applied, states(&mirror).as_str()), (2, "applied applied applied"));
    assert!(
        !mirror
            .one("SELECT coalesce(group_concat(definition), '') FROM goals WHERE kind = 'missing scope'")
            .contains("write")
    );
    mirror.assert_exact(&crm);
}

/// What was read with another key is known: an edit of it needs no read.
#[tokio::test]
async fn key_that_may_only_write_sends_edits() {
    let (crm, mut mirror) = mirrored().await;
    set_position(&mirror, "a", "CTO");
    mirror.key = Some(crm.sandbox.add_key(&["contacts:write"]));
    let report = push(&mirror, &crm).await;
    assert_eq!(
        (report.outcome, report.push.applied, there(&crm, "a", "position")),
        (RunOutcome::Done, 1, json!("CTO"))
    );
    // A lost answer cannot be read back: the edit waits, and says why.
    set_position(&mirror, "b", "CTO");
    crm.sandbox.faults().add(Rule::new(Fault::ResetAfterApply).method("PATCH").times(1));
    let _ = mirror.run(&crm, &Job::push()).await;
    crm.wait(60);
    let report = push(&mirror, &crm).await;
    assert_eq!(states(&mirror), "applied sending");
    assert!(report.warnings.iter().any(|warning| warning.contains("the key lacks `contacts:read`")), "{report:?}");
    mirror.key = None;
    crm.wait(6 * 3_600);
    push(&mirror, &crm).await;
    assert_eq!((states(&mirror).as_str(), carried_out(&crm).len()), ("applied applied", 2));
}

/// What an edit has read, the key may read: nothing waits for the scope any more.
#[tokio::test]
async fn record_that_an_edit_reads_shows_that_the_key_has_the_scope_again() {
    // Or the lookup of one that is gone, which shows others.
    for (is_gone, state) in [(false, "applied"), (true, "rejected")] {
        let (crm, mut mirror) = mirrored().await;
        let key = crm.sandbox.add_key(&["companies:read", "contacts:write", "custom-fields:read", "team-members:read"]);
        mirror.key = Some(key.clone());
        mirror.scheduled(&crm, &Job::sync()).await;
        let missing = "goals WHERE kind = 'missing scope' AND object = 'contacts'";
        assert_eq!(mirror.count(missing), 1);
        set_position(&mirror, "a", "CTO");
        if is_gone {
            crm.sandbox.with_world(|world| world.remove(CONTACT, "a"));
        } else {
            crm.sandbox.faults().add(Rule::new(Fault::ResetAfterApply).method("PATCH").times(1));
            _ = mirror.try_scheduled(&crm, &Job::push()).await;
        }
        crm.sandbox.set_key(&key, &["contacts:read", "companies:read", "contacts:write"]);
        crm.wait(if is_gone { 1 } else { 60 });
        let report = mirror.scheduled(&crm, &Job::push()).await;
        assert_eq!((states(&mirror).as_str(), report.missing_scopes.len(), mirror.count(missing)), (state, 0, 0));
        crm.sandbox.clear_log();
        mirror.scheduled(&crm, &Job::sync().of(&[Resource::Contacts])).await;
        mirror.assert_exact_lists(&crm);
    }
}

#[tokio::test]
async fn plan_without_custom_values_blocks_only_those() {
    let (crm, mirror) = mirrored().await;
    crm.sandbox.configure(|settings| settings.custom_fields_read_only = true);
    sql(&mirror, "UPDATE contacts_full SET cf_decimal = '3' WHERE id = 'a'");
    set_position(&mirror, "b", "CTO");
    let report = push(&mirror, &crm).await;
    assert_eq!((states(&mirror).as_str(), report.push.waiting), ("queued applied", 1));
    assert!(report.missing_scopes.is_empty(), "{:?}", report.missing_scopes);
    assert!(report.warnings.iter().any(|w| w.contains("plan")), "{:?}", report.warnings);
    // The plan changed: a person need not wait for the next attempt.
    crm.sandbox.configure(|settings| settings.custom_fields_read_only = false);
    push(&mirror, &crm).await;
    assert_eq!(states(&mirror), "queued applied");
    decide(&mirror, &crm, [1], Decision::Retry);
    push(&mirror, &crm).await;
    assert_eq!(states(&mirror), "applied applied");
}

#[tokio::test]
async fn lost_answer_is_recovered_by_the_same_request() {
    for fault in
        [Fault::ResetAfterApply, Fault::Truncated, Fault::StatusAfterApply(200), Fault::Reset, Fault::Status(500)]
    {
        let done = !matches!(fault, Fault::Reset | Fault::Status(_));
        let (crm, mirror) = mirrored().await;
        set_position(&mirror, "a", "CTO");
        crm.sandbox.faults().add(Rule::new(fault.clone()).method("PATCH"));
        assert_eq!(push(&mirror, &crm).await.push.waiting, 1, "{fault:?}");
        assert_eq!((states(&mirror).as_str(), carried_out(&crm).len()), ("sending", usize::from(done)), "{fault:?}");
        // Others change our change before we learn of it: their change stays.
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
async fn possibly_applied_request_is_read_back_first() {
    for fault in [Fault::ResetAfterApply, Fault::Truncated, Fault::Status(408), Fault::Status(504)] {
        let (crm, mut mirror) = mirrored().await;
        // The client itself does not retry: the delay is stored.
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

/// Whether the service still keeps the answer, only the service knows: the same request is repeated, and nothing is begun
/// anew.
#[tokio::test]
async fn request_without_an_answer_is_carried_out_once_or_ends_in_conflict() {
    let other = json!({"name": "Bea"});
    let same = json!({"position": "Chair"});
    let part = json!({"language": "fr"});
    // What the fields were before: the record looks as if nothing had been applied.
    let back = json!({"position": "CEO", "language": "en"});
    // The effect of the lost request, the changes of others, the number of updates that are carried out, and the state at the
    // end if the service keeps the answer, and if it does not.
    for (fault, since, updates, kept, forgotten) in [
        (Fault::ResetAfterApply, Some(&back), 1, "applied", "conflict"),
        (Fault::ResetAfterApply, None, 1, "applied", "applied"),
        (Fault::ResetAfterApply, Some(&other), 1, "applied", "applied"),
        (Fault::ResetAfterApply, Some(&same), 1, "applied", "conflict"),
        (Fault::ResetAfterApply, Some(&part), 1, "applied", "conflict"),
        (Fault::Reset, None, 1, "applied", "applied"),
        (Fault::Reset, Some(&other), 0, "conflict", "conflict"),
        (Fault::Reset, Some(&same), 0, "conflict", "conflict"),
    ] {
        for (wait, end) in [(10, kept), (DAY, forgotten)] {
            let name = format!("{fault:?}, {since:?}, after {wait} seconds");
            let (crm, mirror) = mirrored().await;
            sql(&mirror, "UPDATE contacts_full SET position = 'CTO', language = 'de' WHERE id = 'a'");
            crm.sandbox.faults().add(Rule::new(fault.clone()).method("PATCH"));
            push(&mirror, &crm).await;
            crm.wait(wait);
            if let Some(change) = since {
                crm.sandbox.with_world(|world| world.edit(CONTACT, "a", change));
            }
            let asked = crm.sandbox.log().len();
            push(&mirror, &crm).await;
            assert_eq!(crm.sandbox.log().entries()[asked].asked.method, "GET", "{name}");
            assert_eq!((states(&mirror).as_str(), carried_out(&crm).len()), (end, updates), "{name}");
            let sent = patches(&crm);
            assert!(sent.iter().all(|request| same_request(request, &sent[0])), "{name}");
            let world = crm.sandbox.world().detail_json(CONTACT, "a").unwrap();
            if let Some(change) = since {
                let stays = change.as_object().unwrap().iter().all(|(name, value)| world[name] == *value);
                assert!(stays, "what others changed is not overwritten: {name}");
            }
            if end == "conflict" {
                let theirs = json!({"position": world["position"], "language": world["language"]});
                assert_eq!(said(&mirror, "theirs"), theirs, "{name}");
            }
            mirror.sync(&crm).await;
            mirror.assert_exact(&crm);
        }
    }
}

/// A success with an error's body, of which nothing arrived.
#[tokio::test]
async fn success_that_changed_nothing_is_not_taken_for_applied() {
    for status in [200, 202] {
        let (crm, mirror) = mirrored().await;
        set_position(&mirror, "a", "CTO");
        crm.sandbox.faults().add(Rule::new(Fault::Status(status)).method("PATCH").forever());
        for _ in 0..3 {
            push(&mirror, &crm).await;
            assert_eq!((states(&mirror).as_str(), there(&crm, "a", "position")), ("sending", json!("CEO")));
            crm.wait(7_200);
        }
        let sent = patches(&crm);
        assert!(sent.len() >= 3 && sent.iter().all(|request| same_request(request, &sent[0])), "{status}");
        crm.sandbox.faults().clear();
        push(&mirror, &crm).await;
        assert_eq!((states(&mirror).as_str(), carried_out(&crm).len()), ("applied", 1), "{status}");
        mirror.sync(&crm).await;
        mirror.assert_exact(&crm);
    }
}

#[tokio::test]
async fn request_without_an_answer_whose_value_was_replaced_ends_in_conflict() {
    let (crm, mirror) = mirrored().await;
    set_position(&mirror, "a", "CTO");
    crm.sandbox.faults().add(Rule::new(Fault::ResetAfterApply).method("PATCH"));
    crm.sandbox.faults().add(Rule::new(Fault::Status(503)).method("PATCH").forever());
    mirror.sync(&crm).await;
    // The same run read our value; then another client reverted it.
    crm.sandbox.with_world(|world| world.edit(CONTACT, "a", &json!({"position": "CEO"})));
    crm.wait(DAY);
    crm.sandbox.faults().clear();
    mirror.sync(&crm).await;
    assert_eq!((states(&mirror).as_str(), carried_out(&crm).len()), ("conflict", 1));
    assert_eq!(there(&crm, "a", "position"), "CEO");
}

/// An update was refused with 412, and the record cannot be read now: the update is going to be sent again.
#[tokio::test]
async fn edit_that_is_taken_back_while_it_is_being_sent_is_undone_by_another_one() {
    let (crm, mirror) = mirrored().await;
    set_position(&mirror, "a", "CTO");
    let before = there(&crm, "a", "position");
    let before = before.as_str().map_or("NULL".to_string(), |text| format!("'{text}'"));
    sql(&mirror, &format!("UPDATE contacts_full SET position = {before} WHERE id = 'a'"));
    assert_eq!(states(&mirror), "dropped", "nothing was sent yet");
    set_position(&mirror, "a", "CTO");
    crm.sandbox.faults().add(Rule::new(Fault::Status(412)).method("PATCH"));
    crm.sandbox.faults().add(Rule::new(Fault::Status(503)).method("GET").forever());
    push(&mirror, &crm).await;
    assert_eq!(states(&mirror), "dropped sending");
    sql(&mirror, &format!("UPDATE contacts_full SET position = {before} WHERE id = 'a'"));
    assert_eq!(states(&mirror), "dropped sending queued");
    crm.sandbox.faults().clear();
    let expected = there(&crm, "a", "position");
    for _ in 0..3 {
        crm.wait(DAY);
        push(&mirror, &crm).await;
    }
    assert_eq!(there(&crm, "a", "position"), expected);
    assert_eq!(carried_out(&crm), Vec::new(), "the first was known not to be applied, and nobody wants it now");
    assert!(!states(&mirror).contains("sending") && !states(&mirror).contains("queued"), "{}", states(&mirror));
}

/// What an answer confirms is decided by the request that was sent.
#[tokio::test]
async fn answer_counts_for_the_whole_request_although_one_of_its_edits_was_dropped() {
    for (columns, dropped, end) in [
        (&["notes"][..], 1, "dropped"),
        (&["position", "notes"], 1, "dropped applied"),
        (&["position", "notes"], 2, "applied dropped"),
        (&["position", "language"], 1, "dropped applied"),
    ] {
        let name = format!("{columns:?} without {dropped}");
        let (crm, mirror) = mirrored().await;
        for column in columns {
            sql(&mirror, &format!("UPDATE contacts_full SET {column} = 'new' WHERE id = 'a'"));
        }
        let (path, now) = (mirror.path.clone(), crm.clock.now());
        crm.sandbox.before_request(move |_, asked| {
            if asked.method == "PATCH" {
                write_beside(&path, |tx| user_decisions::decide(tx, dropped, Decision::Drop, now)).unwrap();
            }
        });
        let report = push(&mirror, &crm).await;
        assert_eq!((states(&mirror).as_str(), crm.sandbox.log().len(), report.push.waiting), (end, 1, 0), "{name}");
        let details = "SELECT details_current FROM contacts_full WHERE id = 'a'";
        assert_eq!(mirror.one(details), "0", "{name}");
        let why = format!("SELECT why FROM outbox_events WHERE outbox_id = {dropped} ORDER BY id DESC LIMIT 1");
        assert_eq!(mirror.one(&why), "'the service confirmed it'", "{name}");
        crm.sandbox.clear_hook();
        mirror.sync(&crm).await;
        mirror.assert_exact(&crm);
    }
}
