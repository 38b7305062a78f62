//! Whole runs over a damaged entry of the private state: the first byte chooses the entry, the second the run, the rest is
//! the entry's text.
//!
//! An entry is a hint: the run ends well, and after one more the mirror is exact. This is slow, about a hundred runs per
//! second.

use std::path::Path;
use std::sync::LazyLock;

use crm_mirror::model::{DataType, Object, Ru};
use crm_mirror::sandbox::{Fault, NewField, Rule, World};
use crm_mirror::store::StateKey;
use crm_mirror::sync::Job;
use rusqlite::Connection;
use serde_json::json;
use strum::VariantArray;
use tokio::runtime::Runtime;

use super::choice;
use super::mirrored::temporary;
use crate::support::{Crm, Mirror, noon};

/// A mirror in the middle of everything, and a copy of its file.
struct Busy {
    runtime: Runtime,
    crm: Crm,
    mirror: Mirror,
    file: Vec<u8>,
}

static BUSY: LazyLock<Busy> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (crm, mirror) = runtime.block_on(busy());
    let copy = mirror.dir.path().join("copy.db");
    Connection::open(&mirror.path).unwrap().execute("VACUUM INTO ?1", [copy.display().to_string()]).unwrap();
    let file = std::fs::read(copy).unwrap();
    Busy { runtime, crm, mirror, file }
});

/// A column to fill, a sweep under way, a detail that failed, counts that are owed.
async fn busy() -> (Crm, Mirror) {
    let mut world = World::new(noon());
    world.fields().define(NewField::new(Object::Contact, "tier", DataType::ShortText));
    for n in 0..8 {
        let contact = json!({"id": format!("ct{n:02}"), "name": "Ann", "customFields": {"tier": "a", "late": "x"}});
        world.create(Object::Contact, &contact);
    }
    world.create(Object::Company, &json!({"id": "co", "name": "Co"}));
    world.create(crm_mirror::model::Resource::TeamMembers, &json!({"id": "tm"}));
    let crm = Crm::serve(world).await;
    crm.sandbox.configure(|settings| settings.page_cap = Some(3));
    let mut mirror = Mirror::one_at_a_time_in(temporary());
    mirror.tries = 1;
    mirror.sync(&crm).await;
    crm.wait(600);
    mirror.sync(&crm).await;
    crm.wait(6 * 3600);
    crm.sandbox.with_world(|world| {
        world.fields().define(NewField::new(Object::Contact, "later", DataType::ShortText));
        for n in 0..8 {
            let values = json!({"customFields": {"later": format!("v{n}")}});
            world.edit_silently(Object::Contact, &format!("ct{n:02}"), &values);
        }
        for n in 0..5 {
            world.edit(Object::Contact, &format!("ct{n:02}"), &json!({"name": "Bob"}));
        }
        world.remove(Object::Contact, "ct07");
    });
    crm.sandbox.faults().add(Rule::new(Fault::Status(500)).record("ct03").forever());
    mirror.limits.limit = Ru::new(mirror.ledger_total() + 10);
    let _ = mirror.run(&crm, &Job::resync()).await;
    mirror.limits.limit = Ru::new(1_000_000);
    crm.sandbox.faults().clear();
    (crm, mirror)
}

/// Checks one entry.
pub fn check(data: &[u8]) {
    let (which, data) = choice(data);
    let (job, text) = choice(data);
    let Ok(text) = std::str::from_utf8(text) else { return };
    let keys = StateKey::VARIANTS;
    let name = keys[which % keys.len()].as_str();
    let job = [Job::sync(), Job::resync(), Job::audit(), Job::verify()][job % 4].clone();
    let busy = &*BUSY;
    restore(&busy.mirror.path, &busy.file);
    damage(&busy.mirror.path, name, text);
    busy.crm.sandbox.clear_log();
    for job in [job, Job::resync()] {
        busy.crm.wait(90_000);
        let report = busy.runtime.block_on(busy.mirror.run(&busy.crm, &job));
        assert!(report.is_ok(), "{name}: {text}, {}: {report:?}", job.name());
    }
    let differences = busy.mirror.differences(&busy.crm);
    assert!(differences.is_empty(), "{name}: {text}\n{}", differences.join("\n"));
}

fn restore(path: &Path, file: &[u8]) {
    for beside in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{beside}", path.display()));
    }
    std::fs::write(path, file).unwrap();
}

fn damage(path: &Path, name: &str, text: &str) {
    let conn = Connection::open(path).unwrap();
    conn.pragma_update(None, "synchronous", "off").unwrap();
    conn.execute("INSERT OR REPLACE INTO state (name, value) VALUES (?1, ?2)", (name, text)).unwrap();
}
