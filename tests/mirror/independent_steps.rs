//! Nothing optional stands on the critical path: a count, a page or a step that fails affects only itself.

use std::time::Duration;

use crate::clocks::claimed;
use crate::evidence::{contacts_only, settled, world};
use crate::plain::plain_lists;
use crate::support::{Crm, Mirror, bodies};
use crm_mirror::model::{Clock as _, DataType, Object, Resource};
use crm_mirror::sandbox::{Fault, LoggedRequest, NewField, Rule};
use crm_mirror::sync::Job;
use serde_json::json;

fn edit(crm: &Crm, contacts: std::ops::Range<usize>, name: &str) {
    crm.sandbox.with_world(|world| {
        for n in contacts {
            assert!(world.edit(Object::Contact, &format!("c{n:05}"), &json!({ "name": name })));
        }
    });
}

/// A first copy and a bulk change are read completely, and lists prove what a count would.
#[tokio::test]
async fn service_that_does_not_count_is_read_all_the_same() {
    for fault in [Fault::Status(503), Fault::Status(400), Fault::NoTotal] {
        let crm = Crm::serve(world(600)).await;
        let mut mirror = Mirror::empty();
        mirror.tries = 2;
        mirror.settings.rows_per_slice = 170;
        mirror.settings.details = false;
        crm.sandbox.faults().add(Rule::new(fault.clone()).with_param("count").forever());
        let copied = mirror.run(&crm, &Job::sync()).await;
        assert!(copied.is_ok(), "{fault:?}: pages by value need no count");
        mirror.assert_exact_lists(&crm);
        edit(&crm, 100..400, "Bulk");
        for _ in 0..3 {
            crm.wait(20);
            let before = crm.clock.now();
            mirror.sync(&crm).await;
            mirror.assert_exact_lists(&crm);
            assert!(claimed(&mirror, crm.clock.now())[1] >= Some(before), "{fault:?}: the changes were listed");
        }
        edit(&crm, 100..400, "Again");
        crm.wait(3_600);
        mirror.run(&crm, &Job::resync()).await.unwrap();
        mirror.assert_exact_lists(&crm);
        // The schedule counts each object once an hour.
        crm.wait(3_600);
        mirror.scheduled(&crm, &Job::sync()).await;
        crm.sandbox.faults().clear();
        crm.wait(600);
        mirror.sync(&crm).await;
        assert!(claimed(&mirror, crm.clock.now())[0].is_some(), "{fault:?}");
    }
}

/// A person's comparison lists what is not counted; the schedule's leaves it to a sweep, once a day.
#[tokio::test]
async fn service_that_does_not_count_is_compared_all_the_same() {
    for fault in [Fault::Status(503), Fault::Status(400), Fault::NoTotal] {
        let (crm, mut mirror) = settled(1_500, false).await;
        mirror.tries = 2;
        crm.sandbox.faults().add(Rule::new(fault.clone()).with_param("count").forever());
        let remove = |id: &str| crm.sandbox.with_world(|world| assert!(world.remove(Object::Contact, id)));
        remove("c00300");
        crm.wait(600);
        crm.sandbox.clear_log();
        let found = mirror.verify(&crm, &contacts_only(Job::verify())).await.1.remove(0).1;
        // A lookup that is not counted proves something at a second moment.
        assert_eq!((found.count(), found.open), (0, 1), "{fault:?}");
        for _ in 0..2 {
            mirror.verify(&crm, &contacts_only(Job::audit())).await;
            crm.wait(900);
        }
        mirror.assert_exact_lists(&crm);
        assert!(crm.charged() <= 3 * 30, "{fault:?}: {} RU", crm.charged());
        // The newest page, a count that fails, and at most one sweep in a day.
        remove("c00400");
        let before = claimed(&mirror, crm.clock.now())[0];
        crm.wait(86_400);
        crm.sandbox.clear_log();
        let audited = mirror.scheduled(&crm, &contacts_only(Job::audit())).await;
        assert_eq!((audited.findings, claimed(&mirror, crm.clock.now())[0]), (vec![], before), "{fault:?}");
        for _ in 0..3 {
            crm.wait(6 * 3_600);
            mirror.scheduled(&crm, &contacts_only(Job::sync())).await;
            mirror.scheduled(&crm, &contacts_only(Job::audit())).await;
        }
        mirror.assert_exact_lists(&crm);
        assert!(crm.charged() <= 60, "{fault:?}: {} RU", crm.charged());
    }
}

/// The schedule does not ask for counts in every run that the service does not answer.
#[tokio::test]
async fn counts_that_fail_are_asked_for_at_growing_intervals() {
    let crm = Crm::serve(world(900)).await;
    let mut mirror = Mirror::empty();
    mirror.tries = 1;
    mirror.settings.details = false;
    crm.sandbox.faults().add(Rule::new(Fault::Status(503)).with_param("count").forever());
    for n in 0..12 {
        _ = mirror.try_scheduled(&crm, &Job::sync()).await;
        edit(&crm, 0..150, &format!("Bulk {n}"));
        crm.wait(300);
    }
    let asked = crm.sandbox.log().with_status(503);
    assert!((4..=12).contains(&asked), "{asked} counts in an hour");
}

/// `resync`, `verify` and details do not depend on the changes.
#[tokio::test]
async fn changes_that_fail_stop_no_other_step() {
    let (crm, mut mirror) = settled(150, true).await;
    mirror.tries = 1;
    edit(&crm, 0..2, "Changed");
    crm.sandbox.faults().add(Rule::new(Fault::Status(500)).with_param("filter[updatedAt]").forever());
    crm.wait(600);
    assert!(mirror.run(&crm, &Job::audit()).await.is_err(), "the changes were not read");
    mirror.assert_exact_lists(&crm);
    edit(&crm, 0..2, "Again");
    assert!(mirror.run(&crm, &Job::resync()).await.is_err());
    mirror.assert_exact(&crm);
}

/// Each attempt of a verification meets the same changes, and its objects are compared once a day.
#[tokio::test]
async fn changes_that_fail_repeat_no_comparison_of_the_day() {
    let (crm, mut mirror) = settled(150, false).await;
    mirror.tries = 1;
    crm.sandbox.faults().add(Rule::new(Fault::Status(500)).with_param("filter[updatedAt]").forever());
    for (wait, compares) in [(86_400, true), (3_600, false), (3_600, false), (86_400, true)] {
        crm.wait(wait);
        crm.sandbox.clear_log();
        mirror.try_scheduled(&crm, &Job::audit().of(&[Resource::Contacts])).await.unwrap_err();
        let is_list = |entry: &LoggedRequest| entry.asked.param("sort") == Some("createdAt");
        assert_eq!(crm.sandbox.log().entries().iter().any(is_list), compares, "after {wait} s");
    }
}

/// The schedule compares an object by a sweep then, once a day.
#[tokio::test]
async fn object_that_cannot_be_compared_by_its_changes_is_swept() {
    for status in [400, 404] {
        let (crm, mirror) = plain_lists(1_600).await;
        for by_change in ["filter[updatedAt]", "sort=updatedAt", "sort=-updatedAt"] {
            let rule = Rule::new(Fault::Status(status)).on(Resource::Contacts).with_param(by_change);
            crm.sandbox.faults().add(rule.forever());
        }
        edit(&crm, 0..2, "Changed");
        crm.sandbox.with_world(|world| world.remove(Object::Contact, "c00700"));
        crm.wait(90_000);
        _ = mirror.try_scheduled(&crm, &Job::audit()).await;
        crm.wait(3_600);
        _ = mirror.try_scheduled(&crm, &Job::sync()).await;
        mirror.assert_exact_lists(&crm);
    }
}

/// Counts by a condition that the service does not apply are counts of other records, and are not followed.
#[tokio::test]
async fn condition_that_is_not_applied_costs_lists_and_no_search() {
    let (crm, mirror) = plain_lists(1_500).await;
    crm.sandbox.faults().add(Rule::new(Fault::IgnoredTimes).with_param("filter[updatedAt]").forever());
    for name in ["One", "Two", "Three"] {
        edit(&crm, 700..702, name);
        crm.wait(1_000);
        crm.sandbox.clear_log();
        mirror.scheduled(&crm, &Job::sync().of(&[Resource::Contacts])).await;
        mirror.assert_exact_lists(&crm);
        // The walk reads the whole list, and so does each of two counts.
        let asked = crm.sandbox.log().len();
        assert!(asked <= 3 * 15 + 3, "{asked} requests");
    }
    crm.wait(86_400);
    crm.sandbox.clear_log();
    mirror.scheduled(&crm, &Job::audit().of(&[Resource::Contacts])).await;
    assert!(crm.sandbox.log().len() <= 2 * 15 + 8, "{} requests", crm.sandbox.log().len());
    crm.sandbox.faults().clear();
    crm.wait(3_600);
    mirror.scheduled(&crm, &Job::sync()).await;
    assert!(mirror.verify(&crm, &Job::verify()).await.1.iter().all(|(_, findings)| findings.is_clean()));
}

/// Lists that one part of the service answers fail together, and before everything else.
#[tokio::test]
async fn lists_that_fail_together_stop_no_other_list() {
    let optional = [Resource::CustomFields, Resource::TeamMembers];
    for fault in [Fault::Status(500), Fault::Html(502), Fault::Status(404)] {
        for failing in [optional, [Resource::CustomFields, Resource::Contacts]] {
            let crm = Crm::serve(world(30)).await;
            crm.sandbox.with_world(|world| world.create(Object::Company, &json!({"id": "co1", "name": "Beside"})));
            let mut mirror = Mirror::empty();
            (mirror.tries, mirror.settings.details) = (2, false);
            for resource in failing {
                crm.sandbox.faults().add(Rule::new(fault.clone()).on(resource).lists().forever());
            }
            for name in ["First", "Second"] {
                edit(&crm, 0..30, name);
                crm.wait(3_600);
                mirror.try_scheduled(&crm, &Job::sync()).await.unwrap_err();
                let contacts = if failing == optional { 30 } else { 0 };
                assert_eq!(mirror.count(&format!("contacts WHERE name = '{name}'")), contacts, "{fault:?} {failing:?}");
                assert_eq!(mirror.count("companies"), 1, "{fault:?} {failing:?}");
            }
        }
    }
}

/// A serializer that throws at one record.
#[tokio::test]
async fn record_at_which_every_page_fails_affects_only_itself() {
    let crm = Crm::serve(world(250)).await;
    crm.sandbox.faults().add(Rule::new(bodies::fails_at("c00069")).forever());
    let mut mirror = Mirror::empty();
    (mirror.tries, mirror.settings.details) = (3, false);
    _ = mirror.run(&crm, &Job::sync()).await;
    assert_eq!(mirror.count("contacts"), 249);
    assert_eq!(claimed(&mirror, crm.clock.now())[0], None, "one record is not known");
    crm.wait(600);
    edit(&crm, 69..70, "Bad");
    crm.wait(1);
    edit(&crm, 100..130, "Changed");
    crm.wait(600);
    crm.sandbox.clear_log();
    _ = mirror.run(&crm, &Job::sync()).await;
    assert_eq!(mirror.count("contacts WHERE name = 'Changed'"), 30);
    assert!(crm.charged() < 140, "{} RU", crm.charged());
    crm.wait(600);
    crm.sandbox.clear_log();
    _ = mirror.try_scheduled(&crm, &Job::sync()).await;
    assert!(crm.charged() <= 12, "{} RU", crm.charged());
    crm.sandbox.faults().clear();
    crm.wait(90_000);
    mirror.run(&crm, &Job::resync()).await.unwrap();
    mirror.assert_exact_lists(&crm);
}

/// A gateway that ends what takes long: half a page is answered.
#[tokio::test]
async fn pages_that_take_too_long_are_read_in_parts() {
    let crm = Crm::serve(world(250)).await;
    let long = |body: &str, _: &str| if body.matches("\"etag\"").count() > 50 { String::new() } else { body.into() };
    crm.sandbox.faults().add(Rule::new(Fault::Rewritten(long, String::new())).on(Resource::Contacts).forever());
    let mut mirror = Mirror::empty();
    (mirror.tries, mirror.settings.details) = (2, false);
    mirror.sync(&crm).await;
    mirror.assert_exact_lists(&crm);
    assert!(crm.charged() < 25, "{} RU", crm.charged());
}

/// NaN is no JSON: no page with that record can be read, and every other record is.
#[tokio::test]
async fn record_that_makes_its_page_unreadable_affects_only_itself() {
    let bad = "c00069";
    let crm = Crm::serve(world(250)).await;
    crm.sandbox.with_world(|world| world.set_raw(Object::Contact, bad, "position", "NaN"));
    let mut mirror = Mirror::empty();
    mirror.tries = 3;
    _ = mirror.run(&crm, &Job::sync()).await;
    assert_eq!(mirror.count("contacts"), 249);
    assert_eq!(mirror.count("contact_details"), 249);
    assert_eq!(mirror.one("SELECT times FROM service_oddities WHERE kind = 'unreadable_record'"), "1");
    assert_eq!(claimed(&mirror, crm.clock.now())[0], None, "one record is not known");
    // Changes of others pass it, and an idle run costs what it always does.
    crm.wait(600);
    crm.sandbox.with_world(|world| world.edit(Object::Contact, bad, &json!({ "name": "Bad" })));
    crm.wait(1);
    edit(&crm, 100..110, "Changed");
    crm.wait(600);
    crm.sandbox.clear_log();
    _ = mirror.run(&crm, &Job::sync()).await;
    assert_eq!(mirror.count("contacts WHERE name = 'Changed'"), 10);
    assert!(crm.charged() < 100, "{} RU", crm.charged());
    crm.wait(600);
    crm.sandbox.clear_log();
    _ = mirror.scheduled(&crm, &Job::sync()).await;
    assert!(crm.charged() <= 6, "{} RU", crm.charged());
    // Nothing that was known of it goes.
    crm.sandbox.with_world(|world| world.leave_out(Object::Contact, bad, "position"));
    crm.sandbox.with_world(|world| world.edit(Object::Contact, bad, &json!({ "position": "Good again" })));
    crm.wait(90_000);
    mirror.sync(&crm).await;
    assert_eq!(mirror.count("contacts"), 250);
    crm.sandbox.with_world(|world| world.set_raw(Object::Contact, bad, "position", "NaN"));
    crm.wait(600);
    for job in [Job::resync(), Job::audit(), Job::sync()] {
        let report = mirror.run(&crm, &job).await;
        assert_eq!((mirror.count("contacts"), mirror.count("removed_records")), (250, 0), "{job:?}: {report:?}");
    }
}

/// What could not be read is not known, so nothing is claimed as of then. Once it can be read, it is here.
#[tokio::test]
async fn changes_are_not_claimed_while_a_changed_record_cannot_be_read() {
    let bad = "c00069";
    let (crm, mut mirror) = settled(150, false).await;
    mirror.tries = 3;
    crm.wait(600);
    mirror.sync(&crm).await;
    let before = claimed(&mirror, crm.clock.now());
    assert!(before[1].is_some(), "{before:?}");
    crm.wait(600);
    crm.sandbox.with_world(|world| world.set_raw(Object::Contact, bad, "position", "NaN"));
    crm.sandbox.with_world(|world| world.edit(Object::Contact, bad, &json!({ "name": "Bad" })));
    crm.wait(600);
    for _ in 0..2 {
        _ = mirror.run(&crm, &Job::sync()).await;
        let after = claimed(&mirror, crm.clock.now());
        assert!(after[1] <= before[1], "{after:?} after {before:?}");
        crm.wait(600);
    }
}

/// What changed since they were read is no difference, and is not here either.
#[tokio::test]
async fn verification_that_repairs_nothing_claims_no_changes_that_were_not_read() {
    let (crm, mirror) = settled(150, false).await;
    crm.wait(600);
    mirror.sync(&crm).await;
    let read = crm.clock.now();
    let changes = Rule::new(Fault::Status(400)).on(Resource::Contacts).with_param("filter[updatedAt]");
    crm.sandbox.faults().add(changes.forever());
    crm.wait(600);
    crm.sandbox.with_world(|world| world.create(Object::Contact, &json!({ "id": "new" })));
    crm.wait(600);
    mirror.run(&crm, &Job::verify()).await.unwrap_err();
    assert_eq!(mirror.count("contacts"), 150);
    let [complete, _] = claimed(&mirror, crm.clock.now());
    assert_eq!(complete, Some(read), "the record is not here");
}

/// Every row was read, and the last page has a cursor all the same: its own.
#[tokio::test]
async fn list_whose_last_page_repeats_its_own_cursor_has_ended() {
    for members in [12, 15] {
        let mut world = world(12);
        for n in 0..members {
            world.create(Resource::TeamMembers, &json!({ "id": format!("t{n:02}") }));
            world.fields().define(NewField::new(Object::Contact, &format!("field_{n}"), DataType::ShortText));
        }
        let crm = Crm::serve(world).await;
        crm.sandbox.configure(|settings| settings.page_cap = Some(5));
        for (resource, last) in [(Resource::TeamMembers, 1), (Resource::CustomFields, 1), (Resource::Contacts, 1)] {
            crm.sandbox
                .faults()
                .add(Rule::new(Fault::SameCursor).on(resource).with_param("cursor").after(last).forever());
        }
        let mirror = Mirror::one_at_a_time();
        mirror.sync(&crm).await;
        assert_eq!(mirror.count("team_members"), members);
        assert_eq!(mirror.count("custom_field_definitions"), members);
        mirror.assert_exact(&crm);
        // A list that was cut short in the middle is none that has ended.
        crm.sandbox.faults().clear();
        crm.sandbox.faults().add(Rule::new(Fault::SameCursor).on(Resource::TeamMembers).with_param("cursor").forever());
        crm.wait(7 * 3_600);
        assert!(mirror.run(&crm, &Job::sync().of(&[Resource::TeamMembers])).await.is_err());
        assert_eq!(mirror.count("team_members"), members);
        // Without a count nothing shows that it has ended: its rows are taken, and no other is removed.
        let uncounted = Rule::new(Fault::Status(503)).on(Resource::TeamMembers).with_param("count");
        crm.sandbox.faults().add(uncounted.forever());
        for _ in 0..3 {
            crm.wait(7 * 3_600);
            mirror.run(&crm, &Job::sync().of(&[Resource::TeamMembers])).await.unwrap();
            assert_eq!(mirror.count("team_members"), members);
        }
    }
}

/// A lookup and a comparison that show all that was announced end there, too.
#[tokio::test]
async fn page_that_leads_to_itself_ends_lookups_and_comparisons() {
    let (crm, mirror) = settled(150, false).await;
    crm.sandbox.faults().add(Rule::new(Fault::SameCursor).on(Resource::Contacts).forever());
    crm.sandbox.with_world(|world| assert!(world.remove(Object::Contact, "c00010")));
    for (job, rows) in [(Job::verify(), 150), (Job::sync(), 150), (Job::audit(), 149), (Job::resync(), 149)] {
        crm.wait(600);
        assert!(mirror.run(&crm, &job).await.is_ok(), "{job:?}");
        assert_eq!(mirror.count("contacts"), rows, "{job:?}");
    }
    mirror.assert_exact_lists(&crm);
}

/// Whatever the service says to a cursor, the walk goes on by value.
#[tokio::test]
async fn refused_cursor_is_dropped_whatever_the_status() {
    for status in [400, 404, 410, 422] {
        let (crm, mirror) = settled(350, false).await;
        edit(&crm, 0..320, "Changed");
        crm.wait(600);
        let refused = Rule::new(Fault::Status(status)).on(Resource::Contacts).with_param("cursor").after(1);
        crm.sandbox.faults().add(refused);
        mirror.sync(&crm).await;
        mirror.assert_exact_lists(&crm);
        crm.sandbox.faults().add(Rule::new(Fault::Status(status)).on(Resource::Contacts).with_param("cursor").times(2));
        crm.wait(Duration::from_secs(600).as_secs());
        mirror.resync(&crm).await;
        mirror.assert_exact_lists(&crm);
    }
}

/// A full verification goes on by value, whatever the service says to a cursor. Where no cut helps, because more records than a page
/// share both timestamps, only they are undecided.
#[tokio::test]
async fn full_verification_compares_what_no_cursor_leads_through() {
    for (status, tied) in [(400, 0), (404, 0), (410, 0), (422, 0), (500, 0), (400, 130)] {
        let mut world = world(450);
        let tie = "2026-01-01T00:00:00Z";
        for n in 0..tied {
            let fields = json!({ "id": format!("tied{n:03}"), "createdAt": tie, "updatedAt": tie });
            world.create(Object::Contact, &fields);
        }
        let crm = Crm::serve(world).await;
        let mut mirror = Mirror::one_at_a_time();
        (mirror.tries, mirror.settings.details) = (2, false);
        mirror.sync(&crm).await;
        crm.sandbox.with_world(|world| {
            assert!(world.remove(Object::Contact, "c00060"));
            assert!(world.edit_silently(Object::Contact, "c00300", &json!({ "name": "Silently" })));
        });
        crm.wait(3_600);
        let cursors = Rule::new(Fault::Status(status)).on(Resource::Contacts).with_param("cursor");
        crm.sandbox.faults().add(cursors.forever());
        for repair in [false, true] {
            crm.sandbox.clear_log();
            let job = contacts_only(Job { full: true, repair, ..Job::verify() });
            let found = mirror.verify(&crm, &job).await.1.remove(0).1;
            let counts = [found.missing, found.extra, found.different, found.undecided];
            assert_eq!(counts, [0, 1, 1, u64::from(tied > 0)], "{status} {tied}");
            assert!(crm.charged() <= if tied > 0 { 40 } else { 16 }, "{status} {tied}: {} RU", crm.charged());
        }
        mirror.assert_exact_lists(&crm);
    }
}

/// 1,100 of 1,300 rows share their `updatedAt`, and the service refuses cursors beyond 400 rows. They are told apart by
/// `createdAt`, as a first copy does.
#[tokio::test]
async fn tie_that_no_cursor_leads_through_is_read_by_the_other_timestamp() {
    let (crm, mirror) = settled(1_300, false).await;
    crm.sandbox.configure(|settings| settings.counts_rows = true);
    crm.sandbox.faults().add(Rule::new(Fault::PageWindow(400)).on(Resource::Contacts).with_param("cursor").forever());
    crm.sandbox.with_world(|world| {
        let now = world.tick();
        for n in 100..1_200 {
            world.edit_at(Object::Contact, &format!("c{n:05}"), &json!({ "name": "Imported" }), Some(now));
        }
    });
    crm.wait(1);
    edit(&crm, 1_200..1_300, "Later");
    crm.wait(600);
    crm.sandbox.clear_log();
    mirror.sync(&crm).await;
    mirror.assert_exact_lists(&crm);
    assert!(crm.charged() < 60, "{} RU", crm.charged());
    for job in [Job::sync(), Job::resync(), Job::audit()] {
        crm.wait(600);
        assert!(mirror.run(&crm, &job).await.is_ok(), "{job:?}");
    }
    mirror.assert_exact_lists(&crm);
}

/// 1,100 records of one import share both timestamps, and the service refuses cursors beyond 400 rows: some of them cannot be
/// read. What was created or has changed later is read all the same, and nothing claims that all are here.
#[tokio::test]
async fn import_that_no_cursor_leads_through_hides_nothing_behind_it() {
    let (crm, mirror) = settled(60, false).await;
    crm.sandbox.configure(|settings| settings.counts_rows = true);
    crm.sandbox.faults().add(Rule::new(Fault::PageWindow(400)).on(Resource::Contacts).with_param("cursor").forever());
    let create = |id: String| crm.sandbox.with_world(|world| world.create(Object::Contact, &json!({ "id": id })));
    let at = crm.clock.now().to_wire();
    crm.sandbox.with_world(|world| {
        for n in 0..1_100 {
            let row = json!({ "id": format!("x{n:05}"), "createdAt": at, "updatedAt": at });
            world.create(Object::Contact, &row);
        }
    });
    let before = crm.clock.now();
    let jobs = [(Job::sync(), 60), (Job::sync(), 22), (Job::resync(), 70), (Job::sync(), 22)];
    for (hour, (job, most)) in jobs.into_iter().enumerate() {
        crm.wait(600);
        create(format!("new{hour}"));
        edit(&crm, hour..hour + 1, "Changed");
        crm.wait(3_000);
        crm.sandbox.clear_log();
        let ended = mirror.run(&crm, &job).await;
        let behind = "contacts WHERE id LIKE 'new%' OR name = 'Changed'";
        assert_eq!(mirror.count(behind), 2 * (hour as i64 + 1), "{hour}: {ended:?}");
        assert!(mirror.count("contacts WHERE id LIKE 'x%'") >= 400, "{hour}");
        assert!(
            claimed(&mirror, crm.clock.now()).into_iter().all(|as_of| as_of <= Some(before)),
            "{hour}: not all are here"
        );
        assert!(crm.charged() <= most, "{hour}: {} RU", crm.charged());
    }
}
