//! SIGHUP, and a key that takes the place of another.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use crm_mirror::sandbox::SCOPES;
use serde_json::{Value, json};

use crate::binary::SECRET;
use crate::scene::{Daemon, Scene};
use crate::socket;

const NEW_KEY: &str = "crm_secret_the_next_one";

fn write_key(scene: &Scene, key: &str) {
    let path = scene.place.path("key");
    std::fs::write(&path, format!("{key}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

fn write_config(scene: &Scene, schedule: &str, limit: u64) {
    let text = format!(
        "[api]\nkey_file = \"./key\"\n[sync]\nschedule = \"{schedule}\"\n[budget]\nlimit = {limit}\nwindow = \"1d\"\n"
    );
    std::fs::write(scene.place.path("c.toml"), text).unwrap();
}

fn with_file(contacts: usize, schedule: &str, limit: u64) -> (Scene, Daemon) {
    let mut scene = Scene::with(contacts, 3);
    for name in ["API__KEY", "SYNC__SCHEDULE", "BUDGET__LIMIT"] {
        scene.place = scene.place.unset(&format!("CRM_MIRROR_{name}"));
    }
    write_key(&scene, SECRET);
    write_config(&scene, schedule, limit);
    let daemon = scene.spawn(&["daemon", "--config", "c.toml"]);
    daemon.until_told("READY=1");
    (scene, daemon)
}

fn reload(daemon: &Daemon) {
    daemon.signal("-HUP");
    daemon.until_told("RELOADING=1");
    daemon.until_told("READY=1");
}

#[test]
fn a_changed_file_is_in_force_and_a_broken_one_is_not() {
    let (scene, daemon) = with_file(10, "0 0 0 1 1 *", 500);
    let at = |daemon: &Daemon| daemon.status()["daemon"]["next"][0]["at"].as_str().unwrap()[4..19].to_string();
    assert_eq!(at(&daemon), "-01-01T00:00:00");
    write_config(&scene, "0 30 6 2 7 *", 900);
    let mut events = daemon.events();
    reload(&daemon);
    events.until(|event| event["event"] == "reloaded");
    assert_eq!((at(&daemon).as_str(), daemon.status()["ru"]["limit"].clone()), ("-07-02T06:30:00", json!(900)));

    std::fs::write(scene.place.path("c.toml"), "[sync]\nschedule = \"0 0 0 29 2 *\"\nshedule = 1\n").unwrap();
    reload(&daemon);
    daemon.until_logged("The new configuration is invalid");
    assert!(daemon.log().contains("shedule"), "it says why: {}", daemon.log());
    assert_eq!((at(&daemon).as_str(), daemon.status()["ru"]["limit"].clone()), ("-07-02T06:30:00", json!(900)));
    daemon.sync();
    daemon.stop();
    scene.assert_exact();
}

#[test]
fn in_the_middle_of_a_run_it_waits_for_the_page_and_the_run_goes_on() {
    let (scene, daemon) = with_file(250, "off", 100_000);
    scene.service.sandbox.configure(|settings| settings.latency = Duration::from_millis(20));
    let mut events = daemon.events();
    let job = daemon.post("/sync", &json!({})).with(202).json()["job"].clone();
    events.until(|event| event["event"] == "begins" && event["work"] == "details");
    write_config(&scene, "off", 90_000);
    daemon.signal("-HUP");
    events.until(|event| event["event"] == "preempted");
    events.until(|event| event["event"] == "reloaded");
    let (ended, _) = events.finished(&job);
    assert_eq!((&ended["exit"], &ended["summary"]["details_read"]), (&json!(0), &json!(253)));
    assert_eq!(ended["summary"]["ru"]["limit"], 90_000);
    daemon.stop();
    scene.assert_exact();
}

#[test]
fn a_larger_budget_ends_the_wait_for_the_window() {
    let (scene, daemon) = with_file(60, "off", 30);
    let ended = daemon.job("/sync", &json!({}));
    assert_eq!((&ended["exit"], &ended["summary"]["pause"]["reason"]), (&json!(75), &json!("budget")));
    assert_eq!(daemon.status()["daemon"]["hold"]["reason"], "budget");
    let mut events = daemon.events();
    write_config(&scene, "off", 1_000);
    reload(&daemon);
    let (ended, _) = events.until(|event| event["event"] == "finished");
    assert_eq!(ended["exit"], 0, "{ended}");
    assert_eq!(daemon.status()["daemon"]["hold"], Value::Null);
    daemon.stop();
    scene.assert_exact();
}

#[test]
fn a_refused_key_is_not_tried_again_and_its_successor_at_once() {
    let (scene, daemon) = with_file(20, "* * * * * *", 100_000_000);
    let mut events = daemon.events();
    events.until(|event| event["event"] == "finished" && event["exit"] == 0);
    scene.service.sandbox.clear_log();
    scene.service.sandbox.revoke_key(SECRET);
    let (refused, _) = events.until(|event| event["event"] == "finished" && event["exit"] != 0);
    assert_eq!(refused["exit"], 77);
    assert!(refused["hint"].is_string(), "{refused}");
    // Two ticks and more, each looked at.
    let sandbox = &scene.service.sandbox;
    std::thread::sleep(Duration::from_millis(2_200));
    assert_eq!(sandbox.log().with_status(401), 1, "one request, and then none");
    assert_eq!(daemon.status()["daemon"]["trouble"]["runs"], 1);
    sandbox.set_key(NEW_KEY, &SCOPES);
    write_key(&scene, NEW_KEY);
    // The same workspace: nothing else is to be done by anybody.
    let (ended, _) = events.until(|event| event["event"] == "finished");
    assert_eq!(ended["exit"], 0, "{ended}");
    socket::until("the trouble is over", || daemon.status()["trouble"].is_null().then_some(()));
    let log = daemon.stop();
    assert!(log.contains("API key changed; using the new key"), "{log}");
    assert!(!log.contains(NEW_KEY) && !log.contains(SECRET));
    assert_eq!(sandbox.log().with_status(401), 1);
}

#[test]
fn another_workspaces_key_writes_nothing_and_the_right_one_is_taken_up() {
    let (scene, daemon) = with_file(30, "off", 100_000);
    daemon.sync();
    scene.service.sandbox.revoke_key(SECRET);
    let refused = daemon.job("/sync", &json!({}));
    assert_eq!(refused["exit"], 77);
    // After a first failure of another kind, too.
    let ours = scene.service.sandbox.with_world(|world| {
        let other = crm_mirror::sandbox::generate(99, 30, 3, world.now());
        std::mem::replace(world, other)
    });
    scene.service.sandbox.set_key(NEW_KEY, &SCOPES);
    write_key(&scene, NEW_KEY);
    let before = scene.column("SELECT name FROM contacts ORDER BY id");
    let refused = daemon.job("/sync", &json!({}));
    assert_eq!(refused["exit"], 78, "{refused}");
    assert_eq!(scene.column("SELECT name FROM contacts ORDER BY id"), before);
    assert!(daemon.status()["daemon"]["trouble"]["why"].as_str().unwrap().contains("workspace"));
    scene.service.sandbox.with_world(|world| *world = ours);
    daemon.sync();
    assert_eq!(daemon.status()["daemon"]["trouble"], Value::Null);
    daemon.stop();
    scene.assert_exact();
}
