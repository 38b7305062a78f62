//! The notifications to systemd and their timing.

use std::process::Command;

use serde_json::json;

use crm_mirror::exit::Exit;
use crm_mirror::sandbox::{Fault, Rule};

use crate::fixture::{DaemonFixture, verb};
use crate::socket;

#[test]
fn ready_is_sent_once_mirror_schedule_and_socket_are_available() {
    let fixture = DaemonFixture::with(30, 3).set("CRM_MIRROR_SYNC__SCHEDULE", "0 0 0 1 1 *");
    let daemon = fixture.spawn(&["daemon"]);
    let (_, before) = daemon.until_notified("READY=1");
    assert!(before.is_empty(), "{before:?}");
    // Each is tried once; nothing is waited for.
    let status = daemon.status();
    let next = status["daemon"]["next"][0].clone();
    assert_eq!(next["kind"], "changes");
    // A run is delayed by up to ten seconds.
    assert!(next["at"].as_str().unwrap()[4..].starts_with("-01-01T00:00:"), "{next}");
    assert_eq!(fixture.column("PRAGMA user_version").len(), 1);
    assert_eq!(status["daemon"]["pid"], json!(daemon.child.id()), "the answering daemon is the one that was started");
    daemon.stop();
}

#[test]
fn second_daemon_waits_for_the_first_and_takes_over() {
    let fixture = DaemonFixture::with(3, 1);
    let first = fixture.start();
    first.sync();
    let second = fixture.spawn(&["daemon"]);
    let (line, _) = second.until_notified("STATUS=Waiting: another process listens on the control socket");
    assert!(line.contains(&first.child.id().to_string()), "{line}");
    // The first daemon is not affected.
    first.sync();
    // One that waits stops at once.
    second.stop();
    let second = fixture.spawn(&["daemon"]);
    second.until_logged("Waiting for the control socket");
    first.stop();
    second.until_logged("The daemon is ready");
    second.sync();
    second.stop();
    fixture.assert_exact();
}

#[test]
fn missing_directory_of_the_socket_is_waited_for() {
    let fixture = DaemonFixture::with(3, 1).set("CRM_MIRROR_DAEMON__SOCKET", "run/control.sock");
    let mut daemon = fixture.spawn(&["daemon"]);
    daemon.socket = fixture.place.path("run/control.sock");
    daemon.until_logged("could not open the control socket");
    std::fs::create_dir(fixture.place.path("run")).unwrap();
    daemon.until_logged("The daemon is ready");
    daemon.sync();
    daemon.stop();
}

/// What `systemctl status` shows begins with it until it is mended: before the mirror is open, and whatever runs after.
#[test]
fn invalid_configuration_stays_in_the_status_line() {
    let fixture = DaemonFixture::with(3, 1);
    let write = |text: &str| std::fs::write(fixture.place.path("c.toml"), text).unwrap();
    let is_shown =
        |line: &str| line.starts_with("STATUS=The configuration on disk is not active, and the old one is: ");
    write("");
    verb(&fixture, "sync").done();
    let writer = crm_mirror::store::open::create(&fixture.place.path("mirror.db")).unwrap();
    let daemon = fixture.spawn(&["daemon", "-c", "c.toml"]);
    daemon.until_notified("STATUS=Waiting: ");
    write("shedule = 1\n");
    daemon.signal("-HUP");
    let (line, _) = daemon.until_notified("STATUS=");
    assert!(is_shown(&line) && line.contains("shedule") && line.contains(". Waiting: "), "{line}");
    write("");
    daemon.signal("-HUP");
    daemon.until_notified("STATUS=Waiting: ");
    drop(writer);
    daemon.until_notified("STATUS=Idle");
    write("shedule = 1\n");
    daemon.signal("-HUP");
    daemon.until_notified("STATUS=The configuration on disk is not active");
    daemon.sync();
    daemon.post("/pause", &json!({})).with(200);
    daemon.until_notified("STATUS=The configuration on disk is not active, and the old one is: unknown key `shedule`");
    write("");
    daemon.signal("-HUP");
    let (_, before) = daemon.until_notified("STATUS=The schedule has been paused");
    let others: Vec<&String> = before.iter().filter(|line| line.starts_with("STATUS=") && !is_shown(line)).collect();
    assert!(others.is_empty(), "{others:?}");
    daemon.stop();
}

/// Every user of the machine reads it.
#[test]
fn status_line_has_no_text_of_the_service() {
    let fixture = DaemonFixture::with(3, 1);
    let faults = fixture.service.sandbox.faults();
    faults.add(Rule::new(Fault::Status(400)).forever());
    let daemon = fixture.start();
    daemon.job("/sync", &json!({}));
    let (line, before) = daemon.until_notified("STATUS=Runs have failed since ");
    assert!(line.contains("(the service is unavailable)"), "{line}");
    let text = "was injected";
    let said = daemon.status()["daemon"]["trouble"]["why"].to_string();
    assert!(said.contains(text) && !before.iter().any(|line| line.contains(text)) && !line.contains(text), "{said}");
    daemon.stop();
}

/// The daemon waits for every problem of the database but one, so 74 is not restarted either.
#[test]
fn unit_restarts_no_end_that_a_restart_does_not_fix() {
    for unit in ["crm-mirror.service", "crm-mirror@.service"] {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd").join(unit);
        let text = std::fs::read_to_string(path).unwrap();
        let prevented = text.lines().find_map(|line| line.strip_prefix("RestartPreventExitStatus=")).unwrap();
        let codes: Vec<u8> = prevented.split(' ').map(|code| code.parse().unwrap()).collect();
        // 243 is systemd's own, for a credential that cannot be loaded.
        assert_eq!(
            codes,
            [Exit::Usage.code(), Exit::Storage.code(), Exit::KeyRefused.code(), Exit::Config.code(), 243]
        );
        assert!(text.contains("\nRestart=on-failure\n") && text.contains("\nStartLimitIntervalSec=0\n"), "{unit}");
    }
}

#[test]
fn watchdog_is_notified_in_time() {
    let fixture = DaemonFixture::with(3, 1);
    let mut command = Command::new("sh");
    let daemon = fixture.place.command(&["daemon"]);
    command
        .args(["-c", "WATCHDOG_PID=$$ exec \"$0\" daemon"])
        .arg(daemon.get_program())
        .env_clear()
        .envs(daemon.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .env("WATCHDOG_USEC", "400000")
        .current_dir(daemon.get_current_dir().unwrap());
    let daemon = fixture.spawn_command(command);
    daemon.until_notified("READY=1");
    for _ in 0..5 {
        daemon.until_notified("WATCHDOG=1");
    }
    daemon.stop();
}

#[test]
fn status_line_is_sent_during_and_after_a_job() {
    let fixture = DaemonFixture::with(500, 3);
    fixture.service.sandbox.faults().add(
        Rule::new(Fault::Slow(std::time::Duration::from_millis(40), std::time::Duration::from_millis(40))).forever(),
    );
    let daemon = fixture.start();
    // Nothing was copied yet.
    daemon.until_notified("STATUS=Idle; no schedule; runs on request");
    assert_eq!(daemon.status()["up_to_date"], false);
    daemon.post("/sync", &json!({})).with(202);
    daemon.until_notified("STATUS=sync running");
    daemon.until_notified("STATUS=Idle; no schedule; runs on request");
    assert_eq!(daemon.status()["up_to_date"], true);
    daemon.post("/pause", &json!({})).with(200);
    let (line, _) = daemon.until_notified("STATUS=The schedule has been paused");
    assert!(line.ends_with("`crm-mirror resume` resumes it"), "{line}");

    daemon.signal("-HUP");
    let (line, _) = daemon.until_notified("RELOADING=1");
    assert!(line.contains("\nMONOTONIC_USEC="), "{line}");
    daemon.until_notified("READY=1");
    daemon.signal("-TERM");
    daemon.until_notified("STOPPING=1");
    let mut daemon = daemon;
    assert_eq!(daemon.end(), Some(0));
    socket::until("the socket is gone", || (!daemon.socket.exists()).then_some(()));
}
