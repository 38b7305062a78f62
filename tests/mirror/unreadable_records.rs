//! Records that make every page that shows them unreadable: each affects only itself, and costs a bounded rate.

use std::time::Duration;

use crate::clocks::claimed;
use crate::support::{Crm, Mirror, noon};
use crm_mirror::model::{Clock as _, Object, Resource, Ru};
use crm_mirror::sandbox::{Fault, Rule, World};
use crm_mirror::store::StoreError;
use crm_mirror::sync::{Job, SyncError};
use serde_json::json;

const HOUR: u64 = 3_600;

/// Contacts that were created at these milliseconds after the first one.
fn world_of(created: impl Iterator<Item = u64>) -> World {
    let mut world = World::new(noon().minus(Duration::from_secs(10_000_000)));
    for (n, millis) in created.enumerate() {
        let at = noon().minus(Duration::from_secs(9_000_000)).plus(Duration::from_millis(millis)).to_wire();
        world.create(Object::Contact, &json!({ "id": id(n), "createdAt": at, "updatedAt": at }));
    }
    world
}

fn id(n: usize) -> String {
    format!("c{n:05}")
}

fn spoil(crm: &Crm, contacts: &[usize]) {
    crm.sandbox.with_world(|world| {
        for n in contacts {
            world.set_raw(Object::Contact, &id(*n), "position", "NaN");
        }
    });
}

fn edit(crm: &Crm, contacts: &[usize]) {
    for n in contacts {
        assert!(crm.sandbox.with_world(|world| world.edit(Object::Contact, &id(*n), &json!({ "name": "Changed" }))));
        crm.wait(7);
    }
}

fn mirror() -> Mirror {
    let mut mirror = Mirror::one_at_a_time();
    (mirror.settings.details, mirror.tries) = (false, 2);
    mirror
}

/// Days, seconds and milliseconds apart, next to each other and at both ends.
#[tokio::test]
async fn first_copy_lacks_only_the_records_that_cannot_be_read() {
    for (step, coarse) in [(40_000_000, false), (2_000, true), (7, false)] {
        for bad in [&[69, 70][..], &[69, 111], &[249], &[0, 100, 149]] {
            let crm = Crm::serve(world_of((0..250).map(|n| n * step))).await;
            if coarse {
                crm.sandbox.faults().add(Rule::new(Fault::CoarseTimes).forever());
            }
            spoil(&crm, bad);
            let mirror = mirror();
            for _ in 0..3 {
                _ = mirror.run(&crm, &Job::sync()).await;
                crm.wait(60);
            }
            assert_eq!(mirror.count("contacts"), 250 - bad.len() as i64, "{step} {coarse} {bad:?}");
            assert_eq!(claimed(&mirror, crm.clock.now())[0], None, "{step} {coarse} {bad:?}: not all are known");
            assert!(crm.charged() <= 60 + 140 * bad.len() as u64, "{step} {coarse} {bad:?}: {} RU", crm.charged());
        }
    }
}

/// The search for a record that makes its pages unreadable is killed again and again, in the middle of any of its steps.
#[tokio::test]
async fn kill_in_a_search_loses_no_record_and_repeats_that_search_at_most() {
    for resyncs in [false, true] {
        let crm = Crm::serve(world_of((0..250).map(|n| n * 40_000))).await;
        let mirror = mirror();
        mirror.sync(&crm).await;
        crm.wait(HOUR);
        let bad = [69, 120];
        spoil(&crm, &bad);
        edit(&crm, &(60..80).collect::<Vec<_>>());
        crm.wait(HOUR);
        let (begun, job) = (crm.charged(), if resyncs { Job::resync() } else { Job::sync() });
        let mut kills = 0;
        let killed = |ended| matches!(ended, Err(SyncError::Store(StoreError::Interrupted | StoreError::Closed)));
        while killed(mirror.run_killed_after(&crm, &job, Some(5 + kills % 6 + kills / 2)).await) {
            kills += 1;
            assert!(kills < 100, "no end");
        }
        assert_eq!(mirror.count("contacts WHERE name = 'Changed'"), 19, "resyncs: {resyncs}");
        assert_eq!(mirror.count("contacts"), 250, "resyncs: {resyncs}");
        assert!(kills >= 3, "{kills} kills only");
        let spent = crm.charged() - begun;
        assert!(spent <= 150 + 45 * kills, "resyncs: {resyncs}: {spent} RU with {kills} kills");
    }
}

/// The version that the mirror has is the newest change that it knows: it must not be counted for the one that it lacks.
#[tokio::test]
async fn earlier_version_of_a_record_that_cannot_be_read_is_not_counted_for_it() {
    let crm = Crm::serve(world_of((0..40).map(|n| n * 60_000))).await;
    let mirror = mirror();
    mirror.sync(&crm).await;
    crm.wait(HOUR);
    edit(&crm, &[12]);
    mirror.sync(&crm).await;
    crm.wait(HOUR);
    let before = crm.clock.now();
    edit(&crm, &[10, 12]);
    spoil(&crm, &[12]);
    crm.wait(HOUR);
    mirror.sync(&crm).await;
    assert_eq!(mirror.one("SELECT name FROM contacts WHERE id = 'c00010'"), "'Changed'");
    assert!(claimed(&mirror, crm.clock.now())[1] < Some(before), "a change after that is not here");
}

#[tokio::test]
async fn changes_beside_those_that_cannot_be_read_are_here() {
    for bad in [&[12][..], &[10, 13], &[12, 13], &[15]] {
        let crm = Crm::serve(world_of((0..40).map(|n| n * 60_000))).await;
        let mirror = mirror();
        mirror.sync(&crm).await;
        crm.wait(600);
        spoil(&crm, bad);
        edit(&crm, &[10, 11, 12, 13, 14, 15]);
        crm.wait(600);
        _ = mirror.run(&crm, &Job::sync()).await;
        assert_eq!(mirror.count("contacts WHERE name = 'Changed'"), 6 - bad.len() as i64, "{bad:?}");
    }
}

/// Bulk changes of one moment, with a bad record first, in the middle, or last, and another one later.
#[tokio::test]
async fn bulk_change_beside_those_that_cannot_be_read_is_here() {
    for bad in [&[0][..], &[50], &[249], &[50, 260], &[260]] {
        let crm = Crm::serve(world_of((0..270).map(|n| n * 60_000))).await;
        let mirror = mirror();
        mirror.sync(&crm).await;
        crm.wait(600);
        spoil(&crm, bad);
        edit(&crm, &[265]);
        let bulk = crm.clock.now();
        crm.sandbox.with_world(|world| {
            for n in 0..250 {
                world.edit_at(Object::Contact, &id(n), &json!({ "name": "Changed" }), Some(bulk));
            }
        });
        crm.wait(600);
        edit(&crm, &[260, 266]);
        crm.wait(600);
        crm.sandbox.clear_log();
        _ = mirror.run(&crm, &Job::sync()).await;
        assert_eq!(mirror.count("contacts WHERE name = 'Changed'"), 253 - bad.len() as i64, "{bad:?}");
        assert!(crm.charged() < 20 + 130 * bad.len() as u64, "{bad:?}: {} RU", crm.charged());
    }
}

/// One import: nothing tells its records apart, and what is behind the bad one in the list is not read. The list ends.
#[tokio::test]
async fn record_of_an_import_that_cannot_be_read_ends_its_list() {
    for bad in [&[3][..], &[3, 8], &[11], &[0], &[150]] {
        let (rows, page_cap) = if bad[0] > 100 { (300, None) } else { (12, Some(2)) };
        let crm = Crm::serve(world_of((0..rows).map(|_| 0))).await;
        crm.sandbox.configure(|settings| settings.page_cap = page_cap);
        spoil(&crm, bad);
        let mirror = mirror();
        for job in [Job::sync(), Job::resync(), Job::sync(), Job::resync()] {
            let ended = mirror.run(&crm, &job).await;
            assert!(ended.is_ok(), "{bad:?} {job:?}: {}", ended.unwrap_err());
            crm.wait(600);
        }
        assert_eq!(claimed(&mirror, crm.clock.now())[0], None, "{bad:?}");
    }
}

/// A replica that answers some questions of the search with nothing must not make it pass over what is there for good.
#[tokio::test]
async fn search_that_is_answered_with_nothing_loses_no_change() {
    for after in [0, 2, 5, 12, 20] {
        let crm = Crm::serve(world_of((0..40).map(|n| n * 60_000))).await;
        let mirror = mirror();
        mirror.sync(&crm).await;
        crm.wait(600);
        spoil(&crm, &[12]);
        edit(&crm, &[10, 11, 12, 13, 14, 15]);
        crm.wait(600);
        crm.sandbox.faults().add(Rule::new(Fault::EmptyList).with_param("filter[updatedAt][lt]").after(after));
        for _ in 0..3 {
            _ = mirror.run(&crm, &Job::sync()).await;
            crm.wait(600);
        }
        crm.wait(90_000);
        _ = mirror.run(&crm, &Job::audit()).await;
        assert_eq!(mirror.count("contacts WHERE name = 'Changed'"), 5, "{after}");
        assert_eq!(mirror.count("removed_records"), 0, "{after}");
    }
}

/// What makes the rest of a list unreadable must not be searched for in every run.
#[tokio::test]
async fn newest_change_that_cannot_be_read_costs_a_bounded_rate() {
    let crm = Crm::serve(world_of((0..40).map(|n| n * 60_000))).await;
    let mirror = mirror();
    mirror.sync(&crm).await;
    crm.wait(600);
    spoil(&crm, &[12]);
    edit(&crm, &[12]);
    crm.wait(600);
    _ = mirror.try_scheduled(&crm, &Job::sync()).await;
    crm.sandbox.clear_log();
    for _ in 0..60 {
        crm.wait(60);
        _ = mirror.try_scheduled(&crm, &Job::sync()).await;
    }
    // Two objects, a list for each, every minute.
    assert!(crm.charged() <= 120 + 60, "{} RU in an hour", crm.charged());
}

/// One record was removed, another changed silently: few lists of less and less find both, and what is left is the bad record.
#[tokio::test]
async fn record_that_cannot_be_read_hides_no_other_difference() {
    let verify = |full, repair| Job { full, repair, ..Job::verify() }.of(&[Resource::Contacts]);
    for bad in [&[100][..], &[0], &[100, 101, 240]] {
        let crm = Crm::serve(world_of((0..250).map(|n| n * 60_000))).await;
        let mirror = mirror();
        mirror.sync(&crm).await;
        spoil(&crm, bad);
        crm.sandbox.with_world(|world| {
            assert!(world.remove(Object::Contact, &id(200)));
            assert!(world.edit_silently(Object::Contact, &id(230), &json!({ "name": "Silently" })));
        });
        crm.wait(HOUR);
        for (full, repair) in [(false, false), (true, false), (false, true)] {
            crm.sandbox.clear_log();
            let findings = mirror.verify(&crm, &verify(full, repair)).await.1.remove(0).1;
            let counts = [findings.missing, findings.extra, findings.different, findings.undecided];
            assert_eq!(counts, [0, 1, 1, bad.len() as u64], "{bad:?} {full} {repair}");
            assert!(crm.charged() <= 12 + 30 * bad.len() as u64, "{bad:?}: {} RU", crm.charged());
        }
        assert_eq!(mirror.one("SELECT id FROM removed_records"), format!("'{}'", id(200)), "{bad:?}");
        assert_eq!(mirror.count("contacts WHERE name = 'Silently'"), 1, "{bad:?}");
        // The hourly count finds the next one, and nothing is looked for again.
        crm.sandbox.with_world(|world| assert!(world.remove(Object::Contact, &id(210))));
        let mut cost = Vec::new();
        for _ in 0..3 {
            crm.wait(HOUR);
            crm.sandbox.clear_log();
            _ = mirror.try_scheduled(&crm, &Job::sync().of(&[Resource::Contacts])).await;
            cost.push(crm.charged());
        }
        assert_eq!(mirror.count("removed_records"), 2, "{bad:?}");
        assert!(cost[0] <= 20 + 30 * bad.len() as u64 && cost[1..].iter().all(|cost| *cost <= 4), "{bad:?}: {cost:?}");
    }
}

/// Among many records, counts find the difference, whose page cannot be read.
#[tokio::test]
async fn record_that_cannot_be_read_hides_no_difference_beside_it() {
    let crm = Crm::serve(world_of((0..2_000).map(|n| n * 60_000))).await;
    let mirror = mirror();
    mirror.sync(&crm).await;
    spoil(&crm, &[1_003]);
    crm.sandbox.with_world(|world| assert!(world.remove(Object::Contact, &id(1_004))));
    crm.wait(HOUR);
    mirror.verify(&crm, &Job::audit().of(&[Resource::Contacts])).await;
    assert_eq!(mirror.one("SELECT id FROM removed_records"), format!("'{}'", id(1_004)));
    assert_eq!(mirror.count("contacts"), 1_999);
}

/// A service whose lists are all broken is asked little.
#[tokio::test]
async fn verification_of_lists_that_are_all_unreadable_ends_soon() {
    for (empty_too, most) in [(false, 60), (true, 8)] {
        let crm = Crm::serve(world_of((0..250).map(|n| n * 60_000))).await;
        let mirror = mirror();
        mirror.sync(&crm).await;
        crm.wait(HOUR);
        let broken = |body: &str, all: &str| {
            let spoils = !all.is_empty() || body.contains("\"etag\"");
            if spoils { "no JSON".into() } else { body.into() }
        };
        let all = if empty_too { "all" } else { "" };
        let rewritten = Fault::Rewritten(broken, all.into());
        crm.sandbox.faults().add(Rule::new(rewritten).on(Resource::Contacts).with_param("sort").forever());
        for full in [false, true] {
            crm.sandbox.clear_log();
            let ended = mirror.run(&crm, &Job { full, ..Job::audit() }.of(&[Resource::Contacts])).await;
            assert_eq!(ended.is_err(), empty_too, "{ended:?}");
            assert!(crm.charged() <= most, "{full}: {} RU", crm.charged());
            assert_eq!(mirror.count("contacts"), 250);
        }
    }
}

/// Another program writes to it all the time. Other changes come a little later.
#[tokio::test]
async fn record_that_changes_again_and_again_and_cannot_be_read_costs_a_bounded_rate() {
    let crm = Crm::serve(world_of((0..40).map(|n| n * 60_000))).await;
    let mirror = mirror();
    mirror.sync(&crm).await;
    crm.wait(600);
    spoil(&crm, &[12]);
    for hour in 0..2 {
        crm.sandbox.clear_log();
        for minute in 0..60 {
            edit(&crm, &[12]);
            if minute == 5 {
                edit(&crm, &[hour]);
            }
            crm.wait(53);
            _ = mirror.try_scheduled(&crm, &Job::sync()).await;
        }
        let most = 120 + if hour == 0 { 400 } else { 120 };
        assert!(crm.charged() <= most, "{} RU in hour {hour}", crm.charged());
    }
    crm.wait(2 * HOUR);
    _ = mirror.try_scheduled(&crm, &Job::sync()).await;
    assert_eq!(mirror.count("contacts WHERE name = 'Changed'"), 2);
}

/// Nothing tells where they are, and they come last.
#[tokio::test]
async fn undated_record_that_cannot_be_read_holds_nothing_up() {
    let crm = Crm::serve(world_of((0..250).map(|n| n * 60_000))).await;
    crm.sandbox.with_world(|world| {
        for n in 240..250 {
            world.set_raw(Object::Contact, &id(n), "createdAt", "null");
        }
    });
    spoil(&crm, &[245]);
    let mirror = mirror();
    for _ in 0..2 {
        _ = mirror.run(&crm, &Job::sync()).await;
        crm.wait(60);
    }
    assert_eq!(mirror.count("contacts WHERE created_at IS NOT NULL"), 240);
    edit(&crm, &[3]);
    crm.wait(600);
    crm.sandbox.clear_log();
    mirror.sync(&crm).await;
    assert_eq!(mirror.count("contacts WHERE name = 'Changed'"), 1);
    assert!(crm.charged() <= 12, "{} RU", crm.charged());
}

#[tokio::test]
async fn record_of_the_future_that_cannot_be_read_is_passed_over() {
    let crm = Crm::serve(world_of((0..250).map(|n| n * 60_000))).await;
    let at = |days: u64| noon().plus(Duration::from_secs(days * 86_400)).to_wire();
    crm.sandbox.with_world(|world| {
        world.create(Object::Contact, &json!({ "id": id(250), "createdAt": at(30) }));
        world.create(Object::Contact, &json!({ "id": id(251), "createdAt": at(900) }));
    });
    spoil(&crm, &[250]);
    let mirror = mirror();
    _ = mirror.run(&crm, &Job::sync()).await;
    assert_eq!(mirror.count("contacts"), 251);
}

/// What the search has learned is kept between windows.
#[tokio::test]
async fn search_ends_with_a_small_budget() {
    let crm = Crm::serve(world_of((0..30).map(|n| n * 3_600_000))).await;
    spoil(&crm, &[0]);
    let mut mirror = mirror();
    (mirror.limits.limit, mirror.limits.window) = (Ru::new(30), Duration::from_secs(HOUR));
    for _ in 0..8 {
        _ = mirror.run(&crm, &Job::sync()).await;
        crm.wait(HOUR);
    }
    assert_eq!(mirror.count("contacts"), 29);
}
