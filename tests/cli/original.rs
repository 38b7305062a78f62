//! Which file is the mirror, which WAL is its own, and what makes a copy of it.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::binary::{Ended, Service, TestDir};

fn editing(service: &Service) -> TestDir {
    TestDir::of(service).set("CRM_MIRROR_WRITE_BACK__ENABLED", "true")
}

/// A mirror after a clean end.
fn mirrored() -> (Service, TestDir) {
    let service = Service::with(30, 5);
    let place = editing(&service);
    place.run("sync").done();
    (service, place)
}

const EDITS: &str = "SELECT count(*) FROM outbox";
const EDIT: &str = "UPDATE contacts_full SET timezone = 'Europe/Rome' WHERE id IN (SELECT id FROM contacts LIMIT 3)";
const MIRROR_ID: &str = "SELECT value FROM state WHERE name = 'mirror_id'";

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

/// Changes what the lock file says of the files of the last writer.
fn note(place: &TestDir, change: impl Fn(&mut Value)) {
    let path = place.path("mirror.db.lock");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, line) = text.trim_end_matches('\n').rsplit_once('\n').unwrap();
    let mut last: Value = serde_json::from_str(line).unwrap();
    ["file", "log"].iter().for_each(|of| change(&mut last[of]));
    let (last, width) = (last.to_string(), line.len());
    std::fs::write(&path, format!("{before}\n{last:<width$}\n")).unwrap();
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

/// Of two files of one name, one after the other, each keeps its own WAL and index.
#[test]
fn program_that_has_the_former_file_open_shares_nothing_with_the_next_one() {
    let (_service, place) = mirrored();
    let file = place.path("mirror.db");
    let mut clients = Vec::new();
    for gone in ["first.db", "second.db"] {
        place.run("backup next.db --force").done();
        place.run("sync").done();
        let client = idle(&file);
        assert_eq!(bytes(&place.path("mirror.db-wal")), 0);
        std::fs::rename(&file, place.path(gone)).unwrap();
        std::fs::rename(place.path("next.db"), &file).unwrap();
        place.run("sync").done();
        client.execute_batch(EDIT).unwrap();
        clients.push(client);
        place.run("sync").done();
        assert_eq!(place.ask(EDITS), "0");
        assert_eq!(place.ask("PRAGMA integrity_check"), "ok");
    }
    for client in &clients {
        assert_eq!((found(client, EDITS), found(client, "PRAGMA integrity_check")), ("3".into(), "ok".into()));
    }
    drop(clients);
    place.run("verify --full").done();
    // Both are kept, and belong to the files that were moved away.
    for (left, gone) in [("mirror.db-wal.left", "first.db"), ("mirror.db-wal.left2", "second.db")] {
        std::fs::rename(place.path(left), place.path(&format!("{gone}-wal"))).unwrap();
        assert_eq!(found(&idle(&place.path(gone)), EDITS), "3");
    }
}

/// It has the WAL of the former file, and would go on with it.
#[test]
fn file_that_is_open_with_the_wal_of_another_is_not_written() {
    let (_service, place) = mirrored();
    place.run("backup next.db").done();
    assert_eq!(found(&idle(&place.path("next.db")), "PRAGMA journal_mode = wal"), "wal");
    std::fs::rename(place.path("mirror.db"), place.path("gone.db")).unwrap();
    std::fs::rename(place.path("next.db"), place.path("mirror.db")).unwrap();
    assert_eq!(bytes(&place.path("mirror.db-wal")), 0);
    let client = idle(&place.path("mirror.db"));
    let refused = place.run("sync").code(74).err;
    assert!(refused.contains("mirror.db-wal") && refused.contains("another program"), "{refused}");
    client.execute_batch(EDIT).unwrap();
    drop(client);
    place.run("sync").done();
    place.run("verify --full").done();
    assert_eq!(place.ask("SELECT DISTINCT state FROM outbox"), "held");
}

/// Under timers no process has the mirror open between two runs.
#[test]
fn edit_that_no_writer_takes_over_is_in_the_file_itself() {
    let (_service, place) = mirrored();
    place.run("backup next.db").done();
    // The last connection of another program removes the WAL; the edit makes another one.
    drop(idle(&place.path("mirror.db")));
    assert!(!place.path("mirror.db-wal").exists());
    let id = place.ask("SELECT id FROM contacts ORDER BY id LIMIT 1");
    place.run(&format!("edit contact {id} position=CTO")).done();
    assert_eq!(bytes(&place.path("mirror.db-wal")), 0);
    std::fs::rename(place.path("mirror.db"), place.path("gone.db")).unwrap();
    std::fs::rename(place.path("next.db"), place.path("mirror.db")).unwrap();
    place.run("sync").done();
    place.run("verify --full").done();
    assert_eq!((place.ask(EDITS).as_str(), place.ask("PRAGMA integrity_check").as_str()), ("0", "ok"));
    assert_eq!(found(&idle(&place.path("gone.db")), EDITS), "1");
}

/// Such as one that replicates the mirror: what it keeps in the WAL is on the disk.
#[test]
fn mirror_that_was_closed_while_another_program_read_it_stays_the_same_after_a_reboot() {
    let (_service, place) = mirrored();
    let reading = idle(&place.path("mirror.db"));
    reading.execute_batch("BEGIN").unwrap();
    found(&reading, "SELECT count(*) FROM contacts");
    place.run("sync").done();
    assert!(bytes(&place.path("mirror.db-wal")) > 0);
    drop(reading);
    let id = place.ask(MIRROR_ID);
    // As if the machine had been started again since then.
    note(&place, |file| file["boot"] = json!(file["boot"].as_u64().unwrap() ^ 1));
    let said = place.run("sync").done().err;
    assert_eq!(place.ask(MIRROR_ID), id, "{said}");
}

/// Another version, or another build of it, may have written the lock file.
#[test]
fn mirror_whose_last_writer_knew_less_of_its_file_stays_the_same() {
    let (_service, place) = mirrored();
    let id = place.ask(MIRROR_ID);
    for unknown in ["born", "volume"] {
        note(&place, |file| file[unknown] = Value::Null);
        let said = place.run("sync").done().err;
        assert_eq!(place.ask(MIRROR_ID), id, "{unknown}: {said}");
    }
    note(&place, |file| file["born"] = json!("1"));
    place.run("sync").done();
    assert_ne!(place.ask(MIRROR_ID), id, "the number of a file that was deleted");
}

/// What the kernel numbers anew with each mount, for many file systems, says nothing of a file.
#[test]
fn mirror_whose_file_system_was_mounted_again_stays_the_same() {
    let service = Service::with(30, 5);
    let place = editing(&service).set("CRM_MIRROR_DATABASE__PATH", "here/mirror.db");
    let script = r#"
        mkdir disk here taken
        mount -t tmpfs none disk && mkdir disk/upper disk/work disk/lower || exit 99
        mount -t overlay -o lowerdir=disk/lower,upperdir=disk/upper,workdir=disk/work none here || exit 99
        "$0" sync && stat -c %d here/mirror.db > before
        "$0" sql --format csv "$1" >> before
        umount here
        mount -t tmpfs none taken
        mount -t overlay -o lowerdir=disk/lower,upperdir=disk/upper,workdir=disk/work none here
        "$0" sync && stat -c %d here/mirror.db > after
        "$0" sql --format csv "$1" >> after"#;
    let ours = place.command(&[]);
    let mut apart = Command::new("unshare");
    apart.args(["-rm", "sh", "-c", script]).arg(ours.get_program()).arg(MIRROR_ID).current_dir(place.path(""));
    apart.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    apart.envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let Ok(output) = apart.output() else { return };
    let ended = Ended::from(output);
    if ended.code == Some(99) || ended.err.starts_with("unshare:") {
        return eprintln!("skipped: no file system can be mounted: {}", ended.err);
    }
    let [before, after] = ["before", "after"].map(|name| std::fs::read_to_string(place.path(name)).unwrap());
    let parts = |text: &str| text.split_once('\n').map(|(device, id)| (device.to_string(), id.to_string())).unwrap();
    let [(device, id), (other_device, id_after)] = [before, after].map(|text| parts(&text));
    assert_eq!((device != other_device, id), (true, id_after), "{}", ended.done().err);
}
