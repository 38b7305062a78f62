//! A disk that is full for a while: the daemon waits, says so, and continues by itself once there is room.

use std::process::Command;

use crm_mirror::model::{Object, Resource};
use serde_json::{Value, json};

use crate::fixture::{Daemon, DaemonFixture};
use crate::socket;

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
    let mut fixture = DaemonFixture::with(60, 4);
    fixture.place = fixture.place.unset("CRM_MIRROR_BUDGET__LIMIT");
    let limited =
        |limit: u64| std::fs::write(fixture.place.path("crm-mirror.toml"), format!("[budget]\nlimit = {limit}\n"));
    limited(5_000).unwrap();
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

    // A configuration that cannot be stored is not active, which is said, until it is reloaded once there is room.
    limited(4_000).unwrap();
    daemon.signal("-HUP");
    daemon.until_logged("The new configuration is not active");
    let told = daemon.status();
    assert_eq!((&told["ru"]["limit"], &told["daemon"]["reload_failed"]), (&json!(5_000), &json!(true)), "{told}");
    room(&daemon, "unlimited");
    daemon.signal("-HUP");
    daemon.until_logged("Configuration reloaded");
    assert_eq!(daemon.status()["ru"]["limit"], 4_000);
    daemon.sync();
    assert_eq!(daemon.status()["daemon"]["trouble"], Value::Null);
    daemon.stop();
    fixture.assert_consistent();
    fixture.assert_exact();
}

/// Makes the process's clock run thirty times as fast, and what waits by it wait as much less.
const FAST_CLOCK: &str = "
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec *t) {
    int result = syscall(SYS_clock_gettime, id, t);
    if (id == CLOCK_MONOTONIC) {
        long long ns = 30 * (t->tv_sec * 1000000000LL + t->tv_nsec);
        t->tv_sec = ns / 1000000000;
        t->tv_nsec = ns % 1000000000;
    }
    return result;
}
int epoll_wait(int fd, struct epoll_event *events, int most, int timeout) {
    return syscall(SYS_epoll_pwait, fd, events, most, timeout > 0 ? timeout / 30 + 1 : timeout, (void *)0, 8);
}
";

/// The case of a unit that keeps the mounts it started with: read-only for the daemon only.
#[test]
fn file_system_that_stays_read_only_is_named_and_ends_the_daemon_for_a_new_start() {
    let elsewhere = tempfile::tempdir().unwrap();
    let socket = elsewhere.path().join("control.sock");
    let fixture = DaemonFixture::with(3, 1).set("CRM_MIRROR_DAEMON__SOCKET", &socket.display().to_string());
    let (source, clock) = (elsewhere.path().join("clock.c"), elsewhere.path().join("clock.so"));
    std::fs::write(&source, FAST_CLOCK).unwrap();
    let compiled = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&clock).arg(&source).status();
    let may_mount = Command::new("unshare").args(["-m", "true"]).status();
    if ![compiled, may_mount].into_iter().all(|done| done.is_ok_and(|status| status.success())) {
        eprintln!("SKIPPED: it needs a C compiler, and the right to mount");
        return;
    }
    fixture.place.run("sync").done();
    let program = fixture.place.command(&["daemon"]);
    let mut command = Command::new("unshare");
    let steps = "mount --bind . . && mount -o remount,bind,ro \"$PWD\" && cd \"$PWD\" && exec env LD_PRELOAD=\"$CLOCK\" \"$0\" daemon";
    command.args(["-m", "sh", "-c", steps]).arg(program.get_program()).env_clear().env("CLOCK", &clock);
    command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(fixture.place.path(""));
    let mut daemon = fixture.spawn_command(command);
    daemon.socket.clone_from(&socket);
    daemon.until_notified("READY=1");
    daemon.until_logged("cannot be opened");
    // The daemon's patience with clients is short, too.
    socket::until("status", || {
        let said = fixture.place.run("status").out.to_lowercase();
        (said.contains("read-only") && said.contains("wait")).then_some(())
    });
    assert_eq!(daemon.end(), Some(75), "{}", daemon.log());
    assert!(daemon.log().contains("has been read-only for minutes"), "{}", daemon.log());
    // A new start sees the file system as it is now.
    let mut daemon = fixture.start();
    daemon.socket = socket;
    daemon.sync();
    daemon.stop();
}
