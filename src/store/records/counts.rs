//! Row counts per object, and how many of the rows have a current detail: stored by the writer in the transaction that
//! changes them, so that `status` reads two numbers instead of joining two tables.
//!
//! A transaction records the presence of each record before it writes the record, and applies the differences at its
//! end. A sweep and a verification count again, because users may have edited the mirror.

use rusqlite::{Connection, Params};

use crate::model::Object;
use crate::store::records::shape::with_details;
use crate::store::tx::RowCounts;
use crate::store::{RecordsTx, Result, StateKey, Statements, read_state};

/// `None` if no writer of this version has opened the mirror yet.
pub(in crate::store) fn kept(conn: &Connection, object: Object) -> Result<Option<RowCounts>> {
    read_state(conn, &StateKey::row_counts(object))
}

pub(in crate::store) fn count(conn: &Connection, object: Object) -> Result<RowCounts> {
    count_where(conn, object, "true", [])
}

/// Counts the records `r` under a condition.
fn count_where(conn: &Connection, object: Object, condition: &str, values: impl Params) -> Result<RowCounts> {
    let sql = format!(
        "SELECT count(*), count(iif(d.{} IS NOT NULL AND d.etag IS r.etag, 1, NULL)) FROM {} WHERE {condition}",
        object.detail_key(),
        with_details(object)
    );
    let (rows, current): (i64, i64) = conn.find_tuple(&sql, values)?.unwrap_or_default();
    Ok(RowCounts { rows: rows.unsigned_abs(), details_current: current.unsigned_abs() })
}

impl RecordsTx<'_> {
    /// Records the presence of a record, before this transaction first changes it.
    pub(in crate::store) fn count_before(&self, object: Object, id: &str) -> Result<()> {
        if !self.tx.pending.before.borrow()[object as usize].contains_key(id) {
            let presence = count_where(&self.tx.conn, object, "r.id = ?1", [id])?;
            self.tx.pending.before.borrow_mut()[object as usize].insert(id.into(), presence);
        }
        Ok(())
    }

    /// Records a new record without a detail: in a first copy, looking each one up would be slow.
    pub(in crate::store) fn count_new(&self, object: Object, id: &str) {
        let before = &mut self.tx.pending.before.borrow_mut()[object as usize];
        if !before.contains_key(id) {
            let new = &self.tx.pending.new[object as usize];
            new.set(new.get() + 1);
        }
    }

    pub(in crate::store) fn flush_counts(&self) -> Result<()> {
        let before = self.tx.pending.before.take();
        for (object, before) in Object::ALL.into_iter().zip(before) {
            let new = self.tx.pending.new[object as usize].take();
            if new == 0 && before.is_empty() {
                continue;
            }
            let Some(mut held) = kept(&self.tx.conn, object)? else {
                self.recount(object)?;
                continue;
            };
            let ids = serde_json::Value::from_iter(before.keys().map(String::as_str)).to_string();
            let among = "r.id IN (SELECT value FROM json_each(?1))";
            let after = count_where(&self.tx.conn, object, among, [ids])?;
            let sum = |of: fn(&RowCounts) -> u64| before.values().map(of).sum::<u64>();
            held.rows = (held.rows + new + after.rows).saturating_sub(sum(|before| before.rows));
            held.details_current =
                (held.details_current + after.details_current).saturating_sub(sum(|before| before.details_current));
            self.tx.set_state(&StateKey::row_counts(object), &held)?;
        }
        Ok(())
    }

    pub fn recount(&self, object: Object) -> Result<()> {
        self.tx.pending.before.borrow_mut()[object as usize].clear();
        self.tx.pending.new[object as usize].take();
        self.tx.set_state(&StateKey::row_counts(object), &count(&self.tx.conn, object)?)
    }

    pub(in crate::store) fn count_once(&self, object: Object) -> Result<()> {
        if kept(&self.tx.conn, object)?.is_none() { self.recount(object) } else { Ok(()) }
    }
}
