//! What people made of the published tables, or put under and over them, is theirs, and follows a new table.

use crm_mirror::model::{Object, Resource};
use crm_mirror::publish::{Check, PublishSettings};
use rusqlite::Connection;
use serde_json::json;

use crate::equal::assert_equal;
use crate::others::Roles;
use crate::reconcile::published;
use crate::server::Postgres;

#[tokio::test]
async fn rows_of_a_table_that_inherits_a_published_one_are_neither_changed_nor_compared() {
    let Some((crm, mirror, postgres)) = published(12).await else { return };
    let [first, second] = crm.sandbox.with_world(|world| {
        let ids = world.ids(Resource::Contacts);
        [ids[0].clone(), ids[1].clone()]
    });
    postgres
        .run(&format!(
            "CREATE SCHEMA mine; CREATE TABLE mine.contacts () INHERITS (crm.contacts);
             INSERT INTO mine.contacts SELECT * FROM crm.contacts WHERE id IN ('{first}', '{second}');
             UPDATE mine.contacts SET owner_name = 'Mine', company_name = 'Mine', position = 'mine';
             INSERT INTO mine.contacts (id, name) VALUES ('own', 'Own');
             CREATE TABLE mine.changes () INHERITS (crm.changes);
             INSERT INTO mine.changes (seq) VALUES (1)"
        ))
        .await;
    let own = "SELECT concat((SELECT string_agg(t::text, ' ' ORDER BY id) FROM mine.contacts AS t),
        (SELECT count(*) FROM mine.changes))";
    let before = postgres.one(own).await;
    crm.sandbox.with_world(|world| {
        world.remove(Object::Contact, &first);
        world.edit(Object::Contact, &second, &json!({"position": "moved"}));
        for resource in [Resource::TeamMembers, Resource::Companies] {
            for id in world.ids(resource) {
                world.edit(resource, &id, &json!({"name": "Renamed", "firstName": "Renamed"}));
            }
        }
    });
    for _ in 0..2 {
        crm.wait(7 * 3600);
        mirror.resync(&crm).await;
    }
    assert_eq!(postgres.publish(&mirror).await.refused, 0);
    assert_eq!(postgres.one(own).await, before);
    let conn = Connection::open(&mirror.path).unwrap();
    conn.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    conn.execute_batch("DELETE FROM changes WHERE seq < 3").unwrap();
    // A row that only the child has is missing.
    postgres.run("DELETE FROM ONLY crm.contacts WHERE id = (SELECT max(id) FROM ONLY crm.contacts)").await;
    let settings = PublishSettings { check: Check::Repair, ..Postgres::settings(&mirror) };
    let report = postgres.try_publish(&settings).await.unwrap();
    assert!(
        report.refused == 0 && report.comparison.as_ref().is_some_and(|found| found.differences == 1),
        "{report:?}"
    );
    assert_eq!(postgres.one(own).await, before);
    postgres.run("DROP SCHEMA mine CASCADE").await;
    assert_equal(&mirror, &postgres).await;
}

#[tokio::test]
async fn table_that_a_person_renamed_is_theirs_with_its_indexes() {
    let Some((_crm, mirror, postgres)) = published(12).await else { return };
    let indexes = |table: &str| {
        format!(
            "SELECT string_agg(regexp_replace(indexdef, '^.* USING ', ''), ' ' ORDER BY 1) FROM (
                SELECT indexdef FROM pg_indexes WHERE schemaname = 'crm' AND tablename = '{table}' ORDER BY 1) AS t"
        )
    };
    let before = postgres.one(&indexes("contacts")).await;
    postgres.run("ALTER TABLE crm.contacts RENAME TO contacts_old").await;
    for full in [false, true, true] {
        let report = postgres.try_publish(&PublishSettings { full, ..Postgres::settings(&mirror) }).await.unwrap();
        assert!(report.blocked.is_empty() && report.left_behind.is_empty(), "{report:?}");
        assert_eq!(postgres.one("SELECT count(*) FROM crm.contacts_old").await, "12");
        let sorted = |text: String| {
            let mut parts: Vec<String> = text.split(' ').map(String::from).collect();
            parts.sort();
            parts
        };
        for table in ["contacts", "contacts_old"] {
            assert_eq!(sorted(postgres.one(&indexes(table)).await), sorted(before.clone()), "{table} {full}");
        }
        assert_equal(&mirror, &postgres).await;
    }
    // What was left behind, and is kept by a person under another name.
    postgres
        .run(
            "CREATE SCHEMA mine; ALTER TABLE crm.companies ALTER COLUMN employee_count TYPE text;
             CREATE VIEW mine.sizes AS SELECT id, employee_count FROM crm.companies",
        )
        .await;
    assert_eq!(postgres.publish(&mirror).await.left_behind.len(), 2);
    postgres.run("ALTER TABLE crm.companies__left_behind_1 RENAME TO kept; DROP VIEW mine.sizes").await;
    assert!(postgres.publish(&mirror).await.left_behind.is_empty());
    assert_eq!(postgres.one("SELECT count(*) FROM crm.kept").await, "6");
}

#[tokio::test]
async fn new_table_has_the_owner_of_the_old_one_and_its_place_under_tables_of_people() {
    let Some((_crm, mirror, postgres)) = published(12).await else { return };
    let owner = format!("owner_{}", postgres.name);
    postgres
        .run(&format!(
            "CREATE ROLE {owner}; ALTER TABLE crm.contacts OWNER TO {owner}; GRANT SELECT ON crm.contacts TO mirror;
             CREATE SCHEMA mine; CREATE TABLE mine.people (LIKE crm.contacts);
             ALTER TABLE crm.contacts INHERIT mine.people;
             ALTER TABLE crm.companies ADD CONSTRAINT named CHECK (id <> '');
             CREATE TABLE mine.firms (LIKE crm.companies INCLUDING CONSTRAINTS) PARTITION BY LIST (id);
             ALTER TABLE mine.firms ATTACH PARTITION crm.companies DEFAULT;
             CREATE INDEX ON mine.firms (name);
             CREATE FUNCTION mine.nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
             CREATE TRIGGER nothing BEFORE UPDATE ON mine.firms FOR EACH ROW EXECUTE FUNCTION mine.nothing();
             CREATE TABLE mine.notes (contact text REFERENCES crm.contacts (id), day date) PARTITION BY RANGE (day);
             CREATE TABLE mine.notes_all PARTITION OF mine.notes DEFAULT"
        ))
        .await;
    let known = "SELECT concat_ws(' ', (SELECT relowner::regrole || relacl::text FROM pg_class WHERE oid = 'crm.contacts'::regclass),
        (SELECT count(*) FROM mine.people), (SELECT count(*) FROM mine.firms), (SELECT count(*) FROM pg_inherits),
        (SELECT count(*) FROM pg_trigger WHERE tgname = 'nothing'),
        (SELECT string_agg(confrelid::regclass::text || conrelid::regclass, ' ' ORDER BY 1) FROM pg_constraint WHERE contype = 'f'))";
    let before = postgres.one(known).await;
    assert!(before.contains(&format!("{owner}{{{owner}=")) && before.contains(" 12 6 "), "{before}");
    for _ in 0..2 {
        let report =
            postgres.try_publish(&PublishSettings { full: true, ..Postgres::settings(&mirror) }).await.unwrap();
        assert!(report.blocked.is_empty() && report.left_behind.is_empty(), "{report:?}");
        assert_eq!(postgres.one(known).await, before);
    }
    assert_equal(&mirror, &postgres).await;
    postgres.run(&format!("DROP SCHEMA mine CASCADE; DROP OWNED BY {owner}; DROP ROLE {owner}")).await;
}

#[tokio::test]
async fn partition_that_cannot_be_detached_stays_and_is_named() {
    let Some((_crm, mirror, postgres)) = published(12).await else { return };
    let roles = Roles::create(postgres).await;
    let postgres = &roles.postgres;
    postgres
        .run(
            "CREATE SCHEMA mine; CREATE TABLE mine.firms (LIKE crm.companies) PARTITION BY LIST (id);
             ALTER TABLE mine.firms ATTACH PARTITION crm.companies DEFAULT",
        )
        .await;
    for full in [true, false, false] {
        let left = roles.publish(&mirror, full, Check::None).await.left_behind;
        let kept = "companies__left_behind_1 is not updated any more and still used by mine.firms";
        assert!(left.contains(&kept.into()), "{left:?}");
        assert_eq!(
            left.iter().any(|left| left.contains("the partition mine.firms could not follow")),
            full,
            "{left:?}"
        );
        assert_eq!(postgres.one("SELECT count(*) FROM mine.firms").await, "6");
        assert_equal(&mirror, postgres).await;
    }
    postgres.run("DROP TABLE mine.firms").await;
    roles.drop().await;
}

#[tokio::test]
async fn each_of_several_that_could_not_follow_is_named_with_its_definition() {
    let Some((_crm, mirror, postgres)) = published(12).await else { return };
    let app = format!("app_{}", postgres.name);
    postgres
        .run(&format!(
            "CREATE ROLE {app}; GRANT SELECT (id, email) ON crm.contacts TO {app};
             ALTER TABLE crm.contacts ADD CONSTRAINT mails UNIQUE (id, email);
             CREATE SCHEMA mine; CREATE TABLE mine.notes (contact text REFERENCES crm.contacts (id), mail text,
                 CONSTRAINT by_mail FOREIGN KEY (contact, mail) REFERENCES crm.contacts (id, email));
             CREATE RULE ours AS ON UPDATE TO crm.contacts WHERE NEW.id = 'x' DO ALSO SELECT 1;
             CREATE PUBLICATION mails FOR TABLE crm.contacts (id, email);
             CREATE PUBLICATION few FOR TABLE crm.contacts (id, name) WHERE (id <> 'x')"
        ))
        .await;
    let few = "SELECT array_to_string(attnames, ' ') || rowfilter FROM pg_publication_tables WHERE pubname = 'few'";
    let before = postgres.one(few).await;
    let settings = PublishSettings { exclude: vec!["contacts.email".into()], ..Postgres::settings(&mirror) };
    for _ in 0..2 {
        let left = postgres.try_publish(&settings).await.unwrap().left_behind;
        for (what, definition) in [
            ("the rule ours was not made again", "CREATE RULE ours AS"),
            ("the publication mails could not follow", "ADD TABLE ONLY crm.contacts (id, email)"),
            ("the constraint mails could not follow: column \"email\"", "ADD CONSTRAINT mails UNIQUE (id, email)"),
            ("the reference by_mail of mine.notes could not follow", "FOREIGN KEY (contact, mail) REFERENCES"),
            (&format!("the grant SELECT (email) to {app} could not follow"), "GRANT SELECT (email) ON TABLE"),
        ] {
            assert!(left.iter().any(|left| left.contains(what) && left.contains(definition)), "{what}: {left:?}");
        }
        assert_eq!(left.len(), 5, "{left:?}");
        assert_eq!(postgres.one(few).await, before);
    }
    postgres.run(&format!("DROP SCHEMA mine CASCADE; DROP OWNED BY {app}; DROP ROLE {app}")).await;
}
