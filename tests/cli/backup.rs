//! `backup`: one complete, checked file, which is a mirror with its own identity.

use crm_mirror::store::Store;

use crate::binary::{Ended, Service, TestDir};

fn mirrored() -> (Service, TestDir) {
    let service = Service::with(150, 10);
    let place = TestDir::of(&service).set("CRM_MIRROR_WRITE_BACK__ENABLED", "true");
    place.run("sync").done();
    (service, place)
}

/// The result of a query on a file.
fn ask(place: &TestDir, file: &str, sql: &str) -> String {
    let args = ["sql", "--database", file, "--format", "csv", sql];
    let ended = Ended::from(place.command(&args).output().unwrap()).done();
    ended.out.replace("\r\n", "\n").split_once('\n').unwrap().1.trim_end().to_string()
}

const MIRROR_ID: &str = "SELECT value FROM state WHERE name = 'mirror_id'";

#[test]
fn backup_has_everything_in_one_file_even_during_writes() {
    let (_service, place) = mirrored();
    let before = place.files();
    let writer = Store::open(&place.path("mirror.db")).unwrap();
    let ended = place.run("backup copy.db --json").done();
    drop(writer);
    let copy = std::fs::metadata(place.path("copy.db")).unwrap();
    assert_eq!(ended.json()["bytes"], copy.len());
    let new: Vec<_> = place.files().into_keys().filter(|path| !before.contains_key(path)).collect();
    assert_eq!(new, [place.path("copy.db")], "one file");
    for sql in [
        "SELECT count(*), sum(length(name)) FROM contacts_full",
        "SELECT count(*) FROM contact_search('a')",
        "SELECT count(*), max(seq) FROM changes",
        "SELECT count(*) FROM sync_runs",
    ] {
        assert_eq!(ask(&place, "copy.db", sql), ask(&place, "mirror.db", sql), "{sql}");
    }
    assert_ne!(ask(&place, "copy.db", MIRROR_ID), ask(&place, "mirror.db", MIRROR_ID));
    // The copy can replace the original mirror.
    let restored = place.set("CRM_MIRROR_DATABASE__PATH", "copy.db");
    let planned = restored.run("sync --dry-run").done().err;
    assert!(planned.contains("it is a mirror of its own"), "{planned}");
    restored.run("sync").done();
    restored.run("verify --full").done();
}

#[test]
fn open_edits_are_held_in_the_copy_and_continue_in_the_original() {
    let (_service, place) = mirrored();
    let contact = place.ask("SELECT id FROM contacts ORDER BY id LIMIT 1");
    Ended::from(place.command(&["edit", "contact", &contact, "position=CTO"]).output().unwrap()).done();
    let text = place.run("backup copy.db").done().out;
    assert!(text.contains("1 open edit is held"), "{text}");
    assert_eq!(ask(&place, "copy.db", "SELECT state, body IS NULL FROM outbox"), "held,1");
    assert_eq!(ask(&place, "copy.db", "SELECT to_state FROM outbox_events ORDER BY id DESC LIMIT 1"), "held");
    assert_eq!(place.ask("SELECT state FROM outbox"), "queued");
}

/// A pause and what people were told are about the daemon of the original, at the time of the copy.
#[test]
fn copy_is_not_paused_and_nobody_was_told_of_its_troubles() {
    let (_service, place) = mirrored();
    let original = rusqlite::Connection::open(place.path("mirror.db")).unwrap();
    let paused = "INSERT INTO state (name, value) VALUES ('paused_since', '\"2026-03-04T12:00:00Z\"'), ('reported', '{\"open\": {}}')";
    original.execute_batch(paused).unwrap();
    place.run("backup copy.db").done();
    let states = "SELECT count(*) FROM state WHERE name IN ('paused_since', 'reported')";
    assert_eq!([ask(&place, "mirror.db", states), ask(&place, "copy.db", states)], ["2", "0"]);
}

#[test]
fn backup_overwrites_only_with_force_and_never_the_mirror() {
    let (_service, place) = mirrored();
    std::fs::write(place.path("notes.txt"), "mine").unwrap();
    std::os::unix::fs::symlink("mirror.db", place.path("link.db")).unwrap();
    std::fs::create_dir(place.path("folder")).unwrap();
    // A reader writes its mark into the WAL index.
    let files = || place.files().into_iter().filter(|(path, _)| !path.ends_with("mirror.db-shm")).collect::<Vec<_>>();
    let before = files();
    for (line, code, part) in [
        ("backup mirror.db", 2, "is the mirror itself"),
        ("backup ./mirror.db --force", 2, "is the mirror itself"),
        ("backup link.db --force", 2, "is the mirror itself"),
        ("backup mirror.db-wal --force", 2, "or one of its files"),
        ("backup mirror.db-journal", 2, "or one of its files"),
        ("backup notes.txt", 2, "hint: choose another file, or pass `--force`"),
        ("backup folder --force", 74, "is a directory"),
        ("backup gone/copy.db", 74, "could not use"),
        ("backup copy.db --database notes.txt", 74, "is not a mirror"),
        ("backup copy.db --database none.db", 74, "there is no mirror"),
        ("backup", 2, "FILE"),
    ] {
        let ended = place.run(line).code(code);
        assert!(ended.err.to_lowercase().contains(&part.to_lowercase()), "{line}: {}", ended.err);
        assert_eq!(files(), before, "{line}");
    }
    place.run("backup notes.txt --force").done();
    assert_eq!(ask(&place, "notes.txt", "SELECT count(*) FROM contacts"), "150");
}

#[test]
fn only_the_newest_copies_of_a_folder_are_kept() {
    let (_service, place) = mirrored();
    let folder = place.path("copies");
    std::fs::create_dir(&folder).unwrap();
    let others = [
        "mirror-20260101T000000Z.db",
        "mirror-20260102T000000Z.db",
        // Of a clock that was ahead.
        "mirror-20990101T000000Z.db",
        "mirror-20990102T000000Z.db",
        "mirror-2026.db",
        "other-20260101T000000Z.db",
        "mirror-+2026101T010101Z.db",
    ];
    others.iter().for_each(|name| std::fs::write(folder.join(name), "x").unwrap());
    // What a killed backup left, what another one writes now, and a file of a person.
    let unfinished = ["mirror-20260101T000000Z.db.0123456789abcdef.new", "mirror-20260102T000000Z.db.00.new"];
    let theirs = "mirror-20260101.db.new";
    let two_days_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(48 * 3600);
    for (name, at) in [(unfinished[0], Some(two_days_ago)), (unfinished[1], None), (theirs, Some(two_days_ago))] {
        let file = std::fs::File::create(folder.join(name)).unwrap();
        at.into_iter().for_each(|at| file.set_modified(at).unwrap());
    }
    let made = place.run("backup --keep 2 copies --json").done().json();
    assert_eq!(made["removed"], serde_json::json!([&unfinished[..1], &others[..3]].concat()));
    let file = made["file"].as_str().unwrap();
    assert_eq!(ask(&place, file, "SELECT count(*) FROM contacts"), "150");
    let left = std::fs::read_dir(&folder).unwrap().count();
    assert_eq!(left, 7, "the new copy, the newest other one, and what is none");
    assert!([unfinished[1], theirs].iter().all(|name| folder.join(name).exists()));
    assert!(place.run("backup --keep 1 nowhere").code(74).err.contains("nowhere"));
}

/// Edits wait in the WAL of a file, which SQLite finds by its name.
#[test]
fn copy_that_somebody_edited_is_replaced_and_removed_with_its_wal() {
    let (service, place) = mirrored();
    let contact = place.ask("SELECT id FROM contacts ORDER BY id LIMIT 1");
    let edit = |file: &str| {
        // What a program reads keeps the edit in the WAL, and its end too.
        let reading = rusqlite::Connection::open(place.path(file)).unwrap();
        reading.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
        reading.pragma_update(None, "journal_mode", "wal").unwrap();
        reading.execute_batch("BEGIN").unwrap();
        reading.query_row("SELECT count(*) FROM contacts", [], |_| Ok(())).unwrap();
        let args = ["edit", "contact", &contact, "position=CTO", "--database", file];
        Ended::from(place.command(&args).output().unwrap()).done();
        assert!(std::fs::metadata(place.path(&format!("{file}-wal"))).unwrap().len() > 0);
    };
    std::fs::create_dir(place.path("copies")).unwrap();
    place.run("backup copy.db").done();
    let old = place.run("backup --keep 1 copies --json").done().json()["file"].as_str().unwrap().to_string();
    edit("copy.db");
    edit(&old);
    service.sandbox.with_world(|world| {
        for id in world.ids(crm_mirror::model::Resource::Contacts).iter().take(100) {
            world.edit(crm_mirror::model::Object::Contact, id, &serde_json::json!({ "name": "Changed ".repeat(9) }));
        }
    });
    place.run("sync").done();
    place.run("backup copy.db --force").done();
    assert_eq!(ask(&place, "copy.db", "PRAGMA integrity_check"), "ok");
    for sql in ["SELECT count(*), sum(length(name)) FROM contacts_full", "SELECT count(*) FROM outbox"] {
        assert_eq!(ask(&place, "copy.db", sql), ask(&place, "mirror.db", sql), "{sql}");
    }
    // Its name has the second in which it was made.
    let earlier = place.path("copies/mirror-20260101T000000Z.db");
    for suffix in ["", "-wal", "-shm"] {
        let path = place.path(&format!("{old}{suffix}"));
        std::fs::rename(path, crm_mirror::store::beside(&earlier, suffix)).unwrap();
    }
    place.run("backup --keep 1 copies").done();
    assert_eq!(std::fs::read_dir(place.path("copies")).unwrap().count(), 1);
    let writer = Store::open(&place.path("copy.db")).unwrap();
    assert!(place.run("backup copy.db --force").code(74).err.contains("is writing"));
    drop(writer);
}

/// Under two names it would have two locks and two WALs.
#[test]
fn file_with_a_second_name_is_written_under_none() {
    let (_service, place) = mirrored();
    std::fs::create_dir(place.path("other")).unwrap();
    std::fs::hard_link(place.path("mirror.db"), place.path("other/mirror.db")).unwrap();
    let id = place.ask("SELECT id FROM contacts LIMIT 1");
    let place = place.set("CRM_MIRROR_DATABASE__PATH", "other/mirror.db");
    for verb in ["sync", &format!("edit contact {id} position=CTO")] {
        let refused = place.run(verb).code(74).err;
        assert!(refused.contains("has a second name"), "{verb}: {refused}");
    }
    // It can be read, and nothing is made beside it.
    assert_eq!(place.ask("SELECT count(*) FROM contacts"), "150");
    let beside: Vec<_> =
        std::fs::read_dir(place.path("other")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!beside.iter().any(|name| ["mirror.db-wal", "mirror.db-shm"].iter().any(|log| name == log)), "{beside:?}");
    std::fs::remove_file(place.path("other/mirror.db")).unwrap();
    place.set("CRM_MIRROR_DATABASE__PATH", "mirror.db").run("sync").done();
}
