//! Random histories of the service, with publishers killed anywhere and connections cut: one undisturbed publish
//! afterwards makes both sides equal, and no entry of the feed is duplicated.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;

use crm_mirror::model::{DataType, Object, Resource};
use crm_mirror::publish::{Check, PublishSettings};
use crm_mirror::sandbox::{NewField, World, generate};
use fastrand::Rng;
use serde_json::json;

use crate::equal::differences;
use crate::server::Postgres;
use crate::support::cases::cases;
use crate::support::{Crm, Mirror, noon};

const KEYS: [&str; 3] = ["first", "second", "Second"];
const TYPES: [DataType; 5] =
    [DataType::ShortText, DataType::SingleSelect, DataType::Integer, DataType::Decimal, DataType::MultiSelect];

fn value(rng: &mut Rng, data_type: &str) -> serde_json::Value {
    match data_type {
        _ if rng.u8(..4) == 0 => serde_json::Value::Null,
        "INTEGER" => json!(rng.i32(..)),
        "DECIMAL" => json!(format!("{}.{}", rng.u32(..), rng.u16(1..))),
        "MULTI_SELECT" => json!(["a", "b"][..rng.usize(1..=2)]),
        _ => json!(["a", "b"][rng.usize(..2)]),
    }
}

/// Applies one random change at the service.
pub fn happen(rng: &mut Rng, world: &mut World) {
    let object = Object::ALL[rng.usize(..2)];
    let ids = world.ids(object.resource());
    let id = ids.get(rng.usize(..ids.len().max(1))).cloned().unwrap_or_default();
    let key = KEYS[rng.usize(..3)];
    let data_type = TYPES[rng.usize(..5)];
    let now = world.definitions.iter().find(|d| d.object == object && d.key == key).map(|d| d.data_type.clone());
    match rng.u8(..12) {
        0 => {
            let fields = json!({"name": format!("New {}", rng.u16(..))});
            world.create(object, &fields);
        }
        1 if ids.len() > 3 => {
            world.remove(object, &id);
        }
        2 if now.is_none() => {
            world.fields().define(NewField::new(object, key, data_type).options(&["a", "b"]));
        }
        3 => {
            world.fields().archive(object, key);
        }
        4 => {
            world.fields().reactivate(object, key);
        }
        5 => {
            world.fields().redefine(object, key, |field| field.data_type = data_type.as_str().into());
        }
        6 => {
            world.fields().redefine(object, key, |d| d.label = format!("Label {}", rng.u16(..)));
        }
        7 => {
            let member = world.ids(Resource::TeamMembers);
            world.edit(
                Resource::TeamMembers,
                &member[rng.usize(..member.len())],
                &json!({"firstName": format!("F{}", rng.u8(..))}),
            );
        }
        8 => {
            let companies = world.ids(Resource::Companies);
            world.edit(Object::Contact, &id, &json!({"companyId": companies[rng.usize(..companies.len())]}));
        }
        9 => {
            world.edit(object, &id, &json!({"name": format!("Name {}", rng.u16(..))}));
        }
        _ => {
            if let Some(now) = now {
                world.edit(object, &id, &json!({"customFields": {key: value(rng, &now)}}));
            }
        }
    }
}

/// Polls a future this many times, then drops it, like a kill.
pub async fn killed_after<F: Future>(polls: u32, work: F) -> Option<F::Output> {
    let mut work = pin!(work);
    let mut left = polls;
    std::future::poll_fn(move |context| match work.as_mut().poll(context) {
        Poll::Ready(out) => Poll::Ready(Some(out)),
        Poll::Pending if left == 0 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}

async fn live_through(seed: u64) -> Option<()> {
    let postgres = Postgres::start().await?;
    let mut rng = Rng::with_seed(seed);
    let crm = Crm::serve(generate(seed, 40, 6, noon())).await;
    let mut mirror = Mirror::empty();
    mirror.settings.concurrency = 1;
    mirror.sync(&crm).await;
    for _ in 0..14 {
        for _ in 0..rng.u8(1..8) {
            crm.sandbox.with_world(|world| happen(&mut rng, world));
        }
        crm.wait(u64::from(rng.u16(600..40_000)));
        let commits = (rng.u8(..3) == 0).then(|| rng.u64(..6));
        let plan = if rng.bool() { crm_mirror::sync::Job::resync() } else { crm_mirror::sync::Job::sync() };
        let _ = mirror.run_killed_after(&crm, &plan, commits).await;
        match rng.u8(..4) {
            // Killed anywhere.
            0 | 1 => {
                let settings = Postgres::settings(&mirror);
                killed_after(rng.u32(..60), postgres.try_publish(&settings)).await;
            }
            // The server ends the connection.
            2 => {
                let settings = Postgres::settings(&mirror);
                killed_after(rng.u32(..40), postgres.try_publish(&settings)).await;
                let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                           WHERE datname = current_database() AND pid <> pg_backend_pid()";
                postgres.rows(cut).await;
            }
            _ => {}
        }
    }
    crm.wait(40_000);
    mirror.sync(&crm).await;
    // The session of a killed publisher may still be ending.
    let compared = PublishSettings { check: Check::Compare, ..Postgres::settings(&mirror) };
    let mut report = postgres.try_publish(&compared).await;
    while let Err(crm_mirror::publish::PublishError::Busy { .. }) = report {
        tokio::task::yield_now().await;
        report = postgres.try_publish(&compared).await;
    }
    let comparison = report.unwrap().comparison.unwrap();
    assert_eq!(comparison.differences, 0, "seed {seed}: {comparison:?}");
    let found = differences(&mirror, &postgres).await;
    assert!(found.is_empty(), "seed {seed}: {} differences\n{}", found.len(), found[..found.len().min(8)].join("\n"));
    let twice = "SELECT count(*) - count(DISTINCT (object_type, record_id, fields, seen_at)) FROM crm.changes";
    let twice_here = "SELECT count(*) - (SELECT count(*) FROM
        (SELECT DISTINCT object_type, record_id, fields, seen_at FROM changes)) FROM changes";
    assert_eq!(postgres.one(twice).await, mirror.one(twice_here), "seed {seed}");
    Some(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_any_history_one_undisturbed_publish_makes_both_equal() {
    for seed in 1..=u64::from(cases(8)) {
        if live_through(seed).await.is_none() {
            return;
        }
    }
}
