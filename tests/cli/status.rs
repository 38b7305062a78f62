//! `status`: from the file alone, also while another process writes it.

use std::os::unix::fs::PermissionsExt;

use crm_mirror::model::{Object, Resource};
use crm_mirror::sandbox::{Fault, Rule, SCOPES};
use crm_mirror::store::Store;
use serde_json::{Value, json};

use crate::binary::{Ended, SECRET, Service, TestDir};

#[test]
fn status_without_a_mirror_reports_it() {
    let place = TestDir::empty();
    let ended = place.run("status").code(74);
    assert_eq!(
        ended.err,
        "error: there is no mirror at mirror.db yet\nhint: run `crm-mirror sync` to make the first copy\n"
    );
    assert!(place.files().is_empty());
}

#[test]
fn status_shows_the_contents_and_sends_nothing() {
    let service = Service::with(130, 12);
    let place = TestDir::of(&service);
    place.run("sync").done();
    let spent = service.sandbox.log().ru().get();
    service.sandbox.clear_log();
    // Another process may have the mirror open for writing; neither key nor address is needed.
    let writer = Store::open(&place.path("mirror.db")).unwrap();
    let place = place.unset("CRM_MIRROR_API__KEY").unset("CRM_MIRROR_API__BASE_URL");
    let text = place.run("status").done().out;
    let status = place.run("status --json").done().json();
    drop(writer);
    assert!(service.sandbox.log().is_empty());
    for part in ["contacts", "130", "companies", "team-members", "custom-fields", "RU  "] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    // A slow machine needs more than a moment between the two commands.
    assert!(text.contains("just now") || text.contains(" ago"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
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
fn undecided_removals_and_short_lists_that_wait_are_shown() {
    let service = Service::with(20, 3);
    let place = TestDir::of(&service);
    place.run("sync").done();
    let clean = place.run("status --json").done().json();
    assert!(clean["objects"].as_array().unwrap().iter().all(|object| object["undecided"].is_null()), "{clean}");
    let team = clean["objects"][2]["rows"].as_u64().unwrap();
    service.sandbox.with_world(|world| {
        for id in world.ids(Resource::Companies) {
            world.remove(Object::Company, &id);
        }
        let member = world.ids(Resource::TeamMembers)[0].clone();
        world.remove(Resource::TeamMembers, &member);
    });
    // No company is left that could prove that the others are gone, and one list proves nothing about a member.
    place.run("resync");
    let status = place.run("status --json").done().json();
    let objects = &status["objects"];
    assert_eq!((&objects[1]["rows"], &objects[1]["undecided"]["items"]), (&json!(3), &json!(3)));
    assert_eq!((&objects[1]["outage"]["going"], &objects[1]["outage"]["of"]), (&json!(3), &json!(3)));
    assert_eq!(
        (&objects[2]["rows"], &objects[2]["undecided"]),
        (&json!(team), &json!({"items": 1, "next_lookup": null}))
    );
    let text = place.run("status").done().out;
    for part in [
        "\nrefused: 3 of 3 companies would be removed at once",
        "\nundecided: 1 item of team-members",
        "by a list an hour later",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let synced = || {
        place.run("sync");
        let members = place.run("status --json").done().json()["objects"][2].take();
        (members["rows"].clone(), members["undecided"]["items"].clone())
    };
    assert_eq!(synced(), (json!(team), json!(1)), "two lists of one moment are one piece of evidence");
    let earlier = |column: &str| {
        format!("{column} = strftime('%Y-%m-%dT%H:%M:%S', {column}, '-61 minutes') || substr({column}, 20)")
    };
    let an_hour_ago =
        format!("UPDATE doubts SET {}, {} WHERE why = 'unlisted'", earlier("first_seen"), earlier("not_before"));
    let file = rusqlite::Connection::open(place.path("mirror.db")).unwrap();
    assert_eq!(file.execute(&an_hour_ago, []).unwrap(), 1);
    assert_eq!(synced(), (json!(team - 1), json!(null)));
}

#[test]
fn file_that_is_not_a_mirror_is_not_changed() {
    let place = TestDir::empty();
    std::fs::write(place.path("notes.txt"), "notes").unwrap();
    let before = place.files();
    let ended = place.run("status --database notes.txt").code(74);
    assert!(ended.err.contains("notes.txt is not a mirror"), "{}", ended.err);
    assert_eq!(place.files(), before);
}

#[test]
fn large_wal_is_reported_with_its_fix() {
    let service = Service::with(20, 2);
    let place = TestDir::of(&service);
    place.run("sync").done();
    assert!(!place.run("status").done().out.contains("large:"));
    // SQLite ignores everything after the last frame, so a hole of this size counts like frames.
    let wal = std::fs::File::options().write(true).open(place.path("mirror.db-wal")).unwrap();
    wal.set_len(300 << 20).unwrap();
    let text = place.run("status").done().out;
    for part in ["WAL 300.0 MiB", "large: the WAL, 300.0 MiB, ", "`fuser -v mirror.db-shm`", "end that program"] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert_eq!(place.run("status --json").done().json()["wal_bytes"], json!(300 << 20));
    place.run("sync").done();
    let text = place.run("status").done().out;
    assert!(!text.contains("large:") && !text.contains("WAL"), "{text}");
}

#[test]
fn max_age_has_an_exit_code_for_each_state() {
    let service = Service::with(20, 2);
    let place = TestDir::of(&service);
    let probe = |place: &TestDir, line: &str, code: i32| {
        let ended = place.run(&format!("status --max-age {line}")).code(code);
        assert_eq!((ended.out.lines().count(), ended.err.as_str()), (1, ""), "{}", ended.out);
        ended.out
    };
    assert_eq!(probe(&place, "15m", 1), "stale: there is no mirror at mirror.db yet\n");
    for wrong in ["15", "soon", "-1m", "99999999999999999999d", "5 parsecs"] {
        let ended = Ended::from(place.command(&["status", "--max-age", wrong]).output().unwrap());
        assert_eq!(ended.code, Some(2), "{wrong}");
    }
    place.run("sync").done();
    assert!(probe(&place, "15m", 0).starts_with("fresh: contacts "));
    assert!(probe(&place, "0", 1).starts_with("stale: not all newer than "));
    assert_eq!(place.run("status --max-age 0 --json").code(1).json()["fresh"], json!(false));
    // How the last run ended says nothing about whether one may start now.
    let mirror = rusqlite::Connection::open(place.path("mirror.db")).unwrap();
    mirror.execute_batch("UPDATE sync_runs SET outcome = 'suspended'").unwrap();
    probe(&place, "0", 1);
    let poor = place.set("CRM_MIRROR_BUDGET__LIMIT", "10");
    assert!(probe(&poor, "0", 75).contains("waiting for a rate limit or the budget"));
    probe(&poor, "1h", 0);
}

#[test]
fn unmirrored_list_is_never_stale() {
    let service = Service::with(20, 2);
    let place = TestDir::of(&service).set("CRM_MIRROR_SYNC__OBJECTS", "contacts");
    place.run("sync").done();
    place.run("status --max-age 1h").done();
    let all = place.unset("CRM_MIRROR_SYNC__OBJECTS");
    all.run("status --max-age 1h").code(1);
}

#[test]
fn status_asks_for_nothing_of_what_is_not_mirrored() {
    let service = Service::with(20, 2);
    service.sandbox.set_key(SECRET, &["contacts:read", "team-members:read"]);
    let place = TestDir::of(&service);
    place.run("sync").done();
    let lacking = |place: &TestDir| {
        let status = place.run("status --json").done().json();
        let missing = status["missing_scopes"].as_array().unwrap();
        Vec::from_iter(missing.iter().map(|missing| missing["object"].as_str().unwrap().to_string()))
    };
    assert_eq!(lacking(&place), ["companies", "custom-fields"]);
    // The definitions are read with every list of records.
    let place = place.set("CRM_MIRROR_SYNC__OBJECTS", "contacts");
    assert_eq!(lacking(&place), ["custom-fields"]);
    let place = place.set("CRM_MIRROR_SYNC__OBJECTS", "team-members");
    assert_eq!(lacking(&place), Vec::<String>::new());
    assert_eq!(place.run("status --json").done().json()["objects"][0]["details_pending"], json!(null));
}

#[test]
fn scope_for_edits_is_missed_while_an_edit_waits() {
    let service = Service::with(12, 3);
    let place = TestDir::of(&service).set("CRM_MIRROR_WRITE_BACK__ENABLED", "true");
    place.run("sync").done();
    let scopes: Vec<&str> = SCOPES.into_iter().filter(|scope| *scope != "contacts:write").collect();
    service.sandbox.set_key(SECRET, &scopes);
    let id = place.ask("SELECT id FROM contacts ORDER BY id LIMIT 1");
    Ended::from(place.command(&["edit", "contact", &id, "position=Ours"]).output().unwrap()).done();
    place.run("sync").code(0);
    let text = place.run("status").done().out;
    assert!(text.contains("missing: the key lacks `contacts:write`; edits of contacts are waiting\n"), "{text}");
    place.run("outbox drop --all --yes").done();
    let text = place.run("status").done().out;
    assert!(!text.contains("missing: "), "{text}");
    assert_eq!(place.run("status --json").done().json()["missing_scopes"], json!([]));
}

#[test]
fn status_shows_progress_of_any_process() {
    let service = Service::with(900, 2);
    let place = TestDir::of(&service).set("CRM_MIRROR_BUDGET__LIMIT", "10").set("CRM_MIRROR_SYNC__SCHEDULE", "off");
    place.run("sync").code(75);
    assert_eq!(place.run("status --json").done().json()["running"], json!(null));
    let conn = rusqlite::Connection::open(place.path("mirror.db")).unwrap();
    conn.execute_batch("UPDATE sync_runs SET outcome = NULL, finished_at = NULL").unwrap();
    // Without a writing process the run was killed.
    assert_eq!(place.run("status --json").done().json()["running"], json!(null));
    let writer = Store::open(&place.path("mirror.db")).unwrap();
    let found = place.run("status --json").done().json()["running"].clone();
    assert_eq!(found, json!({"pid": std::process::id(), "run": 1}));
    let sweep = &place.run("status --json").done().json()["objects"][0]["sweep"];
    assert_eq!((&sweep["first_copy"], &sweep["total"]), (&json!(true), &json!(900)));
    let rows = sweep["rows"].as_u64().unwrap();
    assert!((100..900).contains(&rows), "{sweep}");
    let text = place.run("status").done().out;
    assert!(text.contains(&format!(", {rows} of 900 rows so far\n")), "{text}");
    assert!(text.contains(&format!("process {}: sync", std::process::id())), "{text}");
    drop(writer);
}

#[test]
fn status_shows_the_history_horizon_and_a_pause() {
    let service = Service::with(20, 2);
    let place = TestDir::of(&service);
    place.run("sync").done();
    let status = place.run("status --json").done().json();
    // With the end of the first copy, which has no entries.
    let time = |value: &Value| value.as_str().unwrap().to_string();
    let run = &status["runs"][0];
    let since = time(&status["history_since"]);
    assert!(time(&run["started_at"]) < since && since <= time(&run["finished_at"]), "{status}");
    assert!(place.run("status").done().out.contains("history  every change since 20"));
    // The stored pause outlives the daemon.
    let conn = rusqlite::Connection::open(place.path("mirror.db")).unwrap();
    conn.execute_batch("INSERT INTO state VALUES ('paused_since', '\"2026-01-02T03:04:05Z\"')").unwrap();
    assert!(place.run("status").done().out.contains("paused   since 20"));
    assert!(place.run("status --json").done().json()["paused_since"].is_string());
}

#[test]
fn killed_daemon_is_not_running() {
    let service = Service::with(20, 2);
    let place = TestDir::of(&service);
    place.run("sync").done();
    assert!(place.run("status").done().out.contains("daemon   not running"));
    assert_eq!(place.run("status --json").done().json()["daemon_state"], "none");
    drop(std::os::unix::net::UnixListener::bind(place.path("mirror.db.sock")).unwrap());
    assert!(place.run("status").done().out.contains("daemon   not running"));
    assert_eq!(place.run("status --json").done().json()["daemon_state"], "none");
}

#[test]
fn status_without_a_daemon_says_why_nothing_runs() {
    let service = Service::with(20, 2);
    let place = TestDir::of(&service);
    place.run("sync").done();
    let said = |part: &str| {
        let text = place.run("status").done().out;
        assert!(text.contains(part), "{part}\n{text}");
    };
    said("daemon   not running; `crm-mirror daemon` starts it");
    service.sandbox.faults().add(Rule::new(Fault::Wait { status: 429, body: Some(3600), header: None }));
    place.run("sync").code(75);
    said("hold     rate limit: no request before ");
    said("; `crm-mirror resume --now` ends the wait");
    place.run("resume --now").done();
    let place = place.set("CRM_MIRROR_BUDGET__LIMIT", "10");
    let text = place.run("status").done().out;
    assert!(text.contains("0 of 10 left until "), "{text}");
}

#[test]
fn details_that_nothing_reads_are_not_pending() {
    let service = Service::with(20, 2);
    let place = TestDir::of(&service).set("CRM_MIRROR_SYNC__DETAILS", "off");
    place.run("sync").done();
    let status = place.run("status --json").done().json();
    assert_eq!(status["objects"][0]["details_pending"], json!(null));
    let place = place.set("CRM_MIRROR_SYNC__DETAILS", "all");
    assert_eq!(place.run("status --json").done().json()["objects"][0]["details_pending"], json!(20));
}

#[test]
fn daemon_that_hangs_is_reported_within_two_seconds() {
    let service = Service::with(2, 2);
    let place = TestDir::of(&service);
    place.run("sync").done();
    // It accepts no connection: like a process that was stopped.
    let hangs = std::os::unix::net::UnixListener::bind(place.path("mirror.db.sock")).unwrap();
    let status = place.run("status --json").done().json();
    assert_eq!(status["daemon_state"], "unresponsive");
    assert!(place.run("status").done().out.contains("daemon   does not answer"));
    place.run("status --max-age 1h").done();
    drop(hangs);
}

/// Runs a verb as a user who owns nothing here: for root, who may open everything, another one.
fn as_a_stranger(place: &TestDir, line: &str) -> Ended {
    let words: Vec<&str> = line.split(' ').collect();
    let mut command = match rustix::process::geteuid().is_root() {
        true => place.command_as((54_321, 54_321), &words),
        false => place.command(&words),
    };
    Ended::from(command.output().unwrap())
}

#[test]
fn user_who_may_not_open_the_socket_or_the_mirror_is_told() {
    let service = Service::with(2, 2);
    let place = TestDir::of(&service);
    let mode = |name: &str, mode| {
        std::fs::set_permissions(place.path(name), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(".", 0o755);
    place.run("sync").done();
    mode("mirror.db", 0o644);
    mode("mirror.db-shm", 0o644);
    mode("mirror.db-wal", 0o644);
    let _listens = std::os::unix::net::UnixListener::bind(place.path("mirror.db.sock")).unwrap();
    mode("mirror.db.sock", 0o000);
    assert_eq!(as_a_stranger(&place, "status --json").done().json()["daemon_state"], "inaccessible");
    assert!(as_a_stranger(&place, "status").done().out.contains("daemon   this user may not access it"));
    for verb in ["pause", "sync", "verify"] {
        let ended = as_a_stranger(&place, verb).code(69);
        assert!(ended.err.contains("this user may not access the daemon's control socket"), "{}", ended.err);
    }
    mode("mirror.db", 0o000);
    for verb in ["status", "outbox"] {
        let ended = as_a_stranger(&place, verb).code(74);
        assert!(ended.err.contains("to read, the file's group is enough"), "{}", ended.err);
        assert_eq!(ended.err.matches("unable to open database file").count(), 1, "{}", ended.err);
    }
}

#[test]
fn every_workspace_has_a_line_also_one_that_cannot_be_read() {
    let service = Service::with(7, 1);
    let place = TestDir::of(&service);
    for (name, rest) in [("acme", ""), ("beta", ""), ("team", "[sync]\nobjects = [\"team-members\"]\n")] {
        let text = format!("[api]\nbase_url = \"{}\"\n[database]\npath = \"{name}.db\"\n{rest}", service.base_url);
        std::fs::write(place.path(&format!("{name}.toml")), text).unwrap();
    }
    std::fs::write(place.path("broken.toml"), "[api\n").unwrap();
    place.run("-c acme.toml sync").done();
    place.run("-c team.toml sync").done();
    let text =
        place.command(&["-c", &place.path("acme.toml").display().to_string(), "status", "--all"]).output().unwrap();
    let text = Ended::from(text).done().out;
    let line = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{text}"));
    assert!(line("acme").contains("ready") && line("acme").contains("none"), "{text}");
    assert!(line("team").contains("ready"), "{text}");
    assert!(line("beta").contains("there is no mirror"), "{text}");
    assert!(line("broken").contains("is not TOML"), "{text}");
    let all = place.run("-c acme.toml status --all --json").done().json();
    assert_eq!((&all[0]["workspace"], &all[0]["readiness"]), (&json!("acme"), &json!("ready")));
    assert_eq!(all[0]["status"]["objects"][0]["rows"], json!(7));
    assert!(all[2]["error"].is_string());
}

#[test]
fn default_budget_is_not_shown_as_if_it_were_configured() {
    let service = Service::with(3, 1);
    let place = TestDir::of(&service).set("CRM_MIRROR_BUDGET__LIMIT", "500");
    place.run("sync").done();
    assert!(place.run("status").done().out.contains(" of 500 left"));
    let reader = place.unset("CRM_MIRROR_BUDGET__LIMIT").unset("CRM_MIRROR_API__BASE_URL").unset("CRM_MIRROR_API__KEY");
    let text = reader.run("status --database mirror.db").done().out;
    assert!(!text.contains("10,000") && text.contains(" used in this window"), "{text}");
}
