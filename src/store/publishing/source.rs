//! Reads the mirror for publishing: pages of plain values, each from a short snapshot.

use std::collections::BTreeSet;

use rusqlite::params_from_iter;
use serde::Deserialize;
use serde_json::Value;

use crate::model::{Layout, Object, SqlValue};
use crate::store::custom::rows::layout_without;
use crate::store::publishing::queue;
use crate::store::table_shapes::OWNER_NAME;
use crate::store::{BuiltFrom, FeedSpan, ReadTx, Reader, Result, Statements, StoreError, feed, guide, quoted};

pub type SourceRow = Vec<SqlValue>;

/// The maximum number of rows of a page, and of records in one batch.
pub const PAGE: usize = 1_000;
/// The bytes of text after which a page or batch ends, with the row or record that reaches them: texts have no bound.
pub const PAGE_BYTES: usize = 4 << 20;

/// Whether no page follows this one.
pub fn is_last_page(page: &[SourceRow]) -> bool {
    page.len() < PAGE && text_bytes(page) < PAGE_BYTES
}

pub fn text_bytes(rows: &[SourceRow]) -> usize {
    rows.iter().flatten().filter_map(SqlValue::as_text).map(str::len).sum()
}

#[derive(Clone, Debug)]
pub struct PageQuery {
    pub table: String,
    pub columns: Vec<String>,
    pub key: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ChangedRecord {
    pub seq: i64,
    pub object: Object,
    pub id: String,
    /// Its feed entries up to this one were erased; 0 for none.
    pub erase: i64,
}

impl Reader {
    /// Keep it short: a snapshot prevents checkpoints.
    pub fn moment<T, E: From<StoreError>>(&self, read: impl FnOnce(&Moment<'_>) -> Result<T, E>) -> Result<T, E> {
        let found = read(&Moment { tx: &self.begin()? })?;
        self.unchanged()?;
        Ok(found)
    }
}

/// One snapshot, with the readings that only followers need.
#[derive(Debug)]
pub struct Moment<'a> {
    pub tx: &'a ReadTx<'a>,
}

/// Where the changes of a mirror end, and how far back they reach.
#[derive(Clone, Debug, Default)]
pub struct FeedEnd {
    pub mirror: String,
    pub newest: i64,
    pub forgotten: i64,
    /// The number of the newest changed record; negative while the mirror does not record which records change.
    pub changed: i64,
}

impl FeedEnd {
    /// Why a copy that has the changes of a mirror up to a place cannot be continued from there.
    pub fn refuses(&self, mirror: &str, seq: i64, changed: i64) -> Option<&'static str> {
        if mirror != self.mirror {
            Some("it came from a different mirror")
        } else if seq > self.newest || changed > self.changed {
            Some("it is newer than the mirror, which was restored from a backup")
        } else {
            (seq < self.forgotten).then_some("the mirror's history no longer reaches back to it")
        }
    }
}

impl Moment<'_> {
    pub fn end(&self) -> Result<FeedEnd> {
        let FeedSpan { newest, forgotten } = feed::span(self.tx)?;
        let changed = if queue::is_recording(self.tx)? { self.newest_changed()? } else { -1 };
        Ok(FeedEnd { mirror: feed::mirror_id(self.tx)?, newest, forgotten, changed })
    }

    /// A number that changes with the definitions, and therefore with the columns.
    pub fn layout(&self) -> Result<u64> {
        Ok(BuiltFrom::read(&self.tx.conn)?.layout)
    }

    /// A number that changes whenever values were erased from rows that may have been published.
    pub fn rewrites(&self) -> Result<u32> {
        Ok(BuiltFrom::read(&self.tx.conn)?.rewrites)
    }

    /// The custom columns, as if these had been excluded from the mirror.
    pub fn layout_without(&self, exclude: &[String]) -> Result<Layout> {
        layout_without(&self.tx.conn, guide::kept_back(self.tx, exclude)?)
    }

    pub fn whole(&self, query: &PageQuery) -> Result<Vec<SourceRow>> {
        self.select(query, &format!("true ORDER BY {}", list(&query.key)), [])
    }

    pub fn page(&self, query: &PageQuery, after: Option<&[SqlValue]>) -> Result<Vec<SourceRow>> {
        let key = list(&query.key);
        let behind = after.map_or("true".into(), |after| format!("({key}) > ({})", vec!["?"; after.len()].join(", ")));
        let condition = format!("{behind} ORDER BY {key} LIMIT {PAGE}");
        self.rows(&statement(query, &condition), params_from_iter(after.unwrap_or_default()), PAGE_BYTES)
    }

    pub fn by_keys(&self, query: &PageQuery, keys: &[Vec<SqlValue>]) -> Result<Vec<SourceRow>> {
        let parts: Vec<String> = (0..query.key.len()).map(|n| format!("json_extract(value, '$[{n}]')")).collect();
        let condition = format!("({}) IN (SELECT {} FROM json_each(?1))", list(&query.key), parts.join(", "));
        let keys: Vec<Vec<Value>> = keys.iter().map(|key| key.iter().map(Value::from).collect()).collect();
        self.select(query, &condition, [Value::from(keys).to_string()])
    }

    /// The keys of the rows of a table that cannot be published as they are: those with U+0000.
    pub fn odd_keys(&self, query: &PageQuery) -> Result<Vec<SourceRow>> {
        let odd = |name: &String| format!("instr({}, char(0)) > 0", quoted(name));
        let conditions: Vec<String> = query.key.iter().map(odd).collect();
        self.select(query, &conditions.join(" OR "), [])
    }

    pub fn changed_of(&self, ids: &[&str], after: i64) -> Result<BTreeSet<String>> {
        let sql = "SELECT record_id FROM changed_records WHERE object_type IN ('contact', 'company')
             AND record_id IN (SELECT value FROM json_each(?2)) AND +seq > ?1";
        self.tx.column(sql, (after, Value::from(ids).to_string()))
    }

    /// Whether a company changed, or history was erased, after a number: both change rows of other records.
    pub fn others_follow(&self, after: i64) -> Result<bool> {
        let sql =
            "SELECT EXISTS (SELECT 1 FROM changed_records WHERE seq > ?1 AND (object_type = 'company' OR erase > 0))";
        self.tx.value(sql, [after])
    }

    /// Whether the history of any record was erased since records are noted.
    pub fn has_erased(&self) -> Result<bool> {
        self.tx.value("SELECT EXISTS (SELECT 1 FROM changed_records WHERE erase > 0)", [])
    }

    /// `key` is the column of the id; with `object`, only rows of that `object_type`.
    pub fn of_records(
        &self,
        query: &PageQuery,
        key: &str,
        object: Option<Object>,
        ids: &[&str],
    ) -> Result<Vec<SourceRow>> {
        let of_object = object.map(|object| format!("object_type = '{object}' AND ")).unwrap_or_default();
        let condition = format!("{of_object}{} IN (SELECT value FROM json_each(?1))", quoted(key));
        self.select(query, &condition, [Value::from(ids).to_string()])
    }

    /// The number of the newest entry of `changed_records`; 0 before the first.
    pub fn newest_changed(&self) -> Result<i64> {
        self.tx.value("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'changed_records'", [])
    }

    pub fn changed_records(&self, after: i64) -> Result<Vec<ChangedRecord>> {
        let sql = "SELECT seq, object_type AS object, record_id AS id, erase FROM changed_records
             WHERE seq > ?1 ORDER BY seq LIMIT ?2";
        self.tx.parsed(sql, [after, PAGE as i64])
    }

    /// The owners' ids and names, as in `owner_name` of the `_full` views.
    pub fn owner_names(&self) -> Result<Vec<SourceRow>> {
        self.rows(&format!("SELECT o.id, {OWNER_NAME} FROM team_members AS o ORDER BY o.id"), [], usize::MAX)
    }

    pub fn company_names(&self, ids: &[&str]) -> Result<Vec<SourceRow>> {
        let sql = "SELECT id, name FROM companies WHERE id IN (SELECT value FROM json_each(?1))";
        self.rows(sql, [Value::from(ids).to_string()], usize::MAX)
    }

    fn select(&self, query: &PageQuery, condition: &str, values: impl rusqlite::Params) -> Result<Vec<SourceRow>> {
        self.rows(&statement(query, condition), values, usize::MAX)
    }

    /// The rows up to the one that reaches so many bytes of text.
    fn rows(&self, sql: &str, values: impl rusqlite::Params, most: usize) -> Result<Vec<SourceRow>> {
        let mut stmt = self.tx.conn.prepare_cached(sql)?;
        let count = stmt.column_count();
        let (mut found, mut bytes) = (Vec::<SourceRow>::new(), 0);
        for row in stmt.query_map(values, |row| (0..count).map(|place| row.get(place)).collect())? {
            found.push(row?);
            bytes += found.last().map_or(0, |row| text_bytes(std::slice::from_ref(row)));
            if bytes >= most {
                break;
            }
        }
        Ok(found)
    }
}

fn statement(query: &PageQuery, condition: &str) -> String {
    format!("SELECT {} FROM {} WHERE {condition}", list(&query.columns), quoted(&query.table))
}

fn list(names: &[String]) -> String {
    names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ")
}
