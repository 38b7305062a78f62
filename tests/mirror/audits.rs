//! Audits and verification: the responsible check finds every kind of fault planted in a mirror, within its cost in RU.

use std::time::Duration;

use crate::clocks::claimed;
use crate::support::{Crm, Mirror, cases, noon};
use crm_mirror::model::{Clock, Object, Resource, Ru};
use crm_mirror::sandbox::{CursorKind, Fault, Hidden, RequestLine, Rule, World, generate};
use crm_mirror::sync::findings::DifferenceKind;
use crm_mirror::sync::{Findings, Job, SyncError};
use rusqlite::Connection;
use serde_json::json;

fn world_of(contacts: usize) -> World {
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
fn tied_world(contacts: usize, tied: &[&str], tie: &str) -> World {
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

fn contacts(job: Job) -> Job {
    job.of(&[Resource::Contacts])
}

/// A verification that compares every record.
fn full(repair: bool) -> Job {
    let (objects, accept) = Default::default();
    contacts(Job::Verify { objects, full: true, repair, accept })
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
    let (crm, mirror) = settled(world_of(records)).await;
    let clean = only(mirror.verify(&crm, &contacts(Job::verify())).await.1);
    assert!(clean.is_clean());
    let cost = crm.charged();
    assert!(cost <= 32 + 1, "a clean audit and the changes walk before it: {cost} RU");

    crm.sandbox.with_world(|world| world.remove(Object::Contact, "c014321"));
    crm.wait(600);
    crm.sandbox.clear_log();
    let (report, findings) = mirror.verify(&crm, &contacts(Job::audit())).await;
    assert_eq!(found(&only(findings)), [("c014321".to_string(), DifferenceKind::Lingering)]);
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
        assert_eq!(found(&only(findings)), [("c003000".to_string(), DifferenceKind::Lingering)], "{tied:?}");
        let cost = crm.charged();
        assert!(cost <= most, "{tied:?}: {cost} RU");
        mirror.assert_exact_lists(&crm);
    }
}

/// A service whose count is wrong for records that share both timestamps makes no schedule list them more than once a day.
#[tokio::test]
async fn what_is_tied_in_both_timestamps_is_listed_once_a_day() {
    let tie = noon().minus(Duration::from_secs(5_000_000)).to_wire();
    let (crm, mirror) = settled(tied_world(4_000, &["createdAt", "updatedAt"], &tie)).await;
    let hidden = Hidden::ids(["c001000".to_string()]);
    let counts = Rule::new(Fault::Hide(hidden)).on(Resource::Contacts).with_param("count").forever();
    crm.sandbox.faults().add(counts);
    let mut cost = Vec::new();
    for _ in 0..3 {
        crm.sandbox.clear_log();
        crm.wait(3_600);
        let report = mirror.scheduled(&crm, &contacts(Job::audit())).await;
        assert_eq!(report.tally.removed, 0);
        cost.push(crm.charged());
    }
    assert!(cost[0] >= 40 && cost[1] < 20 && cost[2] < 20, "{cost:?}");
    crm.wait(86_400);
    crm.sandbox.clear_log();
    mirror.scheduled(&crm, &contacts(Job::audit())).await;
    assert!(crm.charged() >= 40, "{}", crm.charged());
}

#[tokio::test]
async fn one_missing_and_one_extra_record_are_found_despite_equal_totals() {
    let (crm, mirror) = settled(world_of(5_000)).await;
    crm.sandbox.with_world(|world| world.remove(Object::Contact, "c000700"));
    plant(&mirror, "DELETE FROM contacts WHERE id = 'c004100'");
    assert_eq!(mirror.count("contacts"), 4_999);
    assert_eq!(crm.sandbox.world().count(Resource::Contacts), 4_999);
    let findings = only(mirror.verify(&crm, &contacts(Job::verify())).await.1);
    assert_eq!(
        found(&findings),
        [("c000700".to_string(), DifferenceKind::Lingering), ("c004100".to_string(), DifferenceKind::Missing)]
    );
    assert_eq!(mirror.count("contacts"), 4_999, "reported, not repaired");
    mirror.verify(&crm, &contacts(Job::audit())).await;
    mirror.assert_exact_lists(&crm);
}

#[tokio::test]
async fn stale_row_is_found_by_its_updated_at() {
    let (crm, mirror) = settled(world_of(5_000)).await;
    crm.sandbox.with_world(|world| {
        let early = noon().minus(Duration::from_secs(8_999_000));
        world.edit_at(Object::Contact, "c003000", &json!({ "name": "Moved back" }), Some(early));
    });
    let findings = only(mirror.verify(&crm, &contacts(Job::audit())).await.1);
    assert_eq!(found(&findings), [("c003000".to_string(), DifferenceKind::Stale)]);
    mirror.assert_exact_lists(&crm);
}

#[tokio::test]
async fn records_without_a_date_are_a_separate_range() {
    let (crm, mirror) = settled(world_of(5_000)).await;
    crm.sandbox.with_world(|world| {
        world.set_updated_at(Object::Contact, "c003000", None);
        world.create(Object::Contact, &json!({ "id": "dateless", "createdAt": null, "updatedAt": null }));
    });
    let findings = only(mirror.verify(&crm, &contacts(Job::audit())).await.1);
    assert_eq!(
        found(&findings),
        [("c003000".to_string(), DifferenceKind::Stale), ("dateless".to_string(), DifferenceKind::Missing)]
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
    assert_eq!((findings.missing, findings.lingering, findings.stale), (1, 1, 2));
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
    let (crm, mirror) = settled(world_of(5_000)).await;
    mirror.verify(&crm, &contacts(Job::verify())).await;
    let kept = "SELECT count(*) || ' ' || sum(count_here = count_there) FROM audits WHERE dimension = 'updated_at'";
    assert_eq!(mirror.one(kept), "'16 16'");
    let evidence = mirror.one("SELECT value FROM state WHERE name = 'evidence:contact'");
    assert!(evidence.contains("\"by_record\":false") && evidence.contains("\"open\":0"), "{evidence}");
}

/// The budget window ends after the last page of a first copy, before its counts.
#[tokio::test]
async fn copy_that_is_not_counted_claims_nothing() {
    let mut uncounted = 0;
    for units in 12..40 {
        let crm = Crm::serve(world_of(600)).await;
        let mut mirror = Mirror::one_at_a_time();
        mirror.settings.details = false;
        mirror.limits.limit = Ru::new(units);
        mirror.sync(&crm).await;
        let is_owed = mirror.count("state WHERE name LIKE 'check:contact%created%'") > 0;
        let is_copied = mirror.count("state WHERE name = 'copied:contact'") > 0;
        let claimed = claimed(&mirror, crm.clock.now());
        assert_eq!(claimed.map(|at| at.is_some()), [is_copied && !is_owed; 2], "{units} RU");
        uncounted += u64::from(is_copied && is_owed);
    }
    assert!(uncounted > 1);
}

#[tokio::test]
async fn record_missed_between_offset_pages_is_found_by_the_count() {
    let crm = Crm::serve(world_of(1_000)).await;
    crm.sandbox.configure(|settings| settings.cursors = CursorKind::Offset);
    let mut mirror = Mirror::one_at_a_time();
    mirror.settings.details = false;
    let mut asked_pages = 0;
    // During the walk, records behind it are removed: another one slips through at the edge of every page.
    crm.sandbox.before_request(move |world: &mut World, asked: &RequestLine| {
        if asked.lists(Resource::Contacts) && asked.param("cursor").is_some() {
            asked_pages += 1;
            if asked_pages == 3 {
                world.remove(Object::Contact, "c000010");
            }
        }
    });
    mirror.sync(&crm).await;
    mirror.assert_exact_lists(&crm);

    // The same with changes: a record that changes again moves ahead of the walk.
    crm.wait(600);
    crm.sandbox.with_world(|world| {
        for n in 100..600 {
            world.edit(Object::Contact, &format!("c{n:06}"), &json!({ "name": "Changed" }));
        }
    });
    let mut asked_pages = 0;
    crm.sandbox.before_request(move |world: &mut World, asked: &RequestLine| {
        if asked.lists(Resource::Contacts) && asked.param("cursor").is_some() {
            asked_pages += 1;
            if asked_pages == 2 {
                world.edit(Object::Contact, "c000110", &json!({ "name": "Once more" }));
            }
        }
    });
    crm.wait(120);
    mirror.sync(&crm).await;
    mirror.assert_exact_lists(&crm);
}

/// One import created all records, so no range of time separates the record that is missing from the one that is extra.
#[tokio::test]
async fn record_missed_between_offset_pages_is_found_although_the_counts_were_equal() {
    let mut world = World::new(noon());
    for n in 0..30 {
        world.create(Object::Contact, &json!({ "id": format!("c{n:02}") }));
    }
    let crm = Crm::serve(world).await;
    crm.sandbox.configure(|settings| {
        settings.cursors = CursorKind::Offset;
        settings.page_cap = Some(10);
    });
    let mirror = Mirror::one_at_a_time();
    crm.sandbox.before_request(move |world: &mut World, asked: &RequestLine| {
        if asked.lists(Resource::Contacts) && asked.param("cursor").is_some() {
            world.remove(Object::Contact, "c00");
        }
    });
    mirror.sync(&crm).await;
    assert_eq!(
        mirror.count("contacts"),
        28,
        "the detail shows which record is extra, and nothing which one is missing"
    );
    assert_eq!(claimed(&mirror, crm.clock.now())[0], None, "the sweep has to be counted again");
    crm.wait(600);
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
    assert!(claimed(&mirror, crm.clock.now())[0].is_some());
    crm.wait(600);
    crm.sandbox.clear_log();
    mirror.sync(&crm).await;
    assert_eq!(crm.charged(), 2, "an idle run");
}

#[tokio::test]
async fn record_missed_beside_a_removed_one_is_found_by_the_second_count_without_details() {
    let mut world = World::new(noon());
    for n in 0..98 {
        let at = |minutes: u64| noon().minus(Duration::from_secs(900_000 - 60 * minutes)).to_wire();
        world.create(Object::Contact, &json!({ "id": format!("c{n:02}"), "createdAt": at(n), "updatedAt": at(n) }));
    }
    let crm = Crm::serve(world).await;
    crm.sandbox.configure(|settings| {
        settings.cursors = CursorKind::Offset;
        settings.page_cap = Some(5);
    });
    let mut mirror = Mirror::one_at_a_time();
    mirror.settings.details = false;
    let mut pages = 0;
    crm.sandbox.before_request(move |world: &mut World, asked: &RequestLine| {
        if asked.lists(Resource::Contacts) && asked.param("cursor").is_some() {
            pages += 1;
            if pages == 10 {
                world.remove(Object::Contact, "c47");
            }
        } else if pages == 19 {
            // After the walk, before its counts.
            world.remove(Object::Contact, "c05");
        }
    });
    mirror.sync(&crm).await;
    let ids = "SELECT group_concat(id) FROM (SELECT id FROM contacts WHERE id BETWEEN 'c46' AND 'c51' ORDER BY id)";
    assert_eq!(mirror.one(ids), "'c46,c47,c48,c49,c51'", "the counts showed only that c05 is extra");
    assert_eq!(mirror.count("contacts"), 96);
    assert_eq!(claimed(&mirror, crm.clock.now())[0], None, "the copy has to be counted once more");
    crm.wait(600);
    mirror.sync(&crm).await;
    mirror.assert_exact_lists(&crm);
    crm.wait(600);
    mirror.sync(&crm).await;
    assert!(claimed(&mirror, crm.clock.now())[0].is_some());
    crm.wait(600);
    crm.sandbox.clear_log();
    mirror.sync(&crm).await;
    assert_eq!(crm.charged(), 2, "an idle run");
}

/// The last record of a page is removed, which hides the first one of the next page: no range of time that has rows on both
/// sides separates them. A list of the range shows both, for what its count costs.
#[tokio::test]
async fn record_missed_next_to_a_removed_one_is_found_in_the_same_run_without_details() {
    let mut world = World::new(noon());
    for n in 0..9 {
        let at = noon().minus(Duration::from_secs(900_000 - 60 * n)).to_wire();
        world.create(Object::Contact, &json!({ "id": format!("c{n}"), "createdAt": at, "updatedAt": at }));
    }
    let crm = Crm::serve(world).await;
    crm.sandbox.configure(|settings| {
        settings.cursors = CursorKind::Offset;
        settings.page_cap = Some(3);
    });
    let mut mirror = Mirror::one_at_a_time();
    mirror.settings.details = false;
    crm.sandbox.before_request(|world: &mut World, asked: &RequestLine| {
        if asked.lists(Resource::Contacts) && asked.param("cursor").is_some() {
            world.remove(Object::Contact, "c2");
        }
    });
    mirror.sync(&crm).await;
    mirror.assert_exact_lists(&crm);
    let log = crm.sandbox.log();
    assert!(log.entries().iter().all(|sent| sent.asked.param("count").is_none()), "each range of a page is listed");
}

/// One import changed all records, so no range of time separates the record that is missed from the one that is extra. The
/// detail shows that one was removed; until the changes are counted again, nobody relies on them.
#[tokio::test]
async fn changes_missed_beside_a_removed_record_are_counted_again() {
    let mut world = World::new(noon());
    for n in 0..24 {
        let at = noon().minus(Duration::from_secs(900_000 - 60 * n)).to_wire();
        world.create(Object::Contact, &json!({ "id": format!("c{n:02}"), "createdAt": at, "updatedAt": at }));
    }
    let crm = Crm::serve(world).await;
    crm.sandbox.configure(|settings| {
        settings.cursors = CursorKind::Offset;
        settings.page_cap = Some(5);
    });
    let mirror = Mirror::one_at_a_time();
    mirror.sync(&crm).await;
    crm.wait(600);
    mirror.sync(&crm).await;
    crm.sandbox.with_world(|world| {
        (0..24).for_each(|n| _ = world.edit(Object::Contact, &format!("c{n:02}"), &json!({ "name": "Imported" })));
    });
    crm.wait(600);
    crm.sandbox.before_request(|world: &mut World, asked: &RequestLine| {
        if asked.lists(Resource::Contacts) && asked.param("cursor").is_some() {
            world.remove(Object::Contact, "c00");
        }
    });
    mirror.sync(&crm).await;
    assert_eq!(mirror.one("SELECT id FROM contacts WHERE name IS NULL OR name <> 'Imported'"), "'c05'");
    let said = || claimed(&mirror, crm.clock.now())[1];
    assert_eq!(said(), Some(noon()), "a change is missing since the copy");
    crm.wait(600);
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
    assert_eq!(said(), Some(crm.clock.now()));
    crm.wait(600);
    crm.sandbox.clear_log();
    mirror.sync(&crm).await;
    assert_eq!(crm.charged(), 2, "an idle run");
}

/// A difference within records that share both timestamps was found, and their list was interrupted. They are listed once a
/// day: until then the copy is not relied on, and nothing is counted again.
#[tokio::test]
async fn difference_that_waits_for_its_daily_list_is_not_claimed_away() {
    let crm = Crm::serve(tied_world(130, &["createdAt", "updatedAt"], "2026-01-01T00:00:00Z")).await;
    crm.sandbox.configure(|settings| settings.cursors = CursorKind::Offset);
    let mut mirror = Mirror::one_at_a_time();
    mirror.settings.details = false;
    let mut is_read = false;
    crm.sandbox.before_request(move |world: &mut World, asked: &RequestLine| {
        let pages_on = asked.param("cursor").is_some();
        if asked.lists(Resource::Contacts) && pages_on && !is_read {
            is_read = world.remove(Object::Contact, "c000000");
        } else if asked.lists(Resource::Contacts) && is_read {
            world.remove(Object::Contact, "c000001");
        }
    });
    let of_ties = Rule::new(Fault::Status(500)).on(Resource::Contacts).with_param("filter[createdAt]").with_cursor();
    crm.sandbox.faults().add(of_ties.forever());
    assert!(mirror.run(&crm, &Job::sync()).await.is_err());
    crm.sandbox.faults().clear();
    crm.sandbox.clear_hook();
    for spent in [3..16, 2..3, 2..3] {
        crm.wait(600);
        crm.sandbox.clear_log();
        mirror.scheduled(&crm, &Job::sync()).await;
        assert!(spent.contains(&crm.charged()), "{} RU, {spent:?}", crm.charged());
        assert_eq!((mirror.count("contacts"), claimed(&mirror, crm.clock.now())[0]), (130, None));
    }
    for _ in 0..3 {
        crm.wait(90_000);
        mirror.scheduled(&crm, &Job::sync()).await;
    }
    mirror.assert_exact_lists(&crm);
    assert!(claimed(&mirror, crm.clock.now())[0].is_some());
}

#[tokio::test]
async fn verification_gives_up_a_list_that_never_ends() {
    for fault in [Fault::EmptyPageWithCursor, Fault::SameCursor, Fault::RepeatedPage] {
        let (crm, mirror) = settled(world_of(450)).await;
        crm.sandbox.faults().add(Rule::new(fault.clone()).on(Resource::Contacts).with_cursor().forever());
        let job = full(true);
        let ended = mirror.run(&crm, &job).await;
        assert!(matches!(ended, Err(SyncError::NotAdvancing { .. })), "{fault:?}: {ended:?}");
        let asked = crm.sandbox.log().lists(Resource::Contacts);
        assert!(asked <= 12, "{fault:?}: {asked} lists");
        crm.sandbox.faults().clear();
        mirror.run(&crm, &job).await.unwrap();
        mirror.assert_exact_lists(&crm);
    }
}
