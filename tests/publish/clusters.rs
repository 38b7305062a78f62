//! A database that is more than one server: behind a pooler, and with a standby that takes over.

use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::time::Duration;

use crm_mirror::model::{DataType, Object, Resource};
use crm_mirror::publish::{
    Check, DatabaseFailure, PublishReport, PublishSettings, PublishUrl, keep_published, publish,
};
use crm_mirror::sandbox::{NewField, generate};
use secrecy::SecretString;
use serde_json::json;

use crate::equal::assert_equal;
use crate::server::{Postgres, Server, command, private_dir, quiet};
use crate::support::clock::ManualClock;
use crate::support::{Crm, Mirror, noon};

const POOLER: &str = "/usr/sbin/pgbouncer";

/// PgBouncer in front of a server, with one connection for all clients.
struct Pooler {
    process: Child,
    dir: tempfile::TempDir,
}

impl Drop for Pooler {
    fn drop(&mut self) {
        // No signal that it handles: with one, it may wait for its clients for ever.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Pooler {
    fn start(postgres: &Postgres, mode: &str) -> Option<Pooler> {
        if !Path::new(POOLER).exists() {
            eprintln!("SKIPPED: there is no PgBouncer (Debian's package `pgbouncer`)");
            return None;
        }
        let dir = private_dir();
        let here = dir.path().display();
        let settings = format!(
            "[databases]\n* = host={} port=5432 user=mirror\n[pgbouncer]\nlisten_port = 6432\nunix_socket_dir = {here}\n\
             auth_type = any\npool_mode = {mode}\ndefault_pool_size = 1\nlogfile = {here}/log\npidfile = {here}/pid\n",
            postgres.socket().display()
        );
        let file = dir.path().join("pgbouncer.ini");
        std::fs::write(&file, settings).unwrap();
        let process = quiet(command(Path::new(POOLER)).arg(&file)).spawn().unwrap();
        Some(Pooler { process, dir })
    }

    fn url(&self, database: &str) -> PublishUrl {
        let host = self.dir.path().display().to_string().replace('/', "%2F");
        PublishUrl::new(&SecretString::from(format!("postgres://mirror:s3cret@{host}:6432/{database}"))).unwrap()
    }
}

async fn published_by(url: &PublishUrl, settings: &PublishSettings) -> PublishReport {
    // The pooler needs a moment until it listens.
    for _ in 0..600 {
        match publish(url, settings, noon()).await {
            Err(crm_mirror::publish::PublishError::Database { failure: DatabaseFailure::Unavailable, .. }) => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            ended => return ended.unwrap(),
        }
    }
    panic!("the pooler does not answer");
}

#[tokio::test]
async fn pooler_in_both_modes_gives_the_same_result_and_its_other_clients_keep_their_settings() {
    let crm = Crm::serve(generate(5, 40, 4, noon())).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    for mode in ["session", "transaction"] {
        let Some(postgres) = Postgres::start().await else { return };
        let Some(pooler) = Pooler::start(&postgres, mode) else { return };
        let url = pooler.url(&postgres.name);
        let settings = PublishSettings { check: Check::Compare, ..Postgres::settings(&mirror) };
        let report = published_by(&url, &settings).await;
        assert_eq!(report.comparison.unwrap().differences, 0);
        crm.sandbox.with_world(|world| {
            let key = format!("in_{mode}");
            world.fields().define(NewField::new(Object::Contact, &key, DataType::Decimal));
            for id in world.ids(Resource::Contacts).iter().take(9) {
                world.edit(Object::Contact, id, &json!({"position": mode, "customFields": {key.as_str(): "1.50"}}));
            }
        });
        for _ in 0..2 {
            crm.wait(7 * 3600);
            mirror.sync(&crm).await;
        }
        let report = published_by(&url, &settings).await;
        assert_eq!((report.reloaded, report.comparison.unwrap().differences), (None, 0));
        published_by(&url, &PublishSettings { full: true, ..settings.clone() }).await;
        assert_equal(&mirror, &postgres).await;
        // Another client of the pooler gets the same connection.
        let host = pooler.dir.path().display();
        let config = format!("host={host} port=6432 user=mirror dbname={}", postgres.name);
        let (client, connection) = tokio_postgres::connect(&config, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let found =
            client.simple_query("SELECT current_setting('lock_timeout') || current_setting('search_path')").await;
        let found = found.unwrap().into_iter().find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(String::from),
            _ => None,
        });
        assert_eq!(found.as_deref(), Some("0\"$user\", public"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn standby_that_is_promoted_has_everything_and_gets_the_rest() {
    let Some(primary) = Server::start() else { return };
    let old = primary.connect("postgres").await;
    let standby = Arc::new(primary.standby());
    let postgres = Postgres::on(standby.clone()).await;
    old.batch_execute("ALTER SYSTEM SET synchronous_standby_names = '*'").await.unwrap();
    old.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    let is_synchronous = "SELECT count(*)::text FROM pg_stat_replication WHERE sync_state = 'sync'";
    while old.query_one(is_synchronous, &[]).await.unwrap().get::<_, String>(0) != "1" {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let crm = Crm::serve(generate(5, 60, 4, noon())).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    let hosts = format!("{}:5432,{}:5432", primary.host(), standby.host());
    let url = format!("postgres://mirror:s3cret@{hosts}/postgres?target_session_attrs=read-write");
    let settings = Postgres::settings(&mirror);
    let clock = ManualClock::at(noon());
    let (planned, target) = (settings.clone(), PublishUrl::new(&SecretString::from(url)).unwrap());
    let plan_target = target.clone();
    let keeper =
        tokio::spawn(keep_published(move || Some((Ok(plan_target.clone()), planned.clone())), Arc::new(clock.clone())));
    let ids = crm.sandbox.with_world(|world| world.ids(Resource::Contacts));
    let mut primary = Some(primary);
    for round in 0..12 {
        crm.sandbox.with_world(|world| {
            for id in ids.iter().skip(round * 3).take(20) {
                world.edit(Object::Contact, id, &json!({"position": format!("round {round}")}));
            }
        });
        crm.wait(600);
        mirror.sync(&crm).await;
        clock.advance(Duration::from_secs(30));
        tokio::time::sleep(Duration::from_millis(400)).await;
        if round == 5 {
            // Its server ends without a word, at any moment of a publish.
            drop(primary.take());
            postgres.run("SELECT pg_promote()").await;
        }
    }
    let last = "SELECT count(*)::text FROM crm.contacts WHERE position = 'round 11'";
    let mut arrived = false;
    for _ in 0..600 {
        arrived = postgres.client.query_one(last, &[]).await.is_ok_and(|row| row.get::<_, String>(0) == "20");
        if arrived {
            break;
        }
        clock.advance(Duration::from_secs(30));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let failed = mirror.one("SELECT json_extract(value, '$.last_error') FROM state WHERE name = 'publish'");
    assert!(arrived, "{failed}");
    keeper.abort();
    let _ = keeper.await;
    let settings = PublishSettings { check: Check::Compare, ..settings };
    let mut ended = publish(&target, &settings, noon()).await;
    while let Err(crm_mirror::publish::PublishError::Busy { .. }) = ended {
        tokio::task::yield_now().await;
        ended = publish(&target, &settings, noon()).await;
    }
    let report = ended.unwrap();
    assert_eq!((report.reloaded, report.comparison.unwrap().differences), (None, 0));
    assert_eq!(
        report.server,
        format!("{}:5432/postgres", standby.host().replace("%2F", "/")),
        "the one that was reached"
    );
    assert_equal(&mirror, &postgres).await;
}
