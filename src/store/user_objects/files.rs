//! The directory of `database.views`: SQL files whose views the program creates.
//!
//! A file is applied as a whole or not at all, and may only create views. Its views are dropped and recreated after
//! each change of the columns and when the file changes; they are dropped when the file is removed.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;

use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::{Batch, Connection};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::regular_file;
use crate::store::statements::words;
use crate::store::{Result, Statements, quoted};

const MAX_BYTES: u64 = 1 << 20;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::store) struct AppliedFiles {
    pub digest: String,
    /// The views that each file created.
    pub views: BTreeMap<String, Vec<String>>,
    /// Why a file was not applied.
    pub refused: BTreeMap<String, String>,
}

/// The files of a directory by name, with their text or the error.
pub(super) type ViewFiles = BTreeMap<String, Result<String, String>>;

/// An unreadable directory counts as one unreadable file.
pub(super) fn read(folder: &Path) -> ViewFiles {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => return BTreeMap::from([(folder.display().to_string(), Err(error.to_string()))]),
    };
    let paths = entries.filter_map(Result::ok).map(|entry| entry.path());
    paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "sql"))
        .filter_map(|path| Some((path.file_name()?.to_string_lossy().into_owned(), read_file(&path))))
        .collect()
}

fn read_file(path: &Path) -> Result<String, String> {
    let file = regular_file::open(path).map_err(|error| error.to_string())?;
    let mut text = String::new();
    file.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > MAX_BYTES { Err("it is longer than 1 MiB".into()) } else { Ok(text) }
}

pub(super) fn apply(conn: &Connection, before: &AppliedFiles, files: &ViewFiles) -> Result<AppliedFiles> {
    for view in before.views.values().flatten() {
        conn.batch(&format!("DROP VIEW IF EXISTS main.{}", quoted(view)))?;
    }
    let mut applied = AppliedFiles { digest: digest(files), ..AppliedFiles::default() };
    for (name, text) in files {
        conn.batch("SAVEPOINT views_of_a_file")?;
        match text.as_ref().map_err(Clone::clone).and_then(|text| made_by(conn, text)) {
            Ok(views) => _ = applied.views.insert(name.clone(), views),
            Err(why) => {
                conn.batch("ROLLBACK TO views_of_a_file")?;
                applied.refused.insert(name.clone(), why);
            }
        }
        conn.batch("RELEASE views_of_a_file")?;
    }
    Ok(applied)
}

/// Returns the file's views, or why it was refused.
fn made_by(conn: &Connection, text: &str) -> Result<Vec<String>, String> {
    let before = schema(conn)?;
    let mut batch = Batch::new(conn, text);
    while let Some(mut stmt) = batch.next().map_err(|error| error.to_string())? {
        let sql = stmt.expanded_sql().unwrap_or_default();
        if !is_of_views(&sql) {
            return Err("only CREATE VIEW and DROP VIEW are allowed".into());
        }
        stmt.raw_execute().map_err(|error| error.to_string())?;
    }
    let after = schema(conn)?;
    if let Some((_, gone)) = before.difference(&after).next() {
        return Err(format!("it drops `{gone}`, which this file did not create"));
    }
    Ok(after.difference(&before).map(|(_, name)| name.clone()).collect())
}

fn schema(conn: &Connection) -> Result<BTreeSet<(String, String)>, String> {
    conn.tuples("SELECT coalesce(sql, ''), name FROM main.sqlite_schema", []).map_err(|error| error.to_string())
}

/// Whether a statement creates or drops a persistent view.
fn is_of_views(sql: &str) -> bool {
    let mut words = words(sql);
    let first = words.next().unwrap_or_default().to_ascii_uppercase();
    let second = words.next().unwrap_or_default().to_ascii_uppercase();
    ["CREATE", "DROP"].contains(&first.as_str()) && second == "VIEW"
}

pub(super) fn digest(files: &ViewFiles) -> String {
    Sha256::digest(format!("{files:?}")).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl AppliedFiles {
    pub(super) fn file_of(&self, view: &str) -> Option<&str> {
        let made = self.views.iter().find(|(_, views)| views.iter().any(|name| name == view));
        made.map(|(file, _)| file.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_view_statements_are_accepted() {
        for (sql, taken) in [
            ("CREATE VIEW v AS SELECT 1", true),
            ("-- a view\n /* of mine */ create view if not exists v AS SELECT 1", true),
            ("DROP VIEW IF EXISTS v", true),
            ("CREATE TEMP VIEW v AS SELECT 1", false),
            ("CREATE TABLE t (x)", false),
            ("DELETE FROM contacts", false),
            ("PRAGMA writable_schema = 1", false),
            ("/* CREATE VIEW */ DROP TABLE contacts", false),
            ("", false),
        ] {
            assert_eq!(is_of_views(sql), taken, "{sql}");
        }
    }

    #[test]
    fn file_is_applied_as_a_whole_or_not_at_all() {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch("CREATE TABLE t (x); CREATE VIEW ours AS SELECT 1; BEGIN").unwrap();
        let apply = |before: &AppliedFiles, files: &[(&str, &str)]| {
            let files = files.iter().map(|(name, text)| (name.to_string(), Ok(text.to_string()))).collect();
            super::apply(&conn, before, &files).unwrap()
        };
        let views = || -> String {
            let sql =
                "SELECT group_concat(name, ' ') FROM (SELECT name FROM sqlite_schema WHERE type = 'view' ORDER BY 1)";
            conn.query_row(sql, [], |row| row.get(0)).unwrap()
        };
        let first = apply(
            &AppliedFiles::default(),
            &[
                ("a.sql", "CREATE VIEW a AS SELECT x FROM t; CREATE VIEW aa AS SELECT * FROM a;"),
                ("b.sql", "CREATE VIEW b AS SELECT 1; DELETE FROM t;"),
                ("c.sql", "DROP VIEW ours; CREATE VIEW c AS SELECT 1"),
                ("d.sql", "CREATE VIEW a AS SELECT 2"),
                ("e.sql", "CREATE VIEW e AS SELEC 1"),
                ("f.sql", "CREATE VIEW f AS SELECT 1; PRAGMA user_version = 9"),
            ],
        );
        assert_eq!(views(), "a aa ours");
        assert_eq!(first.refused.keys().collect::<Vec<_>>(), ["b.sql", "c.sql", "d.sql", "e.sql", "f.sql"]);
        assert!(first.refused["d.sql"].contains("already exists"), "{:?}", first.refused);
        let second = apply(&first, &[("a.sql", "DROP VIEW IF EXISTS a; CREATE VIEW a AS SELECT 3")]);
        assert_eq!((views(), second.refused.len()), ("a ours".to_string(), 0));
        apply(&second, &[]);
        assert_eq!(views(), "ours");
    }
}
