//! An unreachable or foreign database: reported in one sentence without the password, and nothing is lost.

use std::process::{Command, Stdio};

use crm_mirror::publish::{DatabaseFailure, PublishError};
use crm_mirror::sandbox::generate;

use crate::documented::DocumentTable;
use crate::equal::assert_equal;
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
        assert!(err.contains("could not connect at ") && err.contains("hint: "), "{err}");
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
}

/// What `check` says of the database.
fn checked(mirror: &Mirror, url: &str) -> (String, String) {
    let (_, out, err) = verb(mirror, url, &["check", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{err}"));
    let finding = document["checks"].as_array().unwrap().iter().find(|found| found["name"] == "publish.database");
    let text = |of: &str| finding.unwrap()[of].as_str().unwrap().to_string();
    (text("state"), text("message"))
}

#[tokio::test]
async fn check_connects_to_the_database_and_changes_nothing() {
    let Some(postgres) = Postgres::start().await else { return };
    let (_crm, mirror) = mirrored().await;
    let things = "SELECT (SELECT count(*) FROM pg_attribute) + (SELECT count(*) FROM pg_namespace)";
    let before = postgres.one(things).await;
    assert_eq!(checked(&Mirror::empty(), &postgres.url()).0, "ok", "before the first copy");
    assert_eq!(checked(&mirror, &postgres.url()).0, "ok");
    assert_eq!(postgres.one(things).await, before);
    let stranger = postgres.url().replace("mirror:s3cret@", "stranger:s3cret@");
    let (state, message) = checked(&mirror, &stranger);
    assert!(state == "fail" && message.contains("stranger") && !message.contains("s3cret"), "{state}: {message}");
}
