//! Bounds for SQL that a stranger wrote: what it may name, how much memory it may take, and which columns it may not see
//! (`mcp.exclude`). SQLite's authorizer asks for every column that a statement reads, by whatever view, so a value that is
//! withheld is NULL in all that is computed from it. It does not ask for the columns that USING and NATURAL join by, so where
//! something is withheld, no statement and no view may join so.
//!
//! Time is bounded by a [`Watchdog`](super::watchdog::Watchdog), because some of SQLite's functions run for long without a
//! pause. The lists name what is allowed, so that a newer SQLite allows no more.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::{Connection, Result};

use crate::model::exclusions::{object_of, table_of};
use crate::model::{Exclusions, Object};
use crate::store::statements::words;

/// The longest value and row, in bytes. No record of the service comes near.
const MAX_BYTES: i32 = 4 << 20;

/// The memory of SQLite in this process, in bytes: what does not fit fails.
const HEAP: i64 = 96 << 20;

/// Pragmas that describe tables; their value is the name of one.
const DESCRIBING: &str =
    "table_info table_xinfo table_list index_list index_info index_xinfo foreign_key_list function_list";

/// Pragmas that may be read. Full-text search reads the first.
const READ: &str = "data_version schema_version user_version application_id";

/// Functions of SQLite, and those of this program. What is missing reads files, loads code, or tells about the machine.
const FUNCTIONS: &str = "\
    abs avg ceil ceiling changes char coalesce concat concat_ws count cume_dist date datetime dense_rank exp first_value floor \
    format glob group_concat hex highlight bm25 snippet if ifnull iif instr julianday lag last_value lead length like likelihood \
    likely ln log log10 log2 lower ltrim match max min mod nth_value ntile nullif octet_length percent_rank pi pow power printf quote \
    radians degrees random randomblob rank replace round row_number rtrim sign sin cos tan asin acos atan atan2 sinh cosh tanh \
    soundex sqrt strftime string_agg substr substring subtype sum time timediff total trim trunc typeof unhex unicode unistr \
    unistr_quote unixepoch unlikely upper zeroblob sqlite_version current_date current_time current_timestamp \
    json json_array json_array_length json_array_insert json_error_position json_extract json_group_array json_group_object \
    json_insert json_object json_patch json_pretty json_quote json_remove json_replace json_set json_type json_valid jsonb \
    jsonb_array jsonb_array_insert jsonb_extract jsonb_group_array jsonb_group_object jsonb_insert jsonb_object jsonb_patch \
    jsonb_remove jsonb_replace jsonb_set -> ->> \
    decimal_sum decimal_avg";

/// Confines a connection for good, and withholds columns. It must be open read-only.
pub(in crate::store) fn confine(conn: &mut Connection, withheld: WithheldColumns) -> Result<()> {
    // Sorting and temporary tables count as memory, instead of filling a disk.
    conn.pragma_update(None, "temp_store", "memory")?;
    conn.query_row(&format!("PRAGMA hard_heap_limit = {HEAP}"), [], |_| Ok(()))?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    for (limit, value) in [
        (Limit::SQLITE_LIMIT_LENGTH, MAX_BYTES),
        (Limit::SQLITE_LIMIT_SQL_LENGTH, MAX_BYTES),
        (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1_000),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
    ] {
        conn.set_limit(limit, value)?;
    }
    let views = withheld.views_read_past(conn)?;
    conn.authorizer(Some(move |context: AuthContext<'_>| match context.action {
        AuthAction::Read { table_name, .. }
            if views.iter().any(|view| view == table_name || context.accessor == Some(view)) =>
        {
            Authorization::Deny
        }
        AuthAction::Read { table_name, column_name } => withheld.access(table_name, column_name, context.accessor),
        action if is_allowed(action) => Authorization::Allow,
        _ => Authorization::Deny,
    }))
}

fn is_allowed(action: AuthAction<'_>) -> bool {
    let is_in = |list: &str, name: &str| list.split_whitespace().any(|known| known.eq_ignore_ascii_case(name));
    match action {
        AuthAction::Select | AuthAction::Recursive => true,
        AuthAction::Function { function_name } => is_in(FUNCTIONS, function_name),
        AuthAction::Pragma { pragma_name, pragma_value } => {
            is_in(DESCRIBING, pragma_name) || (pragma_value.is_none() && is_in(READ, pragma_name))
        }
        _ => false,
    }
}

/// Columns with documents, values of any column or texts of edits: a part of them cannot be withheld.
const DOCUMENTS: [(&str, &[&str]); 9] = [
    ("contacts", &["extra"]),
    ("companies", &["extra"]),
    ("team_members", &["extra"]),
    ("changes", &["fields"]),
    ("removed_records", &["record"]),
    ("ended_values", &["value"]),
    ("custom_multi_values", &["value"]),
    ("outbox", &["fields", "body", "answer", "theirs"]),
    ("state", &["value"]),
];

#[derive(Clone, Debug, Default)]
pub struct WithheldColumns {
    excluded: Arc<Exclusions>,
    asked: Arc<Mutex<BTreeSet<String>>>,
}

impl WithheldColumns {
    /// Withholds entries such as `notes` and `contacts.notes`, with what is computed from them.
    pub fn new(entries: &[String]) -> WithheldColumns {
        WithheldColumns::default().with(Exclusions::new(entries))
    }

    /// Withholds these instead, and goes on noting what was asked for.
    #[must_use]
    pub fn with(&self, excluded: Exclusions) -> WithheldColumns {
        WithheldColumns { excluded: excluded.into(), ..self.clone() }
    }

    pub fn takes(&self, table: &str, column: &str) -> bool {
        let is_document = || {
            let column = if column == "detail_extra" { "extra" } else { column };
            DOCUMENTS.iter().any(|(of, columns)| *of == table_of(table) && columns.contains(&column))
        };
        self.excluded.takes(table, column) || !self.excluded.is_empty() && is_document()
    }

    /// Whether a statement could show a withheld column unasked. A parameter, which nobody fills in, may contain a quote.
    pub fn could_be_read_past(&self, sql: &str) -> bool {
        let reveals = |word: &str| {
            word.starts_with(['?', '$', '@', ':', '#'])
                || ["using", "natural"].iter().any(|join| word.eq_ignore_ascii_case(join))
        };
        !self.excluded.is_empty() && words(sql).any(reveals)
    }

    fn views_read_past(&self, conn: &Connection) -> Result<Vec<String>> {
        let mut stmt = conn.prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'view'")?;
        let views = stmt.query_map([], |row| Ok((row.get(0)?, row.get::<_, String>(1)?)))?;
        let mut views: Vec<(String, String)> = views.collect::<Result<_>>()?;
        views.retain(|(_, sql)| self.could_be_read_past(sql));
        Ok(views.into_iter().map(|(name, _)| name).collect())
    }

    /// What a statement gets of a column; nothing of an index of words, which tells what it finds. It is noted what the answer
    /// is computed without. A view that shows each column of an object by itself reads all: of it, those that are asked for.
    pub(in crate::store) fn access(&self, table: &str, column: &str, view: Option<&str>) -> Authorization {
        if self.is_index_of_withheld(table) {
            return Authorization::Deny;
        }
        if !self.takes(table, column) {
            return Authorization::Allow;
        }
        if view.is_none_or(|view| object_of(view).is_none()) {
            self.asked.lock().unwrap_or_else(PoisonError::into_inner).insert(format!("{table}.{column}"));
        }
        Authorization::Ignore
    }

    /// Whether a table belongs to a search index that has words of a withheld column.
    pub fn is_index_of_withheld(&self, table: &str) -> bool {
        let of = |object: &Object| table.starts_with(object.search_table());
        Object::ALL.iter().find(|object| of(object)).is_some_and(|object| {
            let is_text =
                |column: &str| column.starts_with("cf_") || object.fields().iter().any(|f| f.column == column);
            self.excluded.columns(object.table()).any(is_text)
        })
    }

    /// The withheld columns without which answers were computed since the last call.
    pub fn take_asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap_or_else(PoisonError::into_inner)).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ErrorCode;

    fn confined() -> Connection {
        let mut conn = Connection::open_in_memory().unwrap();
        conn.execute_batch("CREATE TABLE t (x); CREATE VIRTUAL TABLE f USING fts5 (a); INSERT INTO f VALUES ('b c')")
            .unwrap();
        confine(&mut conn, WithheldColumns::default()).unwrap();
        conn
    }

    #[test]
    fn only_reading_is_allowed() {
        let conn = confined();
        for sql in [
            "INSERT INTO t VALUES (1)",
            "CREATE TEMP TABLE u (x)",
            "ATTACH ':memory:' AS a",
            "VACUUM INTO '/nowhere/x'",
            "BEGIN",
            "SAVEPOINT s",
            "PRAGMA hard_heap_limit = 1",
            "PRAGMA soft_heap_limit = 1",
            "PRAGMA user_version = 1",
            "PRAGMA query_only = off",
            "PRAGMA database_list",
            "SELECT load_extension('x')",
            "SELECT sqlite_compileoption_get(1)",
            "SELECT fts5(1)",
            "INSERT INTO f (f) VALUES ('rebuild')",
        ] {
            let run = conn.prepare(sql).and_then(|mut stmt| stmt.query([])?.next().map(|_| ()));
            let error = run.expect_err(sql).to_string();
            // A VACUUM attaches the new file when it is run.
            let is_refused = ["not authorized", "authorization denied", "prohibited", "too many attached"]
                .iter()
                .any(|why| error.contains(why));
            assert!(is_refused, "{sql}: {error}");
        }
        for sql in [
            "SELECT count(*), sum(x), json_object('a', 1) ->> 'a' FROM t",
            "SELECT name FROM pragma_table_info('t')",
            "PRAGMA table_xinfo(t)",
            "SELECT snippet(f, -1, '[', ']', '', 4), bm25(f) FROM f WHERE f MATCH 'b'",
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 9) SELECT max(i) OVER () FROM n",
            "EXPLAIN QUERY PLAN SELECT * FROM t",
        ] {
            let mut stmt = conn.prepare(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
            stmt.query([]).unwrap().next().unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
    }

    #[test]
    fn memory_is_bounded() {
        let conn = confined();
        let failed = |sql: &str| conn.query_row(sql, [], |_| Ok(())).unwrap_err().sqlite_error_code();
        assert_eq!(failed("SELECT zeroblob(5000000)"), Some(ErrorCode::TooBig));
        assert_eq!(failed("SELECT printf('%.*c', 2000000000, 'x')"), Some(ErrorCode::TooBig));
        let many = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 1000)";
        assert_eq!(
            failed(&format!("{many} SELECT count(*) FROM (SELECT DISTINCT i, zeroblob(4000000 + i) FROM n)")),
            Some(ErrorCode::OutOfMemory)
        );
    }

    #[test]
    fn what_is_computed_from_a_withheld_column_is_withheld() {
        let withheld =
            WithheldColumns::new(&["contacts.notes".into(), "cf_salary".into(), "team_members.email".into()]);
        for (table, column) in [
            ("contact_details", "notes"),
            ("contacts_full", "notes"),
            ("companies", "cf_salary_num"),
            ("companies", "archived_cf_salary"),
            ("contacts_full", "detail_extra"),
            ("changes", "fields"),
            ("team_members", "email"),
        ] {
            assert!(withheld.takes(table, column), "{table}.{column}");
        }
        for (table, column) in [("company_details", "notes"), ("contacts", "email"), ("changes", "seq")] {
            assert!(!withheld.takes(table, column), "{table}.{column}");
        }
        assert_eq!(withheld.access("contact_search_content", "c4", None), Authorization::Deny);
        assert!(!WithheldColumns::default().takes("changes", "fields"));
        let only_companies = WithheldColumns::new(&["companies.notes".into()]);
        assert!(!only_companies.is_index_of_withheld("contact_search"));
        assert_eq!(withheld.access("contact_details", "notes", Some("contacts_full")), Authorization::Ignore);
        assert!(withheld.take_asked().is_empty());
        withheld.access("contacts_full", "notes", None);
        withheld.access("outbox", "fields", Some("pending_edits"));
        assert_eq!(withheld.take_asked(), ["contacts_full.notes", "outbox.fields"]);
    }
}
