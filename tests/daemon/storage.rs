//! A disk that is full for a while: the daemon waits, says so, and continues by itself once there is room.

use std::process::Command;

use crm_mirror::model::{Object, Resource};
use serde_json::{Value, json};

use crate::fixture::{Daemon, DaemonFixture};

const PRLIMIT: &str = "/usr/bin/prlimit";

/// The daemon on a disk that takes no byte: every write to a file fails. `None` where the machine cannot do that.
fn without_room(fixture: &DaemonFixture) -> Option<Daemon> {
    if !std::path::Path::new(PRLIMIT).exists() {
        return None;
    }
    let daemon = fixture.place.command(&["daemon"]);
    let mut command = Command::new(PRLIMIT);
    // A process that exceeds the limit is killed unless it ignores the signal.
    command.args(["--fsize=0:", "/bin/sh", "-c", "trap '' XFSZ; exec \"$0\" \"$@\""]);
    command.arg(daemon.get_program()).args(daemon.get_args()).env_clear();
    command.envs(daemon.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(folder) = daemon.get_current_dir() {
        command.current_dir(folder);
    }
    Some(fixture.spawn_command(command))
}

fn room(daemon: &Daemon, bytes: &str) {
    let limit = format!("--fsize={bytes}:");
    let status = Command::new(PRLIMIT).args(["--pid", &daemon.child.id().to_string(), &limit]).status();
    assert!(status.unwrap().success());
}

#[test]
fn full_disk_is_waited_for() {
    let fixture = DaemonFixture::with(60, 4);
    let Some(daemon) = without_room(&fixture) else { return };
    daemon.until_notified("READY=1");
    daemon.until_logged("cannot be opened");
    room(&daemon, "unlimited");
    daemon.until_logged("The mirror is open");
    daemon.sync();
    fixture.assert_exact();

    // Full under a daemon that works.
    room(&daemon, "0");
    fixture.service.sandbox.with_world(|world| {
        for id in world.ids(Resource::Contacts) {
            world.edit(Object::Contact, &id, &json!({ "name": "Changed" }));
        }
    });
    let failed = daemon.job("/sync", &json!({}));
    assert_eq!(failed["exit"], 74, "{failed}");
    assert!(daemon.status()["daemon"]["trouble"]["why"].is_string());
    room(&daemon, "unlimited");
    daemon.sync();
    assert_eq!(daemon.status()["daemon"]["trouble"], Value::Null);
    daemon.stop();
    fixture.assert_consistent();
    fixture.assert_exact();
}
