//! The record that a lookup by id must show besides the records in question: which one it is, and what follows without it.

use crate::evidence::{contacts_only, hide, settled};
use crate::removal_lookups::{lists_with, lookups, nominate, remove};
use crate::support::{Crm, Mirror, noon};
use crm_mirror::model::{Object, Resource};
use crm_mirror::sandbox::{Fault, Hidden, RequestLine, Route, Rule, World};
use crm_mirror::store::RunOutcome;
use crm_mirror::sync::Job;
use serde_json::json;

/// How often the newest record that the service lists was asked for.
fn newest(crm: &Crm) -> usize {
    lists_with(crm, "sort", Some("-updatedAt"))
}

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
    assert_eq!((report.outcome, report.tally.removed, report.warnings), (RunOutcome::Done, 119, vec![]));
    assert_eq!(
        (lookups(&crm), newest(&crm)),
        (4, 1),
        "the first lookup is repeated with another witness, which is read once"
    );
    // The one that was removed is decided about in the same way: no record is as new as it.
    assert_eq!(mirror.count("doubts WHERE record_id = 'c00599'"), 1);
    for (wait, left) in [(600, 1), (900, 0)] {
        crm.wait(wait);
        mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
        assert_eq!(mirror.count("contacts WHERE id = 'c00599'"), left);
    }
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
    conn.execute("INSERT INTO doubts (object_type, record_id, why) VALUES ('contact', 'first', 'missed')", []).unwrap();
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
    assert_eq!(mirror.count("doubts WHERE why = 'missed'"), 0);
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

/// What was nominated is in no count of rows: a record that is there after all hides no other that was removed.
#[tokio::test]
async fn nominated_record_that_is_there_hides_no_removal() {
    let (crm, mirror) = settled(1_500, false).await;
    nominate(&mirror, 320..321);
    remove(&crm, 310..311);
    mirror.run(&crm, &contacts_only(Job::audit())).await.unwrap();
    mirror.assert_exact_lists(&crm);
}

/// Of three lookups the first lacks the witness, and the last is about the record that the service lists instead.
#[tokio::test]
async fn listed_witness_is_read_once_although_it_is_looked_up_itself() {
    let (crm, mirror) = settled(600, false).await;
    remove(&crm, 598..599);
    nominate(&mirror, 0..110);
    nominate(&mirror, 599..600);
    let report = mirror.run(&crm, &contacts_only(Job::sync())).await.unwrap();
    assert_eq!((report.tally.removed, lookups(&crm), newest(&crm)), (1, 4, 1), "and the one that was lacking");
    assert_eq!(mirror.count("doubts WHERE why = 'missed'"), 0);
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
    assert_eq!(report.warnings, crate::removal_lookups::undecided(1));
    let log = crm.sandbox.log();
    let asked: Vec<&str> = log.entries().iter().filter_map(|entry| entry.asked.param("filter[id][in]")).collect();
    assert_eq!(asked, ["c00000,c00059", "c00059,c00058"]);
    assert_eq!((report.outcome, report.tally.removed), (RunOutcome::Done, 1), "nothing is as new as the other one");
    crm.wait(900);
    assert_eq!(mirror.scheduled(&crm, &contacts_only(Job::sync())).await.tally.removed, 1);
}

/// The witness was removed, and another record that is looked up is as new as all the others.
#[tokio::test]
async fn answer_without_its_witness_decides_about_what_is_older_than_it_shows() {
    let (crm, mirror) = settled(600, false).await;
    remove(&crm, 0..1);
    remove(&crm, 598..599);
    nominate(&mirror, 0..1);
    nominate(&mirror, 599..600);
    for removed in [2, 0] {
        let report = mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
        assert_eq!((report.outcome, report.tally.removed), (RunOutcome::Done, removed));
        crm.wait(900);
    }
    let log = crm.sandbox.log();
    let asked: Vec<&str> = log.entries().iter().filter_map(|entry| entry.asked.param("filter[id][in]")).collect();
    assert_eq!(asked, ["c00000,c00599,c00598", "c00598,c00599"]);
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

/// A page as if it were the whole list, a count of the page, or one of all records.
#[tokio::test]
async fn total_of_another_list_proves_nothing() {
    let total = |total: &'static str| {
        let counted = |body: &str, with: &str| {
            let (before, rest) = body.split_once("\"total\":").unwrap();
            format!("{before}\"total\":{with}{}", &rest[rest.find(['}', ',']).unwrap()..])
        };
        Fault::Rewritten(counted, total.into())
    };
    for (total, page_cap, removed) in [(total("0"), 2, 0), (total("1"), 1, 0), (total("40"), 100, 3)] {
        let (crm, mirror) = settled(40, false).await;
        crm.sandbox.configure(|settings| settings.page_cap = Some(page_cap));
        nominate(&mirror, 3..6);
        if removed > 0 {
            remove(&crm, 3..6);
        }
        crm.sandbox.faults().add(Rule::new(total.clone()).with_param("filter[id]").forever());
        let report = mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
        assert_eq!(report.tally.removed, removed, "{total:?}");
        mirror.assert_exact_lists(&crm);
    }
}
