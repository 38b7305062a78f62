//! A hundred kills: the program is ended by SIGKILL at random requests of first copies, changes, sweeps and details. At
//! the end the mirror is exact, no stored page was read again, and the ledger is correct.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::truth;
use crm_mirror::model::{Instant, Object, Resource, SystemClock};
use crm_mirror::sandbox::{RequestLine, Sandbox, World, generate};
use serde_json::json;

const KILLS: u64 = 100;
const WALKERS: u64 = 4;

struct Scene {
    sandbox: Sandbox,
    base_url: String,
    key: String,
    dir: tempfile::TempDir,
}

impl Scene {
    fn start(&self, verb: &str) -> Child {
        Command::new(env!("CARGO_BIN_EXE_crm-mirror"))
            .args([verb, "--log-level", "error"])
            .current_dir(self.dir.path())
            .env_clear()
            .env("CRM_MIRROR_API__BASE_URL", &self.base_url)
            .env("CRM_MIRROR_API__KEY", &self.key)
            .env("CRM_MIRROR_BUDGET__LIMIT", "1000000")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// Runs a verb and kills it when it sends its request number `at`. Returns whether that happened.
    fn killed_at(&self, verb: &str, at: u64) -> bool {
        let child: Arc<Mutex<Option<Child>>> = Arc::default();
        let (victim, mut asked) = (child.clone(), 0);
        self.sandbox.before_request(move |_: &mut World, _: &RequestLine| {
            asked += 1;
            if asked == at
                && let Some(child) = victim.lock().unwrap().as_mut()
            {
                child.kill().unwrap();
            }
        });
        // Locked until the child is known, so that no request can come before.
        let mut known = child.lock().unwrap();
        let mut started = self.start(verb);
        let mut out = started.stdout.take().unwrap();
        *known = Some(started);
        drop(known);
        // The hook needs the child to kill it, so its end is seen by the end of its output.
        std::io::copy(&mut out, &mut std::io::sink()).unwrap();
        let status = child.lock().unwrap().as_mut().unwrap().wait().unwrap();
        self.sandbox.clear_hook();
        status.code().is_none()
    }

    fn path(&self) -> std::path::PathBuf {
        self.dir.path().join("mirror.db")
    }
}

#[test]
fn a_hundred_kills_end_in_an_exact_mirror_and_a_correct_ledger() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let now = Instant::system_now();
    let sandbox = Sandbox::new(generate(51, 260, 30, now.minus(Duration::from_secs(7_200))), Arc::new(SystemClock));
    sandbox.configure(|settings| {
        settings.page_cap = Some(9);
    });
    let running = runtime.block_on(sandbox.start(0)).unwrap();
    let scene = Scene {
        key: sandbox.full_key(),
        base_url: running.base_url.clone(),
        sandbox,
        dir: tempfile::tempdir().unwrap(),
    };
    let mut rng = fastrand::Rng::with_seed(77);
    let mut kills = 0;
    let mut rounds = 0;
    // The requests, and the kills, before the first sweep.
    let mut copied = None;
    while kills < KILLS {
        rounds += 1;
        assert!(rounds < 10 * KILLS, "{kills} kills only");
        let verb = if rounds % 9 == 0 { "resync" } else { "sync" };
        if verb == "resync" {
            // A sweep reads the same pages again: what follows says nothing about the first copy.
            copied.get_or_insert((scene.sandbox.log().entries().len(), kills));
        }
        kills += u64::from(scene.killed_at(verb, 1 + rng.u64(0..25)));
        if rounds % 3 == 0 {
            scene.sandbox.with_world(|world| {
                let ids = world.ids(Resource::Contacts);
                for _ in 0..8 {
                    let id = &ids[rng.usize(0..ids.len())];
                    world.edit(Object::Contact, id, &json!({ "name": format!("Round {rounds}"), "notes": "edited" }));
                }
                if rounds % 12 == 0 {
                    world.remove(Object::Contact, &ids[rng.usize(0..ids.len())]);
                }
            });
        }
    }
    for verb in ["sync", "resync"] {
        assert!(scene.start(verb).wait().unwrap().success(), "{verb}");
    }
    let conn = rusqlite::Connection::open(scene.path()).unwrap();
    let differences = truth::differences(&conn, &scene.sandbox, true);
    assert!(differences.is_empty(), "{}", differences[..differences.len().min(12)].join("\n"));

    let ledger: String = conn.query_row("SELECT value FROM state WHERE name = 'ledger'", [], |row| row.get(0)).unwrap();
    let ledger = serde_json::from_str::<serde_json::Value>(&ledger).unwrap()["total"].as_u64().unwrap();
    let charged = scene.sandbox.log().ru().get();
    assert!(ledger >= charged, "the ledger has {ledger}, the service charged {charged}");
    assert!(ledger <= charged + kills * WALKERS, "the ledger has {ledger}, the service charged {charged}");

    // A page of the first copy is requested once, and for each kill at most twice more: it and the next one.
    let mut asked = BTreeMap::new();
    let (requests, kills) = copied.unwrap();
    assert!(kills > 5, "{kills} kills of the first copy");
    for entry in &scene.sandbox.log().entries()[..requests] {
        let first_copy = entry.asked.param("sort") == Some("createdAt") && entry.asked.lists(Resource::Contacts);
        if let (true, Some(from)) = (first_copy, entry.asked.param("filter[createdAt][gte]")) {
            *asked.entry(from.to_string()).or_insert(0_u64) += 1;
        }
    }
    assert!(asked.len() > 20, "{} pages", asked.len());
    let again: u64 = asked.values().map(|times| times - 1).sum();
    assert!(again <= 2 * kills, "{again} pages were read again after {kills} kills");
}
