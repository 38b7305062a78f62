//! Which file is the mirror, which WAL is its own, and what makes a copy of it.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use rusqlite::Connection;

use crate::binary::{Service, TestDir};

fn editing(service: &Service) -> TestDir {
    TestDir::of(service).set("CRM_MIRROR_WRITE_BACK__ENABLED", "true")
}

const EDITS: &str = "SELECT count(*) FROM outbox";
const EDIT: &str = "UPDATE contacts_full SET timezone = 'Europe/Rome' WHERE id IN (SELECT id FROM contacts LIMIT 3)";
/// A program that has the mirror open and does nothing.
fn idle(file: &Path) -> Connection {
    let client = Connection::open(file).unwrap();
    found(&client, "SELECT count(*) FROM contacts");
    client
}

fn found(conn: &Connection, sql: &str) -> String {
    let value: rusqlite::types::Value = conn.query_row(sql, [], |row| row.get(0)).unwrap();
    match value {
        rusqlite::types::Value::Integer(number) => number.to_string(),
        rusqlite::types::Value::Text(text) => text,
        other => panic!("{other:?}"),
    }
}

fn bytes(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().len()
}

/// SQLite keeps the WAL beside the file itself, and so is everything else.
#[test]
fn mirror_at_a_link_is_the_file_that_the_link_names() {
    let service = Service::with(30, 5);
    let place = editing(&service).set("CRM_MIRROR_DATABASE__PATH", "links/mirror.db");
    for folder in ["links", "real"] {
        std::fs::create_dir(place.path(folder)).unwrap();
    }
    symlink("again.db", place.path("links/mirror.db")).unwrap();
    symlink("../real/mirror.db", place.path("links/again.db")).unwrap();
    let file = place.path("real/mirror.db");
    // The link names a file that does not exist yet.
    place.run("sync").done();
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    let client = idle(&file);
    client.execute_batch(EDIT).unwrap();
    assert!(bytes(&place.path("real/mirror.db-wal")) > 0);
    assert_eq!(place.ask(EDITS), "3", "they are in its WAL");
    place.run("backup copy.db").done();
    assert_eq!(found(&idle(&place.path("copy.db")), EDITS), "3");
    // By either name it is the same mirror.
    place.run("outbox drop 1 --yes").done();
    let place = place.set("CRM_MIRROR_DATABASE__PATH", "real/mirror.db");
    assert_eq!(place.ask("SELECT state FROM outbox ORDER BY id"), "dropped\nqueued\nqueued");
    let place = place.set("CRM_MIRROR_DATABASE__PATH", "links/mirror.db");
    let dropped = place.run("outbox drop --all --yes --json").done();
    assert_eq!(place.ask("SELECT count(*) FROM outbox WHERE state = 'dropped'"), "3", "{}", dropped.out);
    drop(client);
    // What takes its place gets none of its WAL.
    std::fs::rename(&file, place.path("real/gone.db")).unwrap();
    std::fs::rename(place.path("copy.db"), &file).unwrap();
    place.run("sync").done();
    place.run("verify --full").done();
    assert_eq!(place.ask("SELECT DISTINCT state FROM outbox"), "held");
    assert_eq!(std::fs::read_dir(place.path("links")).unwrap().count(), 2, "nothing is beside a link");
}
