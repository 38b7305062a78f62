//! The limits on edits: the brake on new ones, and the delays between retries, whatever the service keeps answering.

use std::sync::Arc;

use crate::outbox_bench::decide;
use crate::support::clock::WrongClock;
use crate::support::prepared::prepared;
use crate::support::{Crm, Mirror, noon};
use crm_mirror::model::{Clock, DataType, Instant, Object, Ru};
use crm_mirror::outbox::user_decisions::{self, Decision};
use crm_mirror::sandbox::{Fault, NewField, RequestLine, Rule, World};
use crm_mirror::store::write_beside;
use crm_mirror::sync::Job;
use serde_json::{Value, json};

const CONTACT: Object = Object::Contact;
const HOUR: u64 = 3_600;

async fn mirrored(contacts: usize) -> (Crm, Mirror) {
    let make = || async move {
        let mut world = World::new(noon());
        world.fields().define(NewField::new(CONTACT, "word", DataType::ShortText));
        for n in 0..contacts {
            world.create(CONTACT, &json!({"id": format!("c{n:03}"), "name": "Ann", "position": "CEO"}));
        }
        let crm = Crm::serve(world).await;
        let mut mirror = Mirror::one_at_a_time();
        mirror.settings.write_back = true;
        mirror.sync(&crm).await;
        crm.wait(HOUR);
        crm.sandbox.clear_log();
        (crm, mirror)
    };
    prepared(format!("outbox_limits {contacts}"), make).await
}

fn sql(mirror: &Mirror, sql: &str) {
    rusqlite::Connection::open(&mirror.path).unwrap().execute_batch(sql).unwrap();
}

/// Edits by state, as `queued 3, held 2`.
fn states(mirror: &Mirror) -> String {
    mirror
        .one(
            "SELECT coalesce(group_concat(state || ' ' || n, ', '), '') FROM
             (SELECT state, count(*) AS n FROM outbox GROUP BY state ORDER BY state)",
        )
        .trim_matches('\'')
        .to_string()
}

fn ids(mirror: &Mirror, state: &str) -> Vec<i64> {
    let conn = mirror.read();
    let mut stmt = conn.prepare("SELECT id FROM outbox WHERE state = ?1 ORDER BY id").unwrap();
    let ids = stmt.query_map([state], |row| row.get(0)).unwrap();
    ids.map(Result::unwrap).collect()
}

/// Details leave a twentieth of the window to edits that nobody has made yet.
#[tokio::test]
async fn edit_is_sent_in_the_window_whose_rest_the_details_had() {
    for needs_half in [false, true] {
        let (crm, mut mirror) = mirrored(60).await;
        mirror.sync(&crm).await;
        crm.sandbox.with_world(|world| {
            (0..50).for_each(|n| _ = world.edit(CONTACT, &format!("c{n:03}"), &json!({"notes": "theirs"})));
        });
        let spent = mirror.ledger_total();
        let (limit, reserve) =
            if needs_half { ((spent + 25) * 20 / 9, (spent + 25) * 10 / 9) } else { (spent + 40, 0) };
        (mirror.limits.limit, mirror.reserve) = (Ru::new(limit), [Ru::new(reserve); 2]);
        let report = mirror.scheduled(&crm, &Job::sync()).await;
        assert!(report.suspension.is_some() && report.tally.details > 20, "{report:?}");
        let left = limit - mirror.ledger_total();
        assert_eq!(left, reserve + limit / 20, "details take all but that, and what the schedule needs");
        sql(&mirror, "UPDATE contacts_full SET position = 'CTO' WHERE id = 'c055'");
        mirror.scheduled(&crm, &Job::push()).await;
        assert_eq!((states(&mirror).as_str(), with_position(&crm, "CTO")), ("applied 1", 1));
    }
}

/// Contacts with this position at the service.
fn with_position(crm: &Crm, position: &str) -> usize {
    let world = crm.sandbox.world();
    let is = |id: &String| world.detail_json(CONTACT, id).unwrap()["position"] == json!(position);
    world.ids(Object::Contact.resource()).iter().filter(|id| is(id)).count()
}

#[tokio::test]
async fn update_without_where_is_held_until_a_person_releases_it() {
    let (crm, mut mirror) = mirrored(12).await;
    mirror.settings.max_edits = 10;
    sql(&mirror, "UPDATE contacts_full SET position = 'a'");
    let report = mirror.run(&crm, &Job::push()).await.unwrap();
    assert_eq!((states(&mirror).as_str(), report.push.held, report.push.sent), ("held 12", 12, 0));
    assert!(report.push.needs_attention());
    assert!(report.warnings.iter().any(|warning| warning.contains("outbox release")), "{:?}", report.warnings);
    assert!(crm.sandbox.log().is_empty(), "nothing is sent");
    // Time alone releases nothing, and later edits are held as well.
    crm.wait(48 * HOUR);
    sql(&mirror, "UPDATE contacts_full SET word = 'b' WHERE id = 'c000'".replace("word", "cf_word").as_str());
    mirror.sync(&crm).await;
    assert_eq!((states(&mirror).as_str(), with_position(&crm, "a")), ("held 13", 0));
    // The named edits are sent, the others stay; the rest is dropped.
    decide(&mirror, &crm, [3, 4], Decision::Release);
    mirror.run(&crm, &Job::push()).await.unwrap();
    assert_eq!((states(&mirror).as_str(), with_position(&crm, "a")), ("applied 2, held 11", 2));
    let rest: Vec<i64> = ids(&mirror, "held");
    decide(&mirror, &crm, rest, Decision::Drop);
    mirror.run(&crm, &Job::push()).await.unwrap();
    assert_eq!((states(&mirror).as_str(), with_position(&crm, "a")), ("applied 2, dropped 11", 2));
}

#[tokio::test]
async fn edits_sent_within_the_hour_count_and_are_never_held() {
    let (crm, mut mirror) = mirrored(12).await;
    mirror.settings.max_edits = 10;
    // At the limit everything is sent.
    sql(&mirror, "UPDATE contacts_full SET position = 'a' WHERE id < 'c010'");
    crm.sandbox.faults().add(Rule::new(Fault::Status(503)).record("c000").method("PATCH"));
    mirror.run(&crm, &Job::push()).await.unwrap();
    assert_eq!(states(&mirror), "applied 9, sending 1");
    sql(&mirror, "UPDATE contacts_full SET position = 'b' WHERE id = 'c011'");
    crm.wait(60);
    mirror.run(&crm, &Job::push()).await.unwrap();
    assert_eq!(states(&mirror), "applied 10, held 1", "a sent edit continues, and a new one is held");
    // Cancelling or replacing an edit ends it, too.
    sql(&mirror, "UPDATE contacts_full SET position = 'CEO' WHERE id = 'c011'");
    assert_eq!(states(&mirror), "applied 10, dropped 1");
    crm.wait(HOUR);
    sql(&mirror, "UPDATE contacts_full SET position = 'c' WHERE id = 'c011'");
    mirror.run(&crm, &Job::push()).await.unwrap();
    assert_eq!(states(&mirror), "applied 11, dropped 1", "an hour later there is room again");
}

/// Setting the clock gives no room for more edits: an hour has to pass.
#[tokio::test]
async fn limit_on_new_edits_counts_an_hour_that_passes() {
    for ahead in [25 * HOUR as i64, -25 * HOUR as i64] {
        let (crm, mut mirror) = mirrored(12).await;
        mirror.settings.max_edits = 5;
        let clock = WrongClock::new(crm.clock.clone());
        mirror.clock = Some(Arc::new(clock.clone()));
        sql(&mirror, "UPDATE contacts_full SET position = 'a' WHERE id < 'c005'");
        mirror.run(&crm, &Job::push()).await.unwrap();
        assert_eq!(states(&mirror), "applied 5");
        crm.wait(60);
        clock.set_ahead(ahead);
        sql(&mirror, "UPDATE contacts_full SET position = 'b' WHERE id = 'c006'");
        mirror.run(&crm, &Job::push()).await.unwrap();
        assert_eq!(states(&mirror), "applied 5, held 1", "{ahead}");
        crm.wait(HOUR);
        sql(&mirror, "UPDATE contacts_full SET position = 'b' WHERE id = 'c007'");
        mirror.run(&crm, &Job::push()).await.unwrap();
        assert_eq!(states(&mirror), "applied 6, held 1", "{ahead}");
    }
}

#[tokio::test]
async fn many_small_batches_of_edits_are_held_like_one_large_batch() {
    let (crm, mut mirror) = mirrored(12).await;
    mirror.settings.max_edits = 5;
    for n in 0..12 {
        sql(&mirror, &format!("UPDATE contacts_full SET position = 'a' WHERE id = 'c{n:03}'"));
        mirror.run(&crm, &Job::push()).await.unwrap();
        crm.wait(60);
    }
    assert_eq!((states(&mirror).as_str(), with_position(&crm, "a")), ("applied 5, held 7", 5));
}

#[tokio::test]
async fn applied_edits_are_undone_unless_the_field_changed_since() {
    let (crm, mirror) = mirrored(3).await;
    sql(&mirror, "UPDATE contacts_full SET position = 'a'");
    mirror.run(&crm, &Job::push()).await.unwrap();
    sql(&mirror, "UPDATE contacts_full SET position = 'b' WHERE id = 'c001'");
    mirror.run(&crm, &Job::push()).await.unwrap();
    crm.sandbox.with_world(|world| world.edit(CONTACT, "c002", &json!({"position": "theirs"})));
    let edits = ids(&mirror, "applied");
    let now = crm.clock.now();
    let undone = write_beside(&mirror.path, |tx| user_decisions::undo(tx, &edits, now)).unwrap();
    assert_eq!(undone.len(), 3, "one edit per record");
    mirror.run(&crm, &Job::push()).await.unwrap();
    assert_eq!(states(&mirror), "applied 6, conflict 1");
    let position = |id: &str| crm.sandbox.world().detail_json(CONTACT, id).unwrap()["position"].clone();
    assert_eq!([position("c000"), position("c001"), position("c002")], [json!("CEO"), json!("CEO"), json!("theirs")]);
    assert_eq!(mirror.one("SELECT theirs FROM outbox WHERE state = 'conflict'"), "'{\"position\":\"theirs\"}'");
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
}

/// Neither what somebody else set between two edits nor an edit that is left out is reverted.
#[tokio::test]
async fn undo_of_several_edits_restores_what_was_there_before_those_in_a_row() {
    // The edits that are undone, of which the second follows somebody else's, and the position after that.
    for (undone, restored) in [(&[1, 2][..], "theirs"), (&[2], "theirs"), (&[2, 3], "theirs"), (&[1, 3], "b")] {
        let (crm, mirror) = mirrored(1).await;
        for (edit, theirs) in [("a", Some("theirs")), ("b", None), ("c", None)] {
            if *undone.last().unwrap() < 3 && edit == "c" {
                continue;
            }
            sql(&mirror, &format!("UPDATE contacts_full SET position = '{edit}'"));
            mirror.run(&crm, &Job::push()).await.unwrap();
            if let Some(theirs) = theirs {
                crm.wait(60);
                crm.sandbox.with_world(|world| world.edit(CONTACT, "c000", &json!({"position": theirs})));
                mirror.sync(&crm).await;
            }
        }
        let now = crm.clock.now();
        let planned = write_beside(&mirror.path, |tx| user_decisions::undo(tx, undone, now)).unwrap();
        let [of_record] = planned.as_slice() else { panic!("{planned:?}") };
        assert_eq!(of_record.changed.len(), 0, "{undone:?}");
        mirror.run(&crm, &Job::push()).await.unwrap();
        let there = crm.sandbox.world().detail_json(CONTACT, "c000").unwrap()["position"].clone();
        assert_eq!(there, json!(restored), "{undone:?}");
        assert!(!states(&mirror).contains("conflict"), "{undone:?}");
    }
}

#[tokio::test]
async fn edits_wait_while_the_schedule_is_paused_and_push_sends_them() {
    let (crm, mirror) = mirrored(1).await;
    sql(
        &mirror,
        "UPDATE contacts_full SET position = 'a'; INSERT INTO state VALUES ('paused_since', '\"2026-03-01T00:00:00Z\"')",
    );
    mirror.sync(&crm).await;
    assert_eq!(states(&mirror), "queued 1");
    mirror.run(&crm, &Job::push()).await.unwrap();
    assert_eq!(states(&mirror), "applied 1");
}

#[tokio::test]
async fn edit_that_always_fails_can_be_dropped_and_unblocks_its_record() {
    let (crm, mirror) = mirrored(1).await;
    sql(&mirror, "UPDATE contacts_full SET position = 'a'");
    sql(&mirror, "UPDATE contacts_full SET cf_word = 'w'");
    crm.sandbox.faults().add(Rule::new(Fault::Status(500)).method("PATCH"));
    mirror.run(&crm, &Job::push()).await.unwrap();
    assert_eq!(states(&mirror), "sending 2");
    decide(&mirror, &crm, [1], Decision::Drop);
    crm.wait(60);
    mirror.run(&crm, &Job::push()).await.unwrap();
    // Reading the record settles the other edit of the same request.
    assert_eq!(states(&mirror), "applied 1, dropped 1");
    let there = crm.sandbox.world().detail_json(CONTACT, "c000").unwrap();
    assert_eq!((&there["position"], &there["customFields"]["word"]), (&json!("CEO"), &json!("w")));
}

#[tokio::test]
async fn finished_edits_are_pruned_with_the_history_and_open_ones_never() {
    let (crm, mut mirror) = mirrored(2).await;
    mirror.settings.retention = Some(std::time::Duration::from_secs(30 * 24 * HOUR));
    sql(&mirror, "UPDATE contacts_full SET position = 'a' WHERE id = 'c000'");
    mirror.run(&crm, &Job::push()).await.unwrap();
    // A later run marks the end of the history.
    crm.wait(24 * HOUR);
    mirror.sync(&crm).await;
    sql(&mirror, "UPDATE contacts_full SET position = 'b' WHERE id = 'c001'");
    crm.sandbox.faults().add(Rule::new(Fault::Status(503)).method("PATCH").forever());
    crm.wait(40 * 24 * HOUR);
    mirror.run(&crm, &Job::push()).await.unwrap();
    assert_eq!(states(&mirror), "sending 1");
    assert_eq!(mirror.one("SELECT count(*) FROM outbox_events WHERE outbox_id NOT IN (SELECT id FROM outbox)"), "0");
}

/// A permanent fault of all requests for edits.
#[derive(Clone, Debug)]
enum Always {
    Answers(Fault),
    OtherVersion,
    NoScope,
    NoCustomValues,
}

/// Pushes for hours without a schedule: every minute for half an hour, then every fifth. Returns the most requests within an hour and the final states.
async fn pushed_repeatedly(always: Always, contacts: usize, custom: bool, hours: u64) -> (usize, String) {
    let (crm, mut mirror) = mirrored(contacts).await;
    mirror.tries = 5;
    match &always {
        Always::Answers(fault) => crm.sandbox.faults().add(Rule::new(fault.clone()).method("PATCH").forever()),
        Always::OtherVersion => {
            let mut n = 0;
            crm.sandbox.before_request(move |world: &mut World, asked: &RequestLine| {
                if asked.method == "PATCH" {
                    n += 1;
                    for id in world.ids(Object::Contact.resource()) {
                        world.edit(CONTACT, &id, &json!({"name": format!("Name {n}")}));
                    }
                }
            });
        }
        Always::NoScope => {
            let reads = ["contacts:read", "companies:read", "custom-fields:read", "team-members:read"];
            mirror.key = Some(crm.sandbox.add_key(&reads));
        }
        Always::NoCustomValues => crm.sandbox.configure(|settings| settings.custom_fields_read_only = true),
    }
    mirror.sync(&crm).await;
    crm.sandbox.clear_log();
    let column = if custom { "cf_word" } else { "position" };
    sql(&mirror, &format!("UPDATE contacts_full SET {column} = 'a'"));
    let (store, engine) = mirror.open(&crm, None).await.unwrap();
    let mut minute = 0;
    while minute < hours * 60 {
        // The outcome does not matter; the number of requests does.
        let _ = engine.run(&Job::push(), "test").await;
        let next = if minute < 30 { 1 } else { 5 };
        crm.wait(next * 60);
        minute += next;
    }
    drop(engine);
    store.close().await;
    let times: Vec<Instant> = crm.sandbox.log().entries().iter().map(|entry| entry.at).collect();
    let within = |from: &Instant| times.iter().filter(|at| **at >= *from && at.since(*from).as_secs() < HOUR).count();
    (times.iter().map(within).max().unwrap_or(0), states(&mirror))
}

async fn no_loop(always: impl IntoIterator<Item = Always>) {
    for always in always {
        let (most, states) = pushed_repeatedly(always.clone(), 1, false, 2).await;
        assert!(most <= 5, "{always:?}: {most} requests within an hour, {states}");
        assert!(most > 0, "{always:?}");
    }
}

#[tokio::test]
async fn no_refusal_causes_a_request_loop() {
    no_loop([400, 401, 404, 405, 409, 412, 422, 429, 501].map(Fault::Status).map(Always::Answers)).await;
}

#[tokio::test]
async fn no_answer_causes_a_request_loop() {
    let faults = [408, 425, 500, 502, 503, 504].map(Fault::Status);
    let others = [Fault::Reset, Fault::ResetAfterApply, Fault::Truncated, Fault::StatusAfterApply(200)];
    no_loop(faults.into_iter().chain(others).map(Always::Answers)).await;
}

#[tokio::test]
async fn no_lasting_state_causes_a_request_loop() {
    no_loop([Always::OtherVersion, Always::NoScope]).await;
    let (most, states) = pushed_repeatedly(Always::NoCustomValues, 1, true, 2).await;
    assert!((1..=5).contains(&most), "{most} requests within an hour, {states}");
    assert_eq!(states, "queued 1");
}

#[tokio::test]
async fn failing_records_cost_at_most_the_limit_of_the_object() {
    let answers = [503, 404, 412].map(Fault::Status).into_iter().chain([Fault::Reset]).map(Always::Answers);
    for always in answers.chain([Always::NoScope, Always::OtherVersion]) {
        let (most, states) = pushed_repeatedly(always.clone(), 60, false, 2).await;
        assert!((1..=60).contains(&most), "{always:?}: {most} requests within an hour, {states}");
    }
}

/// Records that are not found count against their object only until their removal is confirmed.
#[tokio::test]
async fn edits_of_removed_records_hold_up_no_others() {
    let (crm, mirror) = mirrored(7).await;
    sql(&mirror, "UPDATE contacts_full SET position = 'a'");
    crm.sandbox.with_world(|world| {
        for n in 0..5 {
            world.remove(CONTACT, &format!("c{n:03}"));
        }
    });
    mirror.run(&crm, &Job::push()).await.unwrap();
    assert_eq!(states(&mirror), "queued 4, rejected 3");
    mirror.run(&crm, &Job::push()).await.unwrap();
    assert_eq!(states(&mirror), "applied 2, rejected 5");
    assert_eq!(with_position(&crm, "a"), 2);
}

#[tokio::test]
async fn with_one_unit_left_nothing_is_sent_and_no_attempt_is_counted() {
    let (crm, mut mirror) = mirrored(1).await;
    sql(&mirror, "UPDATE contacts_full SET position = 'a'");
    mirror.limits.limit = Ru::new(mirror.ledger_total() + 1);
    for _ in 0..5 {
        mirror.run(&crm, &Job::push()).await.unwrap();
    }
    assert_eq!((crm.sandbox.log().len(), states(&mirror).as_str()), (0, "queued 1"));
    assert_eq!(mirror.one("SELECT attempts || '|' || coalesce(tried_at, 'never') FROM outbox"), "'0|never'");
    mirror.limits.limit = Ru::new(1_000_000);
    mirror.run(&crm, &Job::push()).await.unwrap();
    assert_eq!(states(&mirror), "applied 1");
}

#[tokio::test]
async fn edit_is_sent_ten_seconds_after_a_short_outage() {
    let (crm, mirror) = mirrored(1).await;
    sql(&mirror, "UPDATE contacts_full SET position = 'a'");
    crm.sandbox.faults().add(Rule::new(Fault::Status(503)).forever());
    mirror.run(&crm, &Job::push()).await.unwrap();
    crm.wait(6);
    crm.sandbox.faults().clear();
    crm.wait(4);
    mirror.run(&crm, &Job::push()).await.unwrap();
    assert_eq!(states(&mirror), "applied 1");
    let value: Value = crm.sandbox.world().detail_json(CONTACT, "c000").unwrap()["position"].clone();
    assert_eq!(value, json!("a"));
}

#[tokio::test]
async fn record_that_cannot_be_read_back_blocks_no_other() {
    let (crm, mirror) = mirrored(4).await;
    sql(&mirror, "UPDATE contacts_full SET position = 'a'");
    crm.sandbox.faults().add(Rule::new(Fault::Status(503)).method("PATCH").forever());
    mirror.run(&crm, &Job::push()).await.unwrap();
    assert_eq!(states(&mirror), "queued 1, sending 3", "the object waits after three failures in a row");
    crm.sandbox.faults().clear();
    // The list has the record, so this is no removal.
    crm.sandbox.faults().add(Rule::new(Fault::Status(404)).method("GET").record("c000").forever());
    crm.sandbox.faults().add(Rule::new(Fault::Status(404)).method("GET").record("c001").forever());
    crm.wait(HOUR);
    for _ in 0..2 {
        mirror.run(&crm, &Job::push()).await.unwrap();
        crm.wait(HOUR);
    }
    assert_eq!(states(&mirror), "applied 2, sending 2");
    assert_eq!(with_position(&crm, "a"), 2);
}
