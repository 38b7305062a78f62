//! The first copy in slices: exact however records are dated, whatever ends it, and for hardly more request units.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::support::{Crm, Mirror, noon};
use crm_mirror::model::{DataType, Instant, Object, Resource};
use crm_mirror::sandbox::{Fault, LoggedRequest, NewField, RequestLine, Rule, World};
use crm_mirror::store::{RunOutcome, StoreError};
use crm_mirror::sync::{Job, SyncError, SyncSettings};
use serde_json::json;

const YEAR: u64 = 365 * 86_400;

/// Contacts that were created at these times; `None` for those that do not say.
fn world(created: impl IntoIterator<Item = Option<Instant>>) -> World {
    let mut world = World::new(noon());
    for (n, at) in created.into_iter().enumerate() {
        // Ids in another order than times.
        let id = format!("c{:06}", (n * 7_919) % 1_000_003);
        let at = at.map(Instant::to_wire);
        world.create(Object::Contact, &json!({ "id": id, "name": format!("Contact {n}"), "createdAt": at }));
    }
    world
}

fn even(rows: u64, seconds: u64) -> Vec<Option<Instant>> {
    let begin = noon().minus(Duration::from_secs(2 * YEAR));
    (0..rows).map(|n| Some(begin.plus(Duration::from_millis(seconds * 1000 * n / rows)))).collect()
}

fn lists_only(walkers: u32, rows_per_slice: u64) -> Mirror {
    let mut mirror = Mirror::empty();
    mirror.settings.details = false;
    mirror.settings.concurrency = walkers;
    mirror.settings.rows_per_slice = rows_per_slice;
    mirror
}

/// Pages by where the slice ends that they were read from: each page but the first begins where the one before ended.
type PagesOfRanges = BTreeMap<Option<String>, u64>;

/// The ranges of creation time that were read, each with how many pages that took, and the request units for all of it.
fn slices(crm: &Crm) -> (PagesOfRanges, u64) {
    let log = crm.sandbox.log();
    let mut slices = BTreeMap::new();
    for entry in log.entries().iter().filter(|entry| entry.asked.lists(Resource::Contacts)) {
        let param = |name: &str| entry.asked.param(name).map(String::from);
        if param("limit").as_deref() == Some("100") && param("sort").as_deref() == Some("createdAt") {
            let undated = param("filter[createdAt][isNull]");
            *slices.entry(param("filter[createdAt][lt]").or(undated)).or_default() += 1;
        }
    }
    (slices, log.ru().get())
}

async fn ru_of_one_walker(created: &[Option<Instant>]) -> u64 {
    let crm = Crm::serve(world(created.iter().copied())).await;
    let mirror = lists_only(1, 5_000);
    mirror.run(&crm, &Job::sync().of(&[Resource::Contacts])).await.unwrap();
    crm.charged()
}

/// With the settings of a user: a reader for each request that may be under way, and hardly a request more than ⌈n / 100⌉.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_first_copy_is_read_in_slices_for_hardly_more() {
    for (rows, walkers, readers, most) in [(10_000, 4, 1, 102), (12_000, 4, 4, 124), (20_000, 8, 7, 207)] {
        let crm = Crm::serve(world(even(rows, 2 * YEAR))).await;
        let mirror = lists_only(walkers, SyncSettings::default().rows_per_slice);
        mirror.run(&crm, &Job::sync().of(&[Resource::Contacts])).await.unwrap();
        let (slices, _) = slices(&crm);
        let is_page =
            |entry: &&LoggedRequest| entry.asked.lists(Resource::Contacts) && entry.asked.param("limit") == Some("100");
        let pages = crm.sandbox.log().entries().iter().filter(is_page).count();
        assert!(pages <= most, "{pages} pages of {rows}: {slices:?}");
        let read: Vec<u64> = slices.values().copied().filter(|pages| *pages > 1).collect();
        let fair = rows.div_ceil(99) / readers as u64;
        assert!(read.len() == readers && read.iter().all(|pages| *pages <= fair + 2), "{slices:?}");
    }
}

/// The request that finds the newest records is the last page of the last slice, so a slice for each walker fits into the
/// allowance.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_walkers_have_a_slice_each_for_two_percent_more() {
    let created = [even(4_045, 2 * YEAR), vec![None; 5]].concat();
    let one = ru_of_one_walker(&created).await;
    let crm = Crm::serve(world(created)).await;
    let mirror = lists_only(4, 1_000);
    mirror.run(&crm, &Job::sync().of(&[Resource::Contacts])).await.unwrap();
    mirror.assert_exact_lists(&crm);
    let (slices, ru) = slices(&crm);
    assert!(ru <= one + 4, "{ru} RU, {one} with one walker");
    let dated: Vec<u64> = slices.values().copied().filter(|pages| *pages > 1).collect();
    assert!(dated.len() >= 4 && dated.iter().all(|pages| *pages <= 13), "{slices:?}");
    let log = crm.sandbox.log();
    let is_dateless = |n: &usize| log.entries()[*n].asked.param("filter[createdAt][isNull]") == Some("true");
    assert_eq!((0..log.entries().len()).filter(is_dateless).count(), 1, "one page had all records without a date");
}

/// The totals of two moments are as if none were without a date: as many were created in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn record_created_before_the_newest_are_counted_hides_none_without_a_date() {
    let crm = Crm::serve(world([even(4_000, 2 * YEAR), vec![None]].concat())).await;
    crm.sandbox.before_request(|world: &mut World, asked: &RequestLine| {
        if asked.lists(Resource::Contacts) && asked.param("sort") == Some("-createdAt") {
            world.create(Object::Contact, &json!({ "id": "new" }));
        }
    });
    let mirror = lists_only(4, 1_000);
    mirror.run(&crm, &Job::sync().of(&[Resource::Contacts])).await.unwrap();
    assert!(slices(&crm).0.len() > 2);
    mirror.assert_exact_lists(&crm);
}

/// The slices have fewer rows than were announced, day by day: they are counted, and only what is beside the record is cut and listed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn record_that_cannot_be_read_has_no_copy_in_slices_listed_again() {
    let mut world = world(even(2_000, 2 * YEAR));
    world.set_raw(Object::Contact, &format!("c{:06}", (777 * 7_919) % 1_000_003), "position", "NaN");
    let crm = Crm::serve(world).await;
    crm.wait(3_600);
    let mut mirror = lists_only(4, 500);
    mirror.tries = 2;
    let job = Job::sync().of(&[Resource::Contacts]);
    _ = mirror.try_scheduled(&crm, &job).await;
    assert!(slices(&crm).0.len() > 2);
    assert_eq!(mirror.count("contacts"), 1_999);
    for _ in 0..3 {
        crm.wait(90_000);
        crm.sandbox.clear_log();
        _ = mirror.try_scheduled(&crm, &job).await;
        let (pages, ru) = slices(&crm);
        assert!(pages.values().all(|pages| *pages < 8) && ru < 70, "{pages:?}, {ru} RU");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slices_are_exact_and_balanced_however_records_are_dated() {
    let half: Vec<_> = even(750, 2 * YEAR);
    let import = |at: u64| vec![Some(noon().minus(Duration::from_secs(2 * YEAR)).plus(Duration::from_secs(at))); 750];
    let at = |text: &str| Some(text.parse::<Instant>().unwrap());
    let odd: Vec<_> =
        (0..100).flat_map(|_| [at("0001-01-01T00:00:00Z"), at("9999-12-31T23:59:59.999999Z"), None]).collect();
    for (name, created, most_pages) in [
        ("even", even(1_500, 2 * YEAR), Some(6)),
        ("half of all in one second", [half.clone(), import(YEAR)].concat(), Some(11)),
        ("half of all in the first second", [import(0), half.clone()].concat(), Some(10)),
        ("half of all in the last second", [half.clone(), import(2 * YEAR)].concat(), Some(10)),
        // The first slice, and 8 pages without a date, which have no range either.
        ("half of all without a date", [half.clone(), vec![None; 750]].concat(), Some(11)),
        ("none with a date", vec![None; 500], None),
        ("all in one second", import(0), None),
        ("odd dates among others", [half, odd].concat(), None),
    ] {
        let one = ru_of_one_walker(&created).await;
        let crm = Crm::serve(world(created.iter().copied())).await;
        let mirror = lists_only(4, 200);
        mirror.run(&crm, &Job::sync().of(&[Resource::Contacts])).await.unwrap();
        mirror.assert_exact_lists(&crm);
        let (slices, ru) = slices(&crm);
        let allowed = created.len() as u64 / 200;
        assert!(ru <= one + allowed, "{name}: {ru} RU, {one} with one walker; {slices:?}");
        if let Some(most_pages) = most_pages {
            let most = slices.values().max().unwrap();
            assert!(slices.len() > 2 && *most <= most_pages, "{name}: {slices:?}");
        }
        crm.sandbox.clear_log();
        crm.wait(600);
        mirror.run(&crm, &Job::sync().of(&[Resource::Contacts])).await.unwrap();
        mirror.assert_exact_lists(&crm);
    }
}

/// What is created, changed and removed while slices are read is not lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_during_a_copy_in_slices_are_not_lost() {
    let crm = Crm::serve(world([even(2_000, 2 * YEAR), vec![None; 3]].concat())).await;
    let mirror = lists_only(4, 200);
    let mut asked = 0;
    crm.sandbox.before_request(move |world: &mut World, _| {
        asked += 1;
        let ids = world.ids(Resource::Contacts);
        world.edit(Object::Contact, &ids[asked * 31 % ids.len()], &json!({ "name": format!("Edited {asked}") }));
        world.remove(Object::Contact, &ids[asked * 17 % ids.len()]);
        let old = noon().minus(Duration::from_secs(asked as u64 * 700_000)).to_wire();
        for created in [Some(old), None] {
            world.create(Object::Contact, &json!({ "name": "New", "createdAt": created }));
        }
    });
    mirror.run(&crm, &Job::sync().of(&[Resource::Contacts])).await.unwrap();
    crm.sandbox.clear_hook();
    crm.wait(600);
    for job in [Job::sync(), Job::resync()] {
        mirror.run(&crm, &job.of(&[Resource::Contacts])).await.unwrap();
    }
    mirror.assert_exact_lists(&crm);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rate_limit_holds_all_walkers_and_loses_nothing() {
    let crm = Crm::serve(world(even(2_000, 2 * YEAR))).await;
    let mirror = lists_only(4, 200);
    for after in [3, 9, 14] {
        let refusal = Fault::Wait { status: 429, body: Some(11), header: None };
        crm.sandbox.faults().add(Rule::new(refusal).on(Resource::Contacts).lists().after(after));
    }
    let report = mirror.run(&crm, &Job::sync().of(&[Resource::Contacts])).await.unwrap();
    assert_eq!(report.outcome, RunOutcome::Done);
    mirror.assert_exact_lists(&crm);
    let log = crm.sandbox.log();
    let refusals: Vec<Instant> = log.entries().iter().filter(|e| e.status == Some(429)).map(|e| e.at).collect();
    assert!(!refusals.is_empty());
    for refused in refusals {
        let over = refused.plus(Duration::from_secs(11));
        let held = log.entries().iter().filter(|e| e.at > refused && e.at < over).count();
        assert!(held < 4, "{held} requests during the hold, more than were under way");
    }
    assert_eq!(report.tally.ru, log.ru(), "the ledger says what the service charged");
}

/// Ended before any of its commits, and gone on with until it is done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_in_slices_that_is_killed_anywhere_goes_on_where_it_was() {
    let created = [even(360, 2 * YEAR), vec![None; 40]].concat();
    let mut kills_at_most = 0;
    for step in [1, 4] {
        let crm = Crm::serve(world(created.iter().copied())).await;
        crm.sandbox.configure(|settings| settings.page_cap = Some(20));
        let mirror = lists_only(4, 40);
        let mut kills = 0;
        loop {
            let job = Job::sync().of(&[Resource::Contacts]);
            match mirror.run_killed_after(&crm, &job, Some(4 + kills % 5 * step + kills / 2)).await {
                Ok(report) if report.outcome == RunOutcome::Done => break,
                Ok(report) => panic!("{report:?}"),
                Err(SyncError::Store(StoreError::Interrupted | StoreError::Closed)) => kills += 1,
                Err(error) => panic!("{error}"),
            }
            assert!(kills < 300, "no end");
        }
        mirror.assert_exact_lists(&crm);
        kills_at_most = kills_at_most.max(kills);
        // What was stored is not read again: a page for each walker and kill at most.
        let mut asked = BTreeMap::new();
        for entry in crm.sandbox.log().entries() {
            if let Some(cursor) = entry.asked.param("cursor") {
                *asked.entry(cursor.to_string()).or_insert(0_u64) += 1;
            }
        }
        let again: u64 = asked.values().map(|times| times - 1).sum();
        assert!(again <= 4 * 4 * kills, "{again} pages again after {kills} kills");
    }
    assert!(kills_at_most > 5, "{kills_at_most} kills only");
}

/// Values that lists omit are read while others walk, who have noted some as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn omitted_value_is_read_by_one_walker() {
    let mut world = world(even(4_000, 2 * YEAR));
    world.lists_omit_nulls = true;
    world.fields().define(NewField::new(Object::Contact, "tier", DataType::ShortText));
    let mut changed = Vec::new();
    for n in (0..4_000).step_by(20) {
        let id = format!("c{:06}", (n * 7_919) % 1_000_003);
        world.edit(Object::Contact, &id, &json!({ "customFields": { "tier": "gold" } }));
        changed.push(id);
    }
    let crm = Crm::serve(world).await;
    let mirror = lists_only(4, 1_000);
    mirror.run(&crm, &Job::sync()).await.unwrap();
    crm.wait(600);
    crm.sandbox.clear_log();
    crm.sandbox.with_world(|world| {
        for id in &changed {
            let cleared = json!({ "name": "New", "customFields": { "tier": null } });
            world.edit_silently(Object::Contact, id, &cleared);
        }
    });
    mirror.run(&crm, &Job::resync().of(&[Resource::Contacts])).await.unwrap();
    assert_eq!(crm.sandbox.log().details(Object::Contact), changed.len());
    mirror.assert_exact_lists(&crm);
}
