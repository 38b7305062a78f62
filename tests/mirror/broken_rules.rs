//! A service that breaks its own rules: the mirror never loops, never empties, reports what it saw, and is exact again
//! when the service behaves.

use std::time::Duration;

use crate::support::{Crm, Mirror, noon, prepared::prepared};
use crm_mirror::model::{DataType, Object, Resource};
use crm_mirror::sandbox::{Fault, NewField, RequestLine, Rule, World};
use crm_mirror::store::RunOutcome;
use crm_mirror::sync::{Job, SyncError};
use serde_json::json;

pub fn world(contacts: usize) -> World {
    let mut world = World::new(noon());
    world.fields().define(NewField::new(Object::Contact, "tier", DataType::ShortText));
    for n in 0..contacts {
        world.now = noon().minus(Duration::from_secs(100_000 - n as u64 * 10));
        let values = json!({"tier": format!("t{n}")});
        world.create(
            Object::Contact,
            &json!({"id": format!("ct{n:03}"), "name": format!("Name {n}"), "customFields": values}),
        );
    }
    world.create(Object::Company, &json!({"id": "co", "name": "Co"}));
    world
}

/// A workspace served in pages of five rows, and a mirror without retries.
pub async fn crm(contacts: usize) -> (Crm, Mirror) {
    let crm = Crm::serve(world(contacts)).await;
    crm.sandbox.configure(|settings| settings.page_cap = Some(5));
    let mut mirror = Mirror::one_at_a_time();
    mirror.tries = 1;
    (crm, mirror)
}

/// The same, mirrored, and then every contact but the first edited.
async fn edited(contacts: usize) -> (Crm, Mirror) {
    let make = || async move {
        let (crm, mirror) = crm(contacts).await;
        mirror.sync(&crm).await;
        crm.wait(600);
        mirror.sync(&crm).await;
        crm.wait(600);
        crm.sandbox.with_world(|world| {
            for (n, id) in world.ids(Resource::Contacts).iter().enumerate().skip(1) {
                let at = world.now.minus(Duration::from_secs(500 - n as u64));
                world.edit_at(Object::Contact, id, &json!({"name": format!("Edited {id}")}), Some(at));
            }
        });
        crm.wait(600);
        crm.sandbox.clear_log();
        (crm, mirror)
    };
    prepared(format!("broken_rules {contacts}"), make).await
}

fn oddities(mirror: &Mirror) -> String {
    mirror.one("SELECT coalesce(group_concat(kind || ' ' || resource, ', '), '') FROM service_oddities")
}

/// Contact lists that request rows rather than a count.
pub fn pages(crm: &Crm) -> usize {
    let log = crm.sandbox.log();
    log.entries()
        .iter()
        .filter(|entry| entry.asked.lists(Resource::Contacts) && entry.asked.param("limit") != Some("1"))
        .count()
}

async fn recovers(crm: &Crm, mirror: &Mirror) {
    crm.sandbox.faults().clear();
    crm.wait(3600);
    mirror.sync(crm).await;
    crm.wait(600);
    mirror.sync(crm).await;
    mirror.assert_exact(crm);
    assert_eq!(mirror.count("removed_records"), 0);
}

/// Faults in a list of contacts in the middle of a walk.
fn slips() -> [(Fault, &'static str); 7] {
    [
        (Fault::Unordered, "unordered_page contacts"),
        (Fault::RowOutsideFilter, "row_outside_filter contacts"),
        (Fault::SameCursor, "repeated_cursor contacts"),
        (Fault::RepeatedPage, "repeated_cursor contacts"),
        (Fault::EmptyPageWithCursor, "empty_page contacts"),
        (Fault::RefusedCursor, "refused_cursor contacts"),
        (Fault::Drag(Duration::from_secs(5)), ""),
    ]
}

#[tokio::test]
async fn missed_row_during_a_first_copy_costs_a_few_pages_and_loses_nothing() {
    // Pages of four rows are followed by cursor, those of five by value.
    for (rows, by_cursor) in [(4, true), (5, false)] {
        for (fault, oddity) in slips() {
            let (crm, mirror) = crm(24).await;
            crm.sandbox.configure(|settings| settings.page_cap = Some(rows));
            let rule = Rule::new(fault.clone()).on(Resource::Contacts).lists();
            crm.sandbox.faults().add(if by_cursor { rule.with_param("cursor").after(2) } else { rule.after(3) });
            let report = mirror.sync(&crm).await;
            assert_eq!(report.outcome, RunOutcome::Done, "{fault:?}");
            // A row outside a filter needs a filter, which a full list lacks.
            if by_cursor && fault != Fault::RowOutsideFilter {
                assert!(oddities(&mirror).contains(oddity), "{fault:?}: {}", oddities(&mirror));
            }
            // 24 details and their company's, the short lists, 6 pages, lists of what was read by cursor, and what the slip
            // costs.
            assert!(crm.charged() <= 50, "{fault:?}: {} RU for 42", crm.charged());
            assert_eq!(mirror.count("contacts"), 24, "{fault:?}");
            recovers(&crm, &mirror).await;
        }
    }
}

#[tokio::test]
async fn anomaly_during_a_changes_walk_is_recorded_and_loses_no_change() {
    for (fault, oddity) in slips() {
        let (crm, mirror) = edited(24).await;
        let rule = Rule::new(fault.clone()).on(Resource::Contacts).lists().with_param("cursor").after(2);
        crm.sandbox.faults().add(rule);
        let report = mirror.sync(&crm).await;
        assert_eq!(report.outcome, RunOutcome::Done, "{fault:?}");
        assert!(oddities(&mirror).contains(oddity), "{fault:?}: {}", oddities(&mirror));
        assert_eq!(report.tally.warnings > 0, !oddity.is_empty(), "{fault:?}");
        assert!(pages(&crm) <= 14, "{fault:?}: {} pages for 5", pages(&crm));
        mirror.assert_exact(&crm);
        recovers(&crm, &mirror).await;
    }
}

#[tokio::test]
async fn endless_list_is_given_up_and_nothing_is_lost() {
    for fault in [
        Fault::SameCursor,
        Fault::RepeatedPage,
        Fault::EmptyPageWithCursor,
        Fault::RefusedCursor,
        Fault::Unordered,
        Fault::RowOutsideFilter,
    ] {
        for job in [Job::sync(), Job::resync()] {
            let (crm, mirror) = edited(24).await;
            crm.sandbox.faults().add(Rule::new(fault.clone()).on(Resource::Contacts).lists().forever());
            let ended = mirror.run(&crm, &job).await;
            if let Err(error) = &ended {
                assert!(
                    matches!(error, SyncError::NotAdvancing { .. } | SyncError::Api { .. }),
                    "{fault:?}: {error:?}"
                );
            }
            let asked = crm.sandbox.log().lists(Resource::Contacts);
            // Each page of the last one has another cursor: eleven pages, and once more from the beginning.
            let most = if fault == Fault::EmptyPageWithCursor && job == Job::sync() { 22 } else { 150 };
            assert!(asked <= most, "{fault:?}: {asked} lists");
            assert_eq!(mirror.count("contacts"), 24, "{fault:?}");
            // The last page may be one without a next page, which nothing reveals.
            let named = fault == Fault::RepeatedPage || oddities(&mirror).contains("contacts");
            assert!(named, "{fault:?}");
            recovers(&crm, &mirror).await;
        }
    }
}

#[tokio::test]
async fn short_lists_that_do_not_advance_are_given_up() {
    for (resource, job) in [
        (Resource::CustomFields, Job::sync().of(&[Resource::CustomFields])),
        (Resource::TeamMembers, Job::sync().of(&[Resource::TeamMembers])),
    ] {
        for fault in [Fault::SameCursor, Fault::EmptyPageWithCursor] {
            let (crm, mirror) = crm(3).await;
            crm.sandbox.with_world(|world| {
                for n in 0..12 {
                    world.fields().define(NewField::new(Object::Contact, &format!("f{n}"), DataType::ShortText));
                    world.create(Resource::TeamMembers, &json!({"id": format!("tm{n}"), "firstName": "Ann"}));
                }
            });
            mirror.sync(&crm).await;
            crm.wait(600);
            crm.sandbox.clear_log();
            crm.sandbox.faults().add(Rule::new(fault.clone()).on(resource).forever());
            let failed = mirror.run(&crm, &job).await.unwrap_err();
            assert!(matches!(failed, SyncError::NotAdvancing { .. }), "{fault:?}: {failed:?}");
            let asked = crm.sandbox.log().len();
            assert!(asked <= 12, "{fault:?}: {asked} requests");
            assert!(oddities(&mirror).contains(resource.as_str()), "{fault:?}");
            assert_eq!((mirror.count("custom_field_definitions"), mirror.count("team_members")), (13, 12));
            // A single occurrence has no effect.
            crm.sandbox.faults().clear();
            crm.sandbox.faults().add(Rule::new(fault.clone()).on(resource).with_param("cursor"));
            mirror.run(&crm, &job).await.unwrap();
            recovers(&crm, &mirror).await;
        }
    }
}

#[tokio::test]
async fn back_fill_that_does_not_advance_is_given_up_and_completed_later() {
    for fault in [Fault::SameCursor, Fault::EmptyPageWithCursor, Fault::RepeatedPage] {
        let (crm, mirror) = edited(24).await;
        mirror.sync(&crm).await;
        crm.sandbox.with_world(|world| {
            world.fields().define(NewField::new(Object::Contact, "late", DataType::ShortText));
            for id in world.ids(Resource::Contacts) {
                world.edit_silently(Object::Contact, &id, &json!({"customFields": {"late": id}}));
            }
        });
        crm.wait(6 * 3600);
        crm.sandbox.clear_log();
        let rule = Rule::new(fault.clone()).on(Resource::Contacts).lists().with_param("cursor").forever();
        crm.sandbox.faults().add(rule);
        // Where restarts get further, it ends all the same.
        let ended = mirror.run(&crm, &Job::sync()).await;
        assert!(matches!(ended, Ok(_) | Err(SyncError::NotAdvancing { .. })), "{fault:?}: {ended:?}");
        assert!(crm.sandbox.log().lists(Resource::Contacts) <= 80, "{fault:?}");
        recovers(&crm, &mirror).await;
    }
}

#[tokio::test]
async fn suddenly_empty_list_is_an_outage_and_removes_nothing() {
    for contacts in [15, 120] {
        let (crm, mirror) = crm(contacts).await;
        mirror.sync(&crm).await;
        let rule = || Rule::new(Fault::EmptyList).on(Resource::Contacts).lists().forever();
        crm.sandbox.faults().add(rule());
        crm.wait(600);
        let report = mirror.resync(&crm).await;
        assert_eq!(report.outcome, RunOutcome::Refused);
        let (resource, outage) = report.outages[0];
        assert_eq!((resource, outage.going, outage.of), (Resource::Contacts, contacts as u64, contacts as u64));
        assert_eq!(mirror.count("contacts"), contacts as i64);
        assert_eq!(mirror.count("removed_records"), 0);
        assert_eq!(mirror.one("SELECT outcome FROM sync_runs ORDER BY id DESC"), "'refused'");
        // Meanwhile syncing continues and does not request a sweep by itself.
        crm.wait(600);
        crm.sandbox.clear_log();
        assert_eq!(mirror.sync(&crm).await.outcome, RunOutcome::Done);
        assert_eq!(crm.charged(), 2);
        // The object is back, and one of its records changed.
        crm.sandbox.faults().clear();
        crm.sandbox.with_world(|world| world.edit(Object::Contact, "ct003", &json!({"name": "Later"})));
        crm.wait(600);
        assert_eq!(mirror.sync(&crm).await.outcome, RunOutcome::Done);
        mirror.assert_exact(&crm);
        crm.wait(600);
        assert_eq!(mirror.resync(&crm).await.outcome, RunOutcome::Done);
        mirror.assert_exact(&crm);
    }
}

#[tokio::test]
async fn removed_records_are_removed_once_a_person_accepts_it() {
    let (crm, mirror) = crm(120).await;
    crm.sandbox.configure(|settings| settings.page_cap = None);
    mirror.sync(&crm).await;
    crm.sandbox.with_world(|world| {
        for n in 0..60 {
            world.remove(Object::Contact, &format!("ct{n:03}"));
        }
    });
    crm.wait(600);
    let report = mirror.resync(&crm).await;
    assert_eq!(report.outcome, RunOutcome::Refused);
    assert_eq!((report.outages[0].1.going, report.outages[0].1.of), (60, 120));
    assert_eq!(mirror.count("contacts"), 120);
    crm.wait(600);
    assert_eq!(mirror.resync(&crm).await.outcome, RunOutcome::Refused, "and again without acceptance");
    let accepted = Job::resync().accepting_removals();
    crm.wait(600);
    let report = mirror.run(&crm, &accepted).await.unwrap();
    assert_eq!((report.outcome, report.tally.removed), (RunOutcome::Done, 60));
    assert_eq!(mirror.count("removed_records"), 60);
    mirror.assert_exact(&crm);
}

#[tokio::test]
async fn tiny_table_keeps_its_rows_until_a_person_accepts_that_no_record_is_left() {
    let (crm, mirror) = crm(4).await;
    mirror.sync(&crm).await;
    crm.sandbox.with_world(|world| {
        for id in world.ids(Resource::Contacts) {
            world.remove(Object::Contact, &id);
        }
    });
    crm.wait(600);
    // No record is left for a confirmation: this looks like an outage of the lists.
    let report = mirror.resync(&crm).await;
    assert_eq!((report.outcome, report.tally.removed), (RunOutcome::Refused, 0));
    for _ in 0..3 {
        crm.wait(86_400);
        assert_eq!(mirror.sync(&crm).await.tally.removed, 0);
    }
    let report = mirror.run(&crm, &Job::sync().accepting_removals()).await.unwrap();
    assert_eq!((report.outcome, report.tally.removed), (RunOutcome::Done, 4));
    mirror.assert_exact(&crm);
    assert_eq!(mirror.count("removed_records"), 4);
}

#[tokio::test]
async fn accepted_removal_can_empty_a_tiny_table_at_once() {
    let (crm, mirror) = crm(4).await;
    mirror.sync(&crm).await;
    crm.sandbox.with_world(|world| {
        for id in world.ids(Resource::Contacts) {
            world.remove(Object::Contact, &id);
        }
    });
    crm.wait(600);
    let report = mirror.run(&crm, &Job::resync().accepting_removals()).await.unwrap();
    assert_eq!((report.outcome, report.tally.removed), (RunOutcome::Done, 4));
    mirror.assert_exact(&crm);
}

#[tokio::test]
async fn tiny_table_survives_lists_that_are_empty_for_days() {
    let (crm, mirror) = crm(4).await;
    mirror.sync(&crm).await;
    crm.sandbox.faults().add(Rule::new(Fault::EmptyList).lists().forever());
    for _ in 0..2 {
        crm.sandbox.clear_log();
        for hour in 0..24 {
            crm.wait(3600);
            let job = if hour == 2 { Job::resync() } else { Job::sync() };
            mirror.scheduled(&crm, &job).await;
        }
        assert_eq!((mirror.count("contacts"), mirror.count("removed_records")), (4, 0));
        let asked = crm.sandbox.log().len();
        // Each object is counted every hour, which reads nothing else while the difference is what is undecided.
        let counts = 2 * 24;
        assert!(asked < 120 + counts, "{asked} requests in a day, definitions and team members included");
    }
    crm.sandbox.faults().clear();
    crm.wait(600);
    mirror.resync(&crm).await;
    mirror.assert_exact(&crm);
}

#[tokio::test]
async fn many_records_are_removed_whatever_the_page_size() {
    let (crm, mirror) = crm(60).await;
    mirror.sync(&crm).await;
    crm.sandbox.with_world(|world| {
        for n in 0..12 {
            world.remove(Object::Contact, &format!("ct{:03}", n * 4));
        }
    });
    crm.wait(600);
    assert_eq!(mirror.resync(&crm).await.outcome, RunOutcome::Done);
    mirror.assert_exact(&crm);
    assert_eq!(mirror.count("removed_records"), 12);
}

#[tokio::test]
async fn missing_detail_is_a_removal_once_a_list_confirms_it() {
    let (crm, mirror) = edited(6).await;
    // The record is removed between the list and its detail.
    crm.sandbox.before_request(|world: &mut World, asked: &RequestLine| {
        if asked.path.ends_with("/contacts/ct002") {
            world.remove(Object::Contact, "ct002");
        }
    });
    let report = mirror.sync(&crm).await;
    assert_eq!(report.tally.removed, 1);
    assert_eq!(mirror.one("SELECT group_concat(id) FROM removed_records"), "'ct002'");
    assert_eq!(mirror.count("contact_details"), 5);
    mirror.assert_exact(&crm);
}

#[tokio::test]
async fn service_without_details_loses_no_records() {
    let (crm, mirror) = edited(60).await;
    crm.sandbox.faults().add(Rule::new(Fault::Status(404)).records().forever());
    crm.sandbox.clear_log();
    let report = mirror.sync(&crm).await;
    assert_eq!(report.tally.removed, 0);
    assert_eq!((mirror.count("contacts"), mirror.count("removed_records")), (60, 0));
    assert_eq!(mirror.count("service_oddities WHERE kind = 'details_not_found'"), 1);
    assert!(crm.sandbox.log().len() < 120, "the retries are bounded: {}", crm.sandbox.log().len());
    // Failed details are remembered: soon afterwards only details that were not tried yet are requested.
    crm.wait(60);
    crm.sandbox.clear_log();
    mirror.sync(&crm).await;
    let log = crm.sandbox.log();
    let asked: std::collections::BTreeSet<_> = log.entries().iter().map(|entry| entry.asked.path.clone()).collect();
    assert_eq!(asked.len(), log.len() - log.lists(Resource::Contacts).saturating_sub(1));
    assert!(log.details(Object::Contact) <= 21, "{}", log.details(Object::Contact));
    drop(log);
    crm.sandbox.faults().clear();
    crm.wait(3600);
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
}

#[tokio::test]
async fn listed_record_without_a_detail_is_requested_a_few_times_a_day() {
    let (crm, mirror) = edited(6).await;
    crm.sandbox.faults().add(Rule::new(Fault::Status(404)).record("ct002").forever());
    crm.sandbox.clear_log();
    for _ in 0..96 {
        crm.wait(900);
        assert_eq!(mirror.sync(&crm).await.tally.removed, 0);
    }
    let log = crm.sandbox.log();
    let asked = log.entries().iter().filter(|entry| entry.asked.path.ends_with("/ct002")).count();
    assert!((2..=8).contains(&asked), "{asked} requests for one detail in a day");
    let by_id = log.entries().iter().filter(|entry| entry.asked.param("filter[id][in]").is_some()).count();
    assert!(by_id <= asked, "{by_id} requests to confirm it");
    drop(log);
    crm.sandbox.with_world(|world| world.edit(Object::Contact, "ct002", &json!({"name": "A new version"})));
    crm.sandbox.faults().clear();
    crm.wait(60);
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
}

#[tokio::test]
async fn detail_that_always_fails_blocks_no_other_record() {
    for fault in [
        Fault::Status(500),
        Fault::Status(400),
        Fault::Status(301),
        Fault::Status(308),
        Fault::Status(401),
        Fault::Status(407),
        Fault::Reset,
        Fault::StatusAfterApply(200),
        Fault::Truncated,
        Fault::HugeBody(40_000_000),
    ] {
        let (crm, mirror) = edited(6).await;
        crm.sandbox.faults().add(Rule::new(fault.clone()).record("ct002").forever());
        let report = mirror.sync(&crm).await;
        assert_eq!(report.outcome, RunOutcome::Done, "{fault:?}");
        assert_eq!((report.tally.details, report.pending_details), (4, 1), "{fault:?}");
        assert_eq!(report.warnings, ["1 details of contacts could not be read in this run"]);
        assert_eq!(crm.sandbox.log().details(Object::Contact), 5, "{fault:?}: tried once per run");
        assert_eq!(mirror.one("SELECT name FROM contacts WHERE id = 'ct002'"), "'Edited ct002'");
        recovers(&crm, &mirror).await;
    }
}

#[tokio::test]
async fn failing_details_stop_further_detail_requests() {
    for fault in [Fault::Status(503), Fault::Status(403), Fault::Status(410), Fault::StatusAfterApply(200)] {
        let (crm, mirror) = edited(30).await;
        crm.sandbox.faults().add(Rule::new(fault.clone()).on(Resource::Contacts).records().forever());
        crm.sandbox.clear_log();
        let report = mirror.sync(&crm).await;
        assert_eq!(report.outcome, RunOutcome::Done, "{fault:?}");
        assert_eq!(report.missing_scopes, [], "{fault:?}: the list of the same scope was answered");
        assert_eq!(crm.sandbox.log().details(Object::Contact), 20, "{fault:?}");
        recovers(&crm, &mirror).await;
    }
}

#[tokio::test]
async fn permanently_failing_details_cost_a_bounded_number_of_requests() {
    for status in [403, 410, 500] {
        let (crm, mirror) = edited(30).await;
        crm.sandbox.faults().add(Rule::new(Fault::Status(status)).on(Resource::Contacts).records().forever());
        crm.sandbox.clear_log();
        for _ in 0..24 {
            let before = crm.sandbox.log().details(Object::Contact);
            crm.sandbox.with_world(|world| world.edit(Object::Company, "co", &json!({"name": format!("Co {before}")})));
            crm.wait(3600);
            mirror.sync(&crm).await;
            let fresh = mirror.one("SELECT name FROM companies_full WHERE details_current");
            assert_eq!(fresh, format!("'Co {before}'"), "{status}: everything else stays fresh");
            assert!(crm.sandbox.log().details(Object::Contact) - before <= 60, "{status}");
        }
        // Each record after 12, 24, 48, 96, 192, 384, 768 minutes: at most eight requests in the first day.
        let asked = crm.sandbox.log().details(Object::Contact);
        assert!(asked <= 30 * 8, "{status}: {asked} requests in a day");
        crm.sandbox.faults().clear();
        crm.wait(86_400);
        mirror.sync(&crm).await;
        mirror.assert_exact(&crm);
    }
}

#[tokio::test]
async fn huge_body_and_redirect_end_the_run_and_change_nothing() {
    for fault in [Fault::HugeBody(40_000_000), Fault::Status(302), Fault::Status(307), Fault::Status(418)] {
        let (crm, mirror) = edited(6).await;
        let before = mirror.one("SELECT group_concat(name) FROM contacts");
        crm.sandbox.faults().add(Rule::new(fault.clone()).on(Resource::Contacts).lists().forever());
        let failed = mirror.run(&crm, &Job::sync()).await.unwrap_err();
        assert!(matches!(failed, SyncError::Api { .. }), "{fault:?}: {failed:?}");
        // A page that is too large is requested with 100, 50, 25, 12, 6, 3 rows and one; and one shows that it is not a
        // single record that is too large.
        let requests = if matches!(fault, Fault::HugeBody(_)) { 8 } else { 1 };
        assert_eq!(crm.sandbox.log().lists(Resource::Contacts), requests, "{fault:?}");
        assert_eq!(mirror.one("SELECT group_concat(name) FROM contacts"), before);
        recovers(&crm, &mirror).await;
    }
}
