//! Whatever people do to the published tables, the next publish makes them what they should be, or says why it cannot.

use crm_mirror::model::{DataType, Object, Resource};
use crm_mirror::publish::{Check, DatabaseFailure::Unavailable, PublishError, PublishSettings, PublishUrl, publish};
use crm_mirror::sandbox::{NewField, World, generate};
use crm_mirror::store::{Erasure, StoreError, write_beside};
use secrecy::SecretString;
use serde_json::json;

use crate::equal::{assert_equal, differences};
use crate::histories::killed_after;
use crate::refusals::verb;
use crate::server::Postgres;
use crate::support::{Crm, Mirror, noon};

pub async fn published(contacts: usize) -> Option<(Crm, Mirror, Postgres)> {
    let postgres = Postgres::start().await?;
    let mut world = generate(17, contacts, 6, noon());
    for id in world.ids(Resource::Contacts) {
        world.edit(Object::Contact, &id, &json!({"customFields": {"tier": "a"}}));
    }
    let crm = Crm::serve(world).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    postgres.publish(&mirror).await;
    Some((crm, mirror, postgres))
}

/// A role that owns what was published and nothing else, and the URL with it.
pub async fn owning_publisher(postgres: &Postgres) -> (String, String) {
    let role = format!("publisher_{}", postgres.name);
    postgres
        .run(&format!(
            "CREATE ROLE {role} LOGIN; GRANT CREATE ON DATABASE {} TO {role};
             DO $$ DECLARE t text; BEGIN
                 FOR t IN SELECT tablename FROM pg_tables WHERE schemaname = 'crm' LOOP
                     EXECUTE format('ALTER TABLE crm.%I OWNER TO {role}', t);
                 END LOOP;
             END $$;
             ALTER SCHEMA crm OWNER TO {role}",
            postgres.name
        ))
        .await;
    let url = postgres.url().replace("mirror:s3cret", &format!("{role}:s3cret"));
    (role, url)
}

/// Publishes, compares, and returns why tables were replaced.
async fn reconciled(mirror: &Mirror, postgres: &Postgres) -> String {
    let settings = PublishSettings { check: Check::Compare, ..Postgres::settings(mirror) };
    let report = postgres.try_publish(&settings).await.unwrap();
    assert_eq!(report.comparison.unwrap().differences, 0);
    assert!(
        report.left_behind.is_empty() && report.blocked.is_empty(),
        "{:?} {:?}",
        report.left_behind,
        report.blocked
    );
    assert_equal(mirror, postgres).await;
    report.reloaded.unwrap_or_default()
}

/// What is known of the columns that were added, and of what was attached without a name.
const ADDED: &str = "SELECT concat_ws(' ', c.relreplident, (SELECT tgenabled FROM pg_trigger WHERE tgname = 'peoples_trigger'),
        (SELECT count(*) FROM pg_statistic_ext WHERE stxrelid = c.oid), (SELECT count(*) FROM pg_publication_rel WHERE prrelid = c.oid),
        (SELECT string_agg(concat_ws(':', attname, attnotnull, atthasdef, attidentity, attgenerated), ' ' ORDER BY attname)
            FROM pg_attribute WHERE attrelid = c.oid AND attname IN ('shout', 'noted', 'counted', 'numbered')))
        FROM pg_class AS c WHERE c.oid = 'crm.contacts'::regclass";

const MAY_UPDATE: &str = "SELECT has_column_privilege('reader', 'crm.contacts', 'position', 'UPDATE')::text";

/// A record that came since has values of the columns that people added, too.
async fn one_more(crm: &Crm, mirror: &Mirror) {
    crm.sandbox.with_world(|world| world.create(Object::Contact, &json!({"id": "new", "name": "New"})));
    crm.wait(600);
    mirror.sync(crm).await;
}

#[tokio::test]
async fn table_of_any_shape_is_replaced_and_keeps_what_people_attached_to_it() {
    let Some((crm, mirror, postgres)) = published(30).await else { return };
    postgres
        .run(
            "DROP ROLE IF EXISTS reader; CREATE ROLE reader; GRANT SELECT ON crm.contacts TO reader;
             GRANT UPDATE (position) ON crm.contacts TO reader;
             CREATE SCHEMA mine;
             CREATE VIEW mine.people WITH (security_barrier = true) AS SELECT c.*, 1 AS one FROM crm.contacts AS c;
             CREATE VIEW mine.tiers AS SELECT cf_tier, count(*) AS n FROM mine.people GROUP BY 1;
             GRANT SELECT ON mine.people TO reader;
             CREATE INDEX peoples_index ON crm.contacts (lower(name));
             ALTER TABLE crm.contacts ADD CONSTRAINT peoples_check CHECK (position <> 'forbidden');
             CREATE TABLE mine.notes (contact text REFERENCES crm.contacts (id), note text);
             INSERT INTO mine.notes SELECT id, 'note' FROM crm.contacts LIMIT 3;
             CREATE FUNCTION mine.nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
             CREATE TRIGGER peoples_trigger BEFORE UPDATE ON crm.contacts FOR EACH ROW EXECUTE FUNCTION mine.nothing();
             ALTER TABLE crm.contacts DISABLE TRIGGER peoples_trigger;
             ALTER TABLE crm.contacts ADD COLUMN shout text GENERATED ALWAYS AS (upper(name)) STORED,
                 ADD COLUMN noted text NOT NULL DEFAULT 'by nobody', ADD COLUMN counted serial,
                 ADD COLUMN numbered int GENERATED ALWAYS AS IDENTITY;
             CREATE STATISTICS mine.together ON owner_id, company_id FROM crm.contacts;
             ALTER TABLE crm.contacts REPLICA IDENTITY FULL;
             CREATE PUBLICATION ours FOR TABLE crm.contacts;
             ALTER TABLE crm.contacts ADD COLUMN mine text;
             UPDATE crm.contacts SET mine = 'my ' || id",
        )
        .await;
    let indexes = "SELECT string_agg(indexname, ' ' ORDER BY indexname) FROM pg_indexes WHERE schemaname = 'crm' AND tablename = 'contacts'";
    let (before, before_of_columns) = (postgres.one(indexes).await, postgres.one(ADDED).await);
    assert!(before.contains("contacts_pkey") && before.contains("contacts_email_idx"), "{before}");
    one_more(&crm, &mirror).await;
    for (change, why) in [
        ("ALTER TABLE crm.contacts DROP CONSTRAINT contacts_pkey CASCADE", "contacts: its primary key was changed"),
        ("ALTER TABLE crm.contacts ALTER COLUMN id TYPE char(60)", "contacts: the type of id was changed"),
        ("ALTER TABLE crm.companies ALTER COLUMN employee_count TYPE numeric", "companies: the type of employee_count"),
        ("ALTER TABLE crm.companies ALTER COLUMN revenue TYPE varchar(200)", ""),
        ("ALTER TABLE crm.changes ALTER COLUMN seq TYPE numeric(30, 2)", "changes: the type of seq was changed"),
        ("ALTER TABLE crm.removed_records DROP COLUMN id", "removed_records: its primary key was changed"),
        (
            "ALTER TABLE crm.custom_field_options ALTER COLUMN label TYPE bytea USING NULL",
            "custom_field_options: the type",
        ),
        ("DROP TABLE crm.team_members", "team_members: it was missing"),
    ] {
        // A foreign key goes with the key that it refers to.
        let is_key = change.contains("CASCADE");
        let views = "DROP VIEW IF EXISTS mine.tiers, mine.people";
        if change.contains("char(60)") {
            postgres
                .run(&format!("{views}; ALTER TABLE mine.notes DROP CONSTRAINT IF EXISTS notes_contact_fkey"))
                .await;
        }
        postgres.run(change).await;
        let found = reconciled(&mirror, &postgres).await;
        assert!(found.contains(why) && found.is_empty() == why.is_empty(), "{change}: {found}");
        if is_key {
            assert_eq!(postgres.one(indexes).await, before);
            assert_eq!(postgres.one("SELECT sum(n) FROM mine.tiers").await, "31");
            let options = "SELECT array_to_string(reloptions, '') FROM pg_class WHERE relname = 'people'";
            assert_eq!(postgres.one(options).await, "security_barrier=true");
            for object in ["crm.contacts", "mine.people"] {
                let may = format!("SELECT has_table_privilege('reader', '{object}', 'SELECT')::text");
                assert_eq!(postgres.one(&may).await, "true", "{object}");
            }
            assert_eq!(postgres.one(MAY_UPDATE).await, "true");
            let kept = "SELECT (SELECT count(*) FROM pg_trigger WHERE tgname = 'peoples_trigger')
                || ' ' || (SELECT count(*) FROM pg_constraint WHERE conname = 'peoples_check')";
            assert_eq!(postgres.one(kept).await, "1 1");
            assert_eq!(postgres.one("SELECT count(*) FROM crm.contacts WHERE mine = 'my ' || id").await, "30");
            assert_eq!(postgres.one(ADDED).await, before_of_columns);
            postgres.run("INSERT INTO crm.contacts (id, name) VALUES ('own', 'mine')").await;
            let own = "SELECT concat_ws(' ', shout, noted, counted, numbered) FROM crm.contacts WHERE id = 'own'";
            assert!(postgres.one(own).await.starts_with("MINE by nobody 3"));
            postgres.run("DELETE FROM crm.contacts WHERE id = 'own'").await;
        }
    }
    let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'crm' AND tablename ~ '__'";
    assert_eq!(postgres.one(tables).await, "0");
    postgres.run("DROP OWNED BY reader; DROP ROLE reader").await;
}

#[tokio::test]
async fn full_load_replaces_and_keeps_what_refers_to_the_rows() {
    let Some((_crm, mirror, postgres)) = published(30).await else { return };
    postgres
        .run(
            "CREATE TABLE notes (contact text REFERENCES crm.contacts (id) DEFERRABLE);
             INSERT INTO notes SELECT id FROM crm.contacts LIMIT 3;
             CREATE VIEW people AS SELECT id, cf_tier FROM crm.contacts;
             UPDATE crm.contacts SET position = 'planted'",
        )
        .await;
    let identity = postgres.one("SELECT 'crm.contacts'::regclass::oid::text").await;
    let settings = PublishSettings { full: true, ..Postgres::settings(&mirror) };
    postgres.run("BEGIN; SELECT count(*) FROM notes").await;
    assert!(postgres.try_publish(&settings).await.is_err(), "what is only locked is left behind");
    postgres.run("ROLLBACK").await;
    let report = postgres.try_publish(&settings).await.unwrap();
    assert!(report.left_behind.is_empty(), "{:?}", report.left_behind);
    assert_ne!(postgres.one("SELECT 'crm.contacts'::regclass::oid::text").await, identity);
    assert_equal(&mirror, &postgres).await;
    let reference = "SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = 'notes'::regclass";
    assert_eq!(postgres.one(reference).await, "crm.contacts");
    assert_eq!(postgres.one("SELECT count(*) FROM people").await, "30");
}

#[tokio::test]
async fn used_up_column_numbers_replace_the_table() {
    let Some((crm, mirror, postgres)) = published(10).await else { return };
    postgres
        .run(
            "DO $$ BEGIN WHILE (SELECT max(attnum) FROM pg_attribute WHERE attrelid = 'crm.contacts'::regclass) < 1600 LOOP
                 ALTER TABLE crm.contacts ADD COLUMN used text;
                 ALTER TABLE crm.contacts DROP COLUMN used;
             END LOOP; END $$",
        )
        .await;
    crm.sandbox.with_world(|world| {
        world.fields().define(NewField::new(Object::Contact, "fee", DataType::Decimal));
        let id = world.ids(Resource::Contacts)[0].clone();
        world.edit(Object::Contact, &id, &json!({"customFields": {"fee": "1.50"}}));
    });
    for _ in 0..2 {
        crm.wait(7 * 3600);
        mirror.sync(&crm).await;
    }
    assert_eq!(reconciled(&mirror, &postgres).await, "contacts: its column numbers are used up");
    assert_eq!(postgres.one("SELECT string_agg(cf_fee::text, '') FROM crm.contacts").await, "1.50");
}

#[tokio::test]
async fn view_that_cannot_follow_is_named_until_it_is_made_again() {
    let Some((crm, mirror, postgres)) = published(10).await else { return };
    postgres.run("CREATE SCHEMA mine; CREATE VIEW mine.tiers AS SELECT id, cf_tier FROM crm.contacts").await;
    crm.sandbox.with_world(|world| {
        world.fields().redefine(Object::Contact, "tier", |field| field.data_type = "INTEGER".into());
    });
    for _ in 0..2 {
        crm.wait(7 * 3600);
        mirror.sync(&crm).await;
    }
    let left = postgres.publish(&mirror).await.left_behind;
    assert!(left.len() == 2 && left[0].contains("the view mine.tiers could not follow"), "{left:?}");
    let expected = "contacts__left_behind_1 is not updated any more and still used by mine.tiers";
    assert_eq!((left[1].as_str(), postgres.publish(&mirror).await.left_behind), (expected, vec![expected.into()]));
    let (_, text, _) = verb(&mirror, "", &["status"]);
    assert!(text.contains("left behind: contacts__left_behind_1"), "{text}");
    assert_eq!(postgres.one("SELECT count(cf_tier) FROM mine.tiers").await, "10", "the last values");
    let comment = postgres.one("SELECT obj_description('crm.contacts__left_behind_1'::regclass)").await;
    assert!(comment.contains("the rows of contacts before it was replaced"));
    // A whole table that a view cannot leave: the view needs a column that the person changed.
    postgres
        .run(
            "ALTER TABLE crm.companies ALTER COLUMN employee_count TYPE text;
             CREATE VIEW mine.sizes AS SELECT id, employee_count FROM crm.companies",
        )
        .await;
    let left = postgres.publish(&mirror).await.left_behind;
    assert!(left.iter().any(|left| left.contains("the view mine.sizes could not follow")), "{left:?}");
    let kept = "companies__left_behind_1 is not updated any more and still used by mine.sizes".to_string();
    assert!(left.contains(&kept), "{left:?}");
    assert_equal(&mirror, &postgres).await;
    // A person who is forgotten is forgotten there as well.
    let rows = "SELECT count(*) FROM crm.companies__left_behind_1";
    assert_ne!(postgres.one(rows).await, "0");
    let id = crm.sandbox.with_world(|world| world.ids(Resource::Contacts)[0].clone());
    crm.sandbox.with_world(|world| world.remove(Object::Contact, &id));
    for _ in 0..2 {
        crm.wait(7 * 3600);
        mirror.resync(&crm).await;
    }
    let erased = write_beside(&mirror.path, |tx| tx.feed().erase_removed(Object::Contact, &id));
    assert!(matches!(erased, Ok::<_, StoreError>(Erasure::Erased(_))), "{erased:?}");
    assert!(postgres.publish(&mirror).await.left_behind.contains(&kept));
    assert_eq!(postgres.one(rows).await, "0");
    postgres.run("DROP VIEW mine.sizes; DROP VIEW mine.tiers").await;
    postgres.publish(&mirror).await;
    assert!(postgres.publish(&mirror).await.left_behind.is_empty());
    let names =
        "SELECT count(*) FROM information_schema.columns WHERE column_name = 'archived_cf_tier' OR table_name ~ '__'";
    assert_eq!(postgres.one(names).await, "0");
}

#[tokio::test]
async fn table_that_something_of_a_person_needs_stays_and_stops_no_publish() {
    let Some((_crm, mirror, postgres)) = published(10).await else { return };
    let (role, url) = owning_publisher(&postgres).await;
    postgres
        .run(
            "CREATE SCHEMA mine; CREATE TABLE mine.notes (contact text REFERENCES crm.contacts (id));
             ALTER TABLE crm.contacts ADD COLUMN shout text GENERATED ALWAYS AS (upper(name)) STORED,
                 ADD COLUMN noted text NOT NULL DEFAULT 'by nobody';
             CREATE TABLE mine.more () INHERITS (crm.companies);
             CREATE FUNCTION mine.named(crm.changes) RETURNS text LANGUAGE sql AS 'SELECT $1.seq::text'",
        )
        .await;
    let target = PublishUrl::new(&SecretString::from(url)).unwrap();
    for full in [true, false, true, false] {
        let settings = PublishSettings { full, ..Postgres::settings(&mirror) };
        let report = publish(&target, &settings, noon()).await.unwrap();
        assert!(report.blocked.is_empty(), "{report:?}");
        for table in ["contacts", "companies", "changes"] {
            let kept = format!("{table}__left_behind_1 is not updated any more and still used by something");
            assert!(report.left_behind.iter().any(|left| left.starts_with(&kept)), "{:?}", report.left_behind);
        }
        assert_equal(&mirror, &postgres).await;
    }
    // What must not be published leaves them: rows that something refers to keep their key.
    postgres.run("INSERT INTO mine.notes SELECT id FROM crm.contacts__left_behind_1 LIMIT 3").await;
    postgres.run("INSERT INTO mine.more (id, name) VALUES ('own', 'Own')").await;
    postgres
        .run(
            "CREATE TABLE mine.tags (seq bigint REFERENCES crm.changes__left_behind_1 (seq) ON DELETE CASCADE);
             INSERT INTO crm.changes__left_behind_1 (seq, fields) VALUES (1, '{}') ON CONFLICT DO NOTHING;
             INSERT INTO mine.tags VALUES (1)",
        )
        .await;
    let settings = PublishSettings { exclude: vec!["position".into()], ..Postgres::settings(&mirror) };
    let report = publish(&target, &settings, noon()).await.unwrap();
    assert!(report.blocked.is_empty(), "{:?}", report.blocked);
    let rest = "SELECT count(*) FROM crm.contacts__left_behind_1 WHERE coalesce(name, shout, position) IS NOT NULL";
    assert_eq!(postgres.one(rest).await, "0");
    assert_eq!(postgres.one("SELECT count(*) FROM ONLY crm.companies__left_behind_1").await, "0");
    assert_eq!(postgres.one("SELECT count(fields) FROM crm.changes__left_behind_1").await, "0");
    let own = "SELECT concat((SELECT max(name) FROM mine.more), (SELECT count(*) FROM mine.tags))";
    assert_eq!(postgres.one(own).await, "Own1", "what people have of their own");
    postgres.run("DROP SCHEMA mine CASCADE").await;
    publish(&target, &Postgres::settings(&mirror), noon()).await.unwrap();
    let kept = "SELECT count(*) FROM pg_class WHERE relnamespace = 'crm'::regnamespace AND relname ~ '__'";
    assert_eq!(postgres.one(kept).await, "0");
    postgres.run(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
}

#[tokio::test]
async fn refused_table_stops_no_other_and_is_loaded_once_it_can_be() {
    // It can be written and not changed, or neither.
    for may_write in [true, false] {
        let Some((crm, mirror, postgres)) = published(12).await else { return };
        let (role, url) = owning_publisher(&postgres).await;
        postgres.run("ALTER TABLE crm.contacts OWNER TO mirror; REVOKE ALL ON crm.contacts FROM PUBLIC").await;
        crm.sandbox.with_world(|world| {
            if may_write {
                world.fields().define(NewField::new(Object::Contact, "fee", DataType::Decimal));
            }
            let (contact, company) =
                (world.ids(Resource::Contacts)[0].clone(), world.ids(Resource::Companies)[0].clone());
            world.edit(Object::Contact, &contact, &json!({"position": "moved", "customFields": {"fee": "1.50"}}));
            world.edit(Object::Company, &company, &json!({"name": "Moved"}));
        });
        if may_write {
            postgres.run(&format!("GRANT ALL ON crm.contacts TO {role}")).await;
        }
        for _ in 0..2 {
            crm.wait(7 * 3600);
            mirror.sync(&crm).await;
        }
        let (code, out, err) = verb(&mirror, &url, &["publish"]);
        assert_eq!(code, Some(78), "{out}{err}");
        assert!(out.contains("contacts is not published") && err.contains("hint: "), "{out}{err}");
        assert_eq!(postgres.one("SELECT count(*) FROM crm.companies WHERE name = 'Moved'").await, "1");
        assert_eq!(postgres.one("SELECT count(*) FROM crm.contacts WHERE position = 'moved'").await, "0");
        for how in ["--full", "--verify"] {
            let (code, out, _) = verb(&mirror, &url, &["publish", how]);
            let is_equal = out.contains("every value of the tables that are published is equal");
            assert!(code == Some(78) && (is_equal || how == "--full"), "{how}: {out}");
        }
        let status = verb(&mirror, "", &["status"]).1;
        assert!(status.contains("contacts is not published") && status.contains("not every table could be compared"));
        assert!(!status.contains("up to date") && !status.contains("every value was equal"), "{status}");
        let target = PublishUrl::new(&SecretString::from(url)).unwrap();
        // What is not published any more is emptied as soon as it can be.
        let companies = PublishSettings { objects: Some(vec![Resource::Companies]), ..Postgres::settings(&mirror) };
        if !may_write {
            for _ in 0..2 {
                let report = publish(&target, &companies, noon()).await.unwrap();
                assert_eq!(report.blocked.iter().map(|of| of.table).collect::<Vec<_>>(), ["contacts"]);
            }
        }
        postgres.run(&format!("ALTER TABLE crm.contacts OWNER TO {role}")).await;
        if !may_write {
            let report = publish(&target, &companies, noon()).await.unwrap();
            assert!(report.blocked.is_empty() && report.reloaded.is_none(), "{report:?}");
            assert_eq!(postgres.one("SELECT count(*) FROM crm.contacts").await, "0");
        }
        let report = publish(&target, &Postgres::settings(&mirror), noon()).await.unwrap();
        assert!(report.blocked.is_empty() && (!may_write || report.reloaded.unwrap().contains("contacts: ")));
        assert_equal(&mirror, &postgres).await;
        postgres.run(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
    }
}

#[tokio::test]
async fn table_that_cannot_be_repaired_stops_no_other() {
    let Some((_crm, mirror, postgres)) = published(12).await else { return };
    let (role, url) = owning_publisher(&postgres).await;
    postgres
        .run(&format!(
            "UPDATE crm.contacts SET position = 'planted'; INSERT INTO crm.contacts (id) VALUES ('extra');
             UPDATE crm.team_members SET email = 'planted';
             ALTER TABLE crm.contacts OWNER TO mirror; GRANT SELECT ON crm.contacts TO {role}"
        ))
        .await;
    let target = PublishUrl::new(&SecretString::from(url)).unwrap();
    let settings = PublishSettings { check: Check::Repair, ..Postgres::settings(&mirror) };
    let report = publish(&target, &settings, noon()).await.unwrap();
    assert_eq!(report.blocked.iter().map(|of| of.table).collect::<Vec<_>>(), ["contacts"]);
    let found = report.comparison.unwrap();
    assert!(found.repaired > 0 && found.left() == 13, "{found:?}");
    postgres.run(&format!("ALTER TABLE crm.contacts OWNER TO {role}")).await;
    assert!(publish(&target, &settings, noon()).await.unwrap().blocked.is_empty());
    assert_equal(&mirror, &postgres).await;
    postgres.run(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
}

#[tokio::test]
async fn settings_of_the_database_change_nothing() {
    let Some((crm, mirror, postgres)) = published(12).await else { return };
    for setting in [
        "standard_conforming_strings = off",
        "search_path = 'nowhere'",
        "DateStyle = 'SQL, DMY'",
        "TimeZone = 'Asia/Kathmandu'",
        "extra_float_digits = -10",
        "quote_all_identifiers = on",
        "default_transaction_isolation = 'serializable'",
        "transform_null_equals = on",
        "lock_timeout = '1h'",
        "statement_timeout = '1h'",
    ] {
        postgres.administer(&format!("ALTER DATABASE {} SET {setting}", postgres.name)).await;
    }
    // A load may take longer than any statement of others.
    postgres
        .run(
            "CREATE FUNCTION unlimited() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ASSERT current_setting('statement_timeout')
                 || current_setting('idle_in_transaction_session_timeout') = '05min'; RETURN NEW; END $$;
             CREATE TRIGGER unlimited BEFORE UPDATE ON crm.contacts FOR EACH ROW EXECUTE FUNCTION unlimited()",
        )
        .await;
    crm.sandbox.with_world(|world| {
        world.fields().redefine(Object::Contact, "tier", |d| d.label = "It's a \\ \"Tier\"".into());
        world.fields().define(NewField::new(Object::Contact, "amount", DataType::Decimal));
        let id = world.ids(Resource::Contacts)[0].clone();
        world.edit(Object::Contact, &id, &json!({"notes": "\\ back", "customFields": {"amount": "0.1"}}));
    });
    for _ in 0..2 {
        crm.wait(7 * 3600);
        mirror.sync(&crm).await;
    }
    assert_eq!(reconciled(&mirror, &postgres).await, "");
    postgres.run("ALTER TABLE crm.contacts DROP CONSTRAINT contacts_pkey").await;
    assert!(reconciled(&mirror, &postgres).await.contains("contacts"));
    let comment = "SELECT col_description('crm.contacts'::regclass, attnum) FROM pg_attribute
                   WHERE attrelid = 'crm.contacts'::regclass AND attname = 'cf_tier'";
    assert!(postgres.one(comment).await.contains("It's a \\ \"Tier\""));
}

#[tokio::test]
async fn row_that_is_too_wide_keeps_its_last_values_in_extra() {
    let Some(postgres) = Postgres::start().await else { return };
    let mut world = World::new(noon());
    let keys: Vec<String> = (0..500).map(|n| format!("f{n}")).collect();
    for key in &keys {
        world.fields().define(NewField::new(Object::Contact, key, DataType::ShortText));
    }
    let values = |text: &str| -> serde_json::Value {
        keys.iter().map(|key| (key.clone(), json!(format!("{text} {key}")))).collect::<serde_json::Map<_, _>>().into()
    };
    world.create(Object::Contact, &json!({"id": "wide", "name": "W", "customFields": values(&"wide ".repeat(20))}));
    world.create(Object::Contact, &json!({"id": "narrow", "name": "N", "customFields": {"f499": "narrow"}}));
    let crm = Crm::serve(world).await;
    let mirror = Mirror::one_at_a_time();
    mirror.sync(&crm).await;
    let settings = PublishSettings { check: Check::Compare, ..Postgres::settings(&mirror) };
    let report = postgres.try_publish(&settings).await.unwrap();
    assert_eq!((report.refused, report.comparison.unwrap().differences), (0, 0));
    let kept = "SELECT cf_f0 IS NOT NULL AND cf_f499 IS NULL AND extra -> 'crm_mirror_escaped' ? 'customFields.f499'
                FROM crm.contacts WHERE id = 'wide'";
    assert_eq!(postgres.one(kept).await, "t");
    assert_eq!(postgres.one("SELECT cf_f499 FROM crm.contacts WHERE id = 'narrow'").await, "narrow");
}

#[tokio::test]
async fn reader_delays_a_change_of_the_columns_and_is_not_delayed() {
    let Some((crm, mirror, postgres)) = published(12).await else { return };
    crm.sandbox.with_world(|world| world.fields().define(NewField::new(Object::Contact, "fee", DataType::Decimal)));
    crm.wait(7 * 3600);
    mirror.sync(&crm).await;
    postgres.run("BEGIN; SELECT count(*) FROM crm.contacts").await;
    let refused = postgres.try_publish(&Postgres::settings(&mirror)).await.unwrap_err();
    assert!(matches!(refused, PublishError::Database { failure: Unavailable, .. }), "{refused:?}");
    // Another reader is not queued behind the request.
    postgres.run("COMMIT").await;
    postgres.publish(&mirror).await;
    assert_equal(&mirror, &postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_during_a_reload_leave_the_old_table_or_the_new_one() {
    let Some((_crm, mirror, postgres)) = published(20).await else { return };
    let key = "SELECT count(*) FROM pg_index WHERE indrelid = to_regclass('crm.contacts') AND indisprimary";
    let mut finished = 0;
    for polls in (0..).step_by(7) {
        postgres.run("ALTER TABLE crm.companies ALTER COLUMN employee_count TYPE numeric").await;
        let settings = PublishSettings { full: polls % 2 == 0, ..Postgres::settings(&mirror) };
        finished += u32::from(killed_after(polls, postgres.try_publish(&settings)).await.is_some());
        assert_eq!(postgres.one("SELECT count(*) FROM crm.contacts").await, "20");
        assert_eq!(postgres.one(key).await, "1");
        if finished > 1 {
            // Replies that arrive together are one poll: on a busy machine there are fewer.
            assert!(polls > 28, "{polls}");
            break;
        }
    }
    while let Err(error) = postgres.try_publish(&Postgres::settings(&mirror)).await {
        let is_early = matches!(error, PublishError::Busy { .. } | PublishError::Database { failure: Unavailable, .. });
        assert!(is_early, "{error:?}");
    }
    let found = differences(&mirror, &postgres).await;
    assert!(found.is_empty(), "{found:?}");
}
