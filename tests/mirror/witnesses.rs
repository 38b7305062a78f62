//! The record that a lookup by id must show besides the records in question: which one it is, and what follows without it.

use crate::evidence::{contacts_only, hide, settled};
use crate::removal_lookups::{lists_with, lookups, nominate, remove, undecided};
use crate::support::{Crm, Mirror, noon};
use crm_mirror::model::{Object, Resource};
use crm_mirror::sandbox::{Fault, Hidden, RequestLine, Route, Rule, World};
use crm_mirror::store::RunOutcome;
use crm_mirror::sync::Job;
use serde_json::json;

/// The newest record, the witness, is removed after the lists were read.
#[tokio::test]
async fn removed_witness_is_replaced_by_one_that_the_service_lists() {
    let (crm, mirror) = settled(600, false).await;
    remove(&crm, 0..119);
    crm.sandbox.before_request(|world: &mut World, asked: &RequestLine| {
        if asked.param("filter[id][in]").is_some() {
            world.remove(Object::Contact, "c00599");
        }
    });
    let report = mirror.run(&crm, &contacts_only(Job::audit())).await.unwrap();
    assert_eq!((report.outcome, report.tally.removed), (RunOutcome::Done, 70));
    assert_eq!(report.warnings, undecided(49), "the first lookup had no witness");
    assert_eq!((lookups(&crm), lists_with(&crm, "limit", Some("1"))), (3, 1), "the new witness is read once");
    // The removed witness is still the newest record of the mirror, and nobody has missed it.
    crm.sandbox.clear_log();
    crm.wait(900);
    let report = mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
    assert_eq!((report.outcome, report.tally.removed), (RunOutcome::Done, 49));
    assert_eq!((lookups(&crm), lists_with(&crm, "limit", Some("1"))), (1, 1));
    assert_eq!(mirror.count("contacts WHERE id = 'c00599'"), 1);
    crm.wait(86_400);
    mirror.run(&crm, &contacts_only(Job::audit())).await.unwrap();
    mirror.assert_exact_lists(&crm);
}

/// A replica that lags behind answers the lookup and lists its own newest record, which is not the witness: nothing is
/// removed, although two records that were created lately are missing twice.
#[tokio::test]
async fn replica_that_lags_behind_confirms_no_removal() {
    let (crm, mirror) = settled(600, false).await;
    crm.wait(600);
    crm.sandbox.with_world(|world| {
        world.create(Object::Contact, &json!({ "id": "first" }));
        world.create(Object::Contact, &json!({ "id": "second" }));
    });
    mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
    let conn = rusqlite::Connection::open(&mirror.path).unwrap();
    conn.execute("INSERT INTO sweep_missing (object_type, id) VALUES ('contact', 'first')", []).unwrap();
    for seconds in [60, 1_800] {
        let hidden = Fault::Hide(Hidden::ids(["first", "second"]));
        crm.sandbox.faults().add(Rule::new(hidden).on(Resource::Contacts).with_param("filter[id]"));
        let hidden = Fault::Hide(Hidden::ids(["first", "second"]));
        crm.sandbox.faults().add(Rule::new(hidden).on(Resource::Contacts).with_param("limit").forever());
        mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
        crm.sandbox.faults().clear();
        assert_eq!(mirror.count("contacts WHERE id IN ('first', 'second')"), 2);
        crm.wait(seconds);
        mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
    }
    mirror.assert_exact_lists(&crm);
    assert_eq!(mirror.count("sweep_missing"), 0);
}

/// The first lookup lacks its witness, and then the service lists no record at all: that looks like an outage.
#[tokio::test]
async fn lookups_without_any_listed_record_are_refused() {
    let (crm, mirror) = settled(600, false).await;
    remove(&crm, 0..60);
    nominate(&mirror, 0..60);
    crm.sandbox.faults().add(hide(Hidden::Percent(100)));
    let report = mirror.run(&crm, &contacts_only(Job::sync())).await.unwrap();
    assert_eq!((report.outcome, report.tally.removed, lookups(&crm)), (RunOutcome::Refused, 0, 2));
}

/// Of three lookups the first lacks the witness, and the last is about the record that the service lists instead.
#[tokio::test]
async fn listed_witness_is_read_once_although_it_is_looked_up_itself() {
    let (crm, mirror) = settled(600, false).await;
    remove(&crm, 598..599);
    nominate(&mirror, 0..110);
    nominate(&mirror, 599..600);
    let report = mirror.run(&crm, &contacts_only(Job::sync())).await.unwrap();
    assert_eq!((report.tally.removed, lookups(&crm), lists_with(&crm, "limit", Some("1"))), (0, 3, 1));
    assert_eq!(mirror.count("sweep_missing"), 49, "of the first lookup");
}

/// The record that vouched for one lookup is looked up by the next one, because its detail was not found.
#[tokio::test]
async fn witness_that_was_removed_later_in_the_run_is_replaced_at_once() {
    let (crm, mirror) = settled(60, true).await;
    remove(&crm, 0..1);
    nominate(&mirror, 0..1);
    crm.sandbox.with_world(|world| world.edit(Object::Contact, "c00059", &json!({ "name": "Edited" })));
    crm.sandbox.before_request(|world: &mut World, asked: &RequestLine| {
        if asked.route == Route::One(Object::Contact, "c00059".to_string()) {
            world.remove(Object::Contact, "c00059");
        }
    });
    let report = mirror.run(&crm, &contacts_only(Job::sync())).await.unwrap();
    assert!(report.warnings.is_empty(), "{:?}", report.warnings);
    let log = crm.sandbox.log();
    let asked: Vec<&str> = log.entries().iter().filter_map(|entry| entry.asked.param("filter[id][in]")).collect();
    assert_eq!(asked, ["c00000,c00059", "c00059,c00058"]);
    assert_eq!((report.outcome, report.tally.removed), (RunOutcome::Done, 2));
}

/// The record that the service lists as a witness is one of those looked up.
#[tokio::test]
async fn witness_that_is_looked_up_itself_is_named_once() {
    let (crm, mirror) = settled(600, false).await;
    remove(&crm, 0..1);
    remove(&crm, 598..599);
    nominate(&mirror, 0..1);
    nominate(&mirror, 599..600);
    for removed in [0, 1] {
        let report = mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
        assert_eq!((report.outcome, report.tally.removed), (RunOutcome::Done, removed));
        crm.wait(900);
    }
    let log = crm.sandbox.log();
    let asked: Vec<&str> = log.entries().iter().filter_map(|entry| entry.asked.param("filter[id][in]")).collect();
    assert_eq!(asked, ["c00000,c00599,c00598", "c00000,c00599"]);
}

#[tokio::test]
async fn witness_with_a_comma_is_looked_up_on_its_own() {
    let mut world = World::new(noon());
    for id in ["a,1", "a,2", "b"] {
        world.create(Object::Contact, &json!({"id": id}));
    }
    let crm = Crm::serve(world).await;
    let mirror = Mirror::one_at_a_time();
    mirror.sync(&crm).await;
    crm.wait(600);
    crm.sandbox.with_world(|world| world.remove(Object::Contact, "b"));
    crm.sandbox.clear_log();
    let report = mirror.run(&crm, &contacts_only(Job::audit())).await.unwrap();
    assert_eq!((report.tally.removed, report.warnings), (1, vec![]));
    assert_eq!((lookups(&crm), lists_with(&crm, "filter[id][eq]", None)), (1, 1));
    mirror.assert_exact(&crm);
}
