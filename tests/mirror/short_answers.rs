//! Answers with fewer rows than they announce, or with rows that cannot be mirrored: what they left out is found, or nothing
//! is claimed.

use crate::audits::world_of;
use crate::clocks::claimed;
use crate::support::{Crm, Mirror, bodies};
use crm_mirror::model::{Clock, DataType, Object, Resource};
use crm_mirror::sandbox::{Fault, NewField, Rule};
use crm_mirror::sync::Job;
use serde_json::json;

async fn mirrored(contacts: usize) -> (Crm, Mirror) {
    let crm = Crm::serve(world_of(contacts)).await;
    let mut mirror = Mirror::one_at_a_time();
    mirror.settings.details = false;
    mirror.sync(&crm).await;
    crm.wait(600);
    (crm, mirror)
}

fn lists(fault: Fault) -> Rule {
    Rule::new(fault).on(Resource::Contacts).lists()
}

#[tokio::test]
async fn first_copy_that_is_shorter_than_announced_is_counted_and_completed() {
    for (workers, contacts, places) in
        [(1, 250, "0 250"), (1, 250, "30 60"), (1, 250, "50 250"), (1, 60, "20 60"), (4, 9_000, "30 60")]
    {
        let crm = Crm::serve(world_of(contacts)).await;
        crm.sandbox.faults().add(lists(bodies::without_rows(places)));
        let mut mirror = Mirror::one_at_a_time();
        (mirror.settings.details, mirror.settings.concurrency) = (false, workers);
        mirror.sync(&crm).await;
        mirror.assert_exact_lists(&crm);
    }
}

/// The service has not built the index of a new field yet.
#[tokio::test]
async fn column_whose_values_are_fewer_than_announced_is_filled_by_a_sweep() {
    let (crm, mirror) = mirrored(120).await;
    crm.sandbox.with_world(|world| {
        world.fields().define(NewField::new(Object::Contact, "tier", DataType::ShortText));
        for n in 0..120 {
            world.edit_silently(Object::Contact, &format!("c{n:06}"), &json!({"customFields": {"tier": "gold"}}));
        }
    });
    crm.wait(6 * 3600);
    crm.sandbox.faults().add(lists(bodies::without_rows("0 100")).with_param("filter[customFields"));
    mirror.sync(&crm).await;
    mirror.assert_exact_lists(&crm);
}

#[tokio::test]
async fn item_without_an_id_is_a_difference() {
    let crm = Crm::serve(world_of(4)).await;
    crm.sandbox.faults().add(lists(bodies::without_id("c000002")).forever());
    let mut mirror = Mirror::one_at_a_time();
    mirror.settings.details = false;
    mirror.sync(&crm).await;
    assert_eq!(mirror.count("contacts"), 3);
    assert_eq!(claimed(&mirror, crm.clock.now())[0], None, "it is not complete");
    for full in [true, false] {
        let job = Job::Verify { objects: Default::default(), full, repair: false, accept: Default::default() };
        let report = mirror.run(&crm, &job).await.unwrap();
        let (_, contacts) = report.findings.iter().find(|(object, _)| *object == Object::Contact).unwrap();
        assert_eq!((contacts.count(), contacts.undecided), (0, 1), "full: {full}");
    }
}

/// The newest change cannot be read: what the walk has read before it is no claim about it.
#[tokio::test]
async fn change_that_is_passed_over_is_not_claimed_to_be_here() {
    let (crm, mirror) = mirrored(10).await;
    crm.sandbox.faults().add(lists(bodies::bad_number("c000005")).forever());
    for id in ["c000003", "c000005"] {
        crm.sandbox.with_world(|world| world.edit(Object::Contact, id, &json!({ "name": "Changed" })));
        crm.wait(600);
    }
    let changed = crm.clock.now();
    for _ in 0..2 {
        crm.wait(600);
        mirror.sync(&crm).await;
        let [_, changes] = claimed(&mirror, crm.clock.now());
        assert!(changes.is_none_or(|at| at < changed), "{changes:?}");
    }
    crm.sandbox.faults().clear();
    crm.wait(100_000);
    mirror.sync(&crm).await;
    mirror.assert_exact_lists(&crm);
}
