//! Configured views, indexes and search: each is created, follows the definitions, and is removed again.

use std::fs;

use crate::support::{Crm, Mirror, noon};
use crm_mirror::model::{Choice, DataType, Object};
use crm_mirror::sandbox::{NewField, World};
use crm_mirror::store::{BrokenObject, Reader, Store, ViewOptions, people_report};
use serde_json::json;

/// The interval after which definitions are read again.
const INTERVAL: u64 = 6 * 3600;

fn broken(mirror: &Mirror) -> Vec<BrokenObject> {
    let reader = Reader::open(&mirror.path).unwrap();
    people_report::broken(&reader.begin().unwrap()).unwrap()
}

fn names(broken: &[BrokenObject]) -> Vec<&str> {
    broken.iter().map(|object| object.name.as_str()).collect()
}

/// Three contacts with a tier and topics, and a mirror of them.
async fn workspace(options: ViewOptions) -> (Crm, Mirror) {
    let mut world = World::new(noon());
    for (key, data_type) in [
        ("tier", DataType::SingleSelect),
        ("topics", DataType::MultiSelect),
        ("fee", DataType::Decimal),
        ("story", DataType::LongText),
    ] {
        world.fields().define(NewField::new(Object::Contact, key, data_type).options(&["gold", "tin"]));
    }
    let choice = |value: &str, label: Option<&str>| Choice { value: value.into(), label: label.map(Into::into) };
    let options_of_tier = vec![choice("gold", Some("It's \"Gold\"")), choice("tin", None)];
    world.fields().redefine(Object::Contact, "tier", |d| d.options = options_of_tier.clone());
    world.fields().redefine(Object::Contact, "topics", |d| d.options = options_of_tier);
    world.create(Object::Company, &json!({"id": "co1", "name": "Acme"}));
    for n in 0..3 {
        let tier = if n == 0 { "gold" } else { "tin" };
        world.create(
            Object::Contact,
            &json!({"id": format!("ct{n}"), "name": format!("Name {n}"), "companyId": "co1", "notes": format!("Notes {n}"),
                    "customFields": {"tier": tier, "topics": ["tin", "gold"], "fee": "1.50", "story": "Once"}}),
        );
    }
    let crm = Crm::serve(world).await;
    let mut mirror = Mirror::one_at_a_time();
    mirror.views = Some(options);
    mirror.sync(&crm).await;
    (crm, mirror)
}

async fn later(mirror: &Mirror, crm: &Crm) {
    crm.wait(INTERVAL);
    mirror.sync(crm).await;
    mirror.assert_exact(crm);
}

/// A connection of another program to a mirror that takes edits.
async fn with_write_back(mirror: &Mirror) -> rusqlite::Connection {
    let store = Store::open(&mirror.path).unwrap();
    store.write(|tx| tx.edits().set_write_back(true)).await.unwrap();
    store.close().await;
    rusqlite::Connection::open(&mirror.path).unwrap()
}

#[tokio::test]
async fn views_from_files_follow_the_files_and_the_columns() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    file("a.sql", "-- Ours\nCREATE VIEW rich AS SELECT name, cf_fee FROM contacts_full WHERE cf_fee_num > 1;");
    file("b.sql", "CREATE VIEW oops AS SELEC 1");
    file("c.sql", "CREATE VIEW fine AS SELECT 1 AS one; DELETE FROM contacts");
    file("notes.txt", "nothing");
    let folder_name = Some(folder.path().to_str().unwrap().to_string());
    let (crm, mut mirror) = workspace(ViewOptions { folder: folder_name, ..ViewOptions::default() }).await;
    assert_eq!(mirror.one("SELECT count(*) FROM rich"), "3");
    let found = broken(&mirror);
    assert_eq!(names(&found), ["b.sql", "c.sql"]);
    assert!(found[1].why.contains("only CREATE VIEW"), "{found:?}");

    crm.sandbox.with_world(|world| world.fields().archive(Object::Contact, "fee"));
    fs::remove_file(folder.path().join("b.sql")).unwrap();
    file("c.sql", "CREATE VIEW fine AS SELECT 1 AS one");
    later(&mirror, &crm).await;
    let found = broken(&mirror);
    assert_eq!((found[0].kind.as_str(), names(&found)), ("file", vec!["a.sql"]));
    assert_eq!(mirror.one("SELECT one FROM fine"), "1");

    crm.sandbox.with_world(|world| world.fields().reactivate(Object::Contact, "fee"));
    later(&mirror, &crm).await;
    assert_eq!(broken(&mirror), []);
    assert_eq!(mirror.one("SELECT cf_fee FROM rich LIMIT 1"), "'1.50'");

    mirror.views = Some(ViewOptions { folder: Some("/nowhere at all".into()), ..ViewOptions::default() });
    later(&mirror, &crm).await;
    assert_eq!(names(&broken(&mirror)), ["/nowhere at all"]);
    assert_eq!(mirror.one("SELECT count(*) FROM sqlite_schema WHERE name IN ('rich', 'fine')"), "0");
}

#[tokio::test]
async fn configured_indexes_serve_filters_and_an_unknown_column_is_named() {
    let indexes = ["contacts.position", "contacts_full.cf_story", "contacts.cf_later", "companies.hq_country"];
    let options = ViewOptions { indexes: indexes.map(String::from).to_vec(), ..ViewOptions::default() };
    let (crm, mut mirror) = workspace(options).await;
    let plan = |sql: &str| {
        let conn = mirror.read();
        let mut stmt = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let lines: Vec<String> = stmt.query_map([], |row| row.get(3)).unwrap().map(Result::unwrap).collect();
        lines.join("\n")
    };
    for (table, column, index) in [
        ("contacts", "position", "ix_contacts_position"),
        ("contacts_full", "position", "ix_full_contacts_position"),
        ("contact_details", "cf_story", "ix_contact_details_cf_story"),
        ("companies", "hq_country", "ix_companies_hq_country"),
    ] {
        let plan = plan(&format!("SELECT * FROM {table} WHERE {column} = 'x'"));
        assert!(plan.contains(&format!("INDEX {index} ")), "{table}.{column}: {plan}");
    }
    assert_eq!(names(&broken(&mirror)), ["contacts.cf_later"]);
    crm.sandbox.with_world(|world| world.fields().define(NewField::new(Object::Contact, "later", DataType::Integer)));
    later(&mirror, &crm).await;
    assert_eq!(broken(&mirror), []);
    assert_eq!(mirror.one("SELECT count(*) FROM sqlite_schema WHERE name = 'ix_contacts_cf_later'"), "1");
    mirror.views = Some(ViewOptions::default());
    mirror.sync(&crm).await;
    assert_eq!(
        mirror.one("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'ix%position' OR name LIKE 'ix%story'"),
        "0"
    );
}

#[tokio::test]
async fn archived_columns_that_are_kept_stay_in_the_views_with_their_last_values() {
    let (crm, mirror) = workspace(ViewOptions { keep_archived: true, ..ViewOptions::default() }).await;
    crm.sandbox.with_world(|world| {
        for key in ["tier", "topics", "fee", "story"] {
            world.fields().archive(Object::Contact, key);
        }
    });
    crm.wait(INTERVAL);
    mirror.sync(&crm).await;
    let row = mirror
        .one("SELECT cf_tier || cf_topics || cf_fee || cf_fee_num || cf_story FROM contacts_full WHERE id = 'ct0'");
    assert_eq!(row, "'gold[\"tin\",\"gold\"]1.501.5Once'");
    assert_eq!(mirror.one("SELECT value FROM contact_history WHERE id = 'ct0' AND column_name = 'cf_tier'"), "'gold'");
    let about = "SELECT about FROM mirror_columns WHERE table_name = 'contacts_full' AND column_name = 'cf_fee'";
    assert_eq!(mirror.one(about), "'archived: the last values before that'");
    let edit = with_write_back(&mirror).await;
    let refused = edit.execute("UPDATE contacts_full SET cf_tier = 'tin' WHERE id = 'ct0'", []).unwrap_err();
    assert!(refused.to_string().contains("cf_tier is archived"), "{refused}");
    edit.execute("UPDATE contacts_full SET position = 'New' WHERE id = 'ct0'", []).unwrap();
    crm.sandbox.with_world(|world| world.fields().reactivate(Object::Contact, "tier"));
    later(&mirror, &crm).await;
    assert_eq!(mirror.one("SELECT cf_tier FROM contacts_full WHERE id = 'ct0'"), "'gold'");
}
