//! Which details are due: derived from the file, never kept in memory.

use std::collections::HashMap;

use rusqlite::params;

use crate::model::catalogue::Object;
use crate::model::ids::{Etag, RecordId};
use crate::model::instant::Instant;
use crate::store::error::{Doing, StoreError};
use crate::store::reader::ReadTx;
use crate::store::state::StateKey;
use crate::store::tx::MirrorTx;

impl ReadTx<'_> {
    /// Whether an object's table has no rows.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn is_empty(&self, object: Object) -> Result<bool, StoreError> {
        let sql = format!("SELECT NOT EXISTS (SELECT 1 FROM {})", object.table());
        self.conn.query_row(&sql, [], |row| row.get(0)).doing("look into a table")
    }

    /// How many rows an object's table has.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn count_rows(&self, object: Object) -> Result<u64, StoreError> {
        let sql = format!("SELECT count(*) FROM {}", object.table());
        let rows: i64 = self.conn.query_row(&sql, [], |row| row.get(0)).doing("count a table")?;
        Ok(rows.unsigned_abs())
    }

    /// Records with their moment of creation, for recognising the workspace: those whose ids can stand in a list.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn sample_created(&self, object: Object, most: usize) -> Result<Vec<(RecordId, String)>, StoreError> {
        let doing = "choose records to recognise the workspace by";
        // The newest are the least likely to have been removed since.
        let sql = format!(
            "SELECT id, created_at FROM {} WHERE created_at IS NOT NULL AND instr(id, ',') = 0
             ORDER BY created_at DESC LIMIT ?1",
            object.table()
        );
        let mut stmt = self.conn.prepare(&sql).doing(doing)?;
        stmt.query_map([most as i64], |row| Ok((RecordId::new(row.get::<_, String>(0)?), row.get(1)?)))
            .and_then(Iterator::collect)
            .doing(doing)
    }

    /// Records whose detail is missing or of an older version, newest first.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn due_details(&self, object: Object, most: usize) -> Result<Vec<RecordId>, StoreError> {
        let doing = "find due details";
        let sql = format!("{} ORDER BY r.updated_at DESC, r.id LIMIT ?1", due("r.id", object));
        let mut stmt = self.conn.prepare_cached(&sql).doing(doing)?;
        stmt.query_map([most as i64], |row| Ok(RecordId::new(row.get::<_, String>(0)?)))
            .and_then(Iterator::collect)
            .doing(doing)
    }

    /// The versions of those of the records that are here.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn versions(&self, object: Object, ids: &[RecordId]) -> Result<HashMap<RecordId, Option<Etag>>, StoreError> {
        let doing = "read the versions of records";
        let sql = format!("SELECT id, etag FROM {} WHERE id IN (SELECT value FROM json_each(?1))", object.table());
        let ids: Vec<&str> = ids.iter().map(RecordId::as_str).collect();
        let mut stmt = self.conn.prepare_cached(&sql).doing(doing)?;
        let version = |row: &rusqlite::Row<'_>| {
            Ok((RecordId::new(row.get::<_, String>(0)?), row.get::<_, Option<String>>(1)?.map(Etag::from)))
        };
        stmt.query_map([serde_json::Value::from(ids).to_string()], version).and_then(Iterator::collect).doing(doing)
    }

    fn count_due(&self, object: Object) -> Result<u64, StoreError> {
        let count: i64 =
            self.conn.query_row(&due("count(*)", object), [], |row| row.get(0)).doing("count due details")?;
        Ok(count.unsigned_abs())
    }

    /// The details read longest ago, before an instant: for reading again with request units to spare.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn aged_details(&self, object: Object, before: Instant, most: usize) -> Result<Vec<RecordId>, StoreError> {
        let doing = "find aged details";
        let sql = format!(
            "SELECT {key} FROM {table} WHERE fetched_at < ?1 ORDER BY fetched_at, {key} LIMIT ?2",
            key = object.detail_key(),
            table = object.detail_table()
        );
        let mut stmt = self.conn.prepare_cached(&sql).doing(doing)?;
        stmt.query_map(params![before.to_string(), most as i64], |row| Ok(RecordId::new(row.get::<_, String>(0)?)))
            .and_then(Iterator::collect)
            .doing(doing)
    }
}

impl MirrorTx<'_> {
    /// How many details are due. That none is, is remembered until a row is written: an idle run reads no table.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn count_due_details(&self, object: Object) -> Result<u64, StoreError> {
        if self.state(&StateKey::DetailsSettled(object))? == Some(true) {
            return Ok(0);
        }
        let due = self.count_due(object)?;
        if due == 0 {
            self.set_state(&StateKey::DetailsSettled(object), &true)?;
        }
        Ok(due)
    }

    /// Forgets that no detail is due, once in a transaction.
    pub(in crate::store) fn unsettle(&self, object: Object) -> Result<(), StoreError> {
        if self.pending.unsettled[object as usize].replace(true) {
            return Ok(());
        }
        self.clear_state(&StateKey::DetailsSettled(object))
    }

    /// Makes details due again: of these records, or of all.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn make_details_due(&self, object: Object, ids: Option<&[RecordId]>) -> Result<(), StoreError> {
        let doing = "make details due";
        self.unsettle(object)?;
        let (table, key) = (object.detail_table(), object.detail_key());
        let Some(ids) = ids else {
            let sql = format!("UPDATE {table} SET etag = NULL WHERE etag IS NOT NULL");
            self.conn.execute(&sql, []).doing(doing)?;
            self.requeue_all(object)?;
            return self.recount(object);
        };
        for id in ids {
            self.note_before(object, id.as_str())?;
            self.note_changed(object, id.as_str());
        }
        let ids: Vec<&str> = ids.iter().map(RecordId::as_str).collect();
        let sql = format!(
            "UPDATE {table} SET etag = NULL WHERE {key} IN (SELECT value FROM json_each(?1)) AND etag IS NOT NULL"
        );
        self.conn.execute(&sql, [serde_json::Value::from(ids).to_string()]).doing(doing)?;
        Ok(())
    }
}

/// A detail is due when there is none, or when it was read at another etag. A record without an etag has one version.
fn due(what: &str, object: Object) -> String {
    format!(
        "SELECT {what} FROM {table} AS r LEFT JOIN {details} AS d ON d.{key} = r.id
         WHERE d.{key} IS NULL OR d.etag IS NOT r.etag",
        table = object.table(),
        details = object.detail_table(),
        key = object.detail_key()
    )
}
