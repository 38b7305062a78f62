//! Mirrors of older programs: this program opens each, keeps its rows, and gives it the tables of a new file.
//!
//! `vN.sql` is the dump of a mirror written by the program whose schema had N steps: a small workspace's first copy,
//! one changed record, and its changes. These files never change; every released schema gets one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::support::{Crm, Mirror, noon, searched, truth};
use crm_mirror::app::status;
use crm_mirror::config::{Config, Environment, Sources};
use crm_mirror::sandbox::generate;
use crm_mirror::store::{Reader, Store, StoreError, backup, migrate, write_beside};
use rusqlite::Connection;

const OLD: [(u32, &str); 8] = [
    (1, include_str!("../schema/v1.sql")),
    (2, include_str!("../schema/v2.sql")),
    (3, include_str!("../schema/v3.sql")),
    (4, include_str!("../schema/v4.sql")),
    (5, include_str!("../schema/v5.sql")),
    (6, include_str!("../schema/v6.sql")),
    (7, include_str!("../schema/v7.sql")),
    (8, include_str!("../schema/v8.sql")),
];

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
async fn mirror_of_every_older_schema_is_migrated_without_loss() {
    let crm = Crm::serve(generate(5, 6, 3, noon())).await;
    let new = Mirror::empty();
    new.sync(&crm).await;
    let expected = schema(&new.path);
    for (version, dump) in OLD {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mirror.db");
        let conn = Connection::open(&path).unwrap();
        conn.execute_batch(dump).unwrap();
        drop(conn);
        let conn = Connection::open(&path).unwrap();
        assert_eq!(texts(&conn, "PRAGMA user_version"), [version.to_string()]);
        let there = tables(&conn);
        let before = rows(&conn, &there);
        assert!(before.iter().any(|row| row.starts_with("'changes'") && row.contains("Harbour master")));
        assert!(there["contacts"].contains("cf_nickname"), "{}", there["contacts"]);
        assert_eq!(texts(&conn, "SELECT count(*) FROM contacts"), ["6"]);
        drop(conn);
        assert_only_people_read_older_tables(&path, version);

        Store::open(&path).unwrap().close().await;

        Reader::open(&path).unwrap();
        let conn = Connection::open(&path).unwrap();
        assert_eq!(texts(&conn, "PRAGMA user_version"), [migrate::KNOWN.to_string()]);
        assert_eq!(rows(&conn, &there), before, "the rows of schema {version}");
        assert_eq!(texts(&conn, "PRAGMA integrity_check"), ["'ok'"]);
        assert_eq!(searched::differences(&conn), [""; 0], "search of schema {version}");
        let found = "SELECT count(*) FROM contact_search WHERE contact_search MATCH 'harbour'";
        assert_eq!(texts(&conn, found), ["1"], "schema {version}");
        let found = schema(&path);
        let (lacks, more): (Vec<_>, Vec<_>) =
            (expected.difference(&found).collect(), found.difference(&expected).collect());
        assert!(lacks.is_empty() && more.is_empty(), "schema {version} lacks {lacks:#?} and has {more:#?} more");
    }
}

/// No query of the program fits older tables, so none is tried; statements of users are theirs.
fn assert_only_people_read_older_tables(path: &Path, version: u32) {
    let flags = vec![("database.path", path.display().to_string())];
    let sources = Sources { file: None, default_file: "/nowhere".into(), environment: Environment::default(), flags };
    let config = Config::load(&sources).unwrap();
    let refused = [
        Reader::open(path).map(drop),
        Reader::open_at_rest(path).map(drop),
        write_beside(path, |_| Ok(())),
        status::read(&config, noon()).map(drop),
    ];
    for result in refused {
        let found = match result {
            Err(StoreError::OlderSchema { found }) => found,
            other => panic!("schema {version}: {other:?}"),
        };
        assert_eq!(found, version);
    }
    // A backup of it can be given to the older program.
    let copy = path.with_extension("copy");
    backup::backup(path, &copy, false, noon()).unwrap();
    let conn = Connection::open(&copy).unwrap();
    assert_eq!(texts(&conn, "PRAGMA user_version"), [version.to_string()]);
    assert_eq!(texts(&conn, "SELECT count(*) FROM contacts"), ["6"]);
    let reader = Reader::open_for_queries(path).unwrap();
    let mut stmt = reader.prepare("SELECT count(*) FROM contacts").unwrap();
    assert_eq!(stmt.query_row([], |row| row.get::<_, i64>(0)).unwrap(), 6, "schema {version}");
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
                 UPDATE state SET value = '9' WHERE name = 'derived';";
    conn.execute_batch(other).unwrap();
    assert_ne!(texts(&conn, views), expected);
    drop(conn);

    Store::open(&mirror.path).unwrap().close().await;

    assert_eq!(texts(&Connection::open(&mirror.path).unwrap(), views), expected);
}

#[test]
fn every_step_but_the_newest_has_a_dump() {
    let known: Vec<u32> = OLD.iter().map(|(version, _)| *version).collect();
    let wanted: Vec<u32> = (1..migrate::KNOWN).collect();
    assert!(wanted.iter().all(|version| known.contains(version)), "{known:?}");
}
