//! The same value in another spelling: options in another order, a decimal with other zeros. It is no change.

use crate::support::{Crm, Mirror, noon};
use crm_mirror::model::{DataType, Object, Resource};
use crm_mirror::sandbox::{Fault, NewField, Rule, World};
use crm_mirror::sync::Job;
use serde_json::json;

fn world() -> World {
    let mut world = World::new(noon());
    world.fields().define(NewField::new(Object::Contact, "set", DataType::MultiSelect).options(&["x", "y", "z"]));
    world.fields().define(NewField::new(Object::Contact, "fee", DataType::Decimal));
    for n in 0..20 {
        let fields = json!({"set": ["x", "y", "z"], "fee": "1.5"});
        world.create(Object::Contact, &json!({"id": format!("c{n}"), "name": "A", "customFields": fields}));
    }
    world
}

fn spelt_otherwise(body: &str, _: &str) -> String {
    body.replace(r#"["x","y","z"]"#, r#"["z","x","y"]"#).replace(r#""1.5""#, r#""1.50""#)
}

const IN_LISTS: fn() -> Rule =
    || Rule::new(Fault::Rewritten(spelt_otherwise, String::new())).on(Resource::Contacts).lists().forever();

fn in_full() -> Job {
    Job { full: true, ..Job::verify() }
}

async fn copied() -> (Crm, Mirror) {
    let crm = Crm::serve(world()).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    crm.wait(600);
    mirror.sync(&crm).await;
    (crm, mirror)
}

#[tokio::test]
async fn same_value_in_another_spelling_is_no_difference() {
    let (crm, mirror) = copied().await;
    crm.sandbox.faults().add(IN_LISTS());
    crm.wait(600);
    let (_, found) = mirror.verify(&crm, &in_full()).await;
    assert!(found.iter().all(|(_, findings)| findings.is_clean()), "{found:?}");
    let report = mirror.resync(&crm).await;
    assert_eq!((report.tally.updated, mirror.count("changes")), (0, 0));
    crm.sandbox.faults().clear();
    mirror.assert_exact(&crm);
}

/// Nobody knows whether the author of another version meant its spelling: it is stored as it was shown, once.
#[tokio::test]
async fn another_version_is_stored_as_it_was_shown_and_once() {
    let (crm, mirror) = copied().await;
    crm.sandbox.faults().add(IN_LISTS());
    crm.sandbox.with_world(|world| {
        world.edit(Object::Contact, "c1", &json!({"name": "B"}));
        world.edit(Object::Contact, "c2", &json!({"customFields": {"set": ["x", "y"], "fee": "1.51"}}));
    });
    for _ in 0..3 {
        crm.wait(600);
        mirror.sync(&crm).await;
    }
    mirror.resync(&crm).await;
    let (_, found) = mirror.verify(&crm, &in_full()).await;
    assert!(found.iter().all(|(_, findings)| findings.is_clean()), "{found:?}");
    assert_eq!(mirror.count("changes"), 2, "an entry a record");
    let stored = |id: &str| mirror.one(&format!("SELECT cf_set || ' ' || cf_fee FROM contacts WHERE id = '{id}'"));
    assert_eq!(stored("c0"), r#"'["x","y","z"] 1.5'"#);
    assert_eq!(stored("c1"), r#"'["z","x","y"] 1.50'"#);
    assert_eq!(stored("c2"), r#"'["x","y"] 1.51'"#);
}
