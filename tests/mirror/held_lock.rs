//! Another process holds the write lock for longer than a run waits, as a shell with a large `UPDATE`: runs are suspended,
//! none fails, and nothing is lost.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::outbox_bench::{mirrored, set_position, states, there};
use crate::support::{Crm, Mirror};
use crm_mirror::model::Object;
use crm_mirror::sandbox::{RequestLine, World};
use crm_mirror::sync::{Job, Suspension};
use rusqlite::Connection;
use serde_json::json;

/// Holds the lock from the next request with this method on, until the connection is dropped.
fn hold_at(crm: &Crm, mirror: &Mirror, method: &'static str) -> Arc<Mutex<Option<Connection>>> {
    let held: Arc<Mutex<Option<Connection>>> = Arc::default();
    let (shell, path) = (held.clone(), mirror.path.clone());
    crm.sandbox.before_request(move |_: &mut World, asked: &RequestLine| {
        let mut shell = shell.lock().unwrap();
        if shell.is_none() && asked.method == method {
            let conn = Connection::open(&path).unwrap();
            conn.busy_timeout(Duration::from_secs(20)).unwrap();
            conn.execute_batch("BEGIN IMMEDIATE").unwrap();
            *shell = Some(conn);
        }
    });
    held
}

#[tokio::test]
async fn runs_beside_a_held_lock_are_suspended_and_go_on_after_it() {
    for (job, method) in [(Job::sync(), "GET"), (Job::resync(), "GET"), (Job::push(), "PATCH")] {
        let (crm, mut mirror) = mirrored().await;
        crm.sandbox.with_world(|world| world.edit(Object::Contact, "b", &json!({ "position": "theirs" })));
        set_position(&mirror, "a", "ours");
        mirror.lock_wait = Some(Duration::ZERO);
        let held = hold_at(&crm, &mirror, method);
        let ended = mirror.run(&crm, &job).await.unwrap_err();
        assert_eq!(ended.suspension(), Some(Suspension::Locked), "{job:?}: {ended}");
        assert!(held.lock().unwrap().take().is_some());
        *held.lock().unwrap() = Some(Connection::open_in_memory().unwrap());
        mirror.lock_wait = None;
        crm.wait(3_600);
        mirror.sync(&crm).await;
        assert_eq!(states(&mirror), "applied", "{job:?}");
        assert_eq!(there(&crm, "a", "position"), "ours");
        mirror.sync(&crm).await;
        mirror.assert_exact(&crm);
        assert_eq!(mirror.one("SELECT count(*) FROM sync_runs WHERE outcome = 'failed'"), "0");
    }
}
