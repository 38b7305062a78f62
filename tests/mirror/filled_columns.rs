//! Columns of fields that become known: their values come from `extra` first, and one sweep replaces back-fills that would
//! cost more.

use crate::support::{Crm, Mirror, noon};
use crm_mirror::model::{DataType, Object, Resource};
use crm_mirror::sandbox::{NewField, World};
use serde_json::{Map, Value, json};

const SOME: [&str; 3] = ["contacts:read", "companies:read", "team-members:read"];

/// Contacts with this many short fields and a long one, mirrored without the scope of definitions.
async fn without_definitions(contacts: usize, fields: usize) -> (Crm, Mirror) {
    let mut world = World::new(noon());
    for n in 0..fields {
        world.fields().define(NewField::new(Object::Contact, &format!("f{n}"), DataType::ShortText));
    }
    world.fields().define(NewField::new(Object::Contact, "story", DataType::LongText));
    for n in 0..contacts {
        let mut values: Map<String, Value> = (0..fields).map(|f| (format!("f{f}"), json!(format!("v{n}")))).collect();
        values.insert("story".into(), json!(format!("Long {n}")));
        world.create(Object::Contact, &json!({"id": format!("ct{n:03}"), "customFields": values}));
    }
    let crm = Crm::serve(world).await;
    crm.sandbox.configure(|settings| settings.page_cap = Some(10));
    let mirror = Mirror::one_at_a_time();
    crm.sandbox.set_key(&crm.key, &SOME);
    for _ in 0..2 {
        mirror.sync(&crm).await;
        crm.wait(600);
    }
    crm.sandbox.set_key(&crm.key, &[&SOME[..], &["custom-fields:read"]].concat());
    crm.sandbox.clear_log();
    (crm, mirror)
}

#[tokio::test]
async fn values_that_were_kept_in_extra_cost_one_count_for_each_field() {
    let (crm, mirror) = without_definitions(60, 4).await;
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
    assert_eq!(mirror.count("contacts WHERE extra IS NOT NULL"), 0);
    assert_eq!(mirror.count("contact_details WHERE extra IS NOT NULL"), 0);
    assert_eq!(crm.sandbox.log().details(Object::Contact), 0);
    let lists = crm.sandbox.log().lists(Resource::Contacts);
    assert_eq!(lists, 1 + 5, "changes, and a count of each field");
    crm.wait(600);
    crm.sandbox.clear_log();
    mirror.sync(&crm).await;
    assert_eq!(crm.charged(), 2);
}

#[tokio::test]
async fn a_value_that_came_silently_is_filled_all_the_same() {
    let (crm, mirror) = without_definitions(60, 4).await;
    crm.sandbox.with_world(|world| {
        world.create(Object::Contact, &json!({"id": "new", "customFields": {"f1": "x"}}));
        let silent = json!({"customFields": {"f0": null, "f2": "other"}});
        world.edit(Object::Contact, "ct007", &silent);
        world.fields().define(NewField::new(Object::Contact, "f9", DataType::ShortText));
        world.edit_silently(Object::Contact, "ct008", &json!({"customFields": {"f9": "silent"}}));
    });
    crm.wait(600);
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
}

#[tokio::test]
async fn a_sweep_replaces_back_fills_that_would_cost_more() {
    let mut world = World::new(noon());
    for n in 0..150 {
        world.create(Object::Contact, &json!({"id": format!("ct{n:03}")}));
    }
    let crm = Crm::serve(world).await;
    let mut mirror = Mirror::one_at_a_time();
    mirror.settings.details = false;
    mirror.sync(&crm).await;
    crm.wait(600);
    crm.sandbox.with_world(|world| {
        for f in 0..9 {
            world.fields().define(NewField::new(Object::Contact, &format!("f{f}"), DataType::ShortText));
            for n in 0..150 {
                let values = json!({"customFields": {format!("f{f}"): format!("v{n}")}});
                world.edit_silently(Object::Contact, &format!("ct{n:03}"), &values);
            }
        }
    });
    crm.wait(6 * 3600);
    crm.sandbox.clear_log();
    mirror.sync(&crm).await;
    mirror.assert_exact_lists(&crm);
    let lists = crm.sandbox.log().lists(Resource::Contacts);
    assert!(lists <= 1 + 2 + 4, "{lists} lists: a sweep of two pages and its counts, not nine back-fills");
    crm.wait(600);
    crm.sandbox.clear_log();
    mirror.sync(&crm).await;
    assert_eq!(crm.charged(), 2);
}
