//! Shared by the tests of sending edits: a world, a mirror of it, and the sent requests.

use crate::support::prepared::prepared;
use crate::support::{Crm, Mirror, noon};
use crm_mirror::model::{Clock, DataType, Object};
use crm_mirror::outbox::user_decisions::{self, Decision};
use crm_mirror::sandbox::{LoggedRequest, NewField, World};
use crm_mirror::store::write_beside;
use crm_mirror::sync::{Job, RunReport};
use serde_json::{Value, json};

pub const CONTACT: Object = Object::Contact;
pub const DAY: u64 = 24 * 60 * 60;

fn world() -> World {
    let mut world = World::new(noon());
    for object in Object::ALL {
        for data_type in DataType::ALL {
            let key = data_type.as_str().to_lowercase();
            world.fields().define(NewField::new(object, &key, data_type).options(&["x", "y"]));
        }
    }
    for id in ["a", "b"] {
        world.create(
            CONTACT,
            &json!({"id": id, "name": "Ann", "position": "CEO", "language": "en", "notes": "old", "email": "a@x.com",
                    "customFields": {"decimal": "1.50", "long_text": "long"}}),
        );
    }
    world.create(Object::Company, &json!({"id": "p", "name": "Acme", "industry": "Food"}));
    world
}

/// An up-to-date mirror; every request is sent once, so that its fate is visible.
pub async fn mirrored() -> (Crm, Mirror) {
    let make = || async move {
        let crm = Crm::serve(world()).await;
        let mut mirror = Mirror::one_at_a_time();
        mirror.settings.write_back = true;
        mirror.sync(&crm).await;
        mirror.assert_exact(&crm);
        mirror.tries = 1;
        crm.wait(3_600);
        crm.sandbox.clear_log();
        (crm, mirror)
    };
    prepared("outbox_bench".into(), make).await
}

pub fn sql(mirror: &Mirror, sql: &str) {
    rusqlite::Connection::open(&mirror.path).unwrap().execute_batch(sql).unwrap();
}

/// Writes what only the program writes, as somebody who switches its triggers off.
pub fn by_hand(mirror: &Mirror, sql: &str) {
    let conn = rusqlite::Connection::open(&mirror.path).unwrap();
    conn.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    conn.execute_batch(sql).unwrap();
}

pub fn set_position(mirror: &Mirror, id: &str, position: &str) {
    sql(mirror, &format!("UPDATE contacts_full SET position = '{position}' WHERE id = '{id}'"));
}

/// A person's decision about edits.
pub fn decide(mirror: &Mirror, crm: &Crm, ids: impl IntoIterator<Item = i64>, decision: Decision) {
    let now = crm.clock.now();
    write_beside(&mirror.path, |tx| {
        ids.into_iter().try_for_each(|id| user_decisions::decide(tx, id, decision, now).map(drop))
    })
    .unwrap();
}

pub async fn push(mirror: &Mirror, crm: &Crm) -> RunReport {
    mirror.run(crm, &Job::push()).await.unwrap()
}

/// The states of all edits, in order.
pub fn states(mirror: &Mirror) -> String {
    mirror
        .one("SELECT group_concat(state, ' ') FROM (SELECT state FROM outbox ORDER BY id)")
        .trim_matches('\'')
        .to_string()
}

pub fn said(mirror: &Mirror, column: &str) -> Value {
    serde_json::from_str(mirror.one(&format!("SELECT {column} FROM outbox")).trim_matches('\'')).unwrap_or_default()
}

/// The updates that were carried out: record and body.
pub fn carried_out(crm: &Crm) -> Vec<(String, Value)> {
    let log = crm.sandbox.log();
    log.carried_out()
        .map(|entry| {
            let body = serde_json::from_str(entry.body.as_deref().unwrap()).unwrap();
            (entry.asked.path.clone(), body)
        })
        .collect()
}

pub fn patches(crm: &Crm) -> Vec<LoggedRequest> {
    let log = crm.sandbox.log();
    log.entries().iter().filter(|e| e.asked.method == "PATCH").cloned().collect()
}

pub fn there(crm: &Crm, id: &str, field: &str) -> Value {
    crm.sandbox.world().detail_json(CONTACT, id).unwrap()[field].clone()
}

/// The parts that a repeated request must have in common.
pub fn same_request(a: &LoggedRequest, b: &LoggedRequest) -> bool {
    (&a.body, &a.if_match, &a.idempotency_key) == (&b.body, &b.if_match, &b.idempotency_key)
}
