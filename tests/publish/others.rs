//! What other roles built on the published tables, and what people write to them, outlives every reload.

use std::path::Path;
use std::process::{Command, Stdio};

use crm_mirror::model::{DataType, Object, Resource};
use crm_mirror::publish::{Check, PublishReport, PublishSettings, PublishUrl, publish};
use crm_mirror::sandbox::NewField;
use rusqlite::Connection;
use secrecy::SecretString;
use serde_json::json;

use crate::equal::assert_equal;
use crate::reconcile::{owning_publisher, published};
use crate::refusals::verb;
use crate::server::Postgres;
use crate::support::{Crm, Mirror, noon};

/// A publisher that owns the tables, and a role of others that owns what is built on them.
pub struct Roles {
    pub postgres: Postgres,
    publisher: String,
    app: String,
    url: String,
}

impl Roles {
    pub async fn create(postgres: Postgres) -> Roles {
        let (publisher, url) = owning_publisher(&postgres).await;
        let app = format!("app_{}", postgres.name);
        let setup = format!(
            "CREATE ROLE {app}; GRANT USAGE ON SCHEMA crm TO {app};
             GRANT SELECT, REFERENCES ON ALL TABLES IN SCHEMA crm TO {app};
             CREATE SCHEMA app AUTHORIZATION {app}"
        );
        postgres.run(&setup).await;
        Roles { postgres, publisher, app, url }
    }

    async fn as_app(&self, sql: &str) {
        self.postgres.run(&format!("SET ROLE {}; {sql}; RESET ROLE", self.app)).await;
    }

    pub async fn publish(&self, mirror: &Mirror, full: bool, check: Check) -> PublishReport {
        let url = PublishUrl::new(&SecretString::from(self.url.clone())).unwrap();
        publish(&url, &PublishSettings { full, check, ..Postgres::settings(mirror) }, noon()).await.unwrap()
    }

    pub async fn drop(self) {
        for role in [&self.app, &self.publisher] {
            self.postgres.run(&format!("DROP OWNED BY {role} CASCADE; DROP ROLE {role}")).await;
        }
    }
}

const IDENTITIES: &str = "SELECT string_agg(relname || oid, ' ' ORDER BY relname) FROM pg_class
    WHERE relnamespace = 'crm'::regnamespace AND relkind = 'r'";

async fn edited(crm: &Crm, mirror: &Mirror, position: &str) {
    crm.sandbox.with_world(|world| {
        let id = world.ids(Resource::Contacts)[0].clone();
        world.edit(Object::Contact, &id, &json!({"position": position}));
    });
    crm.wait(600);
    mirror.sync(crm).await;
}

#[tokio::test]
async fn reload_of_a_table_of_the_right_shape_writes_differences_and_replaces_nothing() {
    let Some((crm, mirror, postgres)) = published(30).await else { return };
    let roles = Roles::create(postgres).await;
    let postgres = &roles.postgres;
    roles
        .as_app(
            "CREATE VIEW app.topics AS SELECT c.id, m.field_key, m.value
                 FROM crm.contacts AS c JOIN crm.custom_multi_values AS m ON m.record_id = c.id;
             CREATE VIEW app.names AS SELECT id, name FROM crm.contacts;
             CREATE TABLE app.notes (contact text REFERENCES crm.contacts (id))",
        )
        .await;
    postgres
        .run(
            "CREATE TABLE public.written (id text); GRANT INSERT ON public.written TO PUBLIC;
             CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN INSERT INTO public.written VALUES (NEW.id); RETURN NEW; END $$;
             CREATE TRIGGER note AFTER INSERT OR UPDATE ON crm.contacts FOR EACH ROW EXECUTE FUNCTION public.note()",
        )
        .await;
    let before = postgres.one(IDENTITIES).await;
    crm.sandbox.with_world(|world| {
        world.fields().define(NewField::new(Object::Contact, "subjects", DataType::MultiSelect).options(&["x", "y"]));
        for id in world.ids(Resource::Contacts) {
            world.edit(Object::Contact, &id, &json!({"customFields": {"subjects": ["x", "y"]}}));
        }
    });
    let values = "SELECT count(*) FROM custom_multi_values WHERE field_key = 'subjects'";
    for archived in [false, true] {
        if archived {
            crm.sandbox.with_world(|world| assert!(world.fields().archive(Object::Contact, "subjects")));
        }
        for _ in 0..2 {
            crm.wait(7 * 3600);
            mirror.sync(&crm).await;
        }
        let report = roles.publish(&mirror, false, Check::None).await;
        assert!(report.left_behind.is_empty() && report.blocked.is_empty(), "{report:?}");
        let here = "SELECT count(*) FROM app.topics WHERE field_key = 'subjects'";
        assert_eq!(postgres.one(here).await, mirror.one(values));
        let active = "SELECT count(*) FROM custom_field_definitions WHERE key = 'subjects' AND status = 'ACTIVE'";
        assert_eq!(mirror.one(active) == "0", archived);
        assert_equal(&mirror, postgres).await;
    }
    // One wrong value is one row that is written; a row that is missing and one too many are repaired in place.
    postgres
        .run(
            "UPDATE crm.contacts SET position = 'planted' WHERE id = (SELECT min(id) FROM crm.contacts);
             DELETE FROM crm.contacts WHERE id = (SELECT max(id) FROM crm.contacts);
             ALTER TABLE crm.contacts DISABLE TRIGGER note; INSERT INTO crm.contacts (id) VALUES ('stranger');
             ALTER TABLE crm.contacts ENABLE TRIGGER note; TRUNCATE public.written",
        )
        .await;
    let report = roles.publish(&mirror, false, Check::Repair).await;
    assert!(report.left_behind.is_empty() && report.comparison.is_some_and(|found| found.repaired == 3));
    assert_eq!(postgres.one("SELECT count(*) FROM public.written").await, "2");
    // The mirror is another one, and its history was pruned.
    let conn = Connection::open(&mirror.path).unwrap();
    conn.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    conn.execute_batch(
        "UPDATE state SET value = '\"another\"' WHERE name = 'mirror_id'; DELETE FROM changes WHERE seq < 8",
    )
    .unwrap();
    postgres.run("UPDATE crm.contacts SET email = 'planted@example.com'; TRUNCATE public.written").await;
    let report = roles.publish(&mirror, false, Check::None).await;
    assert!(report.reloaded.is_some_and(|why| why.contains("different mirror")) && report.left_behind.is_empty());
    assert_eq!(postgres.one("SELECT count(*) FROM public.written").await, "30");
    assert_equal(&mirror, postgres).await;
    assert_eq!(postgres.one(IDENTITIES).await, before);
    // What others built is on the tables that are written.
    crm.sandbox.with_world(|world| world.create(Object::Contact, &json!({"id": "new", "name": "New"})));
    crm.wait(600);
    mirror.sync(&crm).await;
    roles.publish(&mirror, false, Check::None).await;
    roles.as_app("INSERT INTO app.notes VALUES ('new')").await;
    assert_eq!(postgres.one("SELECT count(*) FROM app.names").await, "31");
    postgres.run("DROP TABLE public.written CASCADE; DROP FUNCTION public.note CASCADE").await;
    roles.drop().await;
}

#[tokio::test]
async fn table_whose_replacement_is_refused_is_followed_as_before() {
    for obstacle in ["ENABLE ROW LEVEL SECURITY", "OWNER TO mirror"] {
        let Some((crm, mirror, postgres)) = published(12).await else { return };
        let roles = Roles::create(postgres).await;
        let (postgres, publisher) = (&roles.postgres, &roles.publisher);
        postgres.run(&format!("ALTER TABLE crm.contacts {obstacle}; GRANT ALL ON crm.contacts TO {publisher}")).await;
        edited(&crm, &mirror, "first").await;
        assert!(roles.publish(&mirror, false, Check::None).await.blocked.is_empty(), "{obstacle}");
        // Nothing needs a new table.
        postgres.run("UPDATE crm.contacts SET position = 'planted'").await;
        let (code, out, err) = verb(&mirror, &roles.url, &["publish", "--verify", "--repair"]);
        assert_eq!(code, Some(0), "{obstacle}: {out}{err}");
        // A person wants one, which is refused.
        let (code, out, _) = verb(&mirror, &roles.url, &["publish", "--full"]);
        assert!(code == Some(78) && out.contains("contacts is not published"), "{obstacle}: {out}");
        edited(&crm, &mirror, "second").await;
        let report = roles.publish(&mirror, false, Check::Compare).await;
        assert!(report.blocked.is_empty() && report.comparison.is_some_and(|found| found.left() == 0), "{obstacle}");
        edited(&crm, &mirror, "third").await;
        let report = roles.publish(&mirror, false, Check::None).await;
        assert!(report.blocked.is_empty() && report.reloaded.is_none(), "{obstacle}: {report:?}");
        assert_equal(&mirror, postgres).await;
        roles.drop().await;
    }
}

#[tokio::test]
async fn new_table_has_the_privileges_of_the_old_one_and_no_other() {
    let Some((_crm, mirror, postgres)) = published(12).await else { return };
    let roles = Roles::create(postgres).await;
    let (postgres, publisher, app) = (&roles.postgres, &roles.publisher, &roles.app);
    postgres
        .run(&format!(
            "ALTER DEFAULT PRIVILEGES FOR ROLE {publisher} IN SCHEMA crm GRANT SELECT, INSERT ON TABLES TO {app}, PUBLIC;
             REVOKE ALL ON crm.contacts FROM {app}; GRANT DELETE ON crm.contacts TO {app};
             GRANT SELECT (id, first_name) ON crm.contacts TO {app} WITH GRANT OPTION"
        ))
        .await;
    let privileges = "SELECT concat_ws(' ', c.relacl::text,
        (SELECT string_agg(a.attname || a.attacl::text, ' ' ORDER BY a.attname) FROM pg_attribute AS a WHERE a.attrelid = c.oid))
        FROM pg_class AS c WHERE c.oid = 'crm.contacts'::regclass";
    let before = postgres.one(privileges).await;
    let report = roles.publish(&mirror, true, Check::None).await;
    assert!(report.left_behind.is_empty(), "{report:?}");
    assert_eq!(postgres.one(privileges).await, before);
    let may = format!("SELECT has_column_privilege('{app}', 'crm.contacts', 'mobile', 'SELECT')::text");
    assert_eq!(postgres.one(&may).await, "false");
    roles.drop().await;
}

fn full_publish(url: &str, mirror: &Path) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_crm-mirror"));
    command.args(["publish", "--full"]).env_clear().env("CRM_MIRROR_DATABASE__PATH", mirror);
    let output = command.env("CRM_MIRROR_PUBLISH__URL", url).stdin(Stdio::null()).output().unwrap();
    (output.status.success(), format!("{output:?}"))
}

#[tokio::test]
async fn what_people_write_to_own_columns_during_a_load_is_carried() {
    let Some((_crm, mirror, postgres)) = published(12).await else { return };
    // A snapshot that is older than the lock would not have it.
    postgres
        .administer(&format!("ALTER DATABASE {} SET default_transaction_isolation = 'serializable'", postgres.name))
        .await;
    postgres
        .run("ALTER TABLE crm.contacts ADD COLUMN stage text COLLATE \"C\"; UPDATE crm.contacts SET stage = 'old'")
        .await;
    for (written, own, expected) in [
        ("UPDATE crm.contacts SET stage = 'new by app'", "stage", "new by app"),
        (
            "ALTER TABLE crm.contacts ADD COLUMN segment text; UPDATE crm.contacts SET segment = 'gold'",
            "segment",
            "gold",
        ),
    ] {
        postgres.run("BEGIN; SELECT count(*) FROM crm.contacts").await;
        let (url, published) = (postgres.url(), mirror.path.clone());
        let publish = tokio::task::spawn_blocking(move || full_publish(&url, &published));
        let write = async {
            // The load is finished, and waits for this transaction.
            let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'
                AND relation = 'crm.contacts'::regclass";
            while postgres.one(waiting).await == "0" {}
            postgres.run(&format!("{written}; COMMIT")).await;
        };
        let (output, ()) = tokio::join!(publish, write);
        let (success, text) = output.unwrap();
        assert!(success && !text.contains("left behind"), "{text}");
        let values = format!("SELECT string_agg(DISTINCT {own}, ',') FROM crm.contacts");
        assert_eq!(postgres.one(&values).await, expected);
    }
    let collation =
        "SELECT collation_name FROM information_schema.columns WHERE table_name = 'contacts' AND column_name = 'stage'";
    assert_eq!(postgres.one(collation).await, "C");
    assert_equal(&mirror, &postgres).await;
}

#[tokio::test]
async fn what_could_not_follow_is_named_until_it_is_there_again() {
    let Some((crm, mirror, postgres)) = published(12).await else { return };
    let roles = Roles::create(postgres).await;
    let postgres = &roles.postgres;
    postgres
        .run(
            "CREATE SCHEMA priv; CREATE FUNCTION priv.audit() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN RETURN NEW; END $$;
             CREATE TRIGGER audit BEFORE UPDATE ON crm.contacts FOR EACH ROW EXECUTE FUNCTION priv.audit();
             CREATE TRIGGER audit BEFORE UPDATE ON crm.companies FOR EACH ROW EXECUTE FUNCTION priv.audit()",
        )
        .await;
    let definition = postgres
        .one("SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgname = 'audit' AND tgrelid = 'crm.contacts'::regclass")
        .await;
    roles.publish(&mirror, true, Check::None).await;
    edited(&crm, &mirror, "moved").await;
    let left = roles.publish(&mirror, false, Check::None).await.left_behind;
    assert!(left.len() == 2 && left.iter().all(|left| left.contains("the trigger audit could not follow")), "{left:?}");
    assert!(left.iter().any(|left| left.contains(&definition)), "{left:?}");
    let (_, status, _) = verb(&mirror, "", &["status"]);
    assert!(status.contains("left behind: contacts was replaced, and the trigger audit"), "{status}");
    postgres.run(&definition).await;
    let left = roles.publish(&mirror, false, Check::None).await.left_behind;
    assert!(left.len() == 1 && left[0].starts_with("companies was replaced"), "{left:?}");
    // A person who does not miss it says so.
    assert!(!roles.publish(&mirror, true, Check::None).await.left_behind[0].starts_with("companies"));
    roles.drop().await;
}

#[tokio::test]
async fn views_of_an_archived_field_follow_a_new_table() {
    for full in [true, false] {
        let Some((crm, mirror, postgres)) = published(12).await else { return };
        postgres.run("CREATE VIEW crm.people AS SELECT id, cf_tier FROM crm.contacts").await;
        if !full {
            // The name that the column would get is taken.
            postgres.run("ALTER TABLE crm.contacts ADD COLUMN archived_cf_tier text").await;
        }
        crm.sandbox.with_world(|world| world.fields().archive(Object::Contact, "tier"));
        for _ in 0..2 {
            crm.wait(7 * 3600);
            mirror.sync(&crm).await;
        }
        let settings = PublishSettings { full, ..Postgres::settings(&mirror) };
        let report = postgres.try_publish(&settings).await.unwrap();
        assert!(report.left_behind.is_empty() && report.reloaded.is_some() == full, "{report:?}");
        assert_eq!(postgres.one("SELECT count(cf_tier) FROM crm.people").await, "12");
        let columns = "SELECT count(*) FROM information_schema.columns
                       WHERE table_schema = 'crm' AND table_name = 'contacts' AND column_name ~ '^archived_cf_tier'";
        assert_eq!(postgres.one(columns).await, if full { "1" } else { "2" });
        assert_equal(&mirror, &postgres).await;
    }
}

#[tokio::test]
async fn excluded_label_is_in_no_comment_and_an_index_of_an_excluded_column_goes_unsaid() {
    let Some((crm, mirror, postgres)) = published(12).await else { return };
    crm.sandbox.with_world(|world| {
        world.fields().redefine(Object::Contact, "tier", |field| field.label = "Lifetime value".into());
    });
    for _ in 0..2 {
        crm.wait(7 * 3600);
        mirror.sync(&crm).await;
    }
    postgres.publish(&mirror).await;
    let comments = "SELECT count(*) FROM pg_description WHERE description ~ 'Lifetime value'";
    assert_ne!(postgres.one(comments).await, "0");
    let excluded = ["custom_field_definitions.label", "contacts.email"];
    let exclude = excluded.map(String::from).to_vec();
    let report = postgres.try_publish(&PublishSettings { exclude, ..Postgres::settings(&mirror) }).await.unwrap();
    assert_eq!(postgres.one(comments).await, "0");
    assert!(report.left_behind.is_empty(), "{report:?}");
    let indexes = "SELECT count(*) FROM pg_indexes WHERE schemaname = 'crm' AND indexdef ~ 'email'";
    assert_eq!(postgres.one(indexes).await, "0");
}
