//! Services with their mirrors that many tests begin with: made once in a process, and copied for each test.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex};

use crm_mirror::sandbox::{SCOPES, SandboxSettings, World};
use crm_mirror::store::Store;
use rusqlite::Connection;
use tokio::sync::OnceCell;

use super::clock::ManualClock;
use super::{Crm, Mirror};

/// A service without faults and with the settings of a test, and the mirror's file. No run is under way, and no edit open.
pub struct Prepared {
    world: World,
    settings: SandboxSettings,
    clock: ManualClock,
    key: String,
    base_url: String,
    file: Vec<u8>,
    /// Its file is gone; the copies have its settings.
    mirror: Mirror,
}

impl Prepared {
    pub fn of(crm: &Crm, mirror: Mirror) -> Prepared {
        let has_others =
            mirror.key.is_some() || mirror.clock.is_some() || mirror.max_body.is_some() || mirror.lock_wait.is_some();
        assert!(!has_others, "a copy has none of these");
        let conn = Connection::open(&mirror.path).unwrap();
        let busy: i64 = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).unwrap();
        assert_eq!(busy, 0, "everything is in the file");
        drop(conn);
        let file = std::fs::read(&mirror.path).unwrap();
        // Nothing drops what a static holds.
        std::fs::remove_dir_all(mirror.dir.path()).unwrap();
        let mut settings = None;
        crm.sandbox.configure(|current| settings = Some(current.clone()));
        Prepared {
            world: crm.sandbox.with_world(|world| world.clone()),
            settings: settings.unwrap(),
            clock: crm.clock.separate(),
            key: crm.key.clone(),
            base_url: crm.base_url().to_string(),
            file,
            mirror,
        }
    }

    /// The same service at another address, with an empty log, and the same mirror of it, as if it had always been there.
    pub async fn again(&self) -> (Crm, Mirror) {
        let mut crm = Crm::serve_at(self.world.clone(), self.clock.separate()).await;
        crm.sandbox.configure(|settings| settings.clone_from(&self.settings));
        crm.sandbox.revoke_key(&crm.key);
        crm.sandbox.set_key(&self.key, &SCOPES);
        crm.key.clone_from(&self.key);
        let mut mirror = Mirror::empty();
        mirror.settings = self.mirror.settings;
        mirror.limits = self.mirror.limits;
        mirror.patience = self.mirror.patience;
        mirror.tries = self.mirror.tries;
        mirror.views.clone_from(&self.mirror.views);
        std::fs::write(&mirror.path, &self.file).unwrap();
        let conn = Connection::open(&mirror.path).unwrap();
        let moved = "UPDATE state SET value = replace(value, ?1, ?2) WHERE name = 'identity'";
        assert_eq!(conn.execute(moved, [&self.base_url, crm.base_url()]).unwrap(), 1);
        drop(conn);
        // The copy becomes a mirror of its own here: in one that is found to be a copy later, edits are held.
        Store::open(&mirror.path).unwrap().close().await;
        (crm, mirror)
    }
}

/// A copy of what `make` made first with this name in this process.
pub async fn prepared<F>(name: String, make: impl FnOnce() -> F) -> (Crm, Mirror)
where
    F: Future<Output = (Crm, Mirror)>,
{
    static ALL: Mutex<BTreeMap<String, Arc<OnceCell<Prepared>>>> = Mutex::new(BTreeMap::new());
    let cell = ALL.lock().unwrap().entry(name).or_default().clone();
    let made = cell.get_or_init(|| async {
        let (crm, mirror) = make().await;
        Prepared::of(&crm, mirror)
    });
    made.await.again().await
}
