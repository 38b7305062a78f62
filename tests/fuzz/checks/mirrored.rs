//! A mirror of a small sandbox, opened once per process: a contact and a company with a field of every type.

use std::sync::LazyLock;

use crm_mirror::config::{Config, Environment, Sources};
use crm_mirror::model::{DataType, Object};
use crm_mirror::sandbox::{NewField, World};
use crm_mirror::store::Store;
use crm_mirror::sync::Engine;
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::support::{Crm, Mirror, noon};

/// The options of select fields.
pub(super) const OPTIONS: [&str; 4] = ["x", "y", "a,b", "it's"];

/// A mirror, the service that it mirrors, and everything that reads or writes it.
pub(super) struct Mirrored {
    pub(super) runtime: Runtime,
    pub(super) crm: Crm,
    pub(super) mirror: Mirror,
    pub(super) store: Store,
    pub(super) engine: Engine,
    pub(super) config: Config,
}

/// A temporary directory, in memory where that is possible.
pub(super) fn temporary() -> TempDir {
    let memory = std::path::Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}

/// The mirror of this process.
pub(super) fn mirrored() -> &'static Mirrored {
    static MIRRORED: LazyLock<Mirrored> = LazyLock::new(Mirrored::new);
    &MIRRORED
}

/// Switches the triggers of a connection.
pub(super) fn triggers(conn: &Connection, on: bool) {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, on).unwrap();
}

/// The key of a custom field: its type, and whether it can be cleared.
pub(super) fn key(data_type: DataType, clearable: bool) -> String {
    format!("{}{}", data_type.as_str().to_lowercase(), if clearable { "" } else { "_must" })
}

impl Mirrored {
    /// A mirror of its own.
    pub(super) fn new() -> Mirrored {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let mut mirror = Mirror::one_at_a_time_in(temporary());
        mirror.settings.write_back = true;
        mirror.tries = 1;
        let (crm, store, engine) = runtime.block_on(async {
            let crm = Crm::serve(world()).await;
            mirror.sync(&crm).await;
            crm.wait(3_600);
            let (store, engine) = mirror.open(&crm, None).await.unwrap();
            (crm, store, engine)
        });
        let environment: Environment =
            [("CRM_MIRROR_DATABASE__PATH", mirror.path.display().to_string())].into_iter().collect();
        let sources = Sources { file: None, default_file: "/nowhere".into(), environment, flags: Vec::new() };
        let config = Config::load(&sources).unwrap();
        Mirrored { runtime, crm, mirror, store, engine, config }
    }

    /// A connection as people have it.
    pub(super) fn connection(&self) -> Connection {
        let conn = Connection::open(&self.mirror.path).unwrap();
        conn.pragma_update(None, "synchronous", "off").unwrap();
        conn.set_prepared_statement_cache_capacity(64);
        conn
    }
}

fn world() -> World {
    let mut world = World::new(noon());
    for data_type in DataType::ALL {
        let options: &[&str] = if data_type.is_select() { &OPTIONS } else { &[] };
        for clearable in [true, false] {
            world
                .fields()
                .define(NewField::new(Object::Contact, &key(data_type, clearable), data_type).options(options));
        }
        world.fields().redefine(Object::Contact, &key(data_type, false), |field| field.required = true);
    }
    for number in 0..4 {
        world.create(Object::Contact, &json!({"id": format!("ct{number}"), "name": "Ann", "position": "CEO"}));
    }
    world.create(Object::Company, &json!({"id": "co", "name": "Acme", "industry": "Food"}));
    world.create(crm_mirror::model::Resource::TeamMembers, &json!({"id": "tm"}));
    world
}
