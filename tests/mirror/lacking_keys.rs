//! Details without the key of an active field: it was archived when they were read, or the service omits it.

use crate::omitted_values::{INTERVAL, clear, contacts_status, mirrored};
use crate::support::{Crm, Mirror, bodies, noon};
use crm_mirror::model::{Clock as _, DataType, Object, Resource};
use crm_mirror::sandbox::{NewField, Rule, World};
use crm_mirror::sync::Job;
use serde_json::json;

/// The field was archived and re-activated between two readings of the definitions, and the records were read in between:
/// their answers lacked its key.
#[tokio::test]
async fn value_that_changed_before_its_field_was_archived_for_a_while_is_read() {
    for (details, key) in [(true, "tier"), (false, "tier"), (true, "tags"), (true, "story")] {
        let (crm, mut mirror) = mirrored().await;
        mirror.settings.details = details;
        mirror.sync(&crm).await;
        crm.wait(INTERVAL);
        mirror.sync(&crm).await;
        clear(&crm, "ct1", key);
        crm.sandbox.with_world(|world| world.fields().archive(Object::Contact, key));
        crm.wait(600);
        crm.sandbox.clear_log();
        mirror.sync(&crm).await;
        assert_eq!(crm.sandbox.log().details(Object::Contact), 1, "its detail lacks the key");
        assert_eq!(crm.sandbox.log().lists(Resource::CustomFields), 0, "the mirror does not know why");
        crm.sandbox.with_world(|world| {
            world.fields().reactivate(Object::Contact, key);
            world.fields().redefine(Object::Contact, key, |d| d.label = "Another label".into());
        });
        crm.sandbox.clear_log();
        for seconds in [600, INTERVAL, 600] {
            crm.wait(seconds);
            mirror.sync(&crm).await;
        }
        mirror.assert_exact_lists(&crm);
        assert_eq!(
            crm.sandbox.log().details(Object::Contact),
            1,
            "{key}, details {details}: only the one that lacked it"
        );
        let cleared = format!("SELECT group_concat(id) FROM contacts_full WHERE cf_{key} IS NULL");
        assert_eq!(mirror.one(&cleared), "'ct1'", "{key}, details {details}");
    }
}

/// More details were read while the field was archived than are read again at once: ever more are, as the first ones had changed.
#[tokio::test]
async fn values_of_many_records_that_changed_before_their_field_was_archived_for_a_while_are_read() {
    let mut world = World::new(noon());
    world.lists_omit_nulls = true;
    world.fields().define(NewField::new(Object::Contact, "tier", DataType::ShortText));
    let ids: Vec<String> = (0..700).map(|n| format!("ct{n:03}")).collect();
    for id in &ids {
        world.create(Object::Contact, &json!({"id": id, "customFields": {"tier": "a"}}));
    }
    let crm = Crm::serve(world).await;
    let mirror = Mirror::one_at_a_time();
    mirror.sync(&crm).await;
    crm.wait(600);
    crm.sandbox.with_world(|world| {
        for id in &ids {
            world.edit(Object::Contact, id, &json!({"customFields": {"tier": null}}));
        }
        world.fields().archive(Object::Contact, "tier");
    });
    mirror.sync(&crm).await;
    crm.sandbox.with_world(|world| world.fields().reactivate(Object::Contact, "tier"));
    for _ in 0..3 {
        crm.wait(INTERVAL);
        mirror.sync(&crm).await;
    }
    assert_eq!(mirror.one("SELECT count(cf_tier) FROM contacts"), "0");
    mirror.assert_exact(&crm);
}

/// A service whose details omit an active key: they are read again after three readings of the definitions, and no more.
#[tokio::test]
async fn detail_that_never_has_an_active_key_is_read_again_three_times() {
    let (crm, mut mirror) = mirrored().await;
    mirror.settings.details = true;
    mirror.sync(&crm).await;
    crm.wait(600);
    crm.sandbox.with_world(|world| {
        world.leave_out(Object::Contact, "ct1", "customFields.story");
        world.edit(Object::Contact, "ct1", &json!({"name": "Edited"}));
    });
    mirror.sync(&crm).await;
    crm.sandbox.clear_log();
    for _ in 0..8 {
        crm.wait(INTERVAL);
        mirror.sync(&crm).await;
    }
    assert_eq!(crm.sandbox.log().details(Object::Contact), 3);
    assert_eq!(mirror.one("SELECT cf_story FROM contacts_full WHERE id = 'ct1'"), "'Long'");
    // For some days a new version is read once; then the service is given another chance.
    crm.sandbox.clear_log();
    crm.sandbox.with_world(|world| world.edit(Object::Contact, "ct1", &json!({"name": "Meanwhile"})));
    for _ in 0..25 {
        crm.wait(INTERVAL);
        mirror.sync(&crm).await;
    }
    assert_eq!(crm.sandbox.log().details(Object::Contact), 1);
    crm.sandbox.clear_log();
    crm.sandbox.with_world(|world| world.edit(Object::Contact, "ct1", &json!({"name": "Again"})));
    for _ in 0..6 {
        crm.wait(INTERVAL);
        mirror.sync(&crm).await;
    }
    assert_eq!(crm.sandbox.log().details(Object::Contact), 1 + 3);
}

/// The field is archived when the definitions are read: nothing is read again, and its column is filled when it returns.
#[tokio::test]
async fn detail_that_lacked_the_key_of_an_archived_field_is_not_read_again() {
    let (crm, mut mirror) = mirrored().await;
    mirror.settings.details = true;
    mirror.sync(&crm).await;
    crm.sandbox.with_world(|world| {
        world.fields().archive(Object::Contact, "tier");
        world.edit(Object::Contact, "ct1", &json!({"name": "Edited"}));
    });
    crm.sandbox.clear_log();
    for seconds in [600, INTERVAL, INTERVAL] {
        crm.wait(seconds);
        mirror.sync(&crm).await;
    }
    assert_eq!(crm.sandbox.log().details(Object::Contact), 1);
    assert_eq!(mirror.count("doubts WHERE why LIKE 'lack%'"), 0);
}

/// However many active keys the details omit, so many records are read again that one field alone could name.
#[tokio::test]
async fn details_that_omit_keys_of_many_records_cost_no_more_for_many_fields() {
    let mut world = World::new(noon());
    for key in ["one", "two", "three"] {
        world.fields().define(NewField::new(Object::Contact, key, DataType::LongText));
    }
    for n in 0..240 {
        let id = format!("ct{n:03}");
        world.create(Object::Contact, &json!({"id": id}));
        world.leave_out(Object::Contact, &id, ["customFields.one", "customFields.two", "customFields.three"][n % 3]);
    }
    let crm = Crm::serve(world).await;
    let mirror = Mirror::one_at_a_time();
    mirror.sync(&crm).await;
    crm.sandbox.clear_log();
    for _ in 0..6 {
        crm.wait(INTERVAL);
        mirror.sync(&crm).await;
    }
    assert_eq!(crm.sandbox.log().details(Object::Contact), 3 * 200);
}

/// A record is noted once, and a field once: the costs of a detail do not grow with both.
#[tokio::test]
async fn details_without_any_key_are_noted_in_one_row_each() {
    let mut world = World::new(noon());
    for n in 0..60 {
        world.fields().define(NewField::new(Object::Contact, &format!("f{n:02}"), DataType::Integer));
    }
    for n in 0..120 {
        let id = format!("ct{n:03}");
        world.create(Object::Contact, &json!({"id": id}));
        world.set_raw(Object::Contact, &id, "customFields", "null");
    }
    let crm = Crm::serve(world).await;
    let mirror = Mirror::one_at_a_time();
    mirror.sync(&crm).await;
    assert_eq!(mirror.count("unshown_columns"), 120);
    crm.sandbox.clear_log();
    for _ in 0..6 {
        crm.wait(INTERVAL);
        mirror.sync(&crm).await;
    }
    assert_eq!(crm.sandbox.log().details(Object::Contact), 0, "a list shows such a field of all records");
    let lists = crm.sandbox.log().lists(Resource::Contacts);
    assert!(lists <= 6 * 2 + 3, "{lists} lists: one sweep, and the changes");
    assert_eq!(mirror.count("doubts WHERE why LIKE 'lack%'"), 60);
}

/// A detail lists every active key. One that lacks the key of a value does not say that the value was cleared, and nothing
/// else does: what is here is in doubt, for no request more.
#[tokio::test]
async fn value_that_not_even_a_detail_shows_is_in_doubt() {
    for (details, key) in [(true, "tier"), (true, "story"), (false, "tier")] {
        let (crm, mut mirror) = mirrored().await;
        mirror.settings.details = details;
        mirror.sync(&crm).await;
        crm.sandbox.faults().add(Rule::new(bodies::without(key)).record("ct1").forever());
        clear(&crm, "ct1", key);
        crm.wait(600);
        mirror.sync(&crm).await;
        crm.sandbox.clear_log();
        let full = Job { full: true, ..Job::verify() }.of(&[Resource::Contacts]);
        let found = mirror.verify(&crm, &full).await.1;
        assert_eq!((found[0].1.count(), found[0].1.undecided), (0, 1), "{key}, details: {details}");
        let (undecided, up_to_date) = contacts_status(&mirror, crm.clock.now());
        assert_eq!((undecided.map(|known| known.items), up_to_date), (Some(1), false), "{key}, details: {details}");
        assert_eq!(crm.charged(), 2, "{key}, details: {details}");
        // An answer that shows it ends that.
        crm.sandbox.faults().clear();
        crm.sandbox.with_world(|world| world.edit(Object::Contact, "ct1", &json!({"name": "Edited"})));
        crm.wait(600);
        mirror.sync(&crm).await;
        let found = mirror.verify(&crm, &full).await.1;
        assert!(found[0].1.is_clean() && contacts_status(&mirror, crm.clock.now()).0.is_none(), "{key}");
    }
}
