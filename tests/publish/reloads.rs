//! What requires a full reload, and what a reload leaves in place.

use crm_mirror::model::{Object, Resource};
use crm_mirror::publish::{Check, PublishSettings};
use crm_mirror::sandbox::generate;
use crm_mirror::sync::Job;
use rusqlite::Connection;
use serde_json::json;

use crate::equal::assert_equal;
use crate::server::Postgres;
use crate::support::{Crm, Mirror, noon};

async fn published() -> Option<(Crm, Mirror, Postgres)> {
    let postgres = Postgres::start().await?;
    let crm = Crm::serve(generate(23, 90, 6, noon())).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    postgres.publish(&mirror).await;
    Some((crm, mirror, postgres))
}

async fn edit(crm: &Crm, mirror: &Mirror, position: &str) {
    crm.sandbox.with_world(|world| {
        for id in world.ids(Resource::Contacts).iter().take(20) {
            world.edit(Object::Contact, id, &json!({"position": position}));
        }
        let last = world.ids(Resource::Contacts).pop().unwrap();
        world.remove(Object::Contact, &last);
    });
    crm.wait(600);
    mirror.resync(crm).await;
}

#[tokio::test]
async fn reload_keeps_grants_and_views_and_leaves_no_shadow_table() {
    let Some((crm, mirror, postgres)) = published().await else { return };
    postgres
        .run(
            "DROP ROLE IF EXISTS analyst; CREATE ROLE analyst; GRANT SELECT ON crm.contacts TO analyst;
             CREATE VIEW crm.owners AS SELECT owner_name, count(*) AS n FROM crm.contacts GROUP BY 1",
        )
        .await;
    edit(&crm, &mirror, "moved").await;
    postgres.run("DELETE FROM crm.contacts WHERE id IN (SELECT id FROM crm.contacts LIMIT 7)").await;
    let settings = PublishSettings { full: true, ..Postgres::settings(&mirror) };
    let report = postgres.try_publish(&settings).await.unwrap();
    assert!(report.reloaded.is_some() && report.left_behind.is_empty(), "{report:?}");
    assert_equal(&mirror, &postgres).await;
    assert_eq!(postgres.one("SELECT has_table_privilege('analyst', 'crm.contacts', 'SELECT')::text").await, "true");
    assert_eq!(postgres.one("SELECT sum(n) FROM crm.owners").await, mirror.count("contacts").to_string());
    assert_eq!(postgres.one("SELECT count(*) FROM pg_tables WHERE tablename LIKE '%reload%'").await, "0");
    postgres.run("DROP OWNED BY analyst; DROP ROLE analyst").await;
}

#[tokio::test]
async fn different_mirror_and_pruned_cursor_reload_everything() {
    let Some((crm, mirror, postgres)) = published().await else { return };
    edit(&crm, &mirror, "first").await;
    let conn = Connection::open(&mirror.path).unwrap();
    conn.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    conn.execute_batch("DELETE FROM changes WHERE seq < 8").unwrap();
    let report = postgres.publish(&mirror).await;
    assert!(report.reloaded.unwrap().contains("history"));
    assert_equal(&mirror, &postgres).await;
    conn.execute_batch("UPDATE state SET value = '\"another\"' WHERE name = 'mirror_id'").unwrap();
    let report = postgres.publish(&mirror).await;
    assert!(report.reloaded.unwrap().contains("a different mirror"));
    assert!(report.cursor.starts_with("another:"), "{}", report.cursor);
    assert_equal(&mirror, &postgres).await;
    // Retention applies to the published changes, too.
    edit(&crm, &mirror, "second").await;
    postgres.publish(&mirror).await;
    conn.execute_batch("DELETE FROM changes WHERE seq < 12").unwrap();
    assert_eq!(postgres.publish(&mirror).await.reloaded, None);
    assert_equal(&mirror, &postgres).await;
    // A dropped table is created and loaded again.
    postgres.run("DROP TABLE crm.contacts").await;
    assert!(postgres.publish(&mirror).await.reloaded.is_some());
    assert_equal(&mirror, &postgres).await;
}

#[tokio::test]
async fn dropped_table_is_loaded_with_its_indexes_even_if_the_first_load_is_interrupted() {
    let Some((crm, mirror, postgres)) = published().await else { return };
    let indexes = "SELECT count(*) FROM pg_indexes WHERE schemaname = 'crm' AND tablename = 'contacts'";
    let comment = "SELECT obj_description('crm.contacts'::regclass)";
    let before = (postgres.one(indexes).await, postgres.one(comment).await);
    for full in [false, true] {
        edit(&crm, &mirror, &format!("moved {full}")).await;
        // The disk fills up when a load, or a batch, moves the cursor.
        postgres
            .run(
                "DROP TABLE crm.contacts;
                 CREATE OR REPLACE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
                     $$ BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = 'disk_full'; END $$;
                 CREATE TRIGGER full_disk BEFORE UPDATE ON crm.publish_state
                     FOR EACH ROW WHEN (new.\"cursor\" <> '') EXECUTE FUNCTION full_disk()",
            )
            .await;
        let settings = PublishSettings { full, ..Postgres::settings(&mirror) };
        assert!(postgres.try_publish(&settings).await.is_err());
        // Readers see no table without its rows.
        assert_eq!(postgres.one("SELECT coalesce(to_regclass('crm.contacts')::text, 'none')").await, "none");
        postgres.run("DROP TRIGGER full_disk ON crm.publish_state").await;
        assert!(postgres.publish(&mirror).await.reloaded.is_some());
        assert_equal(&mirror, &postgres).await;
        assert_eq!((postgres.one(indexes).await, postgres.one(comment).await), before);
    }
    postgres.run("DROP TABLE crm.contacts").await;
    postgres.publish(&mirror).await;
    assert_eq!((postgres.one(indexes).await, postgres.one(comment).await), before);
}

#[tokio::test]
async fn records_are_published_once_their_first_copy_is_finished() {
    let Some(postgres) = Postgres::start().await else { return };
    let crm = Crm::serve(generate(23, 900, 6, noon())).await;
    let mut mirror = Mirror::one_at_a_time();
    mirror.settings.details = false;
    mirror.limits.limit = crm_mirror::model::Ru::new(8);
    let _ = mirror.run(&crm, &Job::sync()).await;
    let report = postgres.publish(&mirror).await;
    assert!(report.not_copied.contains(&Resource::Contacts), "{report:?}");
    assert_eq!(postgres.one("SELECT count(*) FROM crm.contacts").await, "0");
    mirror.limits.limit = crm_mirror::model::Ru::new(100_000);
    crm.wait(2 * 86_400);
    mirror.sync(&crm).await;
    let report = postgres.publish(&mirror).await;
    assert!(report.not_copied.is_empty() && report.loaded["contacts"] == 900, "{report:?}");
    assert_equal(&mirror, &postgres).await;
}

#[tokio::test]
async fn companies_that_are_copied_send_no_contact_of_a_first_copy() {
    let Some(postgres) = Postgres::start().await else { return };
    let crm = Crm::serve(generate(23, 900, 6, noon())).await;
    let mut mirror = Mirror::one_at_a_time();
    mirror.settings.details = false;
    mirror.limits.limit = crm_mirror::model::Ru::new(8);
    let _ = mirror.run(&crm, &Job::sync().of(&[Resource::Contacts])).await;
    let settings = PublishSettings { objects: Some(vec![Resource::Contacts]), ..Postgres::settings(&mirror) };
    postgres.try_publish(&settings).await.unwrap();
    mirror.limits.limit = crm_mirror::model::Ru::new(100_000);
    crm.wait(2 * 86_400);
    mirror.run(&crm, &Job::sync().of(&[Resource::Companies])).await.unwrap();
    assert_ne!(mirror.one("SELECT count(*) FROM contacts"), "0");
    let report = postgres.try_publish(&settings).await.unwrap();
    assert!(report.not_copied.contains(&Resource::Contacts), "{report:?}");
    assert_eq!(postgres.one("SELECT count(*) FROM crm.contacts").await, "0");
}

#[tokio::test]
async fn unpublished_objects_are_removed_and_company_names_are_published_without_companies() {
    let Some((crm, mirror, postgres)) = published().await else { return };
    // A table that a view cannot leave, and one that is not replaced.
    postgres
        .run(
            "ALTER TABLE crm.companies ALTER COLUMN employee_count TYPE text;
             CREATE VIEW crm.sizes AS SELECT id, employee_count FROM crm.companies;
             ALTER TABLE crm.team_members ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY",
        )
        .await;
    postgres.publish(&mirror).await;
    // Somebody reads the view meanwhile.
    postgres.run("BEGIN").await;
    assert_eq!(postgres.one("SELECT count(*) FROM crm.sizes").await, "6");
    let mut settings = Postgres::settings(&mirror);
    settings.objects = Some(vec![Resource::Contacts]);
    let report = postgres.try_publish(&settings).await.unwrap();
    assert!(report.reloaded.is_some() && report.blocked.is_empty(), "{report:?}");
    postgres.run("COMMIT").await;
    assert_eq!(postgres.one("SELECT count(*) FROM crm.sizes").await, "0");
    assert_eq!(postgres.one("SELECT count(*) FROM crm.companies").await, "0");
    assert_eq!(postgres.one("SELECT count(*) FROM crm.team_members").await, "0");
    assert_eq!(postgres.one("SELECT count(*) FROM crm.custom_multi_values WHERE object_type = 'company'").await, "0");
    crm.sandbox.with_world(|world| {
        for id in world.ids(Resource::Companies) {
            world.edit(Object::Company, &id, &json!({"name": "Renamed"}));
        }
    });
    crm.wait(600);
    mirror.sync(&crm).await;
    postgres.try_publish(&settings).await.unwrap();
    let named = mirror.one("SELECT count(*) FROM contacts_full WHERE company_name = 'Renamed'");
    assert_ne!(named, "0");
    assert_eq!(postgres.one("SELECT count(*) FROM crm.contacts WHERE company_name = 'Renamed'").await, named);
}

#[tokio::test]
async fn names_of_companies_are_not_compared_during_the_first_copy_of_the_companies() {
    let Some(postgres) = Postgres::start().await else { return };
    let crm = Crm::serve(generate(23, 90, 900, noon())).await;
    let mut mirror = Mirror::one_at_a_time();
    mirror.settings.details = false;
    mirror.run(&crm, &Job::sync().of(&[Resource::Contacts])).await.unwrap();
    let settings = PublishSettings {
        objects: Some(vec![Resource::Contacts]),
        check: Check::Compare,
        ..Postgres::settings(&mirror)
    };
    postgres.try_publish(&settings).await.unwrap();
    mirror.limits.limit = crm_mirror::model::Ru::new(8);
    crm.wait(2 * 86_400);
    let _ = mirror.run(&crm, &Job::sync().of(&[Resource::Companies])).await;
    let named = "SELECT count(company_name) FROM contacts_full";
    let some = mirror.one(named);
    let report = postgres.try_publish(&settings).await.unwrap();
    assert_eq!(report.comparison.unwrap().differences, 0);
    mirror.limits.limit = crm_mirror::model::Ru::new(100_000);
    crm.wait(2 * 86_400);
    mirror.sync(&crm).await;
    let report = postgres.try_publish(&settings).await.unwrap();
    assert_eq!(report.comparison.unwrap().differences, 0);
    let all = mirror.one(named);
    assert!(some != "0" && some != all, "{some} of {all}");
    assert_eq!(postgres.one("SELECT count(company_name) FROM crm.contacts").await, all);
}

#[tokio::test]
async fn company_names_follow_when_companies_are_copied_after_contacts_were_published() {
    let Some(postgres) = Postgres::start().await else { return };
    let crm = Crm::serve(generate(23, 90, 6, noon())).await;
    let mut mirror = Mirror::empty();
    mirror.settings.details = false;
    mirror.run(&crm, &Job::sync().of(&[Resource::Contacts])).await.unwrap();
    let settings = PublishSettings { objects: Some(vec![Resource::Contacts]), ..Postgres::settings(&mirror) };
    postgres.try_publish(&settings).await.unwrap();
    let named = "SELECT count(company_name) FROM crm.contacts";
    assert_eq!(postgres.one(named).await, "0");
    mirror.sync(&crm).await;
    let report = postgres.try_publish(&settings).await.unwrap();
    assert_eq!(report.reloaded, None);
    let expected = mirror.one("SELECT count(company_name) FROM contacts_full");
    assert_ne!(expected, "0");
    assert_eq!(postgres.one(named).await, expected);
}
