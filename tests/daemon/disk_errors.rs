//! A disk that fails at any system call: the run says so and ends, and the next ones lose nothing and send no edit twice.
//! `strace` makes the calls of the real program fail.

use std::process::{Command, Stdio};

use crm_mirror::model::{Object, Resource};
use crm_mirror::sandbox::Route;
use proptest::prelude::*;
use rusqlite::Connection;
use serde_json::json;

use crate::binary::Ended;
use crate::fixture::DaemonFixture;
use crate::support::cases::Cases;

/// The files of a mirror.
const FILES: [&str; 5] = ["mirror.db", "mirror.db-wal", "mirror.db-shm", "mirror.db-journal", "mirror.db.lock"];

/// System calls that a disk may refuse, and the number of them in a first copy, of one thread.
const CALLS: [(&str, u32); 4] =
    [("pwrite64,write", 1_200), ("fsync,fdatasync", 8), ("ftruncate,unlink,openat", 12), ("pread64,read", 60)];

/// A disk error: which calls fail, with which error, from which one on, and whether all later ones fail too.
#[derive(Clone, Debug)]
struct DiskError {
    calls: &'static str,
    error: &'static str,
    first: u32,
    is_lasting: bool,
}

fn disk_error() -> impl Strategy<Value = DiskError> {
    let calls = (0..CALLS.len(), 0.0..1.0_f64).prop_map(|(which, share)| {
        let (calls, most) = CALLS[which];
        // Each order of magnitude as often: the first calls are the most different ones.
        (calls, f64::from(most).powf(share) as u32)
    });
    let error = prop::sample::select(vec!["EIO", "ENOSPC", "EROFS"]);
    (calls, error, any::<bool>()).prop_map(|((calls, first), error, is_lasting)| DiskError {
        calls,
        error: if calls.contains("read") { "EIO" } else { error },
        first,
        is_lasting,
    })
}

/// Runs `sync` on a disk with this error. Returns how it ended, and whether a call failed.
fn sync_with(fixture: &DaemonFixture, error: &DiskError) -> (Ended, bool) {
    let DiskError { calls, error, first, is_lasting } = error;
    let log = fixture.place.path("strace.log");
    let sync = fixture.place.command(&["sync"]);
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o"]).arg(&log);
    FILES.iter().for_each(|file| _ = command.arg("-P").arg(fixture.place.path(file)));
    let later = if *is_lasting { "+" } else { "" };
    command.args(["-e", &format!("trace={calls}"), "-e", &format!("inject={calls}:error={error}:when={first}{later}")]);
    command.arg(sync.get_program()).args(sync.get_args()).env_clear().stdin(Stdio::null());
    command.envs(sync.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(sync.get_current_dir().unwrap());
    let ended = Ended::from(command.output().unwrap());
    let failed = std::fs::read_to_string(&log).unwrap().contains("INJECTED");
    std::fs::remove_file(log).unwrap();
    (ended, failed)
}

/// Whether this machine can make system calls fail; prints a note if not.
fn has_strace() -> bool {
    let inject = ["-e", "trace=openat", "-e", "inject=openat:error=ENOENT:when=100", "true"];
    let tried = Command::new("strace").args(inject).stderr(Stdio::null()).status();
    let found = tried.is_ok_and(|status| status.success());
    if !found {
        eprintln!("SKIPPED: there is no strace on the PATH, or it may not trace");
    }
    found
}

/// Whether a run ended as it may on a failing disk: with 74, or as if nothing had been, if nothing that is needed failed.
fn check_end(ended: &Ended, failed: bool) -> Result<(), TestCaseError> {
    let all = format!("{}{}", ended.out, ended.err);
    prop_assert!(matches!(ended.code, Some(0 | 74)), "{:?}: {all}", ended.code);
    prop_assert!(failed || ended.code == Some(0), "no call failed: {all}");
    prop_assert!(ended.code == Some(0) || all.contains("error: "), "{all}");
    prop_assert!(!all.contains("panicked") && !all.contains("internal error"), "{all}");
    Ok(())
}

/// How often an update with this position was carried out.
fn carried_out(fixture: &DaemonFixture, position: &str) -> usize {
    let log = fixture.service.sandbox.log();
    let is_it = |body: &str| body.contains(position);
    let updates = log.entries().iter().filter(|entry| matches!(entry.asked.route, Route::One(..)) && entry.changed);
    updates.filter(|entry| entry.body.as_deref().is_some_and(is_it)).count()
}

#[test]
fn disk_error_at_any_call_loses_nothing_and_sends_no_edit_twice() {
    if !has_strace() {
        return;
    }
    Cases::per_thousand(60).check(8, (disk_error(), disk_error()), |(at_first, later)| {
        let fixture = DaemonFixture::with(30, 4).set("CRM_MIRROR_WRITE_BACK__ENABLED", "true");
        let (ended, failed) = sync_with(&fixture, &at_first);
        check_end(&ended, failed)?;
        fixture.place.run("sync").done();
        fixture.place.run("sync").done();
        fixture.assert_consistent();
        fixture.assert_exact();

        // Changes, and an edit.
        let sandbox = &fixture.service.sandbox;
        let ids = sandbox.with_world(|world| {
            let ids = world.ids(Resource::Contacts);
            for id in ids.iter().take(5) {
                world.edit(Object::Contact, id, &json!({ "name": "Changed" }));
            }
            ids
        });
        let ours = ids.last().unwrap();
        let conn = Connection::open(fixture.place.path("mirror.db")).unwrap();
        conn.execute("UPDATE contacts_full SET position = 'of ours' WHERE id = ?1", [ours]).unwrap();
        drop(conn);
        let (ended, failed) = sync_with(&fixture, &later);
        check_end(&ended, failed)?;
        fixture.place.run("outbox retry 1");
        fixture.place.run("push").done();
        fixture.place.run("sync").done();
        fixture.assert_consistent();
        fixture.assert_exact();
        prop_assert_eq!(carried_out(&fixture, "of ours"), 1);
        prop_assert_eq!(fixture.column("SELECT state FROM outbox"), ["applied"]);
        let charged = sandbox.log().ru().get();
        let used = fixture.place.run("status --json").json()["ru"]["used"].as_u64().unwrap();
        prop_assert!(used >= charged, "the ledger says {}, the service charged {}", used, charged);
        Ok(())
    });
}
