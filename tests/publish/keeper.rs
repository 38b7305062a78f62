//! Publishing beside the daemon: what the runs change arrives by itself, and a database that is away is tried again.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crm_mirror::model::{Clock, ManualClock, Object, Resource};
use crm_mirror::publish::{PublishKeeper, PublishUrl};
use crm_mirror::sandbox::generate;
use secrecy::SecretString;
use serde_json::json;

use crate::equal::assert_equal;
use crate::server::Postgres;
use crate::support::{Crm, Mirror, noon};

/// Waits until a statement gives a text; another text may come first, and so may an error.
async fn until(postgres: &Postgres, sql: &str, expected: &str) {
    for _ in 0..2_000 {
        let found = postgres.client.query_one(sql, &[]).await.ok().map(|row| row.get::<_, String>(0));
        if found.as_deref() == Some(expected) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{sql} never gave {expected}");
}

const COUNT: &str = "SELECT count(*)::text FROM crm.contacts";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_changes_arrives_by_itself_and_a_database_that_is_away_is_tried_again() {
    let Some(postgres) = Postgres::start().await else { return };
    let crm = Crm::serve(generate(8, 25, 3, noon())).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    let is_away = Arc::new(AtomicBool::new(true));
    let (away, url, settings) = (is_away.clone(), postgres.url(), Postgres::settings(&mirror));
    let clock = ManualClock::at(noon());
    let plan = move || {
        let url = if away.load(Ordering::SeqCst) { "postgres://u:s3cret@%2Fnowhere/d".into() } else { url.clone() };
        let url = PublishUrl::new(&SecretString::from(url)).map_err(|error| error.to_string())?;
        Ok(Some((url, settings.clone())))
    };
    let keeper = PublishKeeper::start(&mirror.path, plan, Arc::new(clock.clone()) as Arc<dyn Clock>);
    let failures = "SELECT coalesce(json_extract(value, '$.failures'), 0) FROM state WHERE name = 'publish'";
    while mirror.count("state WHERE name = 'publish'") == 0 || mirror.one(failures) == "0" {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    is_away.store(false, Ordering::SeqCst);
    clock.advance(Duration::from_secs(600));
    until(&postgres, COUNT, "25").await;
    crm.sandbox.with_world(|world| {
        let id = world.ids(Resource::Contacts)[0].clone();
        world.edit(Object::Contact, &id, &json!({"position": "arrived"}));
        world.create(Object::Contact, &json!({"name": "New"}));
    });
    crm.wait(600);
    mirror.sync(&crm).await;
    until(&postgres, COUNT, "26").await;
    keeper.end().await;
    postgres.publish(&mirror).await;
    assert_equal(&mirror, &postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_daemon_publishes_what_its_runs_change() {
    let Some(postgres) = Postgres::start().await else { return };
    let crm = Crm::serve(generate(8, 25, 3, noon())).await;
    let dir = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_crm-mirror"))
        .arg("daemon")
        .env_clear()
        .env("CRM_MIRROR_API__BASE_URL", crm.base_url())
        .env("CRM_MIRROR_API__KEY", &crm.key)
        .env("CRM_MIRROR_DATABASE__PATH", dir.path().join("mirror.db"))
        .env("CRM_MIRROR_SYNC__SCHEDULE", "* * * * * *")
        .env("CRM_MIRROR_SYNC__JITTER", "0s")
        .env("CRM_MIRROR_PUBLISH__URL", postgres.url())
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until(&postgres, COUNT, "25").await;
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
