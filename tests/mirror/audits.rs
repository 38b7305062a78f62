//! Audits and verification: the responsible check finds every kind of fault planted in a mirror, within its cost in RU.

use std::time::Duration;

use crate::support::prepared::prepared;
use crate::support::{Crm, Mirror, cases, noon};
use crm_mirror::model::{Object, Resource};
use crm_mirror::sandbox::{Fault, Hidden, Rule, World, generate};
use crm_mirror::sync::findings::DifferenceKind;
use crm_mirror::sync::{Findings, Job, SyncError};
use rusqlite::Connection;
use serde_json::json;

/// Enough for two levels of counts: each finds one of sixteen ranges, and what has a page or less is listed.
const RECORDS: usize = 2_000;

/// Contacts that were created a minute apart.
pub fn world_of(contacts: usize) -> World {
    let mut world = World::new(noon().minus(Duration::from_secs(10_000_000)));
    for n in 0..contacts {
        let at = noon().minus(Duration::from_secs(9_000_000 - 60 * n as u64));
        let created = at.to_wire();
        world.create(
            Object::Contact,
            &json!({ "id": format!("c{n:06}"), "name": format!("Contact {n}"), "createdAt": created, "updatedAt": created }),
        );
    }
    world
}

/// Contacts that share some of their timestamps.
pub fn tied_world(contacts: usize, tied: &[&str], tie: &str) -> World {
    let mut world = World::new(noon().minus(Duration::from_secs(10_000_000)));
    for n in 0..contacts {
        let own = noon().minus(Duration::from_secs(4_000_000 - 60 * n as u64)).to_wire();
        let at = |field| if tied.contains(&field) { tie } else { own.as_str() };
        world.create(
            Object::Contact,
            &json!({ "id": format!("c{n:06}"), "createdAt": at("createdAt"), "updatedAt": at("updatedAt") }),
        );
    }
    world
}

/// A copied and settled mirror without details, and an empty log.
async fn settled(world: World) -> (Crm, Mirror) {
    let crm = Crm::serve(world).await;
    let mut mirror = Mirror::empty();
    mirror.settings.details = false;
    mirror.sync(&crm).await;
    crm.wait(600);
    mirror.sync(&crm).await;
    crm.wait(600);
    crm.sandbox.clear_log();
    (crm, mirror)
}

/// [`settled`] for a [`world_of`] records that were created a minute apart.
async fn settled_of(records: usize) -> (Crm, Mirror) {
    prepared(format!("audits {records}"), || settled(world_of(records))).await
}

fn contacts(job: Job) -> Job {
    job.of(&[Resource::Contacts])
}

/// A verification that compares every record.
fn full(repair: bool) -> Job {
    contacts(Job { full: true, repair, ..Job::verify() })
}

/// Changes the file without the program's knowledge.
fn plant(mirror: &Mirror, sql: &str) {
    let conn = Connection::open(&mirror.path).unwrap();
    // Like a program that bypasses the triggers, or a damaged file.
    conn.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    assert!(conn.execute_batch(sql).is_ok(), "{sql}");
}

fn only(findings: Vec<(Object, Findings)>) -> Findings {
    assert_eq!(findings.len(), 1);
    findings.into_iter().next().unwrap().1
}

fn found(findings: &Findings) -> Vec<(String, DifferenceKind)> {
    let mut found: Vec<_> = findings.differences.iter().map(|d| (d.id.to_string(), d.kind)).collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

/// In CI among a hundred thousand, in a plain run among a fifth of that. Each level of counts finds one of sixteen ranges,
/// so a fifth of the records costs log16(5) of a level less: nine requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_removed_record_among_a_hundred_thousand_costs_at_most_sixty_requests() {
    let records = cases::records(100_000);
    let most = if records == 100_000 { 60 } else { 51 };
    let (crm, mirror) = settled_of(records).await;
    let clean = only(mirror.verify(&crm, &contacts(Job::verify())).await.1);
    assert!(clean.is_clean());
    let cost = crm.charged();
    assert!(cost <= 14, "a clean audit and the changes walk before it: {cost} RU");

    crm.sandbox.with_world(|world| world.remove(Object::Contact, "c014321"));
    crm.wait(600);
    crm.sandbox.clear_log();
    let (report, findings) = mirror.verify(&crm, &contacts(Job::audit())).await;
    assert_eq!(found(&only(findings)), [("c014321".to_string(), DifferenceKind::Extra)]);
    let cost = crm.charged();
    eprintln!("one removed record among {records}: {cost} RU");
    assert!(cost <= most, "{cost} RU");
    assert_eq!(report.tally.ru.get(), cost);
    assert_eq!(mirror.count("contacts"), records as i64 - 1);
    assert_eq!(mirror.one("SELECT id FROM removed_records"), "'c014321'");
}

/// All of 5,000 records were changed by one import: they share their `updatedAt`, or their `createdAt`, or both.
#[tokio::test]
async fn one_removed_record_in_a_tie_is_found_by_the_other_timestamp() {
    let tie = noon().minus(Duration::from_secs(5_000_000)).to_wire();
    for (tied, most) in [(&["updatedAt"][..], 60), (&["createdAt"][..], 60), (&["createdAt", "updatedAt"][..], 90)] {
        let (crm, mirror) = settled(tied_world(5_000, tied, &tie)).await;
        crm.sandbox.with_world(|world| world.remove(Object::Contact, "c003000"));
        crm.wait(600);
        crm.sandbox.clear_log();
        let (_, findings) = mirror.verify(&crm, &contacts(Job::audit())).await;
        assert_eq!(found(&only(findings)), [("c003000".to_string(), DifferenceKind::Extra)], "{tied:?}");
        let cost = crm.charged();
        assert!(cost <= most, "{tied:?}: {cost} RU");
        mirror.assert_exact_lists(&crm);
    }
}

/// A lookup has what counts do not; to be added before these.
fn shown_by_id() -> Rule {
    Rule::new(Fault::Hide(Hidden::Ids(Default::default()))).on(Resource::Contacts).with_param("filter[id]").forever()
}

/// A service whose count is wrong for records that share both timestamps makes no schedule list them more than once a day.
#[tokio::test]
async fn what_is_tied_in_both_timestamps_is_listed_once_a_day() {
    let tie = noon().minus(Duration::from_secs(5_000_000)).to_wire();
    let (crm, mirror) = settled(tied_world(2_500, &["createdAt", "updatedAt"], &tie)).await;
    let hidden = Hidden::ids(["c001000".to_string()]);
    let counts = Rule::new(Fault::Hide(hidden)).on(Resource::Contacts).with_param("count").forever();
    crm.sandbox.faults().add(shown_by_id());
    crm.sandbox.faults().add(counts);
    let mut cost = Vec::new();
    for _ in 0..3 {
        crm.sandbox.clear_log();
        crm.wait(3_600);
        let report = mirror.scheduled(&crm, &contacts(Job::audit())).await;
        assert_eq!(report.tally.removed, 0);
        cost.push(crm.charged());
    }
    assert!(cost[0] >= 25 && cost[1] < 20 && cost[2] < 20, "{cost:?}");
    crm.wait(86_400);
    crm.sandbox.clear_log();
    mirror.scheduled(&crm, &contacts(Job::audit())).await;
    assert!(crm.charged() >= 25, "{}", crm.charged());
}

#[tokio::test]
async fn one_missing_and_one_extra_record_are_found_despite_equal_totals() {
    let (crm, mirror) = settled_of(RECORDS).await;
    crm.sandbox.with_world(|world| world.remove(Object::Contact, "c000700"));
    plant(&mirror, "DELETE FROM contacts WHERE id = 'c001900'");
    assert_eq!(mirror.count("contacts"), RECORDS as i64 - 1);
    assert_eq!(crm.sandbox.world().count(Resource::Contacts), RECORDS - 1);
    let findings = only(mirror.verify(&crm, &contacts(Job::verify())).await.1);
    assert_eq!(
        found(&findings),
        [("c000700".to_string(), DifferenceKind::Extra), ("c001900".to_string(), DifferenceKind::Missing)]
    );
    assert_eq!(mirror.count("contacts"), RECORDS as i64 - 1, "reported, not repaired");
    mirror.verify(&crm, &contacts(Job::audit())).await;
    mirror.assert_exact_lists(&crm);
}

/// The newest records are compared row by row.
#[tokio::test]
async fn missing_record_beside_a_lingering_one_of_the_last_hour_is_found() {
    let mut world = world_of(RECORDS);
    world.now = noon();
    for n in 0..40 {
        world.now = noon().minus(Duration::from_secs(1_200 - 10 * n));
        world.edit(Object::Contact, &format!("c{:06}", 50 * n), &json!({ "name": "New" }));
    }
    world.now = noon();
    let (crm, mirror) = settled(world).await;
    crm.sandbox.with_world(|world| world.remove(Object::Contact, "c000700"));
    plant(&mirror, "DELETE FROM contacts WHERE id = 'c000800'");
    let findings = only(mirror.verify(&crm, &contacts(Job::verify())).await.1);
    assert_eq!(
        found(&findings),
        [("c000700".to_string(), DifferenceKind::Extra), ("c000800".to_string(), DifferenceKind::Missing)]
    );
    mirror.verify(&crm, &contacts(Job::audit())).await;
    mirror.assert_exact_lists(&crm);
}

/// The edits of the last hours are gone, and every total is what it was.
#[tokio::test]
async fn service_restored_to_this_morning_is_noticed() {
    let (crm, mirror) = settled_of(RECORDS).await;
    let before = "SELECT updated_at FROM contacts WHERE id = 'c000100'";
    let before: crm_mirror::model::Instant = mirror.one(before).trim_matches('\'').parse().unwrap();
    crm.sandbox.with_world(|world| {
        for n in 0..40 {
            world.edit(Object::Contact, &format!("c{:06}", 100 + n), &json!({ "name": "Of today" }));
        }
    });
    mirror.sync(&crm).await;
    crm.wait(4 * 3_600);
    crm.sandbox.with_world(|world| {
        for n in 0..40 {
            let at = before.plus(Duration::from_secs(60 * n));
            world.edit_at(Object::Contact, &format!("c{:06}", 100 + n), &json!({ "name": "Restored" }), Some(at));
        }
    });
    // Nothing that the service shows is as new as these rows: they are undecided until a second moment.
    let findings = only(mirror.verify(&crm, &contacts(Job::verify())).await.1);
    assert_eq!((findings.count(), findings.undecided, findings.open), (0, 40, 40));
    for _ in 0..2 {
        mirror.run(&crm, &contacts(Job::audit())).await.unwrap();
        crm.wait(900);
    }
    mirror.assert_exact_lists(&crm);
}

/// A removal is in no list of changes. The total of each hour shows it, and an audit follows at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removal_among_many_records_is_found_within_an_hour() {
    let records = cases::records(100_000);
    let (crm, mirror) = settled_of(records).await;
    mirror.scheduled(&crm, &Job::sync()).await;
    crm.sandbox.with_world(|world| world.remove(Object::Contact, "c014321"));
    crm.sandbox.clear_log();
    for _ in 0..12 {
        crm.wait(300);
        mirror.scheduled(&crm, &Job::sync()).await;
    }
    assert_eq!(mirror.one("SELECT id FROM removed_records"), "'c014321'");
    mirror.assert_exact_lists(&crm);
    let beside_polls = crm.charged() - 12 * 2;
    eprintln!("one removed record among {records}, found by the schedule: {beside_polls} RU");
    assert!(beside_polls <= 60, "{beside_polls} RU");
    // A quiet day: a count an hour.
    crm.sandbox.clear_log();
    for _ in 0..24 {
        crm.wait(3_600);
        mirror.scheduled(&crm, &contacts(Job::sync())).await;
    }
    assert_eq!(crm.charged(), 2 * 24 + 4 * 4, "with the definitions of every six hours");
}

/// A difference is explained by a comparison that ended and repaired what it found, and by nothing else.
#[tokio::test]
async fn removal_is_found_within_an_hour_whoever_looked_before() {
    for before in ["an audit that repaired", "a verification", "an audit that was interrupted"] {
        let (crm, mirror) = settled_of(RECORDS).await;
        mirror.scheduled(&crm, &Job::sync()).await;
        let remove = |id: &str| crm.sandbox.with_world(|world| world.remove(Object::Contact, id));
        crm.wait(600);
        if before == "an audit that repaired" {
            remove("c000111");
            mirror.run(&crm, &contacts(Job::audit())).await.unwrap();
        }
        remove("c000321");
        if before == "a verification" {
            mirror.run(&crm, &contacts(Job::verify())).await.unwrap();
        }
        if before == "an audit that was interrupted" {
            crm.wait(3_600);
            crm.sandbox.faults().add(Rule::new(Fault::Status(400)).on(Resource::Contacts).after(2));
            mirror.scheduled(&crm, &contacts(Job::sync())).await;
            assert_eq!(crm.sandbox.faults().pending(), 0, "the page after the total");
        }
        for _ in 0..6 {
            crm.wait(600);
            mirror.scheduled(&crm, &contacts(Job::sync())).await;
        }
        assert_eq!(mirror.count("removed_records WHERE id = 'c000321'"), 1, "{before}");
        mirror.assert_exact_lists(&crm);
    }
}

/// Changes of more than a page owe counts of their own, which say nothing about the whole.
#[tokio::test]
async fn removal_beside_bulk_changes_is_found_within_an_hour() {
    let (crm, mirror) = settled_of(RECORDS).await;
    mirror.scheduled(&crm, &Job::sync()).await;
    crm.sandbox.with_world(|world| world.remove(Object::Contact, "c000321"));
    for round in 0..4 {
        for n in 1_000..1_150 {
            let name = json!({"name": format!("Round {round}")});
            crm.sandbox.with_world(|world| world.edit(Object::Contact, &format!("c{n:06}"), &name));
        }
        crm.wait(1_200);
        mirror.scheduled(&crm, &Job::sync()).await;
    }
    assert_eq!(mirror.one("SELECT id FROM removed_records"), "'c000321'");
}

/// A count that is wrong for ever starts one audit, not one in each hour.
#[tokio::test]
async fn difference_that_an_audit_did_not_explain_starts_no_other() {
    let (crm, mirror) = settled_of(RECORDS).await;
    let hidden = Hidden::ids(["c001000".to_string()]);
    let total = Rule::new(Fault::Hide(hidden)).on(Resource::Contacts).with_param("count").forever();
    crm.sandbox.faults().add(shown_by_id());
    crm.sandbox.faults().add(total);
    let mut cost = Vec::new();
    for _ in 0..4 {
        crm.wait(3_600);
        crm.sandbox.clear_log();
        mirror.scheduled(&crm, &contacts(Job::sync())).await;
        cost.push(crm.charged());
    }
    assert!(cost[0] > 10 && cost[1..].iter().all(|cost| *cost == 2), "{cost:?}");
    assert_eq!(mirror.count("contacts"), RECORDS as i64);
}

/// What a difference was put down to may end before the next total is counted: a record that is removed then leaves the same
/// difference.
#[tokio::test]
async fn removal_is_found_within_an_hour_after_another_difference_was_explained() {
    for explained in ["removed", "shown again", "swept"] {
        let (crm, mirror) = settled_of(RECORDS).await;
        mirror.scheduled(&crm, &Job::sync()).await;
        let remove = |id: &str| crm.sandbox.with_world(|world| world.remove(Object::Contact, id));
        let uncounted = Rule::new(Fault::Hide(Hidden::ids(["c001000".to_string()])));
        crm.sandbox.faults().add(shown_by_id());
        match explained {
            "swept" => crm.sandbox.faults().add(uncounted.on(Resource::Contacts).with_param("count").forever()),
            // No answer can be as new as the newest record.
            _ => _ = remove("c001999"),
        }
        crm.wait(3_600);
        mirror.scheduled(&crm, &contacts(Job::sync())).await;
        assert_eq!(mirror.count("removed_records"), 0, "{explained}");
        match explained {
            "swept" => {
                crm.sandbox.faults().clear();
                mirror.run(&crm, &contacts(Job::resync())).await.unwrap();
            }
            "shown again" => crm.sandbox.with_world(|world| {
                let created = noon().minus(Duration::from_secs(9_000_000 - 60 * 1_999)).to_wire();
                let again = json!({ "id": "c001999", "name": "Again", "createdAt": created });
                world.create(Object::Contact, &again);
            }),
            _ => {}
        }
        crm.wait(1_200);
        mirror.scheduled(&crm, &contacts(Job::sync())).await;
        remove("c000321");
        for _ in 0..6 {
            crm.wait(900);
            mirror.scheduled(&crm, &contacts(Job::sync())).await;
        }
        assert_eq!(mirror.count("removed_records WHERE id = 'c000321'"), 1, "{explained}");
        mirror.assert_exact_lists(&crm);
    }
}

#[tokio::test]
async fn stale_row_is_found_by_its_updated_at() {
    let (crm, mirror) = settled_of(RECORDS).await;
    crm.sandbox.with_world(|world| {
        let early = noon().minus(Duration::from_secs(8_999_000));
        world.edit_at(Object::Contact, "c001200", &json!({ "name": "Moved back" }), Some(early));
    });
    let findings = only(mirror.verify(&crm, &contacts(Job::audit())).await.1);
    assert_eq!(found(&findings), [("c001200".to_string(), DifferenceKind::Different)]);
    mirror.assert_exact_lists(&crm);
}

#[tokio::test]
async fn records_without_a_date_are_a_separate_range() {
    let (crm, mirror) = settled_of(RECORDS).await;
    crm.sandbox.with_world(|world| {
        world.edit_at(Object::Contact, "c001200", &Default::default(), None);
        world.create(Object::Contact, &json!({ "id": "dateless", "createdAt": null, "updatedAt": null }));
    });
    let findings = only(mirror.verify(&crm, &contacts(Job::audit())).await.1);
    assert_eq!(
        found(&findings),
        [("c001200".to_string(), DifferenceKind::Different), ("dateless".to_string(), DifferenceKind::Missing)]
    );
    mirror.assert_exact_lists(&crm);
}

#[tokio::test]
async fn full_verification_lists_every_field_that_differs() {
    let (crm, mirror) = settled(generate(11, 1_000, 20, noon())).await;
    let column = mirror.one(
        "SELECT column_name FROM custom_field_definitions
         WHERE object_type = 'contact' AND status = 'ACTIVE' AND data_type = 'SHORT_TEXT' LIMIT 1",
    );
    let column = column.trim_matches('\'');
    plant(&mirror, &format!("UPDATE contacts SET {column} = 'wrong' WHERE rowid = 77"));
    plant(&mirror, "UPDATE contacts SET name = 'Nobody' WHERE rowid = 78");
    // One of each in the same range: counts by `createdAt` cannot detect it.
    plant(
        &mirror,
        "INSERT INTO contacts (id, name, created_at, updated_at, synced_at)
         SELECT 'ghost', 'Ghost', created_at, updated_at, synced_at FROM contacts WHERE rowid = 80;
         DELETE FROM contacts WHERE rowid = 80",
    );
    let findings = only(mirror.verify(&crm, &full(false)).await.1);
    assert_eq!((findings.missing, findings.extra, findings.different), (1, 1, 2));
    let fields: Vec<&str> =
        findings.differences.iter().flat_map(|d| d.fields.iter().map(|f| f.column.as_str())).collect();
    assert!(fields.contains(&column) && fields.contains(&"name") && fields.len() == 2, "{fields:?}");
    let wrong = findings.differences.iter().flat_map(|d| &d.fields).find(|f| f.column == column).unwrap();
    assert_eq!(wrong.here, json!("wrong"));
    assert_eq!(crm.charged(), 1 + 10 + 1, "the changes walk, 1 RU per 100, and the ghost's confirmation");

    let repaired = only(mirror.verify(&crm, &full(true)).await.1);
    assert_eq!(repaired.count(), 4);
    mirror.assert_exact_lists(&crm);
    assert!(only(mirror.verify(&crm, &full(false)).await.1).is_clean());
}

#[tokio::test]
async fn every_audit_is_recorded() {
    let (crm, mirror) = settled_of(RECORDS).await;
    mirror.verify(&crm, &contacts(Job::verify())).await;
    let kept = "SELECT count(*) || ' ' || sum(count_here = count_there) FROM audits WHERE dimension = 'updated_at'";
    assert_eq!(mirror.one(kept), "'8 8'");
    let evidence = "SELECT group_concat(kind || ' ' || open) FROM goals WHERE object = 'contact' AND since > '2000'
                    AND kind IN ('counted', 'differing')";
    assert_eq!(mirror.one(evidence), "'counted 0'");
}

#[tokio::test]
async fn verification_gives_up_a_list_that_never_ends() {
    for fault in [Fault::EmptyPageWithCursor, Fault::SameCursor, Fault::RepeatedPage] {
        let (crm, mirror) = settled(world_of(450)).await;
        crm.sandbox.faults().add(Rule::new(fault.clone()).on(Resource::Contacts).with_param("cursor").forever());
        let job = full(true);
        let ended = mirror.run(&crm, &job).await;
        let is_told = match &ended {
            // A page that leads to itself is the last, and the total says that others are not shown.
            Ok(report) => fault != Fault::EmptyPageWithCursor && report.findings[0].1.undecided >= 250,
            Err(error) => matches!(error, SyncError::NotAdvancing { .. }),
        };
        assert!(is_told, "{fault:?}: {ended:?}");
        let asked = crm.sandbox.log().lists(Resource::Contacts);
        // A list that is shorter than its total is read once more.
        assert!(asked <= 14, "{fault:?}: {asked} lists");
        crm.sandbox.faults().clear();
        mirror.run(&crm, &job).await.unwrap();
        mirror.assert_exact_lists(&crm);
    }
}

/// Two replicas count differently, and answer in turn: whatever an audit left unexplained, a count that equals the rows starts none.
#[tokio::test]
async fn count_that_equals_the_rows_starts_no_audit() {
    let (crm, mirror) = settled_of(RECORDS).await;
    let mut cost = Vec::new();
    for hour in 0..6 {
        let hidden = Hidden::ids(["c001000".to_string()]);
        crm.sandbox.faults().clear();
        if hour % 2 == 0 {
            let total = Rule::new(Fault::Hide(hidden)).on(Resource::Contacts).with_param("count").forever();
            crm.sandbox.faults().add(shown_by_id());
            crm.sandbox.faults().add(total);
        }
        crm.wait(3_600);
        crm.sandbox.clear_log();
        mirror.scheduled(&crm, &contacts(Job::sync())).await;
        cost.push(crm.sandbox.log().lists(Resource::Contacts));
    }
    assert!(
        cost.iter().enumerate().all(|(hour, cost)| if hour % 2 == 0 { *cost > 10 } else { *cost == 2 }),
        "{cost:?}"
    );
}
