//! Answers with fewer rows than they announce, or with rows that cannot be mirrored: what they left out is found, or nothing
//! is claimed.

use std::sync::Arc;
use std::time::Duration;

use crate::audits::world_of;
use crate::clocks::claimed;
use crate::support::clock::WrongClock;
use crate::support::{Crm, Mirror, bodies, noon};
use crm_mirror::model::{Clock, DataType, Object, Resource};
use crm_mirror::sandbox::{DateHeader, Fault, LoggedRequest, NewField, Rule};
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
        [(1, 250, "0 250"), (1, 250, "30 60"), (1, 250, "50 250"), (1, 60, "20 60"), (4, 1_500, "30 60")]
    {
        let crm = Crm::serve(world_of(contacts)).await;
        crm.sandbox.faults().add(lists(bodies::without_rows(places)));
        let mut mirror = Mirror::one_at_a_time();
        (mirror.settings.details, mirror.settings.concurrency) = (false, workers);
        mirror.settings.rows_per_slice = 833;
        mirror.sync(&crm).await;
        mirror.assert_exact_lists(&crm);
    }
}

/// Lists that are cut for ten minutes, as every page of them says: whoever asks again meanwhile, nothing is complete.
#[tokio::test]
async fn copy_whose_lists_are_cut_for_minutes_is_completed_when_they_are_whole() {
    for contacts in [250, 1_300] {
        let crm = Crm::serve(world_of(contacts)).await;
        crm.sandbox.faults().add(lists(bodies::without_rows("60 100")).forever());
        let mut mirror = Mirror::empty();
        mirror.settings.details = false;
        for _ in 0..3 {
            mirror.sync(&crm).await;
            assert_eq!(claimed(&mirror, crm.clock.now())[0], None, "{contacts}");
            crm.wait(200);
        }
        assert!(mirror.count("contacts") < contacts as i64);
        crm.sandbox.faults().clear();
        crm.wait(600);
        mirror.scheduled(&crm, &Job::sync()).await;
        mirror.assert_exact_lists(&crm);
        assert!(claimed(&mirror, crm.clock.now())[0].is_some(), "{contacts}");
    }
}

/// A page without a next one is no proof that the records that it lacks are gone.
#[tokio::test]
async fn page_of_an_audit_that_was_cut_nominates_no_record_that_it_could_not_show() {
    let (crm, mirror) = mirrored(3_000).await;
    crm.sandbox.clear_log();
    crm.sandbox.faults().add(lists(bodies::without_rows("60 100")).forever());
    let report = mirror.scheduled(&crm, &Job::audit()).await;
    assert_eq!((report.tally.removed, mirror.count("doubts")), (0, 0));
    assert!(crm.charged() <= 16, "{} RU", crm.charged());
}

/// The slices that follow announce their own rows only, and some may never be read.
#[tokio::test]
async fn first_page_of_a_copy_in_slices_that_is_shorter_than_announced_is_completed() {
    for commits in [None, Some(6), Some(8), Some(10), Some(12), Some(14)] {
        let crm = Crm::serve(world_of(1_500)).await;
        crm.sandbox.faults().add(lists(bodies::without_rows("30 60")));
        let mut mirror = Mirror::empty();
        mirror.settings.details = false;
        (mirror.settings.concurrency, mirror.settings.rows_per_slice) = (4, 300);
        if commits.is_some() {
            mirror.run_killed_after(&crm, &Job::sync(), commits).await.unwrap_err();
        }
        mirror.sync(&crm).await;
        mirror.assert_exact_lists(&crm);
    }
}

/// What the total promises is looked for once, at a bounded cost; a list that shows no more is complete.
#[tokio::test]
async fn total_that_is_always_too_large_costs_a_bounded_number_of_requests() {
    for total in [251, 280, u64::from(u32::MAX)] {
        let crm = Crm::serve(world_of(250)).await;
        crm.sandbox.faults().add(lists(bodies::total(total)).forever());
        let mut mirror = Mirror::one_at_a_time();
        mirror.settings.details = false;
        mirror.sync(&crm).await;
        mirror.assert_exact_lists(&crm);
        assert!(crm.charged() <= 40, "{total}: {}", crm.charged());
        crm.wait(600);
        mirror.scheduled(&crm, &Job::sync()).await;
        assert_eq!(claimed(&mirror, crm.clock.now())[0], None, "{total}: not before a second moment");
        crm.wait(600);
        mirror.scheduled(&crm, &Job::sync()).await;
        assert!(claimed(&mirror, crm.clock.now())[0].is_some(), "{total}");
        assert!(crm.charged() <= 50, "{total}: {}", crm.charged());
        crm.wait(600);
        crm.sandbox.clear_log();
        mirror.sync(&crm).await;
        assert_eq!(crm.charged(), 2, "{total}");
    }
}

/// A person accepts the removals of a sweep whose list had lacked records that nobody here knows.
#[tokio::test]
async fn accepted_removals_make_no_list_complete_that_was_short() {
    let (crm, mirror) = mirrored(40).await;
    crm.sandbox.with_world(|world| {
        for n in 0..10 {
            world.remove(Object::Contact, &format!("c{n:06}"));
        }
        // No walk of changes reads them.
        let old = noon().minus(Duration::from_secs(9_500_000)).to_wire();
        for n in 0..8 {
            let id = format!("late{n}");
            world.create(Object::Contact, &json!({ "id": id, "createdAt": old, "updatedAt": old }));
        }
    });
    crm.sandbox.faults().add(lists(bodies::without_rows("0 100")).with_param("count"));
    let refused = mirror.run(&crm, &Job::resync()).await.unwrap();
    assert_eq!(refused.outages.len(), 1);
    crm.wait(60);
    mirror.run(&crm, &Job::resync().accepting_removals()).await.unwrap();
    mirror.assert_exact_lists(&crm);
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
async fn long_text_whose_values_are_fewer_than_announced_is_read_with_the_details() {
    let crm = Crm::serve(world_of(120)).await;
    let mirror = Mirror::one_at_a_time();
    mirror.sync(&crm).await;
    crm.sandbox.with_world(|world| {
        world.fields().define(NewField::new(Object::Contact, "story", DataType::LongText));
        for n in 0..120 {
            world.edit_silently(Object::Contact, &format!("c{n:06}"), &json!({"customFields": {"story": "long"}}));
        }
    });
    crm.wait(6 * 3600);
    crm.sandbox.faults().add(lists(bodies::without_rows("0 100")).with_param("filter[customFields"));
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
}

/// A record that no changes walk has shown is behind the place where the list of a verification was cut.
#[tokio::test]
async fn list_of_a_verification_that_is_shorter_than_announced_proves_nothing() {
    for is_lasting in [false, true] {
        let (crm, mirror) = mirrored(250).await;
        let late = noon().minus(Duration::from_secs(9_000_000 - 60 * 40)).to_wire();
        let late = json!({"id": "late", "name": "Committed late", "createdAt": late, "updatedAt": late});
        crm.sandbox.with_world(|world| world.create(Object::Contact, &late));
        let cut = lists(bodies::without_rows("30 60")).with_param("sort").after(1);
        crm.sandbox.faults().add(if is_lasting { cut.forever() } else { cut });
        let job = Job { full: true, ..Job::verify() };
        let report = mirror.run(&crm, &job.of(&[Resource::Contacts])).await.unwrap();
        let (_, found) = &report.findings[0];
        assert_eq!((found.missing, found.undecided > 0), (u64::from(!is_lasting), is_lasting), "{found:?}");
    }
}

/// A page that comes a second time makes up for none that does not come.
#[tokio::test]
async fn page_that_a_verification_reads_twice_counts_once() {
    let (crm, mirror) = mirrored(14).await;
    crm.sandbox.configure(|settings| settings.page_cap = Some(4));
    // The second page leads to itself once, and the third until the list seems to end with it.
    for rule in [lists(Fault::SameCursor), lists(Fault::SameCursor).after(1).times(2)] {
        crm.sandbox.faults().add(rule.with_param("cursor"));
    }
    crm.sandbox.clear_log();
    let job = Job { full: true, ..Job::verify() };
    let report = mirror.run(&crm, &job.of(&[Resource::Contacts])).await.unwrap();
    assert!(report.findings[0].1.is_clean(), "{:?}", report.findings);
    let is_lookup = |entry: &LoggedRequest| entry.asked.param("filter[id][in]").is_some();
    assert!(!crm.sandbox.log().entries().iter().any(is_lookup), "no record was missed");
}

/// Counts go on where the list does not, and a record that is missing makes up for one that was removed.
#[tokio::test]
async fn list_that_does_not_advance_leaves_a_verification_undecided() {
    let (crm, mirror) = mirrored(250).await;
    let at = noon().minus(Duration::from_secs(9_000_000 - 60 * 120)).to_wire();
    let late = json!({"id": "late", "name": "Committed late", "createdAt": at, "updatedAt": at});
    crm.sandbox.with_world(|world| {
        assert!(world.remove(Object::Contact, "c000120"));
        world.create(Object::Contact, &late);
    });
    crm.sandbox.faults().add(lists(Fault::EmptyPageWithCursor).with_param("cursor").forever());
    for repair in [false, true] {
        let job = Job { repair, ..Job::verify() };
        let report = mirror.run(&crm, &job.of(&[Resource::Contacts])).await.unwrap();
        let findings = &report.findings[0].1;
        assert_eq!((findings.count(), findings.undecided), (0, 1), "repair: {repair}");
    }
    crm.sandbox.faults().clear();
    let job = Job { repair: true, ..Job::verify() };
    mirror.run(&crm, &job.of(&[Resource::Contacts])).await.unwrap();
    mirror.assert_exact_lists(&crm);
}

/// The hourly count differs, and the list that follows does not show why.
#[tokio::test]
async fn comparison_of_the_schedule_with_a_list_that_is_cut_short_claims_nothing() {
    let (crm, mirror) = mirrored(250).await;
    let late = noon().minus(Duration::from_secs(9_000_000 - 60 * 40)).to_wire();
    let late = json!({"id": "late", "name": "Committed late", "createdAt": late, "updatedAt": late});
    crm.sandbox.with_world(|world| world.create(Object::Contact, &late));
    // Behind the count itself.
    let is_page = lists(bodies::without_rows("30 60")).with_param("count").after(1);
    crm.sandbox.faults().add(is_page.forever());
    crm.wait(3_600);
    mirror.scheduled(&crm, &Job::sync().of(&[Resource::Contacts])).await;
    let [complete, _] = claimed(&mirror, crm.clock.now());
    assert_eq!((mirror.count("contacts"), complete), (250, Some(noon())), "only the copy is claimed");
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
        let job = Job { full, ..Job::verify() };
        let report = mirror.run(&crm, &job).await.unwrap();
        let (_, contacts) = report.findings.iter().find(|(object, _)| *object == Object::Contact).unwrap();
        assert_eq!((contacts.count(), contacts.undecided), (0, 1), "full: {full}");
    }
}

/// What a copy of 500 contacts costs, a run on each of three days, and a resync. The contact with this id is shown without it.
async fn charged_beside(unusable: &str, workers: u32) -> Vec<u64> {
    let crm = Crm::serve(world_of(500)).await;
    crm.sandbox.faults().add(lists(bodies::without_id(unusable)).forever());
    let mut mirror = Mirror::empty();
    mirror.settings.details = false;
    (mirror.settings.concurrency, mirror.settings.rows_per_slice) = (workers, 100);
    let mut charged = Vec::new();
    for job in [Job::sync(), Job::sync(), Job::sync(), Job::sync(), Job::resync()] {
        crm.sandbox.clear_log();
        mirror.run(&crm, &job.of(&[Resource::Contacts])).await.unwrap();
        charged.push(crm.charged());
        crm.wait(86_400);
        let is_complete = claimed(&mirror, crm.clock.now())[0].is_some();
        assert_eq!(
            (mirror.count("contacts"), is_complete),
            if unusable == "none" { (500, true) } else { (499, false) }
        );
    }
    charged
}

/// It was seen, so it is not missing: no list is read again because of it. The last one of all, walks of changes meet: it is
/// counted and listed with what changed.
#[tokio::test]
async fn item_without_an_id_among_many_costs_nothing() {
    for workers in [1, 4] {
        let mut usual = charged_beside("none", workers).await;
        assert_eq!(charged_beside("c000250", workers).await, usual, "{workers}");
        usual.iter_mut().zip([0, 2, 2, 2, 4]).for_each(|(usual, more)| *usual += more);
        assert_eq!(charged_beside("c000499", workers).await, usual, "{workers}");
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

/// A change whose item has no id is there and unknown, among later changes and as the last one; once it has its id, it is read.
#[tokio::test]
async fn change_without_an_id_is_not_claimed_to_be_here() {
    for order in [["c000005", "c000003"], ["c000003", "c000005"]] {
        let (crm, mirror) = mirrored(10).await;
        crm.sandbox.faults().add(lists(bodies::without_id("c000005")).forever());
        let changed = crm.clock.now();
        for id in order {
            crm.wait(600);
            crm.sandbox.with_world(|world| world.edit(Object::Contact, id, &json!({ "name": "Changed" })));
        }
        for wait in [600, 1_000, 90_000, 1_000] {
            crm.wait(wait);
            crm.sandbox.clear_log();
            mirror.sync(&crm).await;
            assert!(
                claimed(&mirror, crm.clock.now())[1].is_none_or(|at| at < changed.plus(Duration::from_secs(600))),
                "{order:?}"
            );
            assert!(crm.sandbox.log().lists(Resource::Contacts) <= 4, "{order:?}");
        }
        crm.sandbox.faults().clear();
        crm.wait(100_000);
        mirror.sync(&crm).await;
        mirror.assert_exact_lists(&crm);
        assert!(
            claimed(&mirror, crm.clock.now())[1].is_some_and(|at| at > changed.plus(Duration::from_secs(600))),
            "{order:?}"
        );
    }
}

/// Our clock is late, and no answer has a date: what follows the bad record is behind all that is known of the time.
#[tokio::test]
async fn record_that_cannot_be_read_is_passed_over_with_a_late_clock() {
    let crm = Crm::serve(world_of(30)).await;
    crm.sandbox.faults().add(Rule::new(Fault::Date(DateHeader::Missing)).forever());
    let clock = WrongClock::new(crm.clock.clone());
    clock.set_ahead(-7_200);
    let mut mirror = Mirror::one_at_a_time();
    mirror.settings.details = false;
    mirror.clock = Some(Arc::new(clock));
    mirror.sync(&crm).await;
    crm.wait(600);
    crm.sandbox.faults().add(lists(bodies::bad_number("c000005")).forever());
    for n in 3..9 {
        let id = format!("c{n:06}");
        crm.sandbox.with_world(|world| world.edit(Object::Contact, &id, &json!({ "name": "Changed" })));
        crm.wait(10);
    }
    crm.wait(600);
    mirror.sync(&crm).await;
    assert_eq!(mirror.count("contacts WHERE name = 'Changed'"), 5);
}

/// A bulk change of one moment with one bad record: the others are read by their dates of creation.
#[tokio::test]
async fn record_that_cannot_be_read_in_a_tie_is_passed_over() {
    let (crm, mirror) = mirrored(250).await;
    crm.sandbox.faults().add(lists(bodies::bad_number("c000120")).forever());
    let bulk = crm.clock.now();
    crm.sandbox.with_world(|world| {
        for id in world.ids(Resource::Contacts) {
            world.edit_at(Object::Contact, &id, &json!({ "name": "Changed" }), Some(bulk));
        }
    });
    crm.wait(600);
    crm.sandbox.with_world(|world| world.edit(Object::Contact, "c000003", &json!({ "name": "Later" })));
    crm.wait(600);
    mirror.sync(&crm).await;
    assert_eq!(mirror.count("contacts WHERE name = 'Changed'"), 248);
    assert_eq!(mirror.count("contacts WHERE name = 'Later'"), 1);
    let [_, changes] = claimed(&mirror, crm.clock.now());
    assert!(changes.is_none_or(|at| at < bulk), "{changes:?}");
    crm.sandbox.faults().clear();
    crm.wait(100_000);
    mirror.sync(&crm).await;
    mirror.assert_exact_lists(&crm);
}
