//! A sweep that cannot be read to its end, today or ever: what its pages missed is decided on all the same, and so is what
//! counts find.

use crate::changes::settled;
use crate::clocks::world;
use crate::support::{Crm, Mirror};
use crm_mirror::model::{Object, Resource};
use crm_mirror::sandbox::{Fault, Rule};
use crm_mirror::sync::Job;

/// A copied mirror of a service that refuses to list records without a date.
async fn without_dateless() -> (Crm, Mirror) {
    let (crm, mut mirror) = settled(world(450)).await;
    mirror.settings.details = false;
    mirror.settings.concurrency = 1;
    let refused = Rule::new(Fault::Status(500)).on(Resource::Contacts).with_param("filter[createdAt][isNull]");
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
