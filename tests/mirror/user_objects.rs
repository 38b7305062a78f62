//! Objects that users add to the file: whatever they are and however the columns change, no run fails, and views are
//! kept.

use std::collections::BTreeSet;

use crate::support::cases::Cases;
use crate::support::{Crm, Mirror, noon};
use crm_mirror::model::{DataType, Object};
use crm_mirror::sandbox::{NewField, World};
use crm_mirror::store::{BrokenObject, Reader, people_report};
use proptest::prelude::*;
use rusqlite::functions::FunctionFlags;
use serde_json::json;

/// The interval after which definitions are read again.
const INTERVAL: u64 = 6 * 3600;

const KEYS: [&str; 3] = ["a", "b", "c"];

const TYPES: [&str; 5] = ["SHORT_TEXT", "DECIMAL", "LONG_TEXT", "MULTI_SELECT", "INTEGER"];

/// Objects that a user may add; each is one statement.
const OBJECTS: [&str; 19] = [
    "CREATE VIEW p_all AS SELECT * FROM contacts_full",
    "CREATE VIEW p_a AS SELECT id, cf_a FROM contacts_full WHERE cf_a IS NOT NULL",
    "CREATE VIEW p_table AS SELECT id, cf_a, cf_b FROM contacts",
    "CREATE VIEW p_num AS SELECT sum(cf_b_num) AS total FROM contacts_full",
    "CREATE VIEW p_on_view AS SELECT count(*) AS n FROM p_a JOIN p_table USING (id)",
    "CREATE VIEW p_broken AS SELECT missing FROM nowhere",
    "CREATE VIEW \"odd \"\"name\" AS WITH t AS (SELECT cf_c FROM contact_details) SELECT cf_c, row_number() OVER () FROM t",
    "CREATE VIEW p_function AS SELECT only_mine(cf_a) FROM contacts_full",
    "CREATE VIEW p_history AS SELECT h.value, o.name FROM contact_history AS h LEFT JOIN companies_full AS o ON o.id = h.id",
    "CREATE TRIGGER p_after AFTER UPDATE OF cf_a ON contacts BEGIN INSERT INTO p_notes VALUES (NEW.cf_a, OLD.cf_b); END",
    "CREATE TRIGGER p_instead INSTEAD OF INSERT ON p_all BEGIN SELECT NEW.cf_a, missing FROM nowhere; END",
    "CREATE TRIGGER p_delete INSTEAD OF DELETE ON contacts_full BEGIN SELECT OLD.cf_b; END",
    "CREATE INDEX p_by_a ON contacts (cf_a)",
    "CREATE INDEX p_by_b ON contacts (upper(cf_b), name) WHERE cf_a IS NOT NULL",
    "CREATE INDEX ix_mine ON contact_details (cf_a)",
    "CREATE TABLE p_notes (a, b)",
    "CREATE UNIQUE INDEX p_unique ON contacts (coalesce(cf_a, 'x'))",
    "CREATE INDEX p_mine ON contacts (only_mine(cf_a))",
    "CREATE UNIQUE INDEX p_kinds ON changes (kind)",
];

#[derive(Clone, Debug)]
enum Step {
    Define(usize),
    Archive(usize),
    Reactivate(usize),
    Retype(usize, usize),
    Undefine(usize),
    Value(usize),
    Add(usize),
    Sync,
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..KEYS.len();
    prop_oneof![
        3 => key.clone().prop_map(Step::Define),
        3 => key.clone().prop_map(Step::Archive),
        2 => key.clone().prop_map(Step::Reactivate),
        3 => (key.clone(), 0..TYPES.len()).prop_map(|(key, data_type)| Step::Retype(key, data_type)),
        1 => key.clone().prop_map(Step::Undefine),
        1 => key.prop_map(Step::Value),
        6 => (0..OBJECTS.len()).prop_map(Step::Add),
        6 => Just(Step::Sync),
    ]
}

/// A connection of a user's program, which has a function of its own.
fn own_connection(mirror: &Mirror) -> rusqlite::Connection {
    let conn = rusqlite::Connection::open(&mirror.path).unwrap();
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    conn.create_scalar_function("only_mine", 1, flags, |context| context.get::<Option<String>>(0)).unwrap();
    conn
}

/// Name and text of users' views in the file.
fn in_file(mirror: &Mirror) -> BTreeSet<(String, String)> {
    let sql = "SELECT name, sql FROM sqlite_schema WHERE type = 'view' AND (name GLOB 'p_*' OR name GLOB 'odd*')";
    let conn = mirror.read();
    let mut stmt = conn.prepare(sql).unwrap();
    stmt.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
}

fn not_kept(mirror: &Mirror) -> Vec<String> {
    let reader = Reader::open(&mirror.path).unwrap();
    people_report::not_kept(&reader.begin().unwrap()).unwrap()
}

fn broken(mirror: &Mirror) -> Vec<BrokenObject> {
    let reader = Reader::open(&mirror.path).unwrap();
    people_report::broken(&reader.begin().unwrap()).unwrap()
}

async fn synced(mirror: &Mirror, crm: &Crm) {
    crm.wait(INTERVAL);
    let before = in_file(mirror);
    mirror.sync(crm).await;
    assert_eq!(in_file(mirror), before, "views are kept with their own text");
    for object in broken(mirror) {
        assert!(!object.why.contains("no such function"), "only its owner's program knows the function");
        assert_ne!(object.name, "p_all");
    }
}

async fn play(steps: Vec<Step>) {
    let mut world = World::new(noon());
    for n in 0..3 {
        world.create(Object::Contact, &json!({"id": format!("ct{n}"), "name": format!("Name {n}")}));
    }
    let crm = Crm::serve(world).await;
    let mirror = Mirror::one_at_a_time();
    mirror.sync(&crm).await;
    for step in steps {
        match step {
            Step::Define(key) => crm.sandbox.with_world(|world| {
                if !world.fields().redefine(Object::Contact, KEYS[key], |_| {}) {
                    let field = NewField::new(Object::Contact, KEYS[key], DataType::ShortText);
                    world.fields().define(field.options(&["x", "y"]));
                }
            }),
            Step::Archive(key) => crm.sandbox.with_world(|world| {
                world.fields().archive(Object::Contact, KEYS[key]);
            }),
            Step::Reactivate(key) => crm.sandbox.with_world(|world| {
                world.fields().reactivate(Object::Contact, KEYS[key]);
            }),
            Step::Retype(key, data_type) => crm.sandbox.with_world(|world| {
                world
                    .fields()
                    .redefine(Object::Contact, KEYS[key], |definition| definition.data_type = TYPES[data_type].into());
            }),
            Step::Undefine(key) => crm.sandbox.with_world(|world| {
                world.fields().undefine(Object::Contact, KEYS[key]);
            }),
            Step::Value(key) => crm.sandbox.with_world(|world| {
                world.edit(Object::Contact, "ct1", &json!({"customFields": {KEYS[key]: "7"}}));
            }),
            Step::Add(object) => {
                // Some cannot be created while a column is missing, or exist already.
                let _ = own_connection(&mirror).execute_batch(OBJECTS[object]);
            }
            Step::Sync => synced(&mirror, &crm).await,
        }
    }
    synced(&mirror, &crm).await;
    assert_eq!(mirror.one("PRAGMA integrity_check"), "'ok'");
}

#[test]
fn no_run_fails_because_of_user_views_after_column_changes() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    Cases::per_thousand(25).check(400, prop::collection::vec(step(), 5..25), |steps| {
        runtime.block_on(play(steps));
        Ok(())
    });
}

#[tokio::test]
async fn view_with_a_missing_column_is_reported_and_works_once_it_is_restored() {
    let mut world = World::new(noon());
    world.fields().define(NewField::new(Object::Contact, "a", DataType::ShortText));
    world.create(Object::Contact, &json!({"id": "ct1", "name": "One", "customFields": {"a": "x"}}));
    let crm = Crm::serve(world).await;
    let mirror = Mirror::one_at_a_time();
    mirror.sync(&crm).await;
    let own = rusqlite::Connection::open(&mirror.path).unwrap();
    for sql in [OBJECTS[1], "CREATE VIEW p_two AS SELECT id FROM p_a", "CREATE INDEX p_by_a ON contacts (cf_a)"] {
        own.execute_batch(sql).unwrap();
    }
    assert_eq!(broken(&mirror), []);
    crm.sandbox.with_world(|world| world.fields().archive(Object::Contact, "a"));
    synced(&mirror, &crm).await;
    crm.sandbox.with_world(|world| world.fields().define(NewField::new(Object::Contact, "new", DataType::Decimal)));
    synced(&mirror, &crm).await;
    let found = broken(&mirror);
    assert_eq!(found.iter().map(|object| object.name.as_str()).collect::<Vec<_>>(), ["p_a", "p_two"]);
    assert_eq!(not_kept(&mirror), ["index p_by_a"]);
    assert!(found[0].why.contains("cf_a"), "{found:?}");
    crm.sandbox.with_world(|world| world.fields().reactivate(Object::Contact, "a"));
    synced(&mirror, &crm).await;
    assert_eq!(broken(&mirror), []);
    assert_eq!(mirror.one("SELECT cf_a FROM p_a"), "'x'");
    assert_eq!(mirror.one("SELECT count(*) FROM sqlite_schema WHERE name = 'p_by_a'"), "1");
    // Another type means another column: the index goes with the old one.
    crm.sandbox.with_world(|world| world.fields().redefine(Object::Contact, "a", |d| d.data_type = "LONG_TEXT".into()));
    synced(&mirror, &crm).await;
    assert_eq!(broken(&mirror), []);
    assert_eq!(not_kept(&mirror), [""; 0]);
    assert_eq!(mirror.one("SELECT cf_a FROM p_a"), "'x'");
}

#[tokio::test]
async fn user_indexes_and_triggers_that_are_in_the_way_are_named_and_dropped() {
    let mut world = World::new(noon());
    for n in 0..3 {
        world.create(
            Object::Contact,
            &json!({"id": format!("ct{n}"), "name": n.to_string(), "email": format!("{n}@x")}),
        );
    }
    let crm = Crm::serve(world).await;
    let mirror = Mirror::one_at_a_time();
    mirror.sync(&crm).await;
    for sql in [
        "CREATE INDEX p_plain ON contacts (email COLLATE NOCASE)",
        "CREATE UNIQUE INDEX p_email ON contacts (email)",
        "CREATE INDEX p_function ON contacts (only_mine(name))",
        "CREATE INDEX p_json ON contacts (json_extract(name, '$.x'))",
        "CREATE TABLE p_table (x); CREATE UNIQUE INDEX p_own ON p_table (x)",
        "CREATE TRIGGER p_delete AFTER DELETE ON contacts BEGIN SELECT missing FROM nowhere; END",
    ] {
        own_connection(&mirror).execute_batch(sql).unwrap();
    }
    let all = ["index p_plain", "index p_email", "index p_function", "index p_json", "trigger p_delete"];
    assert_eq!(not_kept(&mirror), all);
    crm.sandbox.with_world(|world| {
        for id in ["ct0", "ct1", "ct2"] {
            world.edit(Object::Contact, id, &json!({"email": "same@x", "name": "{"}));
        }
        world.create(Object::Contact, &json!({"id": "ct3", "name": "Three", "email": "same@x"}));
    });
    crm.wait(60);
    mirror.sync(&crm).await;
    mirror.assert_exact(&crm);
    assert_eq!(not_kept(&mirror), ["index p_plain", "trigger p_delete"], "what stands in the way of a row goes");
    crm.sandbox.with_world(|world| world.fields().define(NewField::new(Object::Contact, "new", DataType::Decimal)));
    synced(&mirror, &crm).await;
    assert_eq!(not_kept(&mirror), ["index p_plain"], "a trigger stands in the way of a column");
    assert_eq!(mirror.one("SELECT count(*) FROM sqlite_schema WHERE name = 'p_own'"), "1");
    assert_eq!(broken(&mirror), []);
}

/// The texts of the program's views, triggers and indexes.
fn of_the_program(mirror: &Mirror) -> BTreeSet<String> {
    let conn = mirror.read();
    let mut stmt = conn.prepare("SELECT sql FROM sqlite_schema WHERE type <> 'table' AND sql IS NOT NULL").unwrap();
    stmt.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[tokio::test]
async fn what_another_program_dropped_is_made_again() {
    let mut world = World::new(noon());
    world.fields().define(NewField::new(Object::Contact, "a", DataType::ShortText));
    world.create(Object::Contact, &json!({"id": "ct0", "name": "Zero", "customFields": {"a": "x"}}));
    let crm = Crm::serve(world).await;
    let mirror = Mirror::one_at_a_time();
    mirror.sync(&crm).await;
    let before = of_the_program(&mirror);
    for dropped in [
        "VIEW contacts_full",
        "VIEW pending_edits",
        "VIEW company_history",
        "INDEX contacts_by_email",
        "INDEX outbox_new",
        "TRIGGER contacts_refuse_update",
    ] {
        own_connection(&mirror).execute_batch(&format!("DROP {dropped}")).unwrap();
        assert!(of_the_program(&mirror).len() < before.len(), "{dropped}");
        crm.wait(60);
        mirror.sync(&crm).await;
        assert_eq!(of_the_program(&mirror), before, "{dropped}");
    }
    assert_eq!(mirror.one("SELECT cf_a FROM contacts_full"), "'x'");
    // A table in a view's place is a person's: it stays, and stops no run.
    let table = "DROP VIEW contacts_full; CREATE TABLE Contacts_Full AS SELECT id FROM contacts";
    own_connection(&mirror).execute_batch(table).unwrap();
    crm.sandbox.with_world(|world| world.edit(Object::Contact, "ct0", &json!({"name": "One"})));
    crm.wait(60);
    mirror.sync(&crm).await;
    assert_eq!(mirror.one("SELECT name FROM contacts"), "'One'");
    assert_eq!(mirror.one("SELECT id FROM contacts_full"), "'ct0'");
    own_connection(&mirror).execute_batch("DROP TABLE contacts_full").unwrap();
    mirror.sync(&crm).await;
    assert_eq!(of_the_program(&mirror), before);
}

/// SQLite reads the text of every object of the file when a column changes.
#[tokio::test]
async fn texts_in_double_quotes_in_peoples_tables_stop_no_change_of_the_columns() {
    let mut world = World::new(noon());
    world.fields().define(NewField::new(Object::Contact, "a", DataType::ShortText));
    world.create(Object::Contact, &json!({"id": "ct0", "customFields": {"a": "x"}}));
    let crm = Crm::serve(world).await;
    let mirror = Mirror::one_at_a_time();
    mirror.sync(&crm).await;
    own_connection(&mirror)
        .execute_batch(
            "CREATE TABLE p_targets (region CHECK (region IN (\"EMEA\")), x);
             CREATE INDEX p_gold ON p_targets (region) WHERE x = \"gold\"",
        )
        .unwrap();
    crm.sandbox.with_world(|world| _ = world.fields().archive(Object::Contact, "a"));
    synced(&mirror, &crm).await;
    crm.sandbox.with_world(|world| _ = world.fields().undefine(Object::Contact, "a"));
    synced(&mirror, &crm).await;
    mirror.resync(&crm).await;
    assert_eq!(broken(&mirror), []);
    assert_eq!(mirror.one("SELECT count(*) FROM sqlite_schema WHERE name GLOB 'p_*'"), "2");
}

/// Whatever they are called: they are named, and stop no run.
#[tokio::test]
async fn indexes_with_names_like_those_of_the_program_are_peoples() {
    let mut world = World::new(noon());
    world.create(Object::Contact, &json!({"id": "ct0"}));
    let crm = Crm::serve(world).await;
    let mirror = Mirror::one_at_a_time();
    mirror.sync(&crm).await;
    own_connection(&mirror)
        .execute_batch(
            "CREATE INDEX ix_contacts_name ON contacts(name);
             CREATE INDEX contacts_name_idx ON contacts (name);
             CREATE TABLE p_table (x); CREATE INDEX ix_contacts_cf_new ON p_table (x)",
        )
        .unwrap();
    let named = ["index ix_contacts_name", "index contacts_name_idx"];
    assert_eq!(not_kept(&mirror), named);
    crm.sandbox.with_world(|world| world.fields().define(NewField::new(Object::Contact, "new", DataType::ShortText)));
    synced(&mirror, &crm).await;
    assert_eq!(not_kept(&mirror), named);
    mirror.assert_exact(&crm);
}
