//! What an edit has changed: the columns that its request carried, in the form in which the service keeps them.

use crate::outbox_bench::{CONTACT, carried_out, decide, mirrored, push, set_position, sql, states, there};
use crate::support::{Crm, Mirror, noon};
use crm_mirror::model::{Clock, Ru};
use crm_mirror::outbox::user_decisions::{self, Decision};
use crm_mirror::sandbox::{Fault, Rule, World};
use crm_mirror::store::write_beside;
use crm_mirror::sync::Job;
use serde_json::{Value, json};

/// From now on the service trims texts.
fn trim(crm: &Crm) {
    let trimmed = |body: &str, _: &str| body.replace(r#""  Boss ""#, r#""Boss""#);
    crm.sandbox.faults().add(Rule::new(Fault::Rewritten(trimmed, String::new())).forever());
}

async fn with_contacts(contacts: usize) -> (Crm, Mirror) {
    let mut world = World::new(noon());
    for n in 0..contacts {
        world.create(CONTACT, &json!({"id": format!("c{n}"), "name": "Ann", "position": "CEO"}));
    }
    let crm = Crm::serve(world).await;
    let mut mirror = Mirror::one_at_a_time();
    mirror.settings.write_back = true;
    mirror.sync(&crm).await;
    mirror.tries = 1;
    crm.wait(3_600);
    crm.sandbox.clear_log();
    (crm, mirror)
}

fn object_delays(mirror: &Mirror) -> i64 {
    mirror.count("outbox_delays WHERE scope = 'object'")
}

#[tokio::test]
async fn values_that_the_service_stores_in_another_form_delay_no_other_edit() {
    let (crm, mirror) = with_contacts(8).await;
    // Three failures in a row: the object waits.
    crm.sandbox.faults().add(Rule::new(Fault::Status(503)).method("PATCH").times(3));
    sql(&mirror, "UPDATE contacts_full SET position = '  Boss '");
    push(&mirror, &crm).await;
    assert_eq!(object_delays(&mirror), 1);
    trim(&crm);
    crm.wait(3_600);
    push(&mirror, &crm).await;
    assert_eq!((states(&mirror), object_delays(&mirror)), (["conflict"; 8].join(" "), 0));
    assert_eq!(carried_out(&crm).len(), 8);
}

#[tokio::test]
async fn edit_that_was_stored_in_another_form_is_nobody_elses_change_either_when_it_is_retried() {
    let (crm, mirror) = with_contacts(1).await;
    trim(&crm);
    set_position(&mirror, "c0", "  Boss ");
    push(&mirror, &crm).await;
    let now = crm.clock.now();
    let refused = write_beside(&mirror.path, |tx| user_decisions::undo(tx, &[1], now)).unwrap_err();
    assert!(refused.to_string().contains("may have been applied"), "{refused}");
    decide(&mirror, &crm, [1], Decision::Retry);
    push(&mirror, &crm).await;
    let why = mirror.one("SELECT why FROM outbox_events ORDER BY id DESC LIMIT 1");
    assert!(states(&mirror) == "conflict" && why.contains("stored another value than was sent"), "{why}");
    assert_eq!(carried_out(&crm).len(), 1);
}

/// Two columns, of which somebody else has set one to the same value before they are sent.
async fn one_column_is_set_already(statements: &[&str]) -> (Crm, Mirror) {
    let (crm, mut mirror) = mirrored().await;
    statements.iter().for_each(|statement| sql(&mirror, statement));
    crm.sandbox.with_world(|world| world.edit(CONTACT, "a", &json!({"position": "CTO"})));
    mirror.settings.write_back = false;
    mirror.sync(&crm).await;
    mirror.settings.write_back = true;
    push(&mirror, &crm).await;
    let bodies: Vec<Value> = carried_out(&crm).into_iter().map(|(_, body)| body).collect();
    assert_eq!(bodies, [json!({"language": "de"})]);
    assert!(states(&mirror).split(' ').all(|state| state == "applied"), "{}", states(&mirror));
    assert_eq!(mirror.one("SELECT fields FROM outbox WHERE id = 1"), r#"'{"language":["en","de"]}'"#);
    (crm, mirror)
}

#[tokio::test]
async fn edit_claims_no_column_that_the_record_had_already() {
    let (crm, mirror) =
        one_column_is_set_already(&["UPDATE contacts_full SET language = 'de', position = 'CTO' WHERE id = 'a'"]).await;
    let now = crm.clock.now();
    write_beside(&mirror.path, |tx| user_decisions::undo(tx, &[1], now)).unwrap();
    push(&mirror, &crm).await;
    assert_eq!((there(&crm, "a", "language"), there(&crm, "a", "position")), (json!("en"), json!("CTO")));
}

#[tokio::test]
async fn edit_whose_request_carried_nothing_of_it_cannot_be_undone() {
    let (crm, mirror) = one_column_is_set_already(&[
        "UPDATE contacts_full SET language = 'de' WHERE id = 'a'",
        "UPDATE contacts_full SET position = 'CTO' WHERE id = 'a'",
    ])
    .await;
    let why = mirror.one("SELECT why FROM outbox_events WHERE outbox_id = 2 ORDER BY id DESC LIMIT 1");
    assert_eq!(why, "'the record already has these values'");
    let now = crm.clock.now();
    let refused = write_beside(&mirror.path, |tx| user_decisions::undo(tx, &[2], now)).unwrap_err();
    assert!(refused.to_string().contains("changed nothing"), "{refused}");
    assert_eq!(there(&crm, "a", "position"), "CTO");
}

#[tokio::test]
async fn edits_of_one_record_cost_one_request() {
    let (crm, mirror) = mirrored().await;
    for column in ["position", "language", "cf_short_text", "cf_long_text"] {
        sql(&mirror, &format!("UPDATE contacts_full SET {column} = 'z' WHERE id = 'a'"));
    }
    set_position(&mirror, "b", "CTO");
    let forecast = mirror.forecast(&crm, &Job::push()).await;
    crm.sandbox.clear_log();
    push(&mirror, &crm).await;
    assert_eq!((forecast.edits, crm.charged()), (Ru::new(4), 4));
}
