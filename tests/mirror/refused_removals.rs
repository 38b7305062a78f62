//! Removals that the gate refuses: what they cost, what is reported of them, and how the refusal ends.

use crate::evidence::{contacts_only, hide, ids, settled};
use crate::outbox_bench::{patches, push, sql, states};
use crate::rows_ahead::changes_without_end;
use crate::support::{Crm, Mirror, noon};
use crm_mirror::model::{Object, Resource, Ru};
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

/// The total has records again that counts missed: a few lookups show it, and nobody has to decide.
#[tokio::test]
async fn refusal_ends_when_an_audit_counts_the_records_again() {
    let (crm, mirror) = settled(1_500, false).await;
    crm.sandbox.faults().add(hide(ids(0..750)));
    let refused = mirror.scheduled(&crm, &contacts_only(Job::audit())).await;
    assert_eq!((refused.outcome, refusals(&mirror)), (RunOutcome::Refused, 1));
    let missed = mirror.count("doubts WHERE why = 'missed'");
    assert!(missed > 300, "{missed}");
    crm.sandbox.faults().clear();
    crm.wait(6 * 3_600);
    crm.sandbox.clear_log();
    let report = mirror.scheduled(&crm, &contacts_only(Job::audit())).await;
    assert_eq!((report.outcome, report.tally.removed), (RunOutcome::Done, 0));
    assert_eq!((refusals(&mirror), mirror.count("doubts WHERE why = 'missed'")), (0, 0));
    assert!(lookups(&crm) as i64 <= missed / 49 + 1, "{}", lookups(&crm));
}

/// What a person accepted, the daemon goes on with after a hold: it accepts what the sweep under way finds, and no removals
/// that something else finds later.
#[tokio::test]
async fn acceptance_that_goes_on_by_itself_is_of_the_sweep_under_way() {
    let accepting = || contacts_only(Job::sync()).accepting_removals();
    // The person's run is suspended before its sweep begins, or half-way.
    for (refused_before, ru) in [(true, 3), (false, 6)] {
        let (crm, mut mirror) = settled(600, false).await;
        crm.sandbox.faults().add(hide(ids(0..300)));
        if refused_before {
            assert_eq!(mirror.scheduled(&crm, &contacts_only(Job::audit())).await.outcome, RunOutcome::Refused);
            let report = mirror.scheduled(&crm, &accepting()).await;
            assert_eq!((report.tally.removed, mirror.count("contacts")), (0, 600));
        }
        mirror.limits.limit = Ru::new(mirror.ledger_total() + ru);
        let resync = contacts_only(Job::resync()).accepting_removals();
        assert_eq!(mirror.run(&crm, &resync).await.unwrap().outcome, RunOutcome::Suspended);
        assert_eq!(mirror.count("reads WHERE purpose = 'sweep' AND NOT done"), i64::from(!refused_before));
        mirror.limits.limit = Ru::new(1_000_000);
        let report = mirror.scheduled(&crm, &accepting()).await;
        assert_eq!((report.outcome, mirror.count("contacts")), (RunOutcome::Done, 300), "{refused_before}");
    }
}

/// Refused removals are said although the changes of another object do not end.
#[tokio::test]
async fn refusal_is_reported_although_changes_go_on() {
    let (crm, mirror) = settled(120, false).await;
    for n in 0..30 {
        let company = json!({"id": format!("co{n:02}"), "name": "A company"});
        crm.sandbox.with_world(|world| world.create(Object::Company, &company));
    }
    mirror.sync(&crm).await;
    crm.wait(600);
    crm.sandbox.with_world(|world| (0..20).for_each(|n| _ = world.remove(Object::Company, &format!("co{n:02}"))));
    changes_without_end(&crm);
    let report = mirror.run(&crm, &Job::audit()).await.unwrap();
    assert_eq!((report.outcome, mirror.count("companies")), (RunOutcome::Refused, 30));
    assert_eq!(report.outages.iter().map(|(of, _)| *of).collect::<Vec<_>>(), [Resource::Companies]);
}

/// An outage is over, and what is left of it are a few removals: nobody has to decide on them.
#[tokio::test]
async fn refusal_ends_when_what_is_left_of_it_is_few() {
    let (crm, mirror) = settled(600, false).await;
    crm.sandbox.faults().add(hide(ids(0..300)));
    mirror.scheduled(&crm, &contacts_only(Job::audit())).await;
    crm.sandbox.faults().clear();
    crm.sandbox.with_world(|world| {
        (270..300).for_each(|n| _ = world.remove(Object::Contact, &format!("c{n:05}")));
    });
    for (back, refused, removed) in [(0..100, 1, 0), (100..200, 0, 30)] {
        crm.wait(600);
        crm.sandbox.with_world(|world| {
            back.for_each(|n| _ = world.edit(Object::Contact, &format!("c{n:05}"), &json!({"name": "Back"})));
        });
        crm.wait(60);
        mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
        assert_eq!((refusals(&mirror), mirror.count("removed_records")), (refused, removed));
    }
    mirror.assert_exact_lists(&crm);
}

/// They are tried one after the other, and delay no edit of a record that is there.
#[tokio::test]
async fn edits_of_records_that_seem_to_be_removed_delay_no_other_edit() {
    let (crm, mut mirror) = settled(600, false).await;
    mirror.settings.write_back = true;
    crm.sandbox.with_world(|world| (0..300).for_each(|n| _ = world.remove(Object::Contact, &format!("c{n:05}"))));
    mirror.scheduled(&crm, &contacts_only(Job::audit())).await;
    sql(&mirror, "UPDATE contacts_full SET position = 'CTO' WHERE id < 'c00006'");
    push(&mirror, &crm).await;
    assert_eq!((refusals(&mirror), patches(&crm).len()), (1, 3));
    sql(&mirror, "UPDATE contacts_full SET position = 'CTO' WHERE id IN ('c00006', 'c00500')");
    push(&mirror, &crm).await;
    assert_eq!(patches(&crm)[3].asked.path, "/contacts/c00500");
    assert_eq!((mirror.count("outbox WHERE state = 'queued'"), patches(&crm).len()), (7, 4));
    crm.wait(60);
    push(&mirror, &crm).await;
    assert_eq!(
        (mirror.count("outbox WHERE state = 'queued'"), patches(&crm).len()),
        (7, 5),
        "one shows what others meet"
    );
    mirror.run(&crm, &contacts_only(Job::audit().accepting_removals())).await.unwrap();
    assert_eq!((mirror.count("outbox WHERE state = 'rejected'"), patches(&crm).len()), (7, 5));
}

/// A refusal that no list has ended yet is no reason to hold an edit.
#[tokio::test]
async fn edit_of_a_record_that_only_seemed_to_be_removed_is_sent() {
    let (crm, mut mirror) = settled(600, false).await;
    mirror.settings.write_back = true;
    crm.sandbox.faults().add(hide(ids(0..300)));
    mirror.scheduled(&crm, &contacts_only(Job::audit())).await;
    crm.sandbox.faults().clear();
    sql(&mirror, "UPDATE contacts_full SET position = 'CTO' WHERE id IN ('c00000', 'c00500')");
    push(&mirror, &crm).await;
    assert_eq!((refusals(&mirror), states(&mirror).as_str()), (1, "applied applied"));
    mirror.assert_exact_lists(&crm);
}

/// A list that lacks what a lookup shows is not whole, whatever its total is: what it may lack beside that nobody knows.
#[tokio::test]
async fn list_that_lookups_refute_proves_nothing() {
    for job in [Job::verify(), Job { full: true, ..Job::verify() }, Job::audit(), Job::resync()] {
        let (crm, mirror) = settled(600, false).await;
        crm.sandbox.faults().add(hide_from_lookups(none()));
        crm.sandbox.faults().add(hide(ids(100..160)));
        mirror.run(&crm, &contacts_only(job.clone())).await.unwrap();
        let open = "goals WHERE object = 'contact' AND kind = 'differing' AND open = 60";
        assert_eq!((mirror.count(open), mirror.count("doubts WHERE why = 'missed'")), (1, 0), "{job:?}");
        crm.sandbox.faults().clear();
        crm.wait(600);
        mirror.run(&crm, &contacts_only(job.clone())).await.unwrap();
        assert_eq!(mirror.count("goals WHERE object = 'contact' AND kind = 'differing'"), 0, "{job:?}");
    }
}
