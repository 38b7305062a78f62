//! Which version of a record an edit is decided on: a confirmation follows the version that it names, and an answer from
//! a replica that lags decides nothing.

use std::path::Path;
use std::time::Duration;

use crate::outbox_bench::{CONTACT, DAY, carried_out, mirrored, patches, push, set_position, states, there};
use crate::support::{Crm, Mirror};
use crm_mirror::model::{Clock, Instant};
use crm_mirror::outbox::user_decisions;
use crm_mirror::sandbox::{Fault, RequestLine, Rule, World};
use crm_mirror::store::{Reader, outbox_report, write_beside};
use serde_json::json;

const QUARTER: u64 = 900;

fn update(path: &Path, position: &str) {
    let change = format!("UPDATE contacts_full SET position = '{position}' WHERE id = 'a'");
    rusqlite::Connection::open(path).unwrap().execute_batch(&change).unwrap();
}

/// A record that one app server has stamped a moment ago; another one, whose clock is ten seconds behind, applies every
/// update. During the first update a person sets the position to `meanwhile`. Returns when the first one has stamped it.
async fn stamped_by_two_clocks(meanwhile: Option<&'static str>) -> (Crm, Mirror, Instant) {
    let (crm, mirror) = mirrored().await;
    let stamped = crm.clock.now();
    crm.sandbox.with_world(|world| world.edit(CONTACT, "a", &json!({"name": "Bea"})));
    crm.wait(1);
    crm.sandbox.with_world(|world| world.edit(CONTACT, "b", &json!({"name": "Bea"})));
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
    crm.wait(1);
    crm.sandbox.clear_log();
    let (path, clock, mut position) = (mirror.path.clone(), crm.clock.clone(), meanwhile);
    crm.sandbox.before_request(move |world: &mut World, asked: &RequestLine| {
        if asked.method == "PATCH" {
            world.now = clock.now().minus(Duration::from_secs(10));
            if let Some(position) = position.take() {
                update(&path, position);
            }
        }
    });
    (crm, mirror, stamped)
}

#[tokio::test]
async fn confirmed_update_is_mirrored_whatever_clock_has_stamped_it() {
    let (crm, mirror, stamped) = stamped_by_two_clocks(None).await;
    set_position(&mirror, "a", "CTO");
    assert_eq!(push(&mirror, &crm).await.push.applied, 1);
    mirror.assert_exact_lists(&crm);
    assert_eq!((crm.charged(), mirror.count("doubts WHERE version IS NOT NULL")), (2, 0));
    mirror.sync(&crm).await;
    // A list and a detail of the replaced version, which is dated later.
    crm.sandbox.faults().add(Rule::new(Fault::AsOf(stamped)).forever());
    for _ in 0..2 {
        mirror.resync(&crm).await;
        mirror.assert_exact(&crm);
    }
    crm.sandbox.faults().clear();
    // Later changes are found as ever, whichever clock stamps them.
    crm.sandbox.clear_hook();
    for (name, behind) in [("Cleo", 5), ("Dora", 0)] {
        let at = Some(crm.clock.now().minus(Duration::from_secs(behind)));
        crm.sandbox.with_world(|world| world.edit_at(CONTACT, "a", &json!({ "name": name }), at));
        mirror.sync(&crm).await;
        mirror.assert_exact(&crm);
    }
    for _ in 0..2 {
        crm.wait(5 * QUARTER);
        mirror.sync(&crm).await;
    }
    assert_eq!(mirror.count("doubts WHERE why = 'older'"), 0, "nothing is kept for long");
}

/// A service that has lost the update shows the replaced version at two moments.
#[tokio::test]
async fn replaced_version_that_the_service_shows_for_long_is_followed() {
    let (crm, mirror, stamped) = stamped_by_two_clocks(None).await;
    set_position(&mirror, "a", "CTO");
    push(&mirror, &crm).await;
    crm.sandbox.faults().add(Rule::new(Fault::AsOf(stamped)).forever());
    for _ in 0..3 {
        mirror.resync(&crm).await;
        crm.wait(QUARTER);
    }
    assert_eq!(mirror.one("SELECT position FROM contacts WHERE id = 'a'"), "'CEO'");
}

#[tokio::test]
async fn edit_after_a_confirmed_one_is_compared_with_what_that_has_written() {
    // What is set meanwhile, and whether it is sent.
    for (meanwhile, sent) in [("CEO", 2), ("CFO", 2), ("CTO", 1)] {
        let (crm, mirror, _) = stamped_by_two_clocks(Some(meanwhile)).await;
        set_position(&mirror, "a", "CTO");
        push(&mirror, &crm).await;
        push(&mirror, &crm).await;
        assert!(states(&mirror).split(' ').all(|state| state == "applied"), "{meanwhile}: {}", states(&mirror));
        assert_eq!((there(&crm, "a", "position"), carried_out(&crm).len()), (json!(meanwhile), sent), "{meanwhile}");
        mirror.assert_exact_lists(&crm);
    }
}

#[tokio::test]
async fn undo_of_an_update_that_a_clock_behind_has_stamped_reverts_it() {
    let (crm, mirror, _) = stamped_by_two_clocks(None).await;
    set_position(&mirror, "a", "CTO");
    push(&mirror, &crm).await;
    let now = crm.clock.now();
    write_beside(&mirror.path, |tx| user_decisions::undo(tx, &[1], now)).unwrap();
    push(&mirror, &crm).await;
    assert_eq!((states(&mirror).as_str(), there(&crm, "a", "position")), ("applied applied", json!("CEO")));
    mirror.assert_exact_lists(&crm);
}

/// A record that somebody else has just changed, with an update that was applied and whose answer was lost. The second
/// instant is before that change, the first one between it and the update.
async fn applied_without_an_answer() -> (Crm, Mirror, [Instant; 2]) {
    let (crm, mirror) = mirrored().await;
    let first = crm.clock.now();
    crm.wait(60);
    crm.sandbox.with_world(|world| world.edit(CONTACT, "a", &json!({"name": "Bea"})));
    mirror.sync(&crm).await;
    let second = crm.clock.now();
    crm.wait(60);
    set_position(&mirror, "a", "CTO");
    crm.sandbox.faults().add(Rule::new(Fault::ResetAfterApply).method("PATCH"));
    push(&mirror, &crm).await;
    assert_eq!(states(&mirror), "sending");
    crm.sandbox.clear_log();
    (crm, mirror, [second, first])
}

/// Details of these instants, one after the other.
fn details_as_of(crm: &Crm, instants: impl IntoIterator<Item = Instant>) {
    for at in instants {
        crm.sandbox.faults().add(Rule::new(Fault::AsOf(at)).method("GET").record("a"));
    }
}

#[tokio::test]
async fn record_that_is_read_back_in_an_older_version_decides_nothing() {
    let (crm, mirror, [replaced, older]) = applied_without_an_answer().await;
    // The service has forgotten the key, so it refuses the version.
    crm.wait(2 * DAY);
    details_as_of(&crm, [replaced, older]);
    push(&mirror, &crm).await;
    assert_eq!((states(&mirror).as_str(), patches(&crm).len()), ("sending", 1));
    crm.wait(3_600);
    push(&mirror, &crm).await;
    assert_eq!((states(&mirror).as_str(), carried_out(&crm).len()), ("applied", 0));
    mirror.assert_exact(&crm);
}

#[tokio::test]
async fn edit_that_is_refused_after_a_lost_answer_may_have_been_applied() {
    let (crm, mirror, [replaced, _]) = applied_without_an_answer().await;
    crm.wait(60);
    crm.sandbox.faults().add(Rule::new(Fault::Status(422)).method("PATCH"));
    details_as_of(&crm, [replaced, replaced]);
    push(&mirror, &crm).await;
    assert_eq!((states(&mirror).as_str(), patches(&crm).len()), ("rejected", 1));
    let why = mirror.one("SELECT why FROM outbox_events ORDER BY id DESC LIMIT 1");
    assert!(why.contains("may have been applied"), "{why}");
    let reader = Reader::open(&mirror.path).unwrap();
    let line = outbox_report::edit_line(&reader.begin().unwrap(), 1).unwrap();
    assert!(line.in_doubt(), "a person is asked before it is carried out anew");
}
