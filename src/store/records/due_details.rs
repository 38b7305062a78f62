//! Which details are due: derived from the file, never kept in memory.
//!
//! How many are due follows from the stored counts, so no step reads all rows to find out that there is nothing to do.
//! Who reads due details asks for no more than there are: the changed records are the newest, so the index on
//! `updated_at` is read from its end until they are found, and not the whole of it.

use std::collections::HashMap;

use rusqlite::{Params, params};

use super::counts::kept;
use crate::model::{Etag, Instant, Object, RecordId};
use crate::store::records::shape::with_details;
use crate::store::{KnowledgeTx, ReadOf, ReadTx, RecordsTx, Result, Statements, fits_a_list, json_list};

/// A record whose detail is due, and its place in the order of reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueDetail {
    pub updated_at: Option<String>,
    pub id: RecordId,
}

pub const EXAMINED_AT_ONCE: usize = 2_000;

/// A detail that must be read again is of no version, and not of that of a record whose etag is missing: no etag is empty.
const NOT_MARKED: &str = "etag IS NOT ''";

fn mark(object: Object) -> String {
    format!("UPDATE {} SET etag = ''", object.detail_table())
}

/// What lies behind a record that has a timestamp.
const DUE_BEHIND: &str = "(r.updated_at, r.id) < (?1, ?2)";

impl ReadTx<'_> {
    pub fn count_due_details(&self, object: Object) -> Result<u64> {
        let counts = kept(&self.conn, object)?.unwrap_or_default();
        Ok(counts.rows.saturating_sub(counts.details_current))
    }

    pub fn count_rows(&self, object: Object) -> Result<u64> {
        let sql = format!("SELECT count(*) FROM {}", object.table());
        self.count(&sql, [])
    }

    /// Records with their creation times, for recognizing the workspace: those whose ids can be part of a list.
    pub fn sample_created(&self, object: Object, most: usize) -> Result<Vec<(RecordId, String)>> {
        // Half of them are the newest, which are the least likely to have been removed since; the others are from all
        // times, in case the newest were removed.
        let sql = format!(
            "SELECT id, created_at FROM (
                 SELECT id, created_at, row_number() OVER (ORDER BY created_at DESC, id) - 1 AS n, count(*) OVER () AS c
                 FROM {} WHERE created_at IS NOT NULL AND {})
             ORDER BY n % max(1, c * 2 / ?1) = 0 DESC, n LIMIT ?1",
            object.table(),
            fits_a_list("id")
        );
        self.tuples(&sql, [most as i64])
    }

    /// Records whose detail is missing or of an older version, newest first, behind the last one of the batch before.
    /// Each batch begins where that ended, so that all of them together read the index once.
    pub fn due_details(&self, object: Object, behind: Option<&DueDetail>, most: usize) -> Result<Vec<DueDetail>> {
        match behind {
            None => self.due_where(object, "true", [], most),
            Some(DueDetail { updated_at: None, id }) => {
                self.due_where(object, "r.updated_at IS NULL AND r.id < ?1", [id], most)
            }
            Some(DueDetail { updated_at: Some(at), id }) => {
                let mut due = self.due_where(object, DUE_BEHIND, (at, id), most)?;
                if due.len() < most {
                    // Descending, records without a timestamp come last; no comparison finds them.
                    due.extend(self.due_where(object, "r.updated_at IS NULL", [], most - due.len())?);
                }
                Ok(due)
            }
        }
    }

    fn due_where(&self, object: Object, condition: &str, values: impl Params, most: usize) -> Result<Vec<DueDetail>> {
        self.rows(&due_batch(object, condition, most), values, |row| {
            Ok(DueDetail { updated_at: row.get(0)?, id: row.get(1)? })
        })
    }

    pub fn versions(&self, object: Object, ids: &[RecordId]) -> Result<HashMap<RecordId, Option<Etag>>> {
        let sql = format!("SELECT id, etag FROM {} WHERE id IN (SELECT value FROM json_each(?1))", object.table());
        self.tuples(&sql, [json_list(ids)])
    }

    pub fn count_due_among<'i>(&self, object: Object, ids: impl IntoIterator<Item = &'i RecordId>) -> Result<u64> {
        let ids: Vec<&RecordId> = ids.into_iter().collect();
        let sql = format!("{} AND r.id IN (SELECT value FROM json_each(?1))", due("count(*)", object));
        self.count(&sql, [json_list(ids)])
    }

    /// Details that were read before an instant, among the next 2,000 by row number (`EXAMINED_AT_ONCE`), and the row to go on
    /// at, if not all were examined; after the last it begins again. So much of a large table is read as of a small one.
    pub fn aged_details(&self, object: Object, before: Instant, most: usize) -> Result<(Vec<RecordId>, Option<i64>)> {
        let (from, before) = (self.position::<i64>(ReadOf::Ages(object))?.unwrap_or(0), before.to_string());
        let sql = format!(
            "SELECT rowid, {key}, fetched_at < ?2 FROM {table} WHERE rowid > ?1 ORDER BY rowid LIMIT {EXAMINED_AT_ONCE}",
            key = object.detail_key(),
            table = object.detail_table()
        );
        let (mut aged, mut examined, mut last) = (Vec::new(), 0, from);
        let mut stmt = self.conn.prepare_cached(&sql)?;
        let mut rows = stmt.query(params![from, before])?;
        while let Some(row) = rows.next()?.filter(|_| aged.len() < most) {
            (examined, last) = (examined + 1, row.get(0)?);
            if row.get(2)? {
                aged.push(RecordId::new(row.get::<_, String>(1)?));
            }
        }
        let is_at_end = examined < EXAMINED_AT_ONCE && aged.len() < most;
        if is_at_end && from == 0 {
            return Ok((aged, None));
        }
        Ok((aged, Some(if is_at_end { 0 } else { last })))
    }
}

impl KnowledgeTx<'_> {
    pub fn count_due_details(&self, object: Object) -> Result<u64> {
        self.tx.records().flush_counts()?;
        self.tx.records().count_once(object)?;
        self.tx.count_due_details(object)
    }

    /// The same; the next call goes on there. VACUUM may renumber rows, which only changes when one is examined.
    pub fn aged_details(&self, object: Object, before: Instant, most: usize) -> Result<Vec<RecordId>> {
        let (aged, ended) = self.tx.aged_details(object, before, most)?;
        if let Some(ended) = ended {
            self.tx.claims().keep_position(ReadOf::Ages(object), &ended)?;
        }
        Ok(aged)
    }

    pub fn make_details_due(&self, object: Object, ids: Option<&[RecordId]>) -> Result<()> {
        let Some(ids) = ids else {
            self.run(&format!("{} WHERE {NOT_MARKED}", mark(object)), [])?;
            self.tx.feed().requeue_all(object)?;
            return self.tx.records().recount(object);
        };
        self.make_due(object, ids, NOT_MARKED)
    }

    pub fn make_current_details_due(&self, object: Object, ids: &[RecordId]) -> Result<()> {
        let (records, key) = (object.table(), object.detail_key());
        self.make_due(object, ids, &format!("etag IS (SELECT r.etag FROM {records} AS r WHERE r.id = {key})"))
    }

    fn make_due(&self, object: Object, ids: &[RecordId], condition: &str) -> Result<()> {
        for id in ids {
            self.tx.records().count_before(object, id.as_str())?;
            self.tx.feed().mark_changed(object, id.as_str());
        }
        let of_records = format!("{} IN (SELECT value FROM json_each(?1))", object.detail_key());
        self.run(&format!("{} WHERE {of_records} AND {condition}", mark(object)), [json_list(ids)])
    }
}

impl RecordsTx<'_> {
    /// A version that the service refused is not that of the record: none is known until an answer shows one.
    pub fn forget_version(&self, object: Object, id: &RecordId, refused: &Etag) -> Result<()> {
        self.count_before(object, id.as_str())?;
        let sql = format!("UPDATE {} SET etag = NULL WHERE id = ?1 AND etag = ?2", object.table());
        match self.change(&sql, params![id, refused])? {
            0 => Ok(()),
            // A detail that is due stays so: two unknown versions are not the same one.
            _ => self.tx.knowledge().make_due(object, std::slice::from_ref(id), "etag IS NULL"),
        }
    }
}

/// A detail is due if there is none, or if it was read at another etag. A record without an etag has one version.
fn due(what: &str, object: Object) -> String {
    let (records, key) = (with_details(object), object.detail_key());
    format!("SELECT {what} FROM {records} WHERE (d.{key} IS NULL OR d.etag IS NOT r.etag)")
}

fn due_batch(object: Object, condition: &str, most: usize) -> String {
    let records = due("r.updated_at, r.id", object);
    format!("{records} AND {condition} ORDER BY r.updated_at DESC, r.id DESC LIMIT {most}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    #[test]
    fn a_batch_begins_in_the_index_where_the_last_one_ended() {
        let mut conn = Connection::open_in_memory().unwrap();
        crate::store::file::migrate::migrate(&mut conn).unwrap();
        conn.execute_batch(include_str!("../../../schema/indexes_after_first_copy/contacts.sql")).unwrap();
        let plan = |condition: &str| -> String {
            let sql = format!("EXPLAIN QUERY PLAN {}", due_batch(Object::Contact, condition, 500));
            let mut stmt = conn.prepare(&sql).unwrap();
            let values: Vec<&str> = vec!["x"; stmt.parameter_count()];
            let rows = stmt.query_map(rusqlite::params_from_iter(values), |row| row.get::<_, String>(3)).unwrap();
            rows.map(Result::unwrap).collect::<Vec<_>>().join("; ")
        };
        let behind = plan(DUE_BEHIND);
        assert!(behind.contains("SEARCH r USING INDEX contacts_by_updated_at ((updated_at,id)<(?,?))"), "{behind}");
        for condition in ["true", DUE_BEHIND, "r.updated_at IS NULL AND r.id < ?1"] {
            let plan = plan(condition);
            assert!(plan.contains("contacts_by_updated_at") && !plan.contains("TEMP B-TREE"), "{condition}: {plan}");
        }
    }

    #[tokio::test]
    async fn every_aged_detail_is_found_and_no_call_examines_a_large_table() {
        let dir = tempfile::tempdir().unwrap();
        let store = crate::store::Store::open(&dir.path().join("mirror.db")).unwrap();
        let rows = 2 * EXAMINED_AT_ONCE + 500;
        let insert = format!(
            "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n LIMIT {rows})
             INSERT INTO contact_details (contact_id, fetched_at)
             SELECT 'c' || n, iif(n % 50 = 0, '2026-01-01T00:00:00.000000Z', '2026-03-01T00:00:00.000000Z') FROM n"
        );
        store.write(move |tx| tx.batch(&insert)).await.unwrap();
        let before: Instant = "2026-02-01T00:00:00Z".parse().unwrap();
        let (mut found, mut calls) = (std::collections::BTreeSet::new(), 0);
        while found.len() < rows / 50 {
            let aged = store.write(move |tx| tx.knowledge().aged_details(Object::Contact, before, 30)).await.unwrap();
            assert!(aged.len() <= 30);
            assert!(aged.iter().all(|id| found.insert(id.clone())), "none comes again before the others came");
            calls += 1;
            assert!(calls <= 6, "{} of {} after {calls} calls", found.len(), rows / 50);
        }
        let again = store.write(move |tx| tx.knowledge().aged_details(Object::Contact, before, 30)).await.unwrap();
        assert!(again.is_empty() || found.contains(&again[0]), "it begins again");
        store.close().await;
    }
}
