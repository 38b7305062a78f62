//! `export`: the stream beside a writer, and to a reader that goes away.

use std::process::Stdio;

use rusqlite::Connection;

use crate::binary::{Ended, Service, TestDir};

#[test]
fn export_works_during_writes_and_ends_silently_if_stdout_is_closed() {
    let service = Service::with(450, 4);
    let place = TestDir::of(&service);
    place.run("sync").done();
    place.run("export").code(2);
    let lines = || {
        let out = place.run("export --snapshot").done().out;
        out.lines().filter(|line| line.starts_with("{\"upsert\":\"changes\"")).count()
    };
    let before = lines();
    let mut conn = Connection::open(place.path("mirror.db")).unwrap();
    conn.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    let tx = conn.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
    let sql = "INSERT INTO changes (object_type, record_id, kind, fields, seen_at)
               VALUES ('contact', 'x', 'remove', '{}', '')";
    tx.execute(sql, []).unwrap();
    // Uncommitted changes are invisible.
    assert_eq!(lines(), before);
    tx.commit().unwrap();
    assert_eq!(lines(), before + 1);
    let mut command = place.command(&["export", "--snapshot"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let ended = Ended::from(child.wait_with_output().unwrap()).done();
    assert!(ended.err.is_empty(), "{}", ended.err);
}
