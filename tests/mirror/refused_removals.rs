//! Removals that the gate refuses: what they cost, what is reported of them, and how the refusal ends.

use crate::evidence::{contacts_only, hide, ids, settled};
use crate::support::{Crm, Mirror, noon};
use crm_mirror::model::{Object, Resource};
use crm_mirror::sandbox::{Fault, Hidden, Rule, World};
use crm_mirror::store::RunOutcome;
use crm_mirror::sync::Job;
use serde_json::json;

/// Lookups by id so far, each page of their answers.
fn lookups(crm: &Crm) -> usize {
    crm.sandbox.log().entries().iter().filter(|entry| entry.asked.param("filter[id][in]").is_some()).count()
}

/// What lookups by id answer; lists may hide other records.
fn hide_from_lookups(hidden: Hidden) -> Rule {
    hide(hidden).with_param("filter[id]")
}

fn none() -> Hidden {
    Hidden::Ids(Default::default())
}

fn refusals(mirror: &Mirror) -> i64 {
    mirror.count("goals WHERE object = 'contact' AND kind = 'refused removals'")
}

/// The sample alone decides, whether or not its answer has the witness.
#[tokio::test]
async fn refusal_costs_one_lookup() {
    for hidden in [ids(0..300), Hidden::Percent(100)] {
        let (crm, mirror) = settled(600, false).await;
        crm.sandbox.faults().add(hide_from_lookups(hidden.clone()));
        crm.sandbox.faults().add(hide(ids(0..300)));
        let report = mirror.scheduled(&crm, &contacts_only(Job::audit())).await;
        assert_eq!((report.outcome, lookups(&crm)), (RunOutcome::Refused, 1), "{hidden:?}");
        assert_eq!((refusals(&mirror), mirror.count("doubts WHERE why = 'missed'")), (1, 300), "{hidden:?}");
    }
}

/// Lists without half of the records are no outage if a lookup has them. It is their newest version, too.
#[tokio::test]
async fn records_that_only_lookups_have_are_looked_up_once_and_compared() {
    let (crm, mirror) = settled(600, false).await;
    crm.sandbox.with_world(|world| world.edit(Object::Contact, "c00003", &json!({"name": "Edited"})));
    crm.sandbox.faults().add(hide_from_lookups(none()));
    crm.sandbox.faults().add(hide(ids(0..300)));
    let report = mirror.scheduled(&crm, &contacts_only(Job::audit())).await;
    assert_eq!((report.outcome, report.tally.removed, lookups(&crm)), (RunOutcome::Done, 0, 7));
    assert_eq!(mirror.one("SELECT name FROM contacts WHERE id = 'c00003'"), "'Edited'");
    assert_eq!((refusals(&mirror), mirror.count("doubts WHERE why = 'missed'")), (0, 0));
    mirror.assert_exact_lists(&crm);
}

/// The first half of the sample is gone, and the second is not.
#[tokio::test]
async fn sample_that_is_looked_up_in_two_parts_shows_records_in_one_of_them() {
    let (crm, mirror) = settled(600, false).await;
    crm.sandbox.with_world(|world| {
        for n in 0..24 {
            world.remove(Object::Contact, &format!("c{n:05}"));
        }
    });
    crm.sandbox.configure(|settings| settings.limits_whole_lists = true);
    crm.sandbox.faults().add(hide_from_lookups(none()));
    crm.sandbox.faults().add(hide(ids(0..300)));
    let report = mirror.scheduled(&crm, &contacts_only(Job::audit())).await;
    assert_eq!((report.outcome, report.tally.removed), (RunOutcome::Done, 24));
    mirror.assert_exact_lists(&crm);
}

#[tokio::test]
async fn refusal_ends_when_a_sweep_has_seen_every_record() {
    let (crm, mirror) = settled(600, false).await;
    crm.sandbox.faults().add(hide(ids(0..300)));
    mirror.scheduled(&crm, &contacts_only(Job::audit())).await;
    assert_eq!((refusals(&mirror), mirror.count("doubts WHERE why = 'missed'")), (1, 300));
    crm.sandbox.faults().clear();
    crm.wait(600);
    crm.sandbox.clear_log();
    let report = mirror.scheduled(&crm, &contacts_only(Job::resync())).await;
    assert_eq!((report.outcome, lookups(&crm)), (RunOutcome::Done, 0));
    assert_eq!((refusals(&mirror), mirror.count("doubts WHERE why = 'missed'")), (0, 0));
    mirror.assert_exact_lists(&crm);
}

/// It repairs nothing, and yet what it was shown is not missed any more.
#[tokio::test]
async fn refusal_ends_when_a_verification_has_seen_every_record() {
    let full = Job { full: true, ..Job::verify() };
    for job in [Job::verify(), full] {
        let (crm, mirror) = settled(600, false).await;
        crm.sandbox.faults().add(hide(ids(0..300)));
        mirror.scheduled(&crm, &contacts_only(Job::audit())).await;
        assert_eq!((refusals(&mirror), mirror.count("doubts WHERE why = 'missed'")), (1, 300), "{job:?}");
        // Those of an object of which some are still missed stay refused.
        crm.sandbox.faults().clear();
        crm.sandbox.faults().add(hide(ids(0..100)));
        crm.wait(600);
        mirror.verify(&crm, &contacts_only(job.clone())).await;
        assert_eq!((refusals(&mirror), mirror.count("doubts WHERE why = 'missed'")), (1, 100), "{job:?}");
        crm.sandbox.faults().clear();
        crm.wait(600);
        let (_, found) = mirror.verify(&crm, &contacts_only(job.clone())).await;
        assert_eq!((found[0].1.open, refusals(&mirror)), (0, 0), "{job:?}");
        assert_eq!(mirror.count("doubts WHERE why = 'missed'"), 0, "{job:?}");
    }
}

/// No record is looked up again; what a verification found stays open.
#[tokio::test]
async fn audit_reports_an_earlier_refusal_and_a_sync_does_not() {
    let (crm, mirror) = settled(600, false).await;
    crm.sandbox.faults().add(hide(ids(0..300)));
    let refused = mirror.scheduled(&crm, &contacts_only(Job::audit())).await;
    for (job, wait, outcome) in [
        (Job::audit(), 600, RunOutcome::Refused),
        (Job::sync(), 600, RunOutcome::Done),
        (Job::sync(), 86_400, RunOutcome::Done),
        (Job::audit(), 86_400, RunOutcome::Refused),
    ] {
        crm.wait(wait);
        crm.sandbox.clear_log();
        let report = mirror.scheduled(&crm, &contacts_only(job.clone())).await;
        assert_eq!((report.outcome, report.tally.removed, lookups(&crm)), (outcome, 0, 0), "{job:?}");
        let outages = if outcome == RunOutcome::Refused { &refused.outages[..] } else { &[] };
        assert_eq!(report.outages.len(), outages.len(), "{job:?}");
        for ((resource, outage), (_, first)) in report.outages.iter().zip(outages) {
            let counts = (*resource, outage.going, outage.of, outage.seen_at);
            assert_eq!(counts, (Resource::Contacts, 300, 600, first.seen_at), "{job:?}");
        }
        let open =
            mirror.one("SELECT coalesce(max(open), 0) FROM goals WHERE object = 'contact' AND kind = 'differing'");
        assert_eq!(open, "300", "{job:?}");
    }
}

#[tokio::test]
async fn accepted_removal_ends_the_refusal() {
    let (crm, mirror) = settled(600, false).await;
    crm.sandbox.faults().add(hide(ids(0..300)));
    mirror.scheduled(&crm, &contacts_only(Job::audit())).await;
    crm.wait(600);
    let accepted = contacts_only(Job::audit()).accepting_removals();
    assert_eq!(mirror.run(&crm, &accepted).await.unwrap().tally.removed, 300);
    assert_eq!((refusals(&mirror), mirror.count("doubts WHERE why = 'missed'")), (0, 0));
}

/// Several steps of such a run decide on the same object.
#[tokio::test]
async fn each_object_whose_removals_are_refused_is_reported_once() {
    let mut world = World::new(noon());
    for n in 0..20 {
        world.create(Object::Contact, &json!({"id": format!("ct{n:02}")}));
        world.create(Object::Company, &json!({"id": format!("co{n:02}")}));
    }
    let crm = Crm::serve(world).await;
    let mirror = Mirror::one_at_a_time();
    mirror.sync(&crm).await;
    crm.wait(600);
    for resource in [Resource::Contacts, Resource::Companies] {
        crm.sandbox.faults().add(Rule::new(Fault::EmptyList).on(resource).lists().forever());
    }
    let report = mirror.resync(&crm).await;
    let mut objects: Vec<Resource> = report.outages.iter().map(|(resource, _)| *resource).collect();
    objects.sort();
    assert_eq!((report.outcome, objects), (RunOutcome::Refused, vec![Resource::Contacts, Resource::Companies]));
}
