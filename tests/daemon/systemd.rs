//! What systemd is told, and when.

use std::process::Command;

use serde_json::json;

use crate::scene::Scene;
use crate::socket;

#[test]
fn ready_means_that_the_mirror_is_open_the_schedule_set_and_the_socket_answers() {
    let scene = Scene::with(30, 3).set("CRM_MIRROR_SYNC__SCHEDULE", "0 0 0 1 1 *");
    let daemon = scene.spawn(&["daemon"]);
    let (_, before) = daemon.until_told("READY=1");
    assert!(before.is_empty(), "{before:?}");
    // Tried once each: nothing is waited for.
    let status = daemon.status();
    let next = status["daemon"]["next"][0].clone();
    assert_eq!(next["kind"], "changes");
    assert!(next["at"].as_str().unwrap().ends_with("-01-01T00:00:00.000000Z"), "{next}");
    assert_eq!(scene.column("PRAGMA user_version").len(), 1);
    assert_eq!(status["daemon"]["pid"], json!(daemon.child.id()), "it is the one that was started");
    daemon.stop();
}

#[test]
fn a_daemon_that_cannot_begin_is_never_ready() {
    let scene = Scene::with(3, 1);
    let first = scene.start();
    let mut second = scene.spawn(&["daemon"]);
    assert_eq!(second.end(), Some(74));
    let (log, pid) = (second.log(), first.child.id());
    assert!(log.contains(&pid.to_string()), "names process {pid}:\n{log}");
    // What it told before its end is here by now.
    let told: Vec<String> = second.told.try_iter().collect();
    assert!(!told.iter().any(|told| told.contains("READY=1")), "{told:?}");
    // The first one has lost nothing by it.
    first.sync();
    first.stop();
    scene.assert_exact();
}

#[test]
fn it_is_alive_as_often_as_the_watchdog_wants_to_hear() {
    let scene = Scene::with(3, 1);
    let mut command = Command::new("sh");
    let daemon = scene.place.command(&["daemon"]);
    command
        .args(["-c", "WATCHDOG_PID=$$ exec \"$0\" daemon"])
        .arg(daemon.get_program())
        .env_clear()
        .envs(daemon.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .env("WATCHDOG_USEC", "400000")
        .current_dir(daemon.get_current_dir().unwrap());
    let daemon = scene.spawn_command(command);
    daemon.until_told("READY=1");
    for _ in 0..5 {
        daemon.until_told("WATCHDOG=1");
    }
    daemon.stop();
}

#[test]
fn it_tells_how_it_stands_while_it_works_and_after() {
    let scene = Scene::with(500, 3);
    // Longer than the two seconds after which it looks at its run.
    scene.service.sandbox.configure(|settings| settings.latency = std::time::Duration::from_millis(25));
    let daemon = scene.start();
    daemon.post("/sync", &json!({})).with(202);
    let (line, _) = daemon.until_told("STATUS=sync: ");
    assert!(line.contains(" of "), "{line}");
    let (line, _) = daemon.until_told("STATUS=Up to date");
    assert_eq!(line, "STATUS=Up to date; no schedule; runs on request");
    daemon.post("/pause", &json!({})).with(200);
    let (line, _) = daemon.until_told("STATUS=The schedule is paused");
    assert!(line.ends_with("`crm-mirror resume` resumes it"), "{line}");

    daemon.signal("-HUP");
    let (line, _) = daemon.until_told("RELOADING=1");
    assert!(line.contains("\nMONOTONIC_USEC="), "{line}");
    daemon.until_told("READY=1");
    daemon.signal("-TERM");
    daemon.until_told("STOPPING=1");
    let mut daemon = daemon;
    assert_eq!(daemon.end(), Some(0));
    socket::until("the socket is gone", || (!daemon.socket.exists()).then_some(()));
}
