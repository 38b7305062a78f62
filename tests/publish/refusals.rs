//! An unreachable or foreign database: reported in one sentence without the password, and nothing is lost.

use std::process::{Command, Stdio};

use crm_mirror::model::Object;
use crm_mirror::publish::{DatabaseFailure, PublishError};
use crm_mirror::sandbox::{World, generate};
use serde_json::json;

use crate::documented::DocumentTable;
use crate::equal::assert_equal;
use crate::reconcile::owning_publisher;
use crate::server::Postgres;
use crate::support::{Crm, Mirror, noon};

async fn mirrored() -> (Crm, Mirror) {
    let crm = Crm::serve(generate(3, 12, 2, noon())).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    (crm, mirror)
}

/// Runs the binary with the mirror and a URL.
pub fn verb(mirror: &Mirror, url: &str, args: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_crm-mirror"))
        .args(args)
        .env_clear()
        .env("CRM_MIRROR_DATABASE__PATH", &mirror.path)
        .env("CRM_MIRROR_PUBLISH__URL", url)
        .current_dir(mirror.dir.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[tokio::test]
async fn unavailable_database_exits_with_69_and_shows_no_password() {
    let (_crm, mirror) = mirrored().await;
    // A port without a listener.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for url in [format!("postgres://u:s3cret@127.0.0.1:{port}/crm"), "postgres://u:s3cret@%2Fnowhere/crm".into()] {
        let (code, out, err) = verb(&mirror, &url, &["publish"]);
        assert_eq!(code, Some(69), "{err}");
        assert!(!out.contains("s3cret") && !err.contains("s3cret"), "{err}");
        assert!(err.contains("could not connect to the server at ") && err.contains("hint: "), "{err}");
    }
    let noted = mirror.one("SELECT value FROM state WHERE name = 'publish'");
    assert!(noted.contains("could not connect") && !noted.contains("s3cret"), "{noted}");
    // The first one of this database.
    assert!(noted.contains("\"failures\":1"), "{noted}");
    let (code, _, err) = verb(&mirror, "s3cret", &["publish"]);
    assert_eq!(code, Some(78), "{err}");
    assert!(!err.contains("s3cret"), "{err}");
    // Without a URL there is nothing to do.
    let none = Command::new(env!("CARGO_BIN_EXE_crm-mirror")).arg("publish").env_clear().output().unwrap();
    assert_eq!(none.status.code(), Some(78));
}

#[tokio::test]
async fn publish_verb_prints_a_report() {
    let Some(postgres) = Postgres::start().await else { return };
    let (_crm, mirror) = mirrored().await;
    let (code, out, err) = verb(&mirror, &postgres.url(), &["publish", "--json"]);
    assert_eq!(code, Some(0), "{err}");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["loaded"]["contacts"], 12);
    DocumentTable::read("publish", &[0]).check(&[report]);
    let (code, out, _) = verb(&mirror, &postgres.url(), &["publish"]);
    assert!(code == Some(0) && out.contains("sent 0 records"), "{out}");
    assert!(!out.contains("s3cret"), "{out}");
    assert_equal(&mirror, &postgres).await;
}

#[tokio::test]
async fn foreign_tables_are_not_changed() {
    let Some(postgres) = Postgres::start().await else { return };
    let (_crm, mirror) = mirrored().await;
    postgres.run("CREATE SCHEMA crm; CREATE TABLE crm.contacts (id text, mine text)").await;
    let refused = postgres.try_publish(&Postgres::settings(&mirror)).await.unwrap_err();
    assert!(matches!(refused, PublishError::ForeignTable { .. }), "{refused:?}");
    assert_eq!(postgres.one("SELECT count(*) FROM pg_tables WHERE schemaname = 'crm'").await, "1");
}

#[tokio::test]
async fn read_only_database_is_retried_and_an_overtaken_publisher_changes_nothing() {
    let Some(postgres) = Postgres::start().await else { return };
    let (crm, mirror) = mirrored().await;
    postgres.publish(&mirror).await;
    postgres.run(&format!("ALTER DATABASE {} SET default_transaction_read_only = on", postgres.name)).await;
    let refused = postgres.try_publish(&Postgres::settings(&mirror)).await.unwrap_err();
    assert!(matches!(refused, PublishError::Database { failure: DatabaseFailure::Unavailable, .. }), "{refused:?}");
    postgres.run(&format!("SET default_transaction_read_only = off; ALTER DATABASE {} RESET ALL", postgres.name)).await;
    crm.wait(600);
    mirror.sync(&crm).await;
    postgres.publish(&mirror).await;
    assert_equal(&mirror, &postgres).await;
    // Another publisher is in a transaction: that is no failure.
    postgres.run("BEGIN; UPDATE crm.publish_state SET generation = generation + 1").await;
    let (code, _, err) = verb(&mirror, &postgres.url(), &["publish"]);
    assert_eq!(code, Some(75), "{err}");
    assert!(mirror.one("SELECT value FROM state WHERE name = 'publish'").contains("\"failures\":0"));
    postgres.run("COMMIT").await;
    let publish = || async { postgres.try_publish(&Postgres::settings(&mirror)).await };
    let both = tokio::join!(publish(), publish());
    assert!(<[_; 2]>::from(both).iter().all(|ended| matches!(ended, Ok(_) | Err(PublishError::Busy { .. }))));
    assert_equal(&mirror, &postgres).await;
}

#[tokio::test]
async fn what_the_role_may_not_do_is_a_matter_of_the_configuration() {
    let Some(postgres) = Postgres::start().await else { return };
    let (_crm, mirror) = mirrored().await;
    let guest = format!("guest_{}", postgres.name);
    postgres.run(&format!("CREATE ROLE {guest} LOGIN")).await;
    let as_guest = postgres.url().replace("mirror:s3cret@", &format!("{guest}@"));
    let refused = |case: &'static str, url: &str| {
        let (code, out, err) = verb(&mirror, url, &["publish"]);
        assert_eq!(code, Some(78), "{case}: {err}");
        out + &err
    };
    refused("no schema, and none may be created", &as_guest);
    postgres.run("CREATE SCHEMA crm").await;
    refused("no privilege", &as_guest);
    postgres.run(&format!("GRANT USAGE ON SCHEMA crm TO {guest}")).await;
    refused("USAGE", &as_guest);
    postgres.publish(&mirror).await;
    postgres.run(&format!("GRANT SELECT ON ALL TABLES IN SCHEMA crm TO {guest}")).await;
    refused("USAGE and SELECT", &as_guest);
    postgres.run(&format!("GRANT CREATE ON SCHEMA crm TO {guest}")).await;
    assert!(refused("not the owner", &as_guest).contains("permission denied"));
    postgres.run("DROP TABLE crm.team_members; CREATE VIEW crm.team_members AS SELECT 1 AS x").await;
    let message = refused("a view in the place of a table", &postgres.url());
    assert!(message.contains("`team_members` that crm-mirror did not create"), "{message}");
    postgres.run("DROP VIEW crm.team_members").await;
    // The tables are its own, but it can make no other.
    let (role, url) = owning_publisher(&postgres).await;
    let alter = format!("ALTER SCHEMA crm OWNER TO mirror; GRANT USAGE ON SCHEMA crm TO {role}");
    postgres.run(&format!("{alter}; DROP TABLE crm.companies")).await;
    assert!(refused("no new table", &url).contains("permission denied"));
}

/// A B-tree has no entry for a text of 4,000 characters that cannot be compressed, and the list of refused rows names it all the same.
#[tokio::test]
async fn row_whose_key_is_too_long_is_refused_and_stops_no_other() {
    let Some(postgres) = Postgres::start().await else { return };
    let mut random = fastrand::Rng::with_seed(1);
    let long: String = std::iter::repeat_with(|| random.alphanumeric()).take(4_000).collect();
    let mut world = World::new(noon());
    world.create(Object::Contact, &json!({"id": long, "name": "long"}));
    world.create(Object::Contact, &json!({"id": "c1", "name": "short"}));
    let crm = Crm::serve(world).await;
    let mirror = Mirror::one_at_a_time();
    for position in ["first", "second"] {
        crm.sandbox.with_world(|world| {
            for id in [long.as_str(), "c1"] {
                world.edit(Object::Contact, id, &json!({"position": position}));
            }
        });
        crm.wait(600);
        mirror.sync(&crm).await;
        assert_eq!(mirror.count(&format!("contacts WHERE id = '{long}' AND position = '{position}'")), 1);
        let report = postgres.publish(&mirror).await;
        assert!(report.blocked.is_empty(), "{report:?}");
        let refused: Vec<_> = report.refused_rows.iter().map(|row| (row.table.as_str(), row.name.as_str())).collect();
        assert!(refused.contains(&("contacts", long.as_str())), "{refused:?}");
        assert_eq!(report.refused, refused.len() as u64);
        assert_eq!(
            postgres.one("SELECT string_agg(id || position, ',') FROM crm.contacts").await,
            format!("c1{position}")
        );
    }
}

#[tokio::test]
async fn database_that_is_not_utf8_is_refused_before_anything_is_written() {
    let Some(mut postgres) = Postgres::start().await else { return };
    let crm = Crm::serve(generate(5, 3, 1, noon())).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    let name = format!("{}_ascii", postgres.name);
    postgres.administer(&format!("CREATE DATABASE {name} ENCODING 'SQL_ASCII' TEMPLATE template0")).await;
    postgres.name = name;
    let error = postgres.try_publish(&Postgres::settings(&mirror)).await.unwrap_err();
    assert!(error.to_string().ends_with("stores SQL_ASCII, not UTF-8"), "{error}");
    assert_eq!(error.hint(), Some("create the database with ENCODING 'UTF8'"));
}
