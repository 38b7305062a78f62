//! Records with ids that no predicate can hold, for which no list can be asked: nothing is decided about them, and all the
//! rest goes on.

use crate::evidence::contacts_only;
use crate::removal_lookups::{lists_with, undecided};
use crate::support::{Crm, Mirror, noon};
use crm_mirror::model::Object;
use crm_mirror::sandbox::World;
use crm_mirror::store::RunOutcome;
use crm_mirror::sync::Job;
use serde_json::json;

/// One character more than a predicate can hold.
fn long(first: char) -> String {
    format!("{first}{}", "x".repeat(320))
}

/// A settled mirror of contacts with these ids, the last one the newest.
async fn settled(ids: &[&str]) -> (Crm, Mirror) {
    let mut world = World::new(noon());
    for (id, seconds) in ids.iter().zip(1..) {
        world.now = noon().plus(std::time::Duration::from_secs(seconds));
        world.create(Object::Contact, &json!({"id": id, "name": "Ann"}));
    }
    let crm = Crm::serve(world).await;
    let mut mirror = Mirror::one_at_a_time();
    mirror.settings.details = false;
    crm.wait(600);
    mirror.sync(&crm).await;
    crm.wait(86_400);
    crm.sandbox.clear_log();
    (crm, mirror)
}

fn remove(crm: &Crm, id: &str) {
    crm.sandbox.with_world(|world| world.remove(Object::Contact, id));
}

#[tokio::test]
async fn removal_that_cannot_be_looked_up_stays_undecided_and_the_others_are_decided() {
    let full = |repair| Job { full: true, repair, ..Job::verify() };
    for job in [Job::resync(), Job::audit(), full(true), full(true).accepting_removals()] {
        let (crm, mirror) = settled(&[&long('a'), "c1", "c2", "c3"]).await;
        remove(&crm, &long('a'));
        remove(&crm, "c1");
        let report = mirror.run(&crm, &contacts_only(job.clone())).await.unwrap();
        assert_eq!((report.outcome, report.tally.removed), (RunOutcome::Done, 1), "{job:?}");
        assert_eq!(report.warnings, undecided(1), "{job:?}");
        for verify in [full(false), full(true)] {
            let (_, findings) = mirror.verify(&crm, &contacts_only(verify)).await;
            assert_eq!((findings[0].1.count(), findings[0].1.undecided), (0, 1), "{job:?}: {findings:?}");
        }
        crm.sandbox.with_world(|world| world.edit(Object::Contact, "c2", &json!({"name": "Bea"})));
        mirror.sync(&crm).await;
        assert_eq!(mirror.one("SELECT name FROM contacts WHERE id = 'c2'"), "'Bea'", "{job:?}");
        assert_eq!(mirror.count("contacts"), 3, "{job:?}");
        assert_eq!(mirror.one("SELECT record_id FROM doubts WHERE why = 'missed'"), format!("'{}'", long('a')));
        // What a list shows needs no lookup.
        crm.sandbox.with_world(|world| world.create(Object::Contact, &json!({"id": long('a'), "name": "Ann"})));
        mirror.resync(&crm).await;
        assert_eq!(mirror.count("doubts WHERE why = 'missed'"), 0, "{job:?}");
        mirror.assert_exact_lists(&crm);
    }
}

/// The newest record, here and there, cannot vouch for an answer: the newest that can does.
#[tokio::test]
async fn witness_is_a_record_that_a_list_can_be_asked_for() {
    let (crm, mirror) = settled(&["c1", "c2", "c3", &long('z')]).await;
    remove(&crm, "c1");
    let report = mirror.run(&crm, &contacts_only(Job::audit())).await.unwrap();
    assert_eq!((report.tally.removed, report.warnings), (1, vec![]));
    let log = crm.sandbox.log();
    let asked: Vec<&str> = log.entries().iter().filter_map(|entry| entry.asked.param("filter[id][in]")).collect();
    assert_eq!(asked, ["c1,c3"]);
    mirror.assert_exact_lists(&crm);
}

#[tokio::test]
async fn listed_witness_is_a_record_that_a_list_can_be_asked_for() {
    let (crm, mirror) = settled(&["c1", "c2"]).await;
    for id in ["c3".to_string(), long('y'), long('z')] {
        crm.wait(1);
        crm.sandbox.with_world(|world| world.create(Object::Contact, &json!({"id": id, "name": "Ann"})));
    }
    remove(&crm, "c1");
    remove(&crm, "c2");
    crm.wait(86_400);
    for _ in 0..2 {
        mirror.run(&crm, &contacts_only(Job::resync())).await.unwrap();
        crm.wait(86_400);
    }
    mirror.assert_exact_lists(&crm);
}

/// The service lists records, so it is no outage; but none of them can vouch for an answer.
#[tokio::test]
async fn without_any_witness_nothing_is_removed() {
    let (crm, mirror) = settled(&[&long('a'), "c1"]).await;
    remove(&crm, "c1");
    for _ in 0..2 {
        let report = mirror.run(&crm, &contacts_only(Job::resync())).await.unwrap();
        assert_eq!((report.outcome, report.tally.removed, report.warnings), (RunOutcome::Done, 0, undecided(1)));
        crm.wait(86_400);
    }
    assert_eq!((mirror.count("contacts"), lists_with(&crm, "filter[id][in]", None)), (2, 0));
}

/// Without them the records would be none that are known, and any workspace were this one.
#[tokio::test]
async fn workspace_is_recognised_by_records_that_a_list_can_be_asked_for() {
    let (crm, mut mirror) = settled(&["c1", "c2", &long('y'), &long('z')]).await;
    mirror.key = Some(crm.sandbox.full_key());
    mirror.sync(&crm).await;
    assert_eq!(lists_with(&crm, "filter[id][in]", Some("c2,c1")), 1);
}
