//! A sweep that cannot be read to its end, today or ever: what its pages missed is decided on all the same, and so is what
//! counts find.

use std::time::Duration;

use crate::clocks::world;
use crate::evidence;
use crate::plain::settled;
use crate::removal_lookups::{lookups, nominate, remove};
use crate::support::{Crm, Mirror};
use crm_mirror::model::{Object, Resource, Ru};
use crm_mirror::sandbox::{Fault, Rule};
use crm_mirror::sync::Job;
use serde_json::json;

/// A copied mirror of a service that ends the connection instead of listing records without a date.
async fn without_dateless() -> (Crm, Mirror) {
    let (crm, mut mirror) = settled(world(450)).await;
    mirror.settings.details = false;
    mirror.settings.concurrency = 1;
    let refused = Rule::new(Fault::Reset).on(Resource::Contacts).with_param("filter[createdAt][isNull]");
    crm.sandbox.faults().add(refused.forever());
    (crm, mirror)
}

#[tokio::test]
async fn record_that_a_failed_sweep_missed_is_removed() {
    let (crm, mirror) = without_dateless().await;
    crm.sandbox.with_world(|world| world.remove(Object::Contact, "c00007"));
    mirror.run(&crm, &Job::resync()).await.unwrap_err();
    assert_eq!(mirror.count("goals WHERE kind = 'sweeping' AND object = 'contact'"), 1, "it is not read");
    mirror.assert_exact_lists(&crm);
}

#[tokio::test]
async fn removal_shows_within_an_hour_while_a_sweep_is_under_way() {
    let (crm, mirror) = without_dateless().await;
    mirror.run(&crm, &Job::resync()).await.unwrap_err();
    crm.sandbox.with_world(|world| world.remove(Object::Contact, "c00007"));
    for _ in 0..2 {
        crm.wait(3_700);
        _ = mirror.try_scheduled(&crm, &Job::sync()).await;
    }
    assert_eq!(mirror.count("goals WHERE kind = 'sweeping' AND object = 'contact'"), 1, "it is not read yet");
    mirror.assert_exact_lists(&crm);
}

/// The companies are read for many windows.
#[tokio::test]
async fn removal_is_decided_while_a_sweep_waits_for_the_budget() {
    let mut world = evidence::world(30);
    (0..600).for_each(|n| drop(world.create(Object::Company, &json!({"id": format!("k{n:05}")}))));
    let crm = Crm::serve(world).await;
    crm.sandbox.configure(|settings| settings.page_cap = Some(10));
    let mut mirror = Mirror::one_at_a_time();
    mirror.settings.details = false;
    mirror.sync(&crm).await;
    crm.wait(600);
    (mirror.limits.limit, mirror.limits.window) = (Ru::new(20), Duration::from_secs(3_600));
    crm.wait(3_600);
    assert!(mirror.run(&crm, &Job::resync().of(&[Resource::Companies])).await.unwrap().suspension.is_some());
    nominate(&mirror, 3..4);
    remove(&crm, 3..4);
    crm.wait(3_600);
    crm.sandbox.clear_log();
    let report = mirror.scheduled(&crm, &Job::sync()).await;
    assert!(report.suspension.is_some(), "the sweep still waits");
    assert_eq!((report.tally.removed, lookups(&crm)), (1, 1));
}
