//! `status`: from the file alone, also while another process writes it.

use crm_mirror::store::Store;
use serde_json::json;

use crate::binary::{Ended, Place, Service};

#[test]
fn without_a_mirror_it_says_so() {
    let place = Place::empty();
    let ended = place.run("status").code(74);
    assert_eq!(ended.err, "error: there is no mirror at mirror.db yet\nhint: `crm-mirror sync` makes the first copy\n");
    assert!(place.files().is_empty());
}

#[test]
fn it_tells_what_is_here_and_asks_nothing() {
    let service = Service::with(130, 12);
    let place = Place::of(&service);
    place.run("sync").done();
    let spent = service.sandbox.log().ru().get();
    service.sandbox.clear_log();
    // Another process may have it open for writing; neither key nor address is needed.
    let writer = Store::open(&place.path("mirror.db")).unwrap();
    let place = place.unset("CRM_MIRROR_API__KEY").unset("CRM_MIRROR_API__BASE_URL");
    let text = place.run("status").done().out;
    let status = place.run("status --json").done().json();
    drop(writer);
    assert!(service.sandbox.log().is_empty());
    for part in ["contacts", "130", "companies", "team-members", "custom-fields", "just now", "RU  "] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(text.lines().all(|line| line.len() <= 120), "{text}");
    let contacts = &status["objects"][0];
    assert_eq!(contacts["object"], "contacts");
    assert_eq!((&contacts["rows"], &contacts["details_current"]), (&json!(130), &json!(130)));
    assert_eq!((&contacts["details_pending"], &contacts["removed"]), (&json!(0), &json!(0)));
    assert!(contacts["complete_as_of"].as_str().unwrap().ends_with('Z'));
    assert_eq!(status["ru"]["total"], json!(spent));
    assert_eq!(status["runs"][0]["outcome"], "done");
    assert!(status["bytes"].as_u64().unwrap() > 100_000);
}

#[test]
fn a_file_that_is_no_mirror_is_left_alone() {
    let place = Place::empty();
    std::fs::write(place.path("notes.txt"), "notes").unwrap();
    let before = place.files();
    let ended = place.run("status --database notes.txt").code(74);
    assert!(ended.err.contains("notes.txt is not a mirror"), "{}", ended.err);
    assert_eq!(place.files(), before);
}

#[test]
fn a_wal_that_somebody_keeps_from_being_emptied_is_named_with_its_cure() {
    let service = Service::with(20, 2);
    let place = Place::of(&service);
    place.run("sync").done();
    assert!(!place.run("status").done().out.contains("large:"));
    // SQLite passes over what follows its last frame, so a hole of this size is as good as frames.
    let wal = std::fs::File::options().write(true).open(place.path("mirror.db-wal")).unwrap();
    wal.set_len(300 << 20).unwrap();
    let told = place.run("status").done().out;
    for part in ["WAL 300.0 MiB", "large: the WAL, 300.0 MiB, ", "`fuser -v mirror.db-shm`", "end that program"] {
        assert!(told.contains(part), "{part}\n{told}");
    }
    assert_eq!(place.run("status --json").done().json()["wal_bytes"], json!(300 << 20));
    place.run("sync").done();
    let told = place.run("status").done().out;
    assert!(!told.contains("large:") && !told.contains("WAL"), "{told}");
}

#[test]
fn max_age_has_a_code_for_each_state() {
    let service = Service::with(20, 2);
    let place = Place::of(&service);
    assert!(place.run("status --max-age 15m").code(1).err.contains("there is no mirror"));
    for wrong in ["15", "soon", "-1m", "99999999999999999999d", "5 parsecs"] {
        let ended = Ended::from(place.command(&["status", "--max-age", wrong]).output().unwrap());
        assert_eq!(ended.code, Some(2), "{wrong}");
    }
    place.run("sync").done();
    assert_eq!(place.run("status --max-age 15m").done().err, "");
    assert!(place.run("status --max-age 0").code(1).err.contains("stale: "));
    assert_eq!(place.run("status --max-age 0 --json").code(1).json()["fresh"], json!(false));
    let poor = place.set("CRM_MIRROR_BUDGET__LIMIT", "1");
    assert!(poor.run("status --max-age 0").code(75).err.contains("waiting for a rate limit or the budget"));
    poor.run("status --max-age 1h").done();
}

#[test]
fn a_list_that_is_not_mirrored_is_never_stale() {
    let service = Service::with(20, 2);
    let place = Place::of(&service).set("CRM_MIRROR_SYNC__OBJECTS", "contacts");
    place.run("sync").done();
    place.run("status --max-age 1h").done();
    let all = place.unset("CRM_MIRROR_SYNC__OBJECTS");
    all.run("status --max-age 1h").code(1);
}

#[test]
fn a_killed_daemon_is_told_from_none() {
    let service = Service::with(20, 2);
    let place = Place::of(&service);
    place.run("sync").done();
    assert!(place.run("status").done().out.contains("daemon   not running"));
    assert_eq!(place.run("status --json").done().json()["daemon_state"], "none");
    drop(std::os::unix::net::UnixListener::bind(place.path("mirror.db.sock")).unwrap());
    assert!(place.run("status").done().out.contains("daemon   was killed"));
    assert_eq!(place.run("status --json").done().json()["daemon_state"], "killed");
}
