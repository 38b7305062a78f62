//! Files of the schema's versions: each opens, keeps its rows, and has the tables of a new file.
//!
//! `tests/schema/vN.sql` is the dump of a mirror of version N: a small workspace's first copy, one changed record, and
//! its changes. A released version's dump never changes. That of the newest version is written anew, until it is released, by
//! `cargo test --test mirror writes_the_newest_version -- --ignored`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::support::{Crm, Mirror, noon, searched, shell, truth};
use crm_mirror::model::{Object, Resource};
use crm_mirror::sandbox::generate;
use crm_mirror::store::{Store, migrate};
use rusqlite::Connection;
use serde_json::json;

const VERSIONS: [&str; migrate::KNOWN as usize] = [include_str!("../schema/v1.sql")];

/// Tables that are rebuilt and not compared: the dictionary, the program's own state, and the search index.
fn is_derived(table: &str) -> bool {
    ["mirror_columns", "state"].contains(&table) || table.contains("search") || table.starts_with("sqlite_")
}

fn texts(conn: &Connection, sql: &str) -> Vec<String> {
    let mut stmt = conn.prepare(sql).unwrap();
    let count = stmt.column_count();
    let rows = stmt.query_map([], |row| {
        let values = (0..count).map(|i| row.get(i).map(truth::shown));
        Ok(values.collect::<Result<Vec<_>, _>>()?.join(" | "))
    });
    rows.unwrap().map(Result::unwrap).collect()
}

/// The columns of every table that is not derived.
fn tables(conn: &Connection) -> BTreeMap<String, String> {
    let mut stmt = conn
        .prepare(
            "SELECT t.name, (SELECT group_concat('\"' || name || '\"', ', ') FROM pragma_table_info(t.name))
             FROM sqlite_schema AS t WHERE t.type = 'table'",
        )
        .unwrap();
    let rows = stmt.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    let mut tables: BTreeMap<String, String> = rows.unwrap().map(Result::unwrap).collect();
    tables.retain(|table, _| !is_derived(table));
    tables
}

/// The rows of these tables, in these columns.
fn rows(conn: &Connection, tables: &BTreeMap<String, String>) -> Vec<String> {
    let mut rows = Vec::new();
    for (table, columns) in tables {
        let mut of_table = texts(conn, &format!("SELECT '{table}', {columns} FROM {table}"));
        of_table.sort();
        rows.append(&mut of_table);
    }
    rows
}

/// The schema of the file, without the parts that depend on the workspace's custom fields.
fn schema(path: &Path) -> BTreeSet<String> {
    let conn = Connection::open(path).unwrap();
    let mut schema = BTreeSet::new();
    for entry in texts(&conn, "SELECT type, name FROM sqlite_schema WHERE name NOT GLOB 'ix_*'") {
        schema.insert(entry);
    }
    for column in texts(
        &conn,
        "SELECT t.type, t.name, c.name, c.type, c.\"notnull\", c.pk
         FROM sqlite_schema AS t, pragma_table_info(t.name) AS c
         WHERE t.type IN ('table', 'view') AND c.name NOT GLOB 'cf_*' AND c.name NOT GLOB 'archived_cf_*'",
    ) {
        schema.insert(column);
    }
    // Properties of a statement that no column shows: WITHOUT ROWID, uniqueness, tokenizers, conditions.
    for entry in texts(
        &conn,
        "SELECT type, name, sql FROM sqlite_schema WHERE name NOT GLOB 'ix_*'
         AND name NOT IN ('contacts', 'contact_details', 'companies', 'company_details', 'contacts_full', 'companies_full')",
    ) {
        schema.insert(entry.replace("IF NOT EXISTS ", ""));
    }
    schema
}

#[tokio::test]
async fn file_of_every_version_keeps_its_rows_and_gets_the_tables_of_a_new_file() {
    let crm = Crm::serve(generate(5, 6, 3, noon())).await;
    let new = Mirror::empty();
    new.sync(&crm).await;
    let expected = schema(&new.path);
    for (version, dump) in (1..).zip(VERSIONS) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mirror.db");
        Connection::open(&path).unwrap().execute_batch(dump).unwrap();
        let conn = Connection::open(&path).unwrap();
        assert_eq!(texts(&conn, "PRAGMA user_version"), [version.to_string()]);
        let there = tables(&conn);
        let before = rows(&conn, &there);
        assert!(before.iter().any(|row| row.starts_with("'changes'") && row.contains("Harbour master")));
        assert!(there["contacts"].contains("cf_nickname"), "{}", there["contacts"]);
        assert_eq!(texts(&conn, "SELECT count(*) FROM contacts"), ["6"]);
        drop(conn);

        Store::open(&path).unwrap().close().await;

        let conn = Connection::open(&path).unwrap();
        assert_eq!(texts(&conn, "PRAGMA user_version"), [migrate::KNOWN.to_string()]);
        assert_eq!(rows(&conn, &there), before, "the rows of version {version}");
        assert_eq!(texts(&conn, "PRAGMA integrity_check"), ["'ok'"]);
        assert_eq!(searched::differences(&conn), [""; 0], "search of version {version}");
        let found = "SELECT count(*) FROM contact_search WHERE contact_search MATCH 'harbour'";
        assert_eq!(texts(&conn, found), ["1"], "version {version}");
        let found = schema(&path);
        let (lacks, more): (Vec<_>, Vec<_>) =
            (expected.difference(&found).collect(), found.difference(&expected).collect());
        assert!(lacks.is_empty() && more.is_empty(), "version {version} lacks {lacks:#?} and has {more:#?} more");
    }
}

#[tokio::test]
#[ignore = "it writes into the source tree: run it when the schema of the newest version changes before its release"]
async fn writes_the_newest_version() {
    let crm = Crm::serve(generate(5, 6, 3, noon())).await;
    let mirror = Mirror::one_at_a_time();
    mirror.sync(&crm).await;
    crm.wait(3600);
    crm.sandbox.with_world(|world| {
        let contact = world.ids(Resource::Contacts).remove(0);
        world.edit(Object::Contact, &contact, &json!({"position": "Harbour master"}));
    });
    mirror.sync(&crm).await;
    // What differs from one writing to the next.
    let same = "UPDATE state SET value = '\"c9a2990f70bdca2c913b8b4c\"' WHERE name = 'mirror_id';
                UPDATE state SET value = '{\"base_url\":\"http://127.0.0.1:8080/v1\",\"key\":\"dcd8083289ec23aa\"}'
                WHERE name = 'identity';";
    Connection::open(&mirror.path).unwrap().execute_batch(same).unwrap();
    let dump = shell::run(&mirror.path, ".dump").unwrap();
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/schema/v{}.sql", migrate::KNOWN));
    let head =
        format!("PRAGMA application_id = {};\nPRAGMA user_version = {};\n", migrate::APPLICATION_ID, migrate::KNOWN);
    std::fs::write(path, head + &dump + "\n").unwrap();
}

/// Its schema has the same number, but its views are those of another version of the program.
#[tokio::test]
async fn views_of_another_version_are_replaced_when_the_mirror_is_opened() {
    let crm = Crm::serve(generate(5, 6, 3, noon())).await;
    let mirror = Mirror::empty();
    mirror.sync(&crm).await;
    let views = "SELECT name, sql FROM sqlite_schema WHERE type IN ('view', 'trigger', 'index') ORDER BY name";
    let conn = Connection::open(&mirror.path).unwrap();
    let expected = texts(&conn, views);
    let other = "DROP VIEW contact_history; CREATE VIEW contact_history AS SELECT 1 AS slow;
                 UPDATE state SET value = json_set(value, '$.revision', '9') WHERE name = 'built_from';";
    conn.execute_batch(other).unwrap();
    assert_ne!(texts(&conn, views), expected);
    drop(conn);

    Store::open(&mirror.path).unwrap().close().await;

    assert_eq!(texts(&Connection::open(&mirror.path).unwrap(), views), expected);
}
