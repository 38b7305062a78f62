//! Values that PostgreSQL cannot store never stop publishing and are not lost.

use crm_mirror::app::publish_settings;
use crm_mirror::config::{Config, Environment, Sources};
use crm_mirror::model::{DataType, Object, Resource};
use crm_mirror::publish::PublishSettings;
use crm_mirror::sandbox::{NewField, World, generate};
use crm_mirror::store::{Erasure, StoreError, ViewOptions, write_beside};
use rusqlite::Connection;
use serde_json::json;

use crate::equal::assert_equal;
use crate::server::Postgres;
use crate::support::{Crm, Mirror, noon};

#[tokio::test]
async fn values_that_postgresql_cannot_store_are_null_and_kept_in_extra() {
    let Some(postgres) = Postgres::start().await else { return };
    let mut world = World::new(noon());
    for (key, data_type) in [
        ("day", DataType::Date),
        ("note", DataType::LongText),
        ("amount", DataType::Decimal),
        ("tags", DataType::MultiSelect),
    ] {
        world.fields().define(NewField::new(Object::Contact, key, data_type).options(&["a"]));
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
    // A change takes the other path, through the history.
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
async fn values_written_by_users_do_not_stop_publishing() {
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

fn hide(world: &mut World, id: &str, n: usize) {
    let custom = json!({"salary": format!("77777777{n}"), "hidden_tags": ["s3cret"]});
    let fields = json!({"notes": format!("s3cret {n}"), "mobile": "s3cret", "customFields": custom});
    world.edit(Object::Contact, id, &fields);
}

fn hide_names(world: &mut World, name: &str) {
    for id in world.ids(Resource::Companies) {
        world.edit(Object::Company, &id, &json!({ "name": name }));
    }
    for id in world.ids(Resource::TeamMembers) {
        world.edit(Resource::TeamMembers, &id, &json!({ "lastName": name }));
    }
}

/// Reads every table and view of the schema but that of options, which are not excluded with the values of a field.
async fn assert_nowhere(postgres: &Postgres, pattern: &str) -> Vec<String> {
    let all = "SELECT oid::regclass::text FROM pg_class WHERE relkind IN ('r', 'v')
               AND relnamespace = 'crm'::regnamespace AND relname <> 'custom_field_options'";
    let relations: Vec<String> = postgres.rows(all).await.into_iter().flatten().flatten().collect();
    for name in &relations {
        let found = postgres.one(&format!("SELECT count(*) FROM {name} AS t WHERE t::text ~ '{pattern}'")).await;
        assert_eq!(found, "0", "{name}");
    }
    relations
}

#[tokio::test]
async fn excluded_values_are_nowhere_in_the_database() {
    let Some(postgres) = Postgres::start().await else { return };
    let mut world = generate(5, 20, 3, noon());
    world.fields().define(NewField::new(Object::Contact, "salary", DataType::Decimal));
    world.fields().define(NewField::new(Object::Contact, "hidden_tags", DataType::MultiSelect).options(&["s3cret"]));
    let ids = world.ids(Resource::Contacts);
    for (n, id) in ids.iter().enumerate() {
        hide(&mut world, id, n);
    }
    hide_names(&mut world, "s3cret");
    let crm = Crm::serve(world).await;
    let mut mirror = Mirror::empty();
    mirror.sync(&crm).await;
    crm.sandbox.with_world(|world| {
        for (n, id) in ids[..10].iter().enumerate() {
            hide(world, id, n + 100);
        }
        // Of a form that no column can hold: kept verbatim in `extra`.
        world.set_raw(Object::Contact, &ids[11], "notes", r#"{"why":"s3cret"}"#);
        world.set_raw(Object::Contact, &ids[11], "customFields.salary", r#"{"why":"77777777"}"#);
        world.edit(Object::Contact, &ids[11], &json!({"position": "x"}));
        world.remove(Object::Contact, &ids[12]);
    });
    crm.wait(7 * 3600);
    mirror.resync(&crm).await;
    // First published with everything; columns excluded later are withdrawn.
    postgres.publish(&mirror).await;
    // A whole table that a view cannot leave, and one that becomes such with the exclusion.
    postgres
        .run(
            "ALTER TABLE crm.contacts ALTER COLUMN updated_at TYPE text;
             CREATE VIEW crm.dated AS SELECT id, updated_at FROM crm.contacts",
        )
        .await;
    postgres.publish(&mirror).await;
    let kept = "SELECT count(*) FROM crm.contacts__left_behind_1 AS t WHERE t::text ~ 's3cret'";
    assert_ne!(postgres.one(kept).await, "0");
    postgres
        .run(
            "CREATE VIEW crm.peoples AS SELECT id, mobile FROM crm.contacts;
             CREATE FUNCTION of_values(crm.custom_multi_values) RETURNS text LANGUAGE sql AS 'SELECT $1.value'",
        )
        .await;
    let mut settings = Postgres::settings(&mirror);
    // `position` also is a part of the key of other tables, which keep it.
    let excluded =
        "contacts.notes mobile cf_salary contacts.cf_hidden_tags position companies.name team_members.last_name";
    settings.exclude = excluded.split(' ').map(String::from).collect();
    let report = postgres.try_publish(&settings).await.unwrap();
    assert!(report.reloaded.is_some() && report.left_behind.len() == 3 && report.blocked.is_empty(), "{report:?}");
    crm.sandbox.with_world(|world| {
        hide(world, &ids[3], 999);
        hide_names(world, "s3cret again");
    });
    crm.wait(7 * 3600);
    mirror.sync(&crm).await;
    postgres.try_publish(&settings).await.unwrap();
    let relations = assert_nowhere(&postgres, "s3cret|77777777").await;
    for kept in ["crm.contacts__left_behind_1", "crm.contacts__left_behind_2", "crm.peoples"] {
        assert!(relations.iter().any(|name| name == kept), "{relations:?}");
    }
    let names = "SELECT count(*) FROM contacts_full WHERE owner_name LIKE '% again' AND company_name LIKE '% again'";
    assert_ne!(mirror.one(names), "0");
    assert_ne!(postgres.one("SELECT count(*) FROM crm.changes").await, "0");
    let positions = "SELECT string_agg(DISTINCT table_name, ' ' ORDER BY table_name) FROM information_schema.columns
                     WHERE table_schema = 'crm' AND column_name = 'position' AND table_name !~ '__'";
    assert_eq!(postgres.one(positions).await, "custom_field_options custom_multi_values");
    // What is not mirrored any more is withdrawn too, and is a column all the same.
    mirror.views = Some(ViewOptions { exclude: vec!["contacts.industry".into()], ..ViewOptions::default() });
    settings.exclude.push("contacts.industry".into());
    assert_ne!(postgres.one("SELECT count(industry) FROM crm.contacts").await, "0");
    mirror.sync(&crm).await;
    postgres.try_publish(&settings).await.unwrap();
    let left = "SELECT count(*) FROM information_schema.columns WHERE table_schema = 'crm' AND column_name = 'industry'
                AND table_name = 'contacts'";
    assert_eq!(postgres.one(left).await, "0");
    settings.exclude = vec!["contacts.nots".into()];
    let refused = postgres.try_publish(&settings).await.unwrap_err().to_string();
    assert!(refused.contains("contacts.nots"), "{refused}");
}

#[tokio::test]
async fn what_is_kept_out_of_the_mirror_is_withdrawn_from_no_other_table() {
    let Some(postgres) = Postgres::start().await else { return };
    let crm = Crm::serve(generate(5, 20, 3, noon())).await;
    let mut mirror = Mirror::empty();
    mirror.sync(&crm).await;
    postgres.publish(&mirror).await;
    let flags = vec![("sync.exclude", "email,last_name,name,cf_later".into())];
    let (default_file, environment) = ("/nowhere".into(), Environment::default());
    let config = Config::load(&Sources { file: None, default_file, environment, flags }).unwrap();
    mirror.views = Some(config.views());
    mirror.sync(&crm).await;
    let settings = PublishSettings { mirror: mirror.path.clone(), ..publish_settings(&config) };
    postgres.try_publish(&settings).await.unwrap();
    let left = "SELECT string_agg(table_name || '.' || column_name, ' ') FROM (
                    SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'crm'
                    AND table_name IN ('contacts', 'companies', 'team_members')
                    AND column_name IN ('email', 'last_name', 'name', 'owner_name', 'company_name') ORDER BY 1, 2) AS c";
    let expected = "companies.owner_name contacts.owner_name team_members.email team_members.last_name";
    assert_eq!(postgres.one(left).await, expected);
    let values = |table| format!("SELECT count(*) FROM {table} WHERE email <> '' AND last_name <> ''");
    assert_eq!(postgres.one(&values("crm.team_members")).await, mirror.one(&values("team_members")));
}

#[tokio::test]
async fn rows_that_the_database_refuses_are_named_and_stop_no_other() {
    let Some(postgres) = Postgres::start().await else { return };
    let crm = Crm::serve(generate(4, 40, 3, noon())).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    postgres.publish(&mirror).await;
    let ids = crm.sandbox.with_world(|world| world.ids(Resource::Contacts));
    // A check, a trigger, and a deferred reference to a row that is removed below.
    postgres
        .run(&format!(
            "ALTER TABLE crm.contacts ADD CONSTRAINT ours CHECK (position <> 'forbidden');
             CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN IF NEW.position = 'raised' THEN RAISE EXCEPTION 'not here'; END IF; RETURN NEW; END $$;
             CREATE TRIGGER raises BEFORE INSERT OR UPDATE ON crm.contacts FOR EACH ROW EXECUTE FUNCTION refuse();
             CREATE TABLE notes (contact text REFERENCES crm.contacts (id) DEFERRABLE INITIALLY DEFERRED);
             INSERT INTO notes VALUES ('{}')",
            ids[9]
        ))
        .await;
    crm.sandbox.with_world(|world| {
        for (n, id) in ids.iter().take(20).enumerate() {
            let position = ["forbidden", "raised"].get(n.wrapping_sub(7)).unwrap_or(&"new");
            world.edit(Object::Contact, id, &json!({"position": position}));
        }
        world.remove(Object::Contact, &ids[9]);
    });
    crm.wait(600);
    mirror.sync(&crm).await;
    mirror.resync(&crm).await;
    let refused = async |full: bool| {
        let settings = crm_mirror::publish::PublishSettings { full, ..Postgres::settings(&mirror) };
        let report = postgres.try_publish(&settings).await.unwrap();
        let mut names: Vec<String> = report.refused_rows.iter().map(|row| row.name.clone()).collect();
        assert_eq!(names.len() as u64, report.refused);
        assert!(report.refused_rows.iter().all(|row| row.table == "contacts"), "{report:?}");
        names.sort();
        names
    };
    let position = async |id: &str| postgres.one(&format!("SELECT position FROM crm.contacts WHERE id = '{id}'")).await;
    let mut expected = vec![ids[7].clone(), ids[8].clone(), ids[9].clone()];
    expected.sort();
    assert_eq!(refused(false).await, expected);
    for n in (0..20).filter(|n| ![7, 8, 9].contains(n)) {
        assert_eq!(position(&ids[n]).await, "new", "{n}");
    }
    // A new table takes all rows; what people attached to the old one is kept for later rows.
    assert!(refused(true).await.is_empty());
    assert_eq!(postgres.one("SELECT count(*) FROM crm.contacts").await, "39");
    assert_eq!((position(&ids[7]).await, position(&ids[8]).await), ("forbidden".into(), "raised".into()));
    crm.sandbox.with_world(|world| {
        world.edit(Object::Contact, &ids[7], &json!({"position": "forbidden", "notes": "again"}));
        world.edit(Object::Contact, &ids[8], &json!({"position": "raised", "notes": "again"}));
    });
    crm.wait(600);
    mirror.sync(&crm).await;
    let mut expected = ids[7..9].to_vec();
    expected.sort();
    assert_eq!(refused(false).await, expected);
    let lag = mirror.one("SELECT json_extract(value, '$.refused') FROM state WHERE name = 'publish'");
    assert_eq!(lag, "2");
    // A row is sent again when its record changes; the others with a reload.
    crm.sandbox.with_world(|world| world.edit(Object::Contact, &ids[7], &json!({"position": "allowed"})));
    crm.wait(600);
    mirror.sync(&crm).await;
    assert_eq!(refused(false).await, [ids[8].clone()]);
    assert_eq!(position(&ids[7]).await, "allowed");
    postgres.run("DROP TRIGGER raises ON crm.contacts").await;
    let settings = crm_mirror::publish::PublishSettings { full: true, ..Postgres::settings(&mirror) };
    let report = postgres.try_publish(&settings).await.unwrap();
    assert_eq!(
        (report.refused, postgres.one("SELECT details::json ->> 'refused' FROM crm.publish_state").await),
        (0, "{}".into())
    );
    assert_equal(&mirror, &postgres).await;
}

#[tokio::test]
async fn table_that_cannot_be_written_stops_no_other() {
    let Some(postgres) = Postgres::start().await else { return };
    let crm = Crm::serve(generate(4, 20, 3, noon())).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    postgres.publish(&mirror).await;
    let audits = "CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS
                      $$ BEGIN INSERT INTO audits SELECT 1; RETURN NULL; END $$; ";
    let undo = "DROP FUNCTION audit CASCADE";
    for (round, obstacle) in [
        "CREATE TRIGGER ours AFTER UPDATE ON crm.contacts FOR EACH ROW EXECUTE FUNCTION audit()",
        "CREATE CONSTRAINT TRIGGER ours AFTER UPDATE ON crm.contacts DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION audit()",
        "CREATE RULE ours AS ON UPDATE TO crm.contacts DO ALSO SELECT 1",
    ]
    .into_iter()
    .enumerate()
    {
        postgres.run(&format!("{audits} {obstacle}")).await;
        crm.sandbox.with_world(|world| {
            for (object, resource) in [(Object::Contact, Resource::Contacts), (Object::Company, Resource::Companies)] {
                let id = world.ids(resource)[0].clone();
                world.edit(object, &id, &json!({"name": format!("Moved {round}")}));
            }
        });
        crm.wait(600);
        mirror.sync(&crm).await;
        let report = postgres.publish(&mirror).await;
        assert_eq!(report.blocked.iter().map(|of| of.table).collect::<Vec<_>>(), ["contacts"], "{obstacle}");
        let moved = |table| format!("SELECT count(*) FROM crm.{table} WHERE name = 'Moved {round}'");
        let both = (postgres.one(&moved("companies")).await, postgres.one(&moved("contacts")).await);
        assert_eq!(both, ("1".into(), "0".into()), "{obstacle}");
        // A new table, which a person asks for, is made without the rule, which is said.
        let is_rule = obstacle.contains("RULE");
        postgres.run(if is_rule { "" } else { undo }).await;
        let settings = PublishSettings { full: is_rule, ..Postgres::settings(&mirror) };
        let report = postgres.try_publish(&settings).await.unwrap();
        assert!(report.blocked.is_empty(), "{obstacle}");
        let said = report.left_behind.iter().any(|left| left.contains("the rule ours was not made again"));
        assert_eq!(said, is_rule, "{:?}", report.left_behind);
        assert_equal(&mirror, &postgres).await;
    }
}

#[tokio::test]
async fn refused_rows_of_the_history_leave_the_list_with_the_history() {
    let Some(postgres) = Postgres::start().await else { return };
    let crm = Crm::serve(generate(4, 10, 3, noon())).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    postgres.publish(&mirror).await;
    let ids = crm.sandbox.with_world(|world| world.ids(Resource::Contacts));
    // The first entry of a history stays, without its contents.
    crm.sandbox.with_world(|world| world.edit(Object::Contact, &ids[2], &json!({"position": "first"})));
    crm.wait(600);
    mirror.sync(&crm).await;
    let check = format!("CHECK (record_id NOT IN ('{}', '{}')) NOT VALID", ids[0], ids[1]);
    postgres.run(&format!("ALTER TABLE crm.changes ADD CONSTRAINT ours {check}")).await;
    crm.sandbox.with_world(|world| {
        world.edit(Object::Contact, &ids[0], &json!({"position": "new"}));
        world.edit(Object::Contact, &ids[1], &json!({"position": "new"}));
    });
    crm.wait(600);
    mirror.sync(&crm).await;
    assert_eq!(postgres.publish(&mirror).await.refused, 2);
    crm.sandbox.with_world(|world| world.remove(Object::Contact, &ids[0]));
    for _ in 0..2 {
        crm.wait(7 * 3600);
        mirror.resync(&crm).await;
    }
    let erased = write_beside(&mirror.path, |tx| tx.feed().erase_removed(Object::Contact, &ids[0]));
    assert!(matches!(erased, Ok::<_, StoreError>(Erasure::Erased(_))), "{erased:?}");
    let left = format!("SELECT count(*) FROM changes WHERE record_id IN ('{}', '{}')", ids[0], ids[1]);
    let report = postgres.publish(&mirror).await;
    assert_eq!(report.refused.to_string(), mirror.one(&left), "{report:?}");
    let conn = Connection::open(&mirror.path).unwrap();
    conn.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    conn.execute("DELETE FROM changes WHERE seq <= (SELECT max(seq) FROM changes WHERE record_id = ?1)", [&ids[1]])
        .unwrap();
    let before = report.refused;
    let report = postgres.publish(&mirror).await;
    assert_eq!(report.refused.to_string(), mirror.one(&left), "{report:?}");
    assert!(report.refused < before, "{report:?}");
}

#[tokio::test]
async fn field_without_a_column_is_hidden_if_its_column_may_be_excluded() {
    let Some(postgres) = Postgres::start().await else { return };
    let mut world = World::new(noon());
    for key in ["pay", "Pay"] {
        world.fields().define(NewField::new(Object::Contact, key, DataType::ShortText));
    }
    world.create(Object::Contact, &json!({"id": "c1", "customFields": {"pay": "public", "Pay": "s3cret"}}));
    let crm = Crm::serve(world).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    assert_eq!(mirror.one("SELECT cf_pay_2 FROM contacts"), "'s3cret'");
    let exclude = vec!["contacts.cf_pay_2".into()];
    let settings = crm_mirror::publish::PublishSettings { exclude, ..Postgres::settings(&mirror) };
    postgres.try_publish(&settings).await.unwrap();
    crm.sandbox.with_world(|world| {
        assert!(world.fields().redefine(Object::Contact, "Pay", |field| field.data_type = "A_NEW_TYPE".into()));
    });
    for n in 0..3 {
        crm.sandbox.with_world(|world| {
            world.edit(Object::Contact, "c1", &json!({"position": format!("moved {n}")}));
            world.set_raw(Object::Contact, "c1", "customFields.Pay", &format!("\"s3cret {n}\""));
        });
        crm.wait(7 * 3600);
        mirror.sync(&crm).await;
    }
    assert_eq!(mirror.one("SELECT count(*) FROM contacts WHERE extra LIKE '%s3cret%'"), "1");
    postgres.try_publish(&settings).await.unwrap();
    assert_nowhere(&postgres, "s3cret").await;
    assert_eq!(postgres.one("SELECT cf_pay FROM crm.contacts").await, "public");
}

/// The new definition gets a column of another name.
#[tokio::test]
async fn field_that_is_made_again_under_an_excluded_key_is_excluded() {
    let Some(postgres) = Postgres::start().await else { return };
    let mut world = World::new(noon());
    world.fields().define(NewField::new(Object::Contact, "pay", DataType::ShortText).id("first"));
    world.create(Object::Contact, &json!({"id": "c1", "customFields": {"pay": "s3cret 1"}}));
    let crm = Crm::serve(world).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    let exclude = vec!["contacts.cf_pay".into()];
    let settings = crm_mirror::publish::PublishSettings { exclude, ..Postgres::settings(&mirror) };
    postgres.try_publish(&settings).await.unwrap();
    crm.sandbox.with_world(|world| {
        assert!(world.fields().undefine(Object::Contact, "pay"));
        world.fields().define(NewField::new(Object::Contact, "pay", DataType::ShortText).id("second"));
        world.edit(Object::Contact, "c1", &json!({"customFields": {"pay": "s3cret 2"}}));
    });
    crm.wait(7 * 3600);
    mirror.sync(&crm).await;
    assert_eq!(mirror.one("SELECT cf_pay_2 FROM contacts"), "'s3cret 2'");
    postgres.try_publish(&settings).await.unwrap();
    assert_nowhere(&postgres, "s3cret").await;
    assert_eq!(postgres.one("SELECT id FROM crm.contacts").await, "c1");
}

#[tokio::test]
async fn erased_values_are_erased_where_they_were_published_whatever_is_excluded_later() {
    let Some(postgres) = Postgres::start().await else { return };
    let mut world = generate(5, 5, 3, noon());
    let id = world.ids(Resource::Contacts)[0].clone();
    world.edit(Object::Contact, &id, &json!({"position": "s3cret 0"}));
    let crm = Crm::serve(world).await;
    let mut mirror = Mirror::empty();
    mirror.sync(&crm).await;
    for position in ["s3cret 1", "known"] {
        crm.sandbox.with_world(|world| world.edit(Object::Contact, &id, &json!({"position": position})));
        crm.wait(600);
        mirror.sync(&crm).await;
    }
    postgres.publish(&mirror).await;
    for exclude in [vec!["contacts.position".into()], Vec::new()] {
        mirror.views = Some(ViewOptions { exclude, ..ViewOptions::default() });
        crm.wait(600);
        mirror.sync(&crm).await;
    }
    assert_eq!(mirror.one("SELECT count(*) FROM changes WHERE fields LIKE '%s3cret%'"), "0");
    postgres.publish(&mirror).await;
    assert_nowhere(&postgres, "s3cret").await;
    assert_equal(&mirror, &postgres).await;
}
