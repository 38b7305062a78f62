//! Lists are read by value: a page proves the range that it shows, whatever is removed meanwhile and whatever the service's
//! cursors are. Only what has to be read by cursor is counted.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::clocks::claimed;
use crate::support::{Crm, Mirror, bodies, noon};
use crm_mirror::model::{Clock, Object, Resource};
use crm_mirror::sandbox::{RequestLine, Rule, World};
use crm_mirror::store::{RunOutcome, StoreError};
use crm_mirror::sync::{Job, SyncError};
use serde_json::json;

/// Contacts that were created so many seconds after a moment a year ago; `None` for those that do not say.
fn created(seconds: impl IntoIterator<Item = Option<u64>>) -> World {
    let mut world = World::new(noon());
    let begin = noon().minus(Duration::from_secs(365 * 86_400));
    let changed = noon().minus(Duration::from_secs(86_400)).to_wire();
    for (n, second) in seconds.into_iter().enumerate() {
        let at = second.map(|second| begin.plus(Duration::from_secs(second)).to_wire());
        world.create(Object::Contact, &json!({ "id": format!("c{n:06}"), "createdAt": at, "updatedAt": changed }));
    }
    world
}

/// A service whose cursors count rows: a removal behind a walk by cursor hides the first record of the next page.
async fn by_offset(world: World) -> Crm {
    let crm = Crm::serve(world).await;
    crm.sandbox.configure(|settings| settings.counts_rows = true);
    crm
}

fn lists_only() -> Mirror {
    let mut mirror = Mirror::one_at_a_time();
    mirror.settings.details = false;
    mirror
}

fn contacts() -> Job {
    Job::sync().of(&[Resource::Contacts])
}

/// How many requests for contacts had this parameter.
fn with_param(crm: &Crm, name: &str) -> usize {
    let log = crm.sandbox.log();
    log.entries().iter().filter(|sent| sent.asked.lists(Resource::Contacts) && sent.asked.param(name).is_some()).count()
}

/// The service's contacts that the mirror has not.
fn missing(mirror: &Mirror, crm: &Crm) -> Vec<String> {
    let conn = mirror.read();
    let mut is_there = conn.prepare("SELECT 1 FROM contacts WHERE id = ?1").unwrap();
    let mut ids = crm.sandbox.with_world(|world| world.ids(Resource::Contacts));
    ids.retain(|id| !is_there.exists([id]).unwrap());
    ids
}

/// Some have no date, which takes a request of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_copy_and_resync_of_ten_thousand_cost_two_percent_more_than_their_pages() {
    let seconds = (0..10_000).map(|n| (n % 199 != 0).then_some(60 * n));
    let crm = Crm::serve(created(seconds)).await;
    let mut mirror = Mirror::empty();
    mirror.settings.details = false;
    for job in [Job::sync(), Job::resync()] {
        crm.wait(600);
        crm.sandbox.clear_log();
        mirror.run(&crm, &job).await.unwrap();
        let lists = crm.sandbox.log().lists(Resource::Contacts) - with_param(&crm, "filter[updatedAt][gt]");
        assert!(lists <= 102, "{job:?}: {lists} requests");
        assert_eq!(with_param(&crm, "cursor"), 0);
        mirror.assert_exact_lists(&crm);
    }
}

/// Each removal would hide a record from a cursor that counts rows.
#[tokio::test]
async fn removals_between_two_pages_hide_no_other_record() {
    let crm = by_offset(created((0..1_000).map(|n| Some(60 * n)))).await;
    let mirror = lists_only();
    let mut pages = 0;
    crm.sandbox.before_request(move |world: &mut World, asked: &RequestLine| {
        if asked.lists(Resource::Contacts) && asked.param("limit") == Some("100") {
            pages += 1;
            // Far behind the walk, and once the very row with which the next page begins.
            world.remove(Object::Contact, &format!("c{:06}", if pages == 5 { 397 } else { pages }));
        }
    });
    mirror.run(&crm, &contacts()).await.unwrap();
    crm.sandbox.clear_hook();
    assert_eq!(missing(&mirror, &crm), Vec::<String>::new());
    assert_eq!(with_param(&crm, "cursor"), 0);
    assert_eq!(mirror.count("contacts WHERE id = 'c000397'"), 0, "nothing joined these pages: their edge was listed");
    crm.wait(600);
    mirror.run(&crm, &contacts()).await.unwrap();
    assert!(claimed(&mirror, crm.clock.now())[0].is_some(), "the second look found nothing");
    mirror.verify(&crm, &Job::audit()).await;
    mirror.assert_exact_lists(&crm);
}

/// More rows of one second than a page has, among others. They are read by cursor, and counted by themselves.
#[tokio::test]
async fn tie_is_counted_by_itself() {
    let tied = || (0..300).chain(std::iter::repeat_n(400, 1_100)).chain(500..800).map(Some);
    let crm = by_offset(created(tied())).await;
    let mirror = lists_only();
    mirror.run(&crm, &contacts()).await.unwrap();
    mirror.assert_exact_lists(&crm);
    let counts = || {
        let log = crm.sandbox.log();
        log.entries().iter().filter(|sent| sent.asked.param("limit") == Some("1")).count()
    };
    assert_eq!(counts(), 1, "the tie");
    assert!(claimed(&mirror, crm.clock.now())[0].is_some());
    let spent = crm.sandbox.log().lists(Resource::Contacts);
    assert!(spent <= 17 + 4, "{spent} requests for 17 pages");

    // A removal before the tie, while that is read by cursor, hides one of its records.
    let crm = by_offset(created(tied())).await;
    let mirror = lists_only();
    crm.sandbox.before_request(|world: &mut World, asked: &RequestLine| {
        if asked.lists(Resource::Contacts) && asked.param("cursor").is_some() {
            world.remove(Object::Contact, "c000250");
        }
    });
    mirror.run(&crm, &contacts()).await.unwrap();
    crm.sandbox.clear_hook();
    assert_eq!(mirror.count("contacts WHERE id <> 'c000250'"), 1_699, "the count of the tie found it");
    crm.wait(600);
    mirror.verify(&crm, &Job::audit()).await;
    mirror.assert_exact_lists(&crm);
}

/// Rows without a date come after those that have one. Whether there are any takes a request of its own.
#[tokio::test]
async fn rows_without_a_date_are_read_after_those_that_have_one() {
    for (undated, lists, cursors) in [(0, 4, 0), (1, 4, 0), (250, 6, 2)] {
        let crm = by_offset(created((0..250).map(Some).chain(std::iter::repeat_n(None, undated)))).await;
        let mirror = lists_only();
        let mut removes = undated > 100;
        crm.sandbox.before_request(move |world: &mut World, asked: &RequestLine| {
            if removes && asked.lists(Resource::Contacts) && asked.param("cursor").is_some() {
                removes = !world.remove(Object::Contact, "c000010");
            }
        });
        mirror.run(&crm, &contacts()).await.unwrap();
        crm.sandbox.clear_hook();
        let log = crm.sandbox.log();
        let pages = log
            .entries()
            .iter()
            .filter(|sent| sent.asked.lists(Resource::Contacts) && sent.asked.param("limit") == Some("100"));
        let pages = pages.count();
        let cost = format!("{undated} undated: {pages} pages");
        assert!(pages >= lists && (pages == lists || undated > 100), "{cost}");
        assert!(with_param(&crm, "cursor") >= cursors, "{cost}");
        assert_eq!(missing(&mirror, &crm), Vec::<String>::new());
        crm.wait(600);
        mirror.verify(&crm, &Job::audit()).await;
        mirror.assert_exact_lists(&crm);
        crm.sandbox.with_world(|world| world.remove(Object::Contact, "c000250"));
        mirror.run(&crm, &Job::resync().of(&[Resource::Contacts])).await.unwrap();
        mirror.assert_exact_lists(&crm);
    }
}

/// The totals of two moments are as if none were without a date: as many were created in between.
#[tokio::test]
async fn record_created_between_two_pages_hides_none_without_a_date() {
    let crm = Crm::serve(created((0..250).map(Some).chain([None]))).await;
    crm.sandbox.before_request(|world: &mut World, asked: &RequestLine| {
        if asked.lists(Resource::Contacts) && asked.param("filter[createdAt][gte]").is_some() {
            world.create(Object::Contact, &json!({ "id": "new" }));
        }
    });
    let mirror = lists_only();
    mirror.run(&crm, &contacts()).await.unwrap();
    mirror.assert_exact_lists(&crm);
}

/// The kill leaves no cursor: the next run goes on by value, and the row that it reads again joins what both have read.
#[tokio::test]
async fn copy_that_was_killed_goes_on_by_value() {
    let crm = by_offset(created((0..1_500).map(|n| Some(60 * n)))).await;
    let mirror = lists_only();
    let mut kills = 0;
    loop {
        match mirror.run_killed_after(&crm, &contacts(), Some(7 + kills % 6 + kills / 4)).await {
            Ok(report) if report.outcome == RunOutcome::Done => break,
            Ok(report) => panic!("{report:?}"),
            Err(SyncError::Store(StoreError::Interrupted | StoreError::Closed)) => kills += 1,
            Err(error) => panic!("{error}"),
        }
        // Behind what was read.
        let removed = format!("c{:06}", 10 * kills);
        crm.sandbox.with_world(|world| world.remove(Object::Contact, &removed));
        assert!(kills < 50, "no end");
    }
    assert!(kills > 1, "{kills} kills only");
    assert_eq!(with_param(&crm, "cursor"), 0);
    assert_eq!(missing(&mirror, &crm), Vec::<String>::new());
    let mut asked = BTreeMap::new();
    for sent in crm.sandbox.log().entries() {
        if let Some(from) = sent.asked.param("filter[createdAt][gte]") {
            *asked.entry(from.to_string()).or_insert(0) += 1;
        }
    }
    let again: u64 = asked.values().map(|times| times - 1).sum();
    // Each of four walks has read a page ahead.
    assert!(again <= 4 * kills, "{again} pages again after {kills} kills");
    crm.wait(600);
    mirror.verify(&crm, &Job::audit()).await;
    mirror.assert_exact_lists(&crm);
}

/// The service shows whole seconds, and an import made some twenty rows in each: by value, each page would repeat a fifth. So
/// the cursor is followed, and the edges of these pages are listed, up to fifteen of them by themselves.
#[tokio::test]
async fn rows_of_one_second_are_not_read_again_and_again() {
    let crm = by_offset(created((0..3_000).map(|n| Some(n / 20)))).await;
    crm.sandbox.faults().add(Rule::new(bodies::whole_seconds()).forever());
    let mirror = lists_only();
    mirror.run(&crm, &contacts()).await.unwrap();
    let lists = crm.sandbox.log().lists(Resource::Contacts);
    assert!((31..=30 + 17).contains(&lists), "{lists} requests for 30 pages");
    assert_eq!(mirror.count("contacts"), 3_000);
    assert!(claimed(&mirror, crm.clock.now())[0].is_some());
}
