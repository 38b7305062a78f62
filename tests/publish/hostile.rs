//! What PostgreSQL cannot store never stops publishing, and is not lost.

use crm_mirror::model::{DataType, Object, Resource};
use crm_mirror::sandbox::{NewField, World, generate};
use rusqlite::Connection;
use serde_json::json;

use crate::server::Postgres;
use crate::support::{Crm, Mirror, noon};

#[tokio::test]
async fn what_postgresql_cannot_store_is_null_and_kept_in_extra() {
    let Some(postgres) = Postgres::start().await else { return };
    let mut world = World::new(noon());
    for (key, data_type) in [
        ("day", DataType::Date),
        ("note", DataType::LongText),
        ("amount", DataType::Decimal),
        ("tags", DataType::MultiSelect),
    ] {
        world.define(NewField::new(Object::Contact, key, data_type).options(&["a"]));
    }
    let company = world.create(Object::Company, &json!({"id": "k\u{0}1", "name": "nul\u{0}company"}));
    world.create(
        Object::Contact,
        &json!({
            "id": "c\u{0}1",
            "name": "nul\u{0}name",
            "email": "e".repeat(5_000),
            "companyId": company.as_str(),
            "notes": "tab\tback\\slash\nline\u{0}",
            "customFields": {"note": "é\u{0}", "amount": "99999999999999999999.9999999999"},
        }),
    );
    world.set_raw(Object::Contact, "c\u{0}1", "customFields.day", "\"0000-01-01\"");
    world.set_raw(Object::Contact, "c\u{0}1", "customFields.tags", r#"["a\u0000"]"#);
    world.set_raw(Object::Contact, "c\u{0}1", "somethingNew", r#"{"lone":"\ud800","big":1e99999,"n":1.10}"#);
    let crm = Crm::serve(world).await;
    let mirror = Mirror::one_at_a_time();
    for _ in 0..2 {
        mirror.sync(&crm).await;
        crm.wait(600);
    }
    for full in [false, true] {
        let settings = crm_mirror::publish::PublishSettings { full, ..Postgres::settings(&mirror) };
        postgres.try_publish(&settings).await.unwrap();
        let row = &postgres
            .rows("SELECT id, name, email, company_id, company_name, cf_day::text, cf_note, cf_amount::text FROM crm.contacts")
            .await[0];
        let text = |text: &str| Some(text.to_string());
        let expected = [
            text("c\\u00001"),
            None,
            None,
            text("k\\u00001"),
            None,
            None,
            None,
            text("99999999999999999999.9999999999"),
        ];
        assert_eq!(row, &expected);
        let kept = postgres.one("SELECT extra -> 'crm_mirror_escaped' ->> 'name' FROM crm.contacts").await;
        assert_eq!(serde_json::from_str::<String>(&kept).unwrap(), "nul\u{0}name");
        let kept = postgres.one("SELECT extra -> 'crm_mirror_escaped' ->> 'email' FROM crm.contacts").await;
        assert_eq!(serde_json::from_str::<String>(&kept).unwrap(), "e".repeat(5_000));
        let all = postgres.one("SELECT extra::text || coalesce(detail_extra::text, '') FROM crm.contacts").await;
        assert!(all.contains("somethingNew") && all.contains("1.10") && all.contains("1e99999"), "{all}");
        assert_eq!(postgres.one("SELECT value FROM crm.custom_multi_values").await, "a\\u0000");
    }
    // Changed, it travels the other way, and through the history.
    crm.sandbox.with_world(|world| {
        world.edit(Object::Contact, "c\u{0}1", &json!({"position": "nul\u{0}position", "lastName": "plain"}));
    });
    mirror.sync(&crm).await;
    postgres.publish(&mirror).await;
    assert_eq!(postgres.one("SELECT last_name FROM crm.contacts").await, "plain");
    let history = postgres.one("SELECT fields::text FROM crm.changes WHERE fields ? 'position'").await;
    assert!(history.contains("crm_mirror_escaped"), "{history}");
}

#[tokio::test]
async fn what_people_wrote_into_the_mirror_by_hand_does_not_stop_it() {
    let Some(postgres) = Postgres::start().await else { return };
    let crm = Crm::serve(generate(5, 30, 3, noon())).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    let conn = Connection::open(&mirror.path).unwrap();
    conn.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    conn.execute_batch(
        "UPDATE contacts SET created_at = 'yesterday', qualification = 7, extra = 'no json';
         UPDATE companies SET employee_count = NULL, revenue_num = 1e999, customer_fit_score = -1e999;",
    )
    .unwrap();
    let report = postgres.publish(&mirror).await;
    assert_eq!(report.loaded["contacts"], 30);
    assert_eq!(
        postgres.one("SELECT count(*) FROM crm.contacts WHERE created_at IS NULL AND qualification IS NULL").await,
        "30"
    );
}

#[tokio::test]
async fn what_is_excluded_is_nowhere_in_the_database() {
    let Some(postgres) = Postgres::start().await else { return };
    let mut world = generate(5, 20, 3, noon());
    world.define(NewField::new(Object::Contact, "salary", DataType::Decimal));
    world.define(NewField::new(Object::Contact, "hidden_tags", DataType::MultiSelect).options(&["s3cret"]));
    let ids = world.ids(Resource::Contacts);
    let hide = |world: &mut World, id: &str, n: usize| {
        let custom = json!({"salary": format!("77777777{n}"), "hidden_tags": ["s3cret"]});
        world.edit(
            Object::Contact,
            id,
            &json!({"notes": format!("s3cret {n}"), "mobile": "s3cret", "customFields": custom}),
        );
    };
    for (n, id) in ids.iter().enumerate() {
        hide(&mut world, id, n);
    }
    let crm = Crm::serve(world).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    crm.sandbox.with_world(|world| {
        for (n, id) in ids[..10].iter().enumerate() {
            hide(world, id, n + 100);
        }
        // Of a form that no column holds: kept verbatim in `extra`.
        world.set_raw(Object::Contact, &ids[11], "notes", r#"{"why":"s3cret"}"#);
        world.set_raw(Object::Contact, &ids[11], "customFields.salary", r#"{"why":"77777777"}"#);
        world.edit(Object::Contact, &ids[11], &json!({"position": "x"}));
        world.remove(Object::Contact, &ids[12]);
    });
    crm.wait(7 * 3600);
    mirror.resync(&crm).await;
    // Published with everything first: what is excluded later is withdrawn.
    postgres.publish(&mirror).await;
    postgres.run("CREATE VIEW crm.peoples AS SELECT id, mobile FROM crm.contacts").await;
    let mut settings = Postgres::settings(&mirror);
    settings.exclude = ["contacts.notes", "mobile", "cf_salary", "contacts.cf_hidden_tags"].map(String::from).to_vec();
    let report = postgres.try_publish(&settings).await.unwrap();
    assert!(report.reloaded.is_some() && report.left_behind.len() == 1, "{report:?}");
    crm.sandbox.with_world(|world| hide(world, &ids[3], 999));
    crm.wait(600);
    mirror.sync(&crm).await;
    postgres.try_publish(&settings).await.unwrap();
    for table in
        ["contacts", "companies", "changes", "removed_records", "custom_multi_values", "team_members", "peoples"]
    {
        let found =
            postgres.one(&format!("SELECT count(*) FROM crm.{table} AS t WHERE t::text ~ 's3cret|77777777'")).await;
        assert_eq!(found, "0", "{table}");
    }
    assert_ne!(postgres.one("SELECT count(*) FROM crm.changes").await, "0");
    settings.exclude = vec!["contacts.nots".into()];
    let refused = postgres.try_publish(&settings).await.unwrap_err().to_string();
    assert!(refused.contains("contacts.nots"), "{refused}");
}
