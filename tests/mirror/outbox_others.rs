//! Edits with other activity: records that change meanwhile, consecutive edits, budgets and kills.

use std::time::Duration;

use crate::outbox_bench::{
    CONTACT, by_hand, carried_out, decide, mirrored, patches, push, said, set_position, sql, states, there,
};
use crate::support::noon;
use crm_mirror::model::{Clock, Object, Ru};
use crm_mirror::outbox::user_decisions::Decision;
use crm_mirror::sandbox::{Fault, RequestLine, Rule, World};
use crm_mirror::store::RunOutcome;
use crm_mirror::sync::Job;
use serde_json::{Value, json};

#[tokio::test]
async fn edit_is_rebased_if_its_fields_are_unchanged() {
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
async fn changes_read_by_a_sync_need_no_refusal() {
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
async fn constantly_changing_record_waits_for_the_next_run() {
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
async fn waiting_edits_become_one_request_and_are_sent_in_order() {
    let (crm, mirror) = mirrored().await;
    set_position(&mirror, "a", "CTO");
    sql(&mirror, "UPDATE contacts_full SET language = 'de' WHERE id = 'a'");
    set_position(&mirror, "a", "CFO");
    crm.sandbox.faults().add(Rule::new(Fault::Reset).method("PATCH"));
    push(&mirror, &crm).await;
    assert_eq!(states(&mirror), "replaced sending sending");
    // Made while the first request is in flight: it waits for that request and does not conflict with it.
    set_position(&mirror, "a", "COO");
    crm.wait(10);
    let report = push(&mirror, &crm).await;
    assert_eq!((report.push.sent, report.push.applied), (2, 3));
    let bodies: Vec<Value> = carried_out(&crm).into_iter().map(|(_, body)| body).collect();
    assert_eq!(bodies, [json!({"position": "CFO", "language": "de"}), json!({"position": "COO"})]);
    assert_eq!(mirror.one("SELECT group_concat(merged_into) FROM outbox"), "'2'");
    mirror.assert_exact_lists(&crm);
}

#[tokio::test]
async fn edits_refused_together_are_sent_one_by_one() {
    let (crm, mirror) = mirrored().await;
    sql(&mirror, "UPDATE contacts_full SET language = 'de' WHERE id = 'a'");
    sql(&mirror, "UPDATE contacts_full SET cf_short_text = 's' WHERE id = 'a'");
    set_position(&mirror, "a", "CTO");
    // The field has become read-only, which the mirror has not read yet.
    crm.sandbox.with_world(|world| world.fields().redefine(CONTACT, "short_text", |field| field.writable = false));
    let report = push(&mirror, &crm).await;
    assert_eq!(states(&mirror), "applied rejected applied");
    assert_eq!((report.push.sent, report.push.applied, report.push.rejected), (4, 2, 1));
    let why =
        "SELECT instr(json_extract(answer, '$.message'), 'customFields.short_text: ') > 0 FROM outbox WHERE id = 2";
    assert_eq!(mirror.one(why), "1");
    assert_eq!(crm.charged(), 5, "the update of one is followed by the detail, which shows what the next replaces");
}

/// A replica that lags shows the version that was just refused, or replaced: neither a new request nor the same one follows.
#[tokio::test]
async fn read_that_shows_the_version_from_before_an_answer_decides_nothing() {
    for (is_applied, expected) in [(false, "PATCH GET GET PATCH"), (true, "PATCH GET GET")] {
        let (crm, mirror) = mirrored().await;
        set_position(&mirror, "a", "CTO");
        crm.sandbox.faults().add(Rule::new(Fault::AsOf(crm.clock.now())).method("GET").forever());
        crm.wait(1);
        if is_applied {
            crm.sandbox.faults().add(Rule::new(Fault::Body("{}".into())).method("PATCH"));
        } else {
            crm.sandbox.with_world(|world| world.edit(CONTACT, "a", &json!({"name": "Bea"})));
        }
        push(&mirror, &crm).await;
        assert_eq!((states(&mirror).as_str(), crm.sandbox.log().len()), ("sending", 2), "{is_applied}");
        crm.wait(60);
        crm.sandbox.faults().clear();
        push(&mirror, &crm).await;
        let log = crm.sandbox.log();
        let methods: Vec<&str> = log.entries().iter().map(|entry| entry.asked.method.as_str()).collect();
        assert_eq!((states(&mirror).as_str(), methods.join(" ").as_str()), ("applied", expected), "{is_applied}");
    }
}

/// A person takes an edit back while it is being sent, and drops it: it may have been applied.
#[tokio::test]
async fn edit_that_restores_a_value_is_not_applied_while_a_dropped_one_may_have_been() {
    let (crm, mirror) = mirrored().await;
    set_position(&mirror, "a", "CTO");
    crm.sandbox.faults().add(Rule::new(Fault::StatusAfterApply(504)).method("PATCH"));
    push(&mirror, &crm).await;
    set_position(&mirror, "a", "CEO");
    decide(&mirror, &crm, [1], Decision::Drop);
    crm.wait(10);
    push(&mirror, &crm).await;
    assert_eq!((states(&mirror).as_str(), there(&crm, "a", "position")), ("dropped conflict", json!("CTO")));
    assert_eq!(mirror.one("SELECT theirs FROM outbox WHERE id = 2"), r#"'{"position":"CTO"}'"#);
}

/// A person resolves a conflict although a later edit sets the same field: the last value is the one that is sent.
#[tokio::test]
async fn edit_that_a_later_one_replaces_is_not_said_to_be_applied() {
    let (crm, mirror) = mirrored().await;
    set_position(&mirror, "a", "CTO");
    crm.sandbox.with_world(|world| world.edit(CONTACT, "a", &json!({"position": "Chair"})));
    push(&mirror, &crm).await;
    set_position(&mirror, "a", "COO");
    decide(&mirror, &crm, [1], Decision::Mine);
    push(&mirror, &crm).await;
    assert_eq!((states(&mirror).as_str(), there(&crm, "a", "position")), ("replaced applied", json!("COO")));
    assert_eq!(carried_out(&crm).len(), 1);
}

#[tokio::test]
async fn conflict_blocks_later_edits_of_the_record() {
    let (crm, mirror) = mirrored().await;
    set_position(&mirror, "a", "CTO");
    crm.sandbox.with_world(|world| world.edit(CONTACT, "a", &json!({"position": "Chair"})));
    push(&mirror, &crm).await;
    sql(&mirror, "UPDATE contacts_full SET language = 'de' WHERE id = 'a'");
    let report = push(&mirror, &crm).await;
    assert_eq!((states(&mirror).as_str(), report.push.waiting), ("conflict queued", 1));
    assert!(carried_out(&crm).is_empty());
    by_hand(&mirror, "UPDATE outbox SET state = 'dropped' WHERE id = 1");
    push(&mirror, &crm).await;
    assert_eq!(states(&mirror), "dropped applied");
    assert_eq!(carried_out(&crm).len(), 1);
}

#[tokio::test]
async fn edit_of_a_removed_record_is_rejected_and_the_record_removed() {
    let (crm, mirror) = mirrored().await;
    set_position(&mirror, "a", "CTO");
    crm.sandbox.with_world(|world| world.remove(CONTACT, "a"));
    let report = push(&mirror, &crm).await;
    assert_eq!((states(&mirror).as_str(), report.tally.removed), ("rejected", 1));
    assert_eq!((report.push.rejected, report.push.waiting), (1, 0));
    assert_eq!(crm.charged(), 1, "one list confirms it");
    mirror.assert_exact(&crm);
    // If lists still contain it, it stays.
    set_position(&mirror, "b", "CTO");
    crm.sandbox.faults().add(Rule::new(Fault::Status(404)).method("PATCH"));
    assert_eq!(push(&mirror, &crm).await.tally.removed, 0);
    assert_eq!(states(&mirror), "rejected queued", "one 404 ends no edit");
    crm.wait(60);
    push(&mirror, &crm).await;
    assert_eq!((states(&mirror).as_str(), carried_out(&crm).len()), ("rejected applied", 1));
    mirror.assert_exact_lists(&crm);
}

#[tokio::test]
async fn outdated_detail_is_read_before_an_edit_of_it() {
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
async fn units_are_reserved_for_waiting_edits() {
    let (crm, mut mirror) = mirrored().await;
    set_position(&mirror, "a", "CTO");
    crm.sandbox.faults().add(Rule::new(Fault::Status(503)).method("PATCH").forever());
    crm.sandbox.with_world(|world| world.edit(CONTACT, "b", &json!({"notes": "theirs"})));
    // Two for the lists of changes and three reserved for a read and an update: nothing is left for the detail.
    mirror.limits.limit = Ru::new(mirror.ledger_total() + 5);
    let report = mirror.sync(&crm).await;
    assert_eq!((report.outcome, report.tally.details, report.pending_details), (RunOutcome::Suspended, 0, 1));
    crm.sandbox.faults().clear();
    crm.wait(10);
    let report = push(&mirror, &crm).await;
    assert_eq!((report.push.applied, report.tally.ru), (1, Ru::PATCH + Ru::GET));
}

#[tokio::test]
async fn without_budget_nothing_is_sent_and_nothing_is_in_doubt() {
    let (crm, mut mirror) = mirrored().await;
    set_position(&mirror, "a", "CTO");
    mirror.limits.limit = Ru::new(mirror.ledger_total() + 1);
    let report = push(&mirror, &crm).await;
    assert_eq!((report.outcome, states(&mirror).as_str()), (RunOutcome::Suspended, "queued"));
    assert!(crm.sandbox.log().is_empty());
    assert_eq!(mirror.one("SELECT count(*) FROM outbox WHERE body IS NOT NULL"), "0");
}

#[tokio::test]
async fn failing_service_does_not_delay_the_rest_of_the_run() {
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
async fn kill_at_any_commit_neither_loses_nor_repeats_an_edit() {
    let mut commits = 0;
    loop {
        let (crm, mirror) = mirrored().await;
        set_position(&mirror, "a", "CTO");
        sql(&mirror, "UPDATE contacts_full SET notes = 'n' WHERE id = 'a'");
        sql(&mirror, "UPDATE companies_full SET industry = 'Tools' WHERE id = 'p'");
        set_position(&mirror, "b", "CTO");
        crm.sandbox.with_world(|world| world.edit(CONTACT, "b", &json!({"language": "fr"})));
        let killed = mirror.run_killed_after(&crm, &Job::push(), Some(commits)).await.is_err();
        crm.wait(3_600);
        mirror.sync(&crm).await;
        // Somebody else changed the last record: whether a killed push had sent its edit, nothing shows.
        let in_doubt = states(&mirror) == "applied applied applied conflict";
        assert!(in_doubt || states(&mirror) == "applied applied applied applied", "after {commits} commits");
        assert!(killed || !in_doubt, "after {commits} commits");
        assert_eq!(carried_out(&crm).len(), if in_doubt { 2 } else { 3 }, "after {commits} commits");
        mirror.sync(&crm).await;
        mirror.assert_exact(&crm);
        assert_eq!(there(&crm, "b", "position"), if in_doubt { "CEO" } else { "CTO" });
        assert!(mirror.ledger_total() >= crm.charged());
        if !killed {
            break;
        }
        commits += 1;
    }
    assert!(commits >= 9, "only {commits} commits");
}

/// The record no longer shows whether the update was applied, whether the mirror knows of the archived field or not.
#[tokio::test]
async fn edit_without_an_answer_whose_field_was_archived_says_that_it_may_have_been_applied() {
    for knows in [true, false] {
        let (crm, mut mirror) = mirrored().await;
        sql(&mirror, "UPDATE contacts_full SET cf_short_text = 'ours' WHERE id = 'a'");
        crm.sandbox.faults().add(Rule::new(Fault::ResetAfterApply).method("PATCH"));
        let _ = mirror.run(&crm, &Job::push()).await;
        assert_eq!((states(&mirror).as_str(), carried_out(&crm).len()), ("sending", 1));
        crm.sandbox.with_world(|world| world.fields().archive(CONTACT, "short_text"));
        crm.wait(25 * 3_600);
        if knows {
            mirror.settings.write_back = false;
            mirror.sync(&crm).await;
            mirror.settings.write_back = true;
        }
        mirror.run(&crm, &Job::push()).await.unwrap();
        let state = if knows { "rejected" } else { "conflict" };
        assert_eq!((states(&mirror).as_str(), carried_out(&crm).len()), (state, 1));
        let why = mirror.one("SELECT why FROM outbox_events ORDER BY id DESC LIMIT 1");
        assert!(why.contains("may have been applied"), "{why}");
        assert_eq!(why.contains("does not show"), knows, "{why}");
    }
}

/// The service has dated the record back behind what is known: no list of changes shows it, only its detail does.
#[tokio::test]
async fn edit_of_a_record_that_was_dated_back_is_carried_out() {
    let (crm, mut mirror) = mirrored().await;
    mirror.settings.details = false;
    crm.sandbox.with_world(|world| {
        world.edit(CONTACT, "a", &json!({"name": "Theirs"}));
        world.edit_at(CONTACT, "a", &Default::default(), Some(noon().minus(Duration::from_secs(10 * 3_600))));
    });
    mirror.sync(&crm).await;
    assert_eq!(mirror.one("SELECT name FROM contacts WHERE id = 'a'"), "'Ann'", "nothing has shown it");
    set_position(&mirror, "a", "ours");
    for _ in 0..4 {
        let _ = mirror.run(&crm, &Job::sync()).await;
        crm.wait(3_600);
    }
    assert_eq!(states(&mirror), "applied");
    mirror.assert_exact_lists(&crm);
}

/// The version is another one although its time is the same, as after a change of the service's own.
#[tokio::test]
async fn version_that_was_refused_is_not_sent_again() {
    for in_doubt in [false, true] {
        let (crm, mirror) = mirrored().await;
        let at = "2026-03-04T12:00:00.123Z".parse().unwrap();
        crm.sandbox.with_world(|world| world.edit_at(CONTACT, "a", &Default::default(), Some(at)));
        mirror.sync(&crm).await;
        crm.sandbox.clear_log();
        set_position(&mirror, "a", "CTO");
        if in_doubt {
            crm.sandbox.faults().add(Rule::new(Fault::Reset).method("PATCH"));
            push(&mirror, &crm).await;
            crm.wait(60);
        }
        crm.sandbox.with_world(|world| world.edit_silently(CONTACT, "a", &json!({"etag": "\"new\""})));
        push(&mirror, &crm).await;
        let sent: Vec<_> = patches(&crm).into_iter().map(|request| request.if_match.unwrap()).collect();
        let end = if in_doubt { "conflict" } else { "applied" };
        assert_eq!((states(&mirror).as_str(), sent.len()), (end, 2), "{sent:?}");
        assert_eq!(sent[1] == "\"new\"", !in_doubt, "{sent:?}");
        mirror.sync(&crm).await;
        mirror.assert_exact(&crm);
    }
}
