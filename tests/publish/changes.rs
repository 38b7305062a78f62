//! The first load and the changes after it.

use crm_mirror::model::{DataType, Object, Resource};
use crm_mirror::sandbox::{NewField, World, generate};
use crm_mirror::store::{Erasure, PageQuery, Reader, StoreError, ViewOptions, is_last_page, write_beside};
use serde_json::json;

use crate::equal::assert_equal;
use crate::server::Postgres;
use crate::support::{Crm, Mirror, noon};

/// A generated workspace, mirrored and published.
async fn published(contacts: usize, companies: usize) -> Option<(Crm, Mirror, Postgres)> {
    published_from(Mirror::empty(), contacts, companies).await
}

async fn published_from(mirror: Mirror, contacts: usize, companies: usize) -> Option<(Crm, Mirror, Postgres)> {
    let postgres = Postgres::start().await?;
    let crm = Crm::serve(generate(11, contacts, companies, noon())).await;
    mirror.sync(&crm).await;
    let report = postgres.publish(&mirror).await;
    assert_eq!(report.loaded["contacts"], contacts as u64);
    assert_equal(&mirror, &postgres).await;
    Some((crm, mirror, postgres))
}

#[tokio::test]
async fn first_publish_loads_every_table_with_types_indexes_and_comments() {
    let Some((_crm, mirror, postgres)) = published(250, 20).await else { return };
    let type_of = |column: &str| {
        format!(
            "SELECT data_type FROM information_schema.columns
             WHERE table_schema = 'crm' AND table_name = 'companies' AND column_name = '{column}'"
        )
    };
    for (column, data_type) in [
        ("employee_count", "bigint"),
        ("revenue", "text"),
        ("revenue_num", "double precision"),
        ("updated_at", "timestamp with time zone"),
        ("details_current", "boolean"),
        ("extra", "jsonb"),
        ("owner_name", "text"),
    ] {
        assert_eq!(postgres.one(&type_of(column)).await, data_type, "{column}");
    }
    let decimals =
        "SELECT count(*) FROM information_schema.columns WHERE table_schema = 'crm' AND data_type = 'numeric'";
    assert_ne!(postgres.one(decimals).await, "0");
    let about = "SELECT col_description('crm.contacts'::regclass, 2)";
    assert!(postgres.one(about).await.contains("full name"), "{}", postgres.one(about).await);
    let indexes = "SELECT count(*) FROM pg_indexes WHERE schemaname = 'crm' AND tablename = 'contacts'";
    assert_eq!(postgres.one(indexes).await, "5");
    // Nothing changed, so nothing is sent.
    let again = postgres.publish(&mirror).await;
    assert_eq!((again.reloaded, again.records, again.changes), (None, 0, 0));
}

#[tokio::test]
async fn changes_removals_and_joined_names_are_sent_by_the_next_publish() {
    let Some((crm, mirror, postgres)) = published(120, 6).await else { return };
    let (contacts, companies) =
        crm.sandbox.with_world(|world| (world.ids(Resource::Contacts), world.ids(Resource::Companies)));
    crm.sandbox.with_world(|world| {
        for id in &contacts[..30] {
            world.edit(Object::Contact, id, &json!({"position": "CTO", "notes": "changed\tand \\ tabbed"}));
        }
        for id in &contacts[30..40] {
            world.remove(Object::Contact, id);
        }
        world.edit(Object::Company, &companies[0], &json!({"name": "Renamed"}));
        world.remove(Object::Company, &companies[1]);
        let member = world.ids(Resource::TeamMembers)[0].clone();
        world.edit(Resource::TeamMembers, &member, &json!({"firstName": "Another", "lastName": "Name"}));
        world.remove(Resource::TeamMembers, &world.ids(Resource::TeamMembers)[1].clone());
    });
    crm.wait(7 * 3600);
    mirror.resync(&crm).await;
    assert_ne!(mirror.one("SELECT count(*) FROM contacts_full WHERE company_name = 'Renamed'"), "0");
    let report = postgres.publish(&mirror).await;
    assert_eq!(report.reloaded, None);
    assert!(report.records >= 42, "{report:?}");
    assert_equal(&mirror, &postgres).await;
    // A contact that returns leaves the removed records.
    let back = json!({"id": contacts[30], "name": "Back again"});
    crm.sandbox.with_world(|world| world.create(Object::Contact, &back));
    crm.wait(600);
    mirror.sync(&crm).await;
    postgres.publish(&mirror).await;
    assert_equal(&mirror, &postgres).await;
}

#[tokio::test]
async fn more_than_one_batch_is_published_completely() {
    let mut mirror = Mirror::empty();
    // Each is a request, and what is published in batches is records and changes.
    mirror.settings.details = false;
    let Some((crm, mirror, postgres)) = published_from(mirror, 2_300, 3).await else { return };
    crm.sandbox.with_world(|world| {
        for id in world.ids(Resource::Contacts) {
            world.edit(Object::Contact, &id, &json!({"position": "moved"}));
        }
    });
    crm.wait(600);
    mirror.sync(&crm).await;
    let report = postgres.publish(&mirror).await;
    assert_eq!(report.reloaded, None);
    assert!(report.records >= 2_300 && report.changes >= 2_300, "{report:?}");
    assert_equal(&mirror, &postgres).await;
}

/// Texts have no bound: what is read, sent and compared at once ends by its bytes, not only by its rows.
#[tokio::test]
async fn long_texts_are_published_in_parts() {
    let Some(postgres) = Postgres::start().await else { return };
    let mut world = World::new(noon());
    let note = |n: usize, text: &str| json!({"id": format!("c{n:02}"), "name": "N", "notes": text.repeat(1 << 20)});
    for n in 0..12 {
        world.create(Object::Contact, &note(n, "a"));
    }
    let crm = Crm::serve(world).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    let report = postgres.publish(&mirror).await;
    assert_eq!(report.loaded["contacts"], 12);
    let generation = || postgres.one("SELECT generation FROM crm.publish_state");
    let before: i64 = generation().await.parse().unwrap();
    crm.sandbox.with_world(|world| {
        for n in 0..12 {
            world.edit(Object::Contact, &format!("c{n:02}"), &note(n, "b"));
        }
    });
    crm.wait(600);
    mirror.sync(&crm).await;
    let report = postgres.publish(&mirror).await;
    assert_eq!((report.reloaded, report.records), (None, 12));
    let after: i64 = generation().await.parse().unwrap();
    assert!(after - before >= 3, "{} batches for 12 MiB", after - before);
    let longest = Reader::open(&mirror.path).unwrap().moment(|moment| {
        let columns = ["id", "notes"].map(String::from).to_vec();
        let query = PageQuery { table: "contacts_full".into(), columns, key: vec!["id".into()] };
        let (mut longest, mut after) = (0, None);
        loop {
            let page = moment.page(&query, after.as_deref())?;
            longest = longest.max(page.len());
            after = page.last().filter(|_| !is_last_page(&page)).map(|last| vec![last[0].clone()]);
            if after.is_none() {
                return Ok::<_, StoreError>(longest);
            }
        }
    });
    assert_eq!(longest.unwrap(), 4, "rows of 1 MiB in a page of 4 MiB");
    assert_equal(&mirror, &postgres).await;
}

/// A workspace with one custom field and three contacts with a value in it.
async fn with_field(data_type: DataType) -> Option<(Crm, Mirror, Postgres)> {
    let postgres = Postgres::start().await?;
    let mut world = World::new(noon());
    world.fields().define(NewField::new(Object::Contact, "tier", data_type).options(&["a", "b"]));
    for n in 0..5 {
        let value = if n < 3 { json!({"tier": "a"}) } else { json!({}) };
        world.create(Object::Contact, &json!({"id": format!("c{n}"), "name": "N", "customFields": value}));
    }
    let crm = Crm::serve(world).await;
    let mirror = Mirror::one_at_a_time();
    mirror.sync(&crm).await;
    postgres.publish(&mirror).await;
    Some((crm, mirror, postgres))
}

async fn synced(crm: &Crm, mirror: &Mirror) {
    for _ in 0..2 {
        crm.wait(7 * 3600);
        mirror.sync(crm).await;
    }
}

async fn follow(crm: &Crm, mirror: &Mirror, postgres: &Postgres) {
    synced(crm, mirror).await;
    let report = postgres.publish(mirror).await;
    assert_eq!(report.reloaded, None);
    assert_equal(mirror, postgres).await;
}

#[tokio::test]
async fn added_archived_and_restored_fields_are_published_and_views_keep_working() {
    let Some((crm, mirror, postgres)) = with_field(DataType::SingleSelect).await else { return };
    postgres.run("CREATE VIEW crm.people AS SELECT id, cf_tier FROM crm.contacts").await;
    crm.sandbox.with_world(|world| world.fields().archive(Object::Contact, "tier"));
    follow(&crm, &mirror, &postgres).await;
    assert_eq!(postgres.one("SELECT count(cf_tier) FROM crm.people").await, "3", "the view shows the last values");
    crm.sandbox.with_world(|world| {
        world.edit(Object::Contact, "c0", &json!({"position": "P"}));
        world.fields().define(NewField::new(Object::Contact, "added", DataType::Decimal));
        world.edit_silently(
            Object::Contact,
            "c4",
            &json!({"customFields": {"added": "12345678901234567890.0123456789"}}),
        );
    });
    follow(&crm, &mirror, &postgres).await;
    assert_eq!(
        postgres.one("SELECT cf_added::text FROM crm.contacts WHERE id = 'c4'").await,
        "12345678901234567890.0123456789"
    );
    crm.sandbox.with_world(|world| {
        world.fields().reactivate(Object::Contact, "tier");
        world.edit_silently(Object::Contact, "c1", &json!({"customFields": {"tier": "b"}}));
        world.edit_silently(Object::Contact, "c2", &json!({"customFields": {"tier": null}}));
    });
    follow(&crm, &mirror, &postgres).await;
    assert_eq!(postgres.one("SELECT string_agg(cf_tier, ',' ORDER BY id) FROM crm.people").await, "a,b");
    crm.sandbox.with_world(|world| {
        world.fields().redefine(Object::Contact, "tier", |d| d.label = "It's a \\ \"Tier\"".into())
    });
    follow(&crm, &mirror, &postgres).await;
    let comment = "SELECT col_description('crm.contacts'::regclass, attnum) FROM pg_attribute
                   WHERE attrelid = 'crm.contacts'::regclass AND attname = 'cf_tier'";
    assert!(postgres.one(comment).await.contains("It's a \\ \"Tier\""));
}

#[tokio::test]
async fn retyped_field_has_a_new_table_and_views_keep_the_old_values() {
    let Some((crm, mirror, postgres)) = with_field(DataType::SingleSelect).await else { return };
    postgres.run("CREATE VIEW crm.people AS SELECT id, cf_tier FROM crm.contacts").await;
    crm.sandbox.with_world(|world| {
        world.fields().redefine(Object::Contact, "tier", |field| field.data_type = "INTEGER".into());
        for n in 0..4 {
            world.edit(Object::Contact, &format!("c{n}"), &json!({"customFields": {"tier": n}}));
        }
    });
    synced(&crm, &mirror).await;
    let report = postgres.publish(&mirror).await;
    assert_eq!(report.reloaded.as_deref(), Some("contacts: the type of cf_tier was changed"));
    assert_eq!(report.left_behind.len(), 2, "{report:?}");
    assert!(report.left_behind.iter().all(|left| left.contains("people")), "{report:?}");
    assert_equal(&mirror, &postgres).await;
    assert_eq!(postgres.one("SELECT count(cf_tier) FROM crm.people").await, "3");
    crm.sandbox.with_world(|world| {
        world.fields().redefine(Object::Contact, "tier", |field| field.data_type = "SHORT_TEXT".into());
        world.edit(Object::Contact, "c1", &json!({"customFields": {"tier": "words"}}));
    });
    synced(&crm, &mirror).await;
    let report = postgres.publish(&mirror).await;
    assert_eq!(report.reloaded.as_deref(), Some("contacts: the type of cf_tier was changed"));
    assert_equal(&mirror, &postgres).await;
    // To a type that PostgreSQL stores in the same way: the values differ nevertheless.
    crm.sandbox.with_world(|world| {
        world.fields().redefine(Object::Contact, "tier", |field| field.data_type = "SINGLE_SELECT".into());
        world.edit(Object::Contact, "c1", &json!({"customFields": {"tier": null}}));
        world.edit(Object::Contact, "c2", &json!({"customFields": {"tier": "b"}}));
    });
    follow(&crm, &mirror, &postgres).await;
}

#[tokio::test]
async fn field_whose_type_came_back_between_two_publishes_has_its_present_values() {
    for other in ["A_NEW_TYPE", "INTEGER"] {
        let Some((crm, mirror, postgres)) = with_field(DataType::ShortText).await else { return };
        crm.sandbox.with_world(|world| {
            for id in ["c0", "c1"] {
                world.edit_silently(Object::Contact, id, &json!({"customFields": {"tier": null}}));
            }
        });
        for data_type in [other, "SHORT_TEXT"] {
            crm.sandbox.with_world(|world| {
                assert!(world.fields().redefine(Object::Contact, "tier", |field| field.data_type = data_type.into()));
            });
            for _ in 0..2 {
                crm.wait(7 * 3600);
                mirror.sync(&crm).await;
            }
        }
        let report = postgres.publish(&mirror).await;
        assert_eq!((report.reloaded, mirror.one("SELECT count(cf_tier) FROM contacts")), (None, "1".into()));
        assert_equal(&mirror, &postgres).await;
    }
}

#[tokio::test]
async fn forgotten_record_is_erased_in_the_database_and_a_return_keeps_its_new_history() {
    let Some((crm, mirror, postgres)) = published(20, 2).await else { return };
    let id = crm.sandbox.with_world(|world| {
        let id = world.ids(Resource::Contacts)[0].clone();
        world.edit(Object::Contact, &id, &json!({"position": "s3cret"}));
        let other = world.ids(Resource::Contacts)[1].clone();
        world.edit(Object::Contact, &other, &json!({"position": "whose history stays"}));
        id
    });
    crm.wait(600);
    mirror.sync(&crm).await;
    crm.sandbox.with_world(|world| world.remove(Object::Contact, &id));
    // No other record is as new: only the same answer at a second moment removes it.
    for _ in 0..2 {
        crm.wait(7 * 3600);
        mirror.resync(&crm).await;
    }
    postgres.publish(&mirror).await;
    let about = format!("SELECT count(*) FROM crm.changes WHERE record_id = '{id}' AND fields <> '{{}}'");
    assert_ne!(postgres.one(&about).await, "0");
    let erased = write_beside(&mirror.path, |tx| tx.feed().erase_removed(Object::Contact, &id));
    assert!(matches!(erased, Ok::<_, StoreError>(Erasure::Erased(_))), "{erased:?}");
    postgres.publish(&mirror).await;
    assert_eq!(postgres.one(&about).await, "0");
    assert_eq!(postgres.one("SELECT count(*) FROM crm.removed_records").await, "0");
    assert_equal(&mirror, &postgres).await;
    let back = json!({"id": id, "name": "Back again"});
    crm.sandbox.with_world(|world| world.create(Object::Contact, &back));
    crm.wait(600);
    mirror.sync(&crm).await;
    postgres.publish(&mirror).await;
    assert_ne!(postgres.one(&about).await, "0");
    assert_equal(&mirror, &postgres).await;
    // Erased, back and entered again for its details before the next publish.
    crm.sandbox.with_world(|world| world.remove(Object::Contact, &id));
    for _ in 0..2 {
        crm.wait(7 * 3600);
        mirror.resync(&crm).await;
    }
    let erased = write_beside(&mirror.path, |tx| tx.feed().erase_removed(Object::Contact, &id));
    assert!(matches!(erased, Ok::<_, StoreError>(Erasure::Erased(_))), "{erased:?}");
    crm.sandbox.with_world(|world| world.create(Object::Contact, &back));
    crm.wait(600);
    mirror.sync(&crm).await;
    write_beside::<_, StoreError>(&mirror.path, |tx| tx.knowledge().make_details_due(Object::Contact, None)).unwrap();
    postgres.publish(&mirror).await;
    assert_equal(&mirror, &postgres).await;
}

#[tokio::test]
async fn columns_of_archived_fields_are_published_and_follow() {
    let Some(postgres) = Postgres::start().await else { return };
    let mut world = World::new(noon());
    for (key, data_type) in [("tier", DataType::SingleSelect), ("fee", DataType::Decimal)] {
        world.fields().define(NewField::new(Object::Contact, key, data_type).options(&["gold", "tin"]));
    }
    for n in 0..4 {
        let fields = json!({"tier": if n < 2 { "gold" } else { "tin" }, "fee": "1.50"});
        world.create(Object::Contact, &json!({"id": format!("ct{n}"), "customFields": fields}));
    }
    let crm = Crm::serve(world).await;
    let mut mirror = Mirror::empty();
    mirror.sync(&crm).await;
    postgres.publish(&mirror).await;
    assert_equal(&mirror, &postgres).await;
    mirror.views = Some(ViewOptions { keep_archived: true, ..ViewOptions::default() });
    mirror.sync(&crm).await;
    postgres.publish(&mirror).await;
    assert_equal(&mirror, &postgres).await;
    crm.sandbox.with_world(|world| {
        world.fields().archive(Object::Contact, "fee");
    });
    follow(&crm, &mirror, &postgres).await;
    let kept = "SELECT string_agg(cf_tier || cf_fee, ' ' ORDER BY id) FROM crm.contacts";
    assert_eq!(postgres.one(kept).await, "gold1.50 gold1.50 tin1.50 tin1.50");
    mirror.views = Some(ViewOptions::default());
    mirror.sync(&crm).await;
    postgres.publish(&mirror).await;
    assert_equal(&mirror, &postgres).await;
}
