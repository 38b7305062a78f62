//! `export`: the change feed by its cursor.

use std::process::Stdio;

use crm_mirror::model::{Object, Resource};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::binary::{Ended, Service, TestDir};

/// A mirror with `edits` changed contacts and one changed company after its first copy.
fn changed(edits: usize) -> (Service, TestDir) {
    let service = Service::with(edits + 10, 4);
    let place = TestDir::of(&service).set("CRM_MIRROR_SYNC__DETAILS", "off");
    place.run("sync").done();
    edit(&service, edits, "say \"hi\",\nthen leave");
    place.run("sync").done();
    (service, place)
}

fn edit(service: &Service, edits: usize, position: &str) {
    service.sandbox.with_world(|world| {
        for id in world.ids(Resource::Contacts).iter().take(edits) {
            world.edit(Object::Contact, id, &json!({"position": position}));
        }
        let company = world.ids(Resource::Companies)[0].clone();
        world.edit(Object::Company, &company, &json!({"industry": position}));
    });
}

fn lines(ended: &Ended) -> Vec<Value> {
    ended.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn cursor(ended: &Ended) -> i64 {
    let line = ended.err.lines().last().unwrap();
    line.strip_prefix("cursor: ").unwrap().split(':').nth(1).unwrap().parse().unwrap()
}

/// The cursor after a change of this mirror.
fn at(place: &TestDir, seq: i64) -> String {
    let id = place.ask("SELECT json_extract(value, '$') FROM state WHERE name = 'mirror_id'");
    format!("{}:{seq}", id.trim())
}

#[test]
fn feed_is_complete_and_in_order() {
    // More than one slice.
    let (_service, place) = changed(450);
    let ended = place.run("export --since 0").done();
    let found = lines(&ended);
    assert_eq!(found.len(), 451);
    for (place, line) in found.iter().enumerate() {
        assert_eq!(line["seq"], place + 1);
    }
    assert_eq!(found[0]["kind"], "update");
    assert_eq!(found[0]["fields"]["position"][1], "say \"hi\",\nthen leave");
    assert_eq!(cursor(&ended), 451);
    assert!(place.run("export --print-cursor").done().out.starts_with(&at(&place, 451)));
    let stored = place.ask("SELECT fields FROM changes WHERE seq = 7");
    let raw: Value = serde_json::from_str(&stored.trim_matches('"').replace("\"\"", "\"")).unwrap();
    assert_eq!(found[6]["fields"], raw);
}

#[test]
fn follower_with_a_cursor_misses_and_repeats_nothing() {
    let (service, place) = changed(30);
    let mut seen = Vec::new();
    let mut since = 0;
    for round in 0..4 {
        let ended = place.run(&format!("export --since {}", at(&place, since))).done();
        seen.extend(lines(&ended).iter().map(|line| line["seq"].as_i64().unwrap()));
        since = cursor(&ended);
        if round == 2 {
            edit(&service, 5, "CFO");
            place.run("sync").done();
        }
    }
    assert_eq!(seen, (1..=since).collect::<Vec<_>>());
    assert_eq!(since, 37);
    let nothing = place.run(&format!("export --since {}", at(&place, 37))).done();
    assert_eq!((nothing.out.as_str(), cursor(&nothing)), ("", 37));
}

#[test]
fn pruned_changes_are_reported_and_never_skipped() {
    let (_service, place) = changed(9);
    let conn = Connection::open(place.path("mirror.db")).unwrap();
    // As retention prunes.
    conn.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    conn.execute("DELETE FROM changes WHERE seq <= 4", []).unwrap();
    for since in [0, 3] {
        let ended = place.run(&format!("export --since {}", at(&place, since))).code(74);
        assert!(ended.out.is_empty(), "{}", ended.out);
        let message = format!("the changes {} to 4 were pruned", since + 1);
        assert!(ended.err.contains(&message) && ended.err.contains("hint: "), "{}", ended.err);
    }
    assert_eq!(lines(&place.run(&format!("export --since {}", at(&place, 4))).done()).len(), 6);
    conn.execute("DELETE FROM changes", []).unwrap();
    place.run(&format!("export --since {}", at(&place, 9))).code(74);
    assert_eq!(cursor(&place.run(&format!("export --since {}", at(&place, 10))).done()), 10);
    // A cursor of a different mirror.
    let ended = place.run("export --since another:10").code(74);
    assert!(ended.err.contains("the mirror another"), "{}", ended.err);
    // A cursor of a copy of this mirror that diverged.
    for diverged in [at(&place, 11), format!("{}:00000000", at(&place, 10))] {
        conn.execute("INSERT OR IGNORE INTO changes VALUES (10, 'contact', 'x', 'remove', '{}', '')", []).unwrap();
        let ended = place.run(&format!("export --since {diverged}")).code(74);
        assert!(ended.err.contains("with a different history"), "{}", ended.err);
    }
    place.run("export --since 7").code(2);
}

#[test]
fn new_mirror_has_an_empty_feed() {
    let service = Service::with(5, 1);
    let place = TestDir::of(&service);
    place.run("sync").done();
    let ended = place.run("export --since 0").done();
    assert_eq!((ended.out.as_str(), cursor(&ended)), ("", 0));
    assert_eq!(place.run("export --print-cursor").done().out, format!("{}\n", at(&place, 0)));
    place.run("export").code(2);
    place.run("export --since -1").code(2);
}

#[test]
fn export_works_during_writes_and_ends_silently_if_stdout_is_closed() {
    let (_service, place) = changed(450);
    let mut conn = Connection::open(place.path("mirror.db")).unwrap();
    conn.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    let tx = conn.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
    let sql = "INSERT INTO changes (object_type, record_id, kind, fields, seen_at)
               VALUES ('contact', 'x', 'remove', '{}', '')";
    tx.execute(sql, []).unwrap();
    // Uncommitted changes are invisible.
    assert_eq!(cursor(&place.run("export --since 0").done()), 451);
    tx.commit().unwrap();
    assert_eq!(lines(&place.run(&format!("export --since {}", at(&place, 451))).done())[0]["record_id"], "x");
    let mut command = place.command(&["export", "--since", "0"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let ended = Ended::from(child.wait_with_output().unwrap()).done();
    assert!(ended.err.is_empty(), "{}", ended.err);
}
