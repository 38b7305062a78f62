//! What a day costs, against the least that any program would have to spend: the table of `docs/operations.md`.

use std::time::Duration;

use crate::support::prepared::prepared;
use crate::support::{Crm, Mirror, noon};
use crm_mirror::model::{Clock as _, DataType, Object, Resource};
use crm_mirror::sandbox::{Fault, NewField, Route, Rule, World, generate};
use crm_mirror::sync::Job;
use serde_json::json;

/// A run every five minutes.
const RUNS: u64 = 288;

/// What a day came to.
#[derive(Debug, PartialEq, Eq)]
struct DayCost {
    lists: u64,
    counts: u64,
    short_lists: u64,
    details: u64,
    /// One request for each object and run, the pages of what changed, and a detail for each changed record.
    least: u64,
}

impl DayCost {
    fn total(&self) -> u64 {
        self.lists + self.counts + self.short_lists + self.details
    }
}

/// A detail is read again after 30 days, each day as many as become old in a day. If nothing in it has changed, it is young
/// again all the same.
#[tokio::test]
async fn unchanged_details_are_read_again_once_a_month() {
    let crm = Crm::serve(generate(61, 20, 2, noon())).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    let details = |crm: &Crm| {
        let log = crm.sandbox.log();
        log.entries().iter().filter(|entry| matches!(entry.asked.route, Route::One(..))).count()
    };
    crm.sandbox.clear_log();
    crm.wait(29 * 86_400);
    // Open all the time, as by the daemon.
    let (store, engine) = mirror.open(&crm, None).await.unwrap();
    for (day, expected) in
        (29..80).zip([0, 0, 2, 4].into_iter().chain(5..=22).chain([22; 11]).chain([24, 26]).chain(27..))
    {
        engine.run(&Job::sync(), "schedule").await.unwrap();
        assert_eq!(details(&crm), expected.min(44), "day {day}");
        crm.wait(86_400);
    }
    drop(engine);
    store.close().await;
    let at = mirror.one("SELECT min(fetched_at) >= '2026-01-01' FROM contact_details");
    assert_eq!(at, "1");
}

/// Records with a name each, created a minute apart.
fn few_fields(contacts: usize, companies: usize) -> World {
    let mut world = World::new(noon());
    world.create(Resource::TeamMembers, &json!({ "firstName": "Ann" }));
    for (object, records) in [(Object::Contact, contacts), (Object::Company, companies)] {
        world.fields().define(NewField::new(object, "tier", DataType::ShortText));
        for n in 0..records {
            let at = noon().minus(Duration::from_secs(9_000_000 - 60 * n as u64)).to_wire();
            world.create(object, &json!({ "name": format!("Name {n}"), "createdAt": at, "updatedAt": at }));
        }
    }
    world
}

/// A day with so many changed contacts, most of them in nine hours, and a bulk change of so many at once; audits every six
/// hours.
async fn day((contacts, companies): (usize, usize), changes: u64, bulk: usize) -> DayCost {
    // Where nothing changes, what the records hold makes no difference.
    let world = if changes > 0 { generate(61, contacts, companies, noon()) } else { few_fields(contacts, companies) };
    let crm = Crm::serve(world).await;
    let mut mirror = Mirror::empty();
    // Where nothing changes, no detail is read.
    mirror.settings.details = changes > 0;
    mirror.sync(&crm).await;
    crm.wait(600);
    mirror.sync(&crm).await;
    crm.sandbox.clear_log();
    let mut rng = fastrand::Rng::with_seed(3);
    let mut least = 0;
    // Open all day, as by the daemon.
    let (store, engine) = mirror.open(&crm, None).await.unwrap();
    for run in 0..RUNS {
        crm.wait(300);
        let office = (96..204).contains(&run);
        let mut changed = std::collections::BTreeSet::new();
        let wanted = if office { changes / 108 + u64::from(rng.u64(0..108) < changes % 108) } else { 0 };
        let wanted = if run == 150 { bulk } else { wanted as usize };
        crm.sandbox.with_world(|world| {
            let ids = world.ids(Resource::Contacts);
            while changed.len() < wanted {
                changed.insert(rng.usize(0..ids.len()));
            }
            for n in &changed {
                world.edit(Object::Contact, &ids[*n], &json!({ "position": format!("Run {run}") }));
            }
        });
        engine.run(&Job::sync(), "schedule").await.unwrap();
        if run % 72 == 0 {
            engine.run(&Job::audit(), "schedule").await.unwrap();
        }
        let changed = changed.len() as u64;
        least += changed.div_ceil(100).max(1) + 1 + changed;
    }
    drop(engine);
    store.close().await;
    mirror.assert_exact_lists(&crm);
    let log = crm.sandbox.log();
    let lists = |counted: bool| {
        let of = log.entries().iter().filter(|entry| {
            (entry.asked.lists(Resource::Contacts) || entry.asked.lists(Resource::Companies))
                && (entry.asked.param("count").is_some() || entry.asked.param("filter[id][in]").is_some()) == counted
        });
        of.count() as u64
    };
    let cost = DayCost {
        lists: lists(false),
        counts: lists(true),
        short_lists: (log.lists(Resource::CustomFields) + log.lists(Resource::TeamMembers)) as u64,
        details: (log.details(Object::Contact) + log.details(Object::Company)) as u64,
        least,
    };
    assert_eq!(cost.total(), log.ru().get(), "everything is in the table");
    cost
}

/// `MEASURE_DAYS=1` measures the larger workspaces too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_day_costs_little_more_than_the_least_that_is_possible() {
    let all = std::env::var("MEASURE_DAYS").is_ok();
    let (small, large) = ((600, 60), (10_000, 1_000));
    let days = [("quiet", large, 0, 0, 1.25), ("normal", small, 300, 0, 1.3), ("busy", small, 3_000, 500, 1.3)];
    for (name, size, changes, bulk, most) in days.into_iter().take(if all { 3 } else { 1 }) {
        let cost = day(size, changes, bulk).await;
        eprintln!("{name}: {cost:?}, {} RU, {:.2} of the least", cost.total(), cost.total() as f64 / cost.least as f64);
        assert!((cost.total() as f64) <= cost.least as f64 * most, "{name}: {cost:?}");
    }
}

/// A mirror of 250 contacts and 20 companies.
async fn mirrored() -> (Crm, Mirror) {
    let make = || async move {
        let crm = Crm::serve(generate(61, 250, 20, noon())).await;
        let mirror = Mirror::one_at_a_time();
        mirror.sync(&crm).await;
        crm.wait(900);
        (crm, mirror)
    };
    prepared("ru_per_day".into(), make).await
}

/// What a run is estimated to spend, and spends.
async fn estimated_and_spent(crm: &Crm, mirror: &Mirror, job: &Job) -> (u64, u64) {
    let forecast = mirror.forecast(crm, job).await.total().get();
    crm.sandbox.clear_log();
    mirror.run(crm, job).await.unwrap();
    (forecast, crm.charged())
}

#[tokio::test]
async fn forecast_prices_the_columns_that_the_run_fills() {
    for (details, job) in [(true, Job::sync()), (false, Job::sync()), (true, Job::resync())] {
        let (crm, mut mirror) = mirrored().await;
        mirror.settings.details = details;
        let contacts = crm.sandbox.world().ids(Resource::Contacts);
        let companies = crm.sandbox.world().ids(Resource::Companies);
        crm.sandbox.with_world(|world| {
            world.fields().define(NewField::new(Object::Contact, "listed", DataType::ShortText));
            world.fields().define(NewField::new(Object::Company, "long", DataType::LongText));
            for (object, ids, key) in
                [(Object::Contact, &contacts[..150], "listed"), (Object::Company, &companies[..12], "long")]
            {
                ids.iter().for_each(|id| _ = world.edit_silently(object, id, &json!({"customFields": {key: "v"}})));
            }
        });
        mirror.run(&crm, &Job::sync().of(&[Resource::CustomFields])).await.unwrap();
        crm.wait(900);
        let (forecast, spent) = estimated_and_spent(&crm, &mirror, &job).await;
        mirror.assert_exact_lists(&crm);
        assert!(spent.abs_diff(forecast) <= 1, "{job:?}, details {details}: {spent} of {forecast}");
    }
}

#[tokio::test]
async fn forecast_leaves_out_details_that_wait() {
    let (crm, mut mirror) = mirrored().await;
    mirror.tries = 1;
    let ids = crm.sandbox.world().ids(Resource::Contacts);
    crm.sandbox.with_world(|world| {
        ids[..12].iter().for_each(|id| _ = world.edit(Object::Contact, id, &json!({"name": "New"})));
    });
    ids[..12].iter().for_each(|id| {
        crm.sandbox.faults().add(Rule::new(Fault::Status(500)).method("GET").record(id).forever());
    });
    mirror.sync(&crm).await;
    crm.wait(120);
    assert_eq!(estimated_and_spent(&crm, &mirror, &Job::sync()).await, (2, 2));
    crm.sandbox.faults().clear();
    crm.wait(86_400);
    assert_eq!(mirror.forecast(&crm, &Job::sync()).await.objects[0].details.get(), 12);
}

/// The page of one row that a count asks for cannot be read.
#[tokio::test]
async fn forecast_without_a_count_says_that_the_rows_are_not_known() {
    let (crm, mirror) = mirrored().await;
    crm.sandbox.faults().add(Rule::new(Fault::Status(500)).on(Resource::Contacts).with_param("count").forever());
    for (job, least) in [(Job::sync(), 1), (Job::resync(), 4)] {
        let objects = mirror.forecast(&crm, &job).await.objects;
        assert_eq!((objects[0].rows, objects[1].rows.is_some()), (None, true), "{job:?}");
        assert!(objects[0].lists.get() >= least, "{job:?}: {:?}", objects[0]);
    }
}

/// What the last walk has read, and the next one would list again, is no change.
#[tokio::test]
async fn forecast_after_changes_is_what_the_next_run_spends() {
    for (changed, later) in [(180, 0), (60, 0), (180, 30)] {
        let (crm, mirror) = mirrored().await;
        let ids = crm.sandbox.world().ids(Resource::Contacts);
        let edit = |ids: &[String]| {
            crm.sandbox.with_world(|world| {
                ids.iter().for_each(|id| {
                    _ = world.edit(Object::Contact, id, &json!({ "position": crm.clock.now().to_string() }))
                });
            });
        };
        edit(&ids[..changed]);
        mirror.sync(&crm).await;
        crm.wait(10);
        edit(&ids[200..200 + later]);
        let (forecast, spent) = estimated_and_spent(&crm, &mirror, &Job::sync()).await;
        assert!(spent.abs_diff(forecast) <= 2, "{changed}, {later}: {spent} of {forecast}");
    }
}
