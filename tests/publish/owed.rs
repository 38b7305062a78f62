//! A table that is not known to be equal is owed until a load has made it so: whatever was refused, dropped or
//! interrupted, nothing stays different while the publish says that all is well.

use crm_mirror::model::{DataType, Object, Resource};
use crm_mirror::publish::PublishSettings;
use crm_mirror::sandbox::NewField;
use rusqlite::Connection;
use serde_json::json;

use crate::equal::assert_equal;
use crate::server::Postgres;
use crate::support::Mirror;
use crate::verify::published;

#[tokio::test]
async fn column_of_any_table_that_was_dropped_or_renamed_is_filled_again() {
    let Some((_crm, mirror, postgres)) = published(12).await else { return };
    let indexes = "SELECT count(*)::text FROM pg_indexes WHERE schemaname = 'crm'";
    let before = postgres.one(indexes).await;
    for change in [
        "crm.contacts DROP COLUMN email",
        "crm.team_members DROP COLUMN email",
        "crm.custom_field_definitions RENAME COLUMN label TO kept",
        "crm.custom_multi_values DROP COLUMN value",
        "crm.removed_records DROP COLUMN record",
        "crm.changes RENAME COLUMN fields TO kept",
    ] {
        postgres.run(&format!("ALTER TABLE {change}")).await;
        let report = postgres.publish(&mirror).await;
        assert!(report.blocked.is_empty() && report.left_behind.is_empty(), "{change}: {report:?}");
        assert_equal(&mirror, &postgres).await;
        assert_eq!(postgres.one(indexes).await, before, "{change}");
    }
}

#[tokio::test]
async fn column_that_was_added_before_an_interrupt_is_filled_whatever_the_settings_are_then() {
    let Some((_crm, mirror, postgres)) = published(12).await else { return };
    // The disk fills up as soon as nothing is owed.
    postgres
        .run(
            "ALTER TABLE crm.contacts DROP COLUMN position;
             CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = 'disk_full'; END $$;
             CREATE TRIGGER full_disk BEFORE UPDATE ON crm.publish_state
                 FOR EACH ROW WHEN (new.details::jsonb -> 'owed' = '[]') EXECUTE FUNCTION full_disk()",
        )
        .await;
    let exclude = vec!["companies.industry".into()];
    let settings = PublishSettings { exclude, ..Postgres::settings(&mirror) };
    assert!(postgres.try_publish(&settings).await.is_err());
    assert_eq!(postgres.one("SELECT count(position) FROM crm.contacts").await, "0", "the column is there, and empty");
    postgres.run("DROP TRIGGER full_disk ON crm.publish_state").await;
    postgres.publish(&mirror).await;
    assert_equal(&mirror, &postgres).await;
}

async fn refused_names(postgres: &Postgres, mirror: &Mirror) -> Vec<String> {
    let report = postgres.publish(mirror).await;
    assert!(report.blocked.is_empty(), "{report:?}");
    report.refused_rows.into_iter().map(|row| format!("{} {}", row.table, row.name)).collect()
}

#[tokio::test]
async fn refused_row_stops_no_other_of_the_same_owner_or_company() {
    let Some((crm, mirror, postgres)) = published(40).await else { return };
    let named = "owner_name IS NOT NULL AND company_name IS NOT NULL";
    let id = postgres.one(&format!("SELECT min(id) FROM crm.contacts WHERE {named}")).await;
    postgres
        .run(&format!(
            "ALTER TABLE crm.contacts ADD CONSTRAINT ours
                 CHECK (id <> '{id}' OR owner_name !~ 'Renamed' AND company_name !~ 'Renamed')"
        ))
        .await;
    for resource in [Resource::TeamMembers, Resource::Companies] {
        crm.sandbox.with_world(|world| {
            for id in world.ids(resource) {
                let name = if resource == Resource::Companies { "name" } else { "firstName" };
                world.edit(resource, &id, &json!({ name: "Renamed" }));
            }
        });
        crm.wait(7 * 3600);
        mirror.sync(&crm).await;
        assert_eq!(refused_names(&postgres, &mirror).await, [format!("contacts {id}")], "{resource:?}");
        let column = if resource == Resource::Companies { "company_name" } else { "owner_name" };
        let renamed = |table| format!("SELECT count(*) FROM {table} WHERE id <> '{id}' AND {column} LIKE '%Renamed%'");
        let expected = mirror.one(&renamed("contacts_full"));
        assert_ne!(expected, "0");
        assert_eq!(postgres.one(&renamed("crm.contacts")).await, expected);
    }
    postgres.run("ALTER TABLE crm.contacts DROP CONSTRAINT ours").await;
    crm.sandbox.with_world(|world| world.edit(Object::Contact, &id, &json!({"position": "allowed"})));
    crm.wait(600);
    mirror.sync(&crm).await;
    assert!(refused_names(&postgres, &mirror).await.is_empty());
    assert_equal(&mirror, &postgres).await;
}

#[tokio::test]
async fn row_that_a_person_refers_to_keeps_no_other_from_being_deleted() {
    let Some((crm, mirror, postgres)) = published(12).await else { return };
    let ids = crm.sandbox.with_world(|world| world.ids(Resource::TeamMembers));
    postgres
        .run(&format!(
            "CREATE TABLE teams (member text REFERENCES crm.team_members (id)); INSERT INTO teams VALUES ('{}');
             CREATE TABLE tags (seq bigint REFERENCES crm.changes (seq));
             INSERT INTO tags SELECT min(seq) FROM crm.changes",
            ids[0]
        ))
        .await;
    crm.sandbox.with_world(|world| {
        assert!(world.remove(Resource::TeamMembers, &ids[0]) && world.remove(Resource::TeamMembers, &ids[1]));
        world.edit(Resource::TeamMembers, &ids[2], &json!({"firstName": "Moved"}));
    });
    for _ in 0..2 {
        crm.wait(7 * 3600);
        mirror.resync(&crm).await;
    }
    assert_eq!(refused_names(&postgres, &mirror).await, [format!("team_members {}", ids[0])]);
    let gone = format!("SELECT count(*) FROM crm.team_members WHERE id = '{}'", ids[1]);
    assert_eq!(postgres.one(&gone).await, "0");
    assert_eq!(postgres.one("SELECT count(*) FROM crm.team_members WHERE first_name = 'Moved'").await, "1");
    // History that was pruned.
    let conn = Connection::open(&mirror.path).unwrap();
    conn.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    conn.execute_batch("DELETE FROM changes WHERE seq < (SELECT max(seq) - 3 FROM changes)").unwrap();
    let refused = refused_names(&postgres, &mirror).await;
    assert!(refused.len() == 2 && refused[0].starts_with("changes "), "{refused:?}");
    let kept = "SELECT count(*) FROM crm.changes WHERE seq IN (SELECT seq FROM tags)";
    let all = "SELECT count(*) FROM crm.changes";
    assert_eq!(postgres.one(kept).await, "1");
    assert_eq!(postgres.one(&format!("SELECT (({all}) - 1)::text")).await, mirror.one("SELECT count(*) FROM changes"));
    // Nothing is loaded again because of it.
    let before = postgres.one("SELECT generation FROM crm.publish_state").await;
    postgres.publish(&mirror).await;
    let moved = format!("SELECT (generation - {before})::text FROM crm.publish_state");
    assert_eq!(postgres.one(&moved).await, "1");
}

#[tokio::test]
async fn record_may_refer_to_a_member_that_is_as_new_and_to_another_than_one_that_is_gone() {
    let Some((crm, mirror, postgres)) = published(12).await else { return };
    postgres.run("ALTER TABLE crm.contacts ADD FOREIGN KEY (owner_id) REFERENCES crm.team_members (id)").await;
    crm.sandbox.with_world(|world| {
        world.create(Resource::TeamMembers, &json!({"id": "tm_new", "firstName": "New"}));
        world.create(Resource::Contacts, &json!({"id": "ct_new", "ownerId": "tm_new"}));
    });
    crm.wait(7 * 3600);
    mirror.resync(&crm).await;
    assert_eq!(refused_names(&postgres, &mirror).await, [""; 0]);
    assert_equal(&mirror, &postgres).await;
    assert_eq!(postgres.one("SELECT owner_name FROM crm.contacts WHERE id = 'ct_new'").await, "New");
    crm.sandbox.with_world(|world| {
        world.edit(Object::Contact, "ct_new", &json!({"ownerId": null}));
        world.remove(Resource::TeamMembers, "tm_new")
    });
    for _ in 0..2 {
        crm.wait(7 * 3600);
        mirror.resync(&crm).await;
    }
    assert_eq!(refused_names(&postgres, &mirror).await, [""; 0]);
    assert_equal(&mirror, &postgres).await;
    assert_eq!(postgres.one("SELECT count(*) FROM crm.team_members WHERE id = 'tm_new'").await, "0");
}

#[tokio::test]
async fn contact_may_refer_to_a_company_that_is_as_new_and_to_another_than_one_that_is_gone() {
    let Some((crm, mirror, postgres)) = published(30).await else { return };
    postgres.run("ALTER TABLE crm.contacts ADD FOREIGN KEY (company_id) REFERENCES crm.companies (id)").await;
    crm.sandbox.with_world(|world| {
        world.create(Resource::Companies, &json!({"id": "co_new", "name": "New"}));
        world.create(Resource::Contacts, &json!({"id": "ct_new", "companyId": "co_new"}));
    });
    crm.wait(600);
    mirror.sync(&crm).await;
    assert_eq!(refused_names(&postgres, &mirror).await, [""; 0]);
    assert_equal(&mirror, &postgres).await;
    assert_eq!(postgres.one("SELECT company_name FROM crm.contacts WHERE id = 'ct_new'").await, "New");
    // Everything is loaded again, into tables that are there.
    postgres
        .run(
            "DELETE FROM crm.contacts; DELETE FROM crm.companies;
             ALTER TABLE crm.contacts DROP COLUMN position; ALTER TABLE crm.companies DROP COLUMN industry",
        )
        .await;
    assert_eq!(refused_names(&postgres, &mirror).await, [""; 0]);
    assert_equal(&mirror, &postgres).await;
    crm.sandbox.with_world(|world| {
        for id in world.ids(Resource::Contacts) {
            world.edit(Object::Contact, &id, &json!({"companyId": null}));
        }
        world.remove(Resource::Companies, "co_new")
    });
    for _ in 0..2 {
        crm.wait(7 * 3600);
        mirror.resync(&crm).await;
    }
    assert_eq!(refused_names(&postgres, &mirror).await, [""; 0]);
    assert_equal(&mirror, &postgres).await;
    assert_eq!(postgres.one("SELECT count(*) FROM crm.companies WHERE id = 'co_new'").await, "0");
}

/// What was loaded before a batch that fails is known: it is set back with the mirror.
#[tokio::test]
async fn value_that_was_loaded_before_a_failure_and_is_set_back_meanwhile_is_set_back() {
    let Some((crm, mirror, postgres)) = published(12).await else { return };
    postgres
        .run(
            "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = 'disk_full'; END $$",
        )
        .await;
    let [contact, member] = crm
        .sandbox
        .with_world(|world| [Resource::Contacts, Resource::TeamMembers].map(|resource| world.ids(resource)[0].clone()));
    let edit = async |resource, id: &str, fields| {
        crm.sandbox.with_world(|world| world.edit(resource, id, &fields));
        crm.wait(7 * 3600);
        mirror.sync(&crm).await;
    };
    let owned = "SELECT count(*) FROM crm.companies WHERE owner_name LIKE '%Before%'";
    for loaded in ["", "ALTER TABLE crm.companies DROP COLUMN industry; ALTER TABLE crm.team_members DROP COLUMN email"]
    {
        crm.sandbox.with_world(|world| {
            for id in world.ids(Resource::Companies) {
                world.edit(Resource::Companies, &id, &json!({ "ownerId": member }));
            }
        });
        edit(Resource::TeamMembers, &member, json!({"firstName": "Before"})).await;
        postgres.publish(&mirror).await;
        let before = postgres.one(owned).await;
        assert_ne!(before, "0");
        edit(Resource::TeamMembers, &member, json!({"firstName": "Mistaken"})).await;
        edit(Resource::Contacts, &contact, json!({"name": format!("Moved {}", loaded.len())})).await;
        postgres
            .run(&format!(
                "{loaded}; CREATE TRIGGER full_disk BEFORE UPDATE ON crm.contacts FOR EACH ROW
                     WHEN (new.name IS DISTINCT FROM old.name) EXECUTE FUNCTION full_disk()"
            ))
            .await;
        // The second one begins with the tables that the first one owed.
        for _ in 0..2 {
            assert!(postgres.try_publish(&Postgres::settings(&mirror)).await.is_err());
        }
        let is_loaded = "SELECT count(*) FROM crm.team_members WHERE first_name = 'Mistaken'";
        assert!(loaded.is_empty() || postgres.one(is_loaded).await == "1");
        postgres.run("DROP TRIGGER full_disk ON crm.contacts").await;
        edit(Resource::TeamMembers, &member, json!({"firstName": "Before"})).await;
        postgres.publish(&mirror).await;
        assert_equal(&mirror, &postgres).await;
        assert_eq!(postgres.one(owned).await, before, "{loaded}");
    }
}

#[tokio::test]
async fn error_of_any_class_in_a_table_stops_no_other() {
    let Some((crm, mirror, postgres)) = published(12).await else { return };
    for (round, code) in ["08006", "25000", "55000", "58030", "XX000"].into_iter().enumerate() {
        for kind in ["", "CONSTRAINT"] {
            let late = if kind.is_empty() { "" } else { "DEFERRABLE INITIALLY DEFERRED" };
            postgres
                .run(&format!(
                    "CREATE OR REPLACE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS
                         $$ BEGIN RAISE EXCEPTION 'not now' USING ERRCODE = '{code}'; END $$;
                     CREATE {kind} TRIGGER ours AFTER UPDATE ON crm.contacts {late} FOR EACH ROW EXECUTE FUNCTION fails()"
                ))
                .await;
            let name = format!("Moved {round} {kind}");
            crm.sandbox.with_world(|world| {
                for resource in [Resource::Contacts, Resource::Companies] {
                    let id = world.ids(resource)[0].clone();
                    world.edit(resource, &id, &json!({ "name": name }));
                }
            });
            crm.wait(600);
            mirror.sync(&crm).await;
            let report = postgres.publish(&mirror).await;
            assert_eq!(report.blocked.iter().map(|of| of.table).collect::<Vec<_>>(), ["contacts"], "{code} {kind}");
            let moved = format!("SELECT count(*) FROM crm.companies WHERE name = '{name}'");
            assert_eq!(postgres.one(&moved).await, "1", "{code} {kind}");
            postgres.run("DROP TRIGGER ours ON crm.contacts").await;
            assert!(postgres.publish(&mirror).await.blocked.is_empty(), "{code} {kind}");
            assert_equal(&mirror, &postgres).await;
        }
    }
}

#[tokio::test]
async fn rows_of_a_withdrawn_object_go_although_its_records_change_during_the_load() {
    let Some((crm, mirror, postgres)) = published(12).await else { return };
    crm.sandbox.with_world(|world| {
        world.fields().define(NewField::new(Object::Company, "topics", DataType::MultiSelect).options(&["x", "y"]));
        for id in world.ids(Resource::Companies) {
            world.edit(Object::Company, &id, &json!({"customFields": {"topics": ["x", "y"]}}));
        }
    });
    crm.wait(7 * 3600);
    mirror.sync(&crm).await;
    postgres.publish(&mirror).await;
    let left = "SELECT count(*) FROM crm.custom_multi_values WHERE object_type = 'company'";
    assert_ne!(postgres.one(left).await, "0");
    // The load waits for a row that a person has locked.
    postgres.run("UPDATE crm.contacts SET position = 'planted'").await;
    postgres.run("BEGIN; SELECT count(*) FROM (SELECT id FROM crm.contacts FOR UPDATE) AS t").await;
    let settings = PublishSettings { objects: Some(vec![Resource::Contacts]), ..Postgres::settings(&mirror) };
    let change = async {
        let waiting = "SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock'";
        while postgres.one(waiting).await == "0" {
            postgres.run("SELECT pg_stat_clear_snapshot()").await;
        }
        crm.sandbox.with_world(|world| {
            for id in world.ids(Resource::Companies) {
                world.edit(Object::Company, &id, &json!({"name": "Renamed"}));
            }
        });
        crm.wait(600);
        mirror.sync(&crm).await;
        postgres.run("COMMIT").await;
    };
    let (report, ()) = tokio::join!(postgres.try_publish(&settings), change);
    assert!(report.unwrap().blocked.is_empty());
    assert_eq!(postgres.one(left).await, "0");
    postgres.try_publish(&settings).await.unwrap();
    assert_eq!(postgres.one(left).await, "0");
}
