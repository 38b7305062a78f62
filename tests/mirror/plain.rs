//! A workspace of contacts without custom fields, and a settled mirror of it.

use std::time::Duration;

use crate::support::prepared::prepared;
use crate::support::{Crm, Mirror, noon};
use crm_mirror::model::Object;
use crm_mirror::sandbox::World;
use serde_json::json;

pub fn edit_all(crm: &Crm, object: Object, count: usize, name: &str) -> Vec<String> {
    crm.sandbox.with_world(|world| {
        let ids: Vec<String> = world.ids(object.resource()).into_iter().take(count).collect();
        for id in &ids {
            assert!(world.edit(object, id, &json!({ "name": name })));
        }
        ids
    })
}

pub fn plain_world(contacts: usize) -> World {
    let mut world = World::new(noon().minus(Duration::from_secs(100_000)));
    for n in 0..contacts {
        world.create(Object::Contact, &json!({ "id": format!("c{n:05}"), "name": format!("Contact {n}") }));
    }
    world
}

/// A copied and settled mirror, and an empty log.
pub async fn settled(world: World) -> (Crm, Mirror) {
    let crm = Crm::serve(world).await;
    let mirror = Mirror::empty();
    settle(&crm, &mirror).await;
    (crm, mirror)
}

async fn settle(crm: &Crm, mirror: &Mirror) {
    for _ in 0..2 {
        mirror.sync(crm).await;
        crm.wait(300);
    }
    crm.sandbox.clear_log();
}

/// [`settled`] for a [`plain_world`].
pub async fn plain(contacts: usize) -> (Crm, Mirror) {
    prepared(format!("plain {contacts}"), || settled(plain_world(contacts))).await
}

/// [`plain`] without details.
pub async fn plain_lists(contacts: usize) -> (Crm, Mirror) {
    let make = || async move {
        let crm = Crm::serve(plain_world(contacts)).await;
        let mut mirror = Mirror::empty();
        mirror.settings.details = false;
        settle(&crm, &mirror).await;
        (crm, mirror)
    };
    prepared(format!("plain lists {contacts}"), make).await
}
