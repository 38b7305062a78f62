//! Row counts per object, and how many of the rows have a current detail: stored by the writer in the transaction that
//! changes them, so that `status` reads two numbers instead of joining two tables.
//!
//! A transaction records the presence of each record before it writes the record, and applies the differences at its
//! end. A sweep and a verification count again, because users may have edited the mirror.

use rusqlite::Connection;

use crate::model::Object;
use crate::store::tx::RowCounts;
use crate::store::{RecordsTx, Result, StateKey, Statements, read_state};

/// `None` if no writer of this version has opened the mirror yet.
pub(in crate::store) fn kept(conn: &Connection, object: Object) -> Result<Option<RowCounts>> {
    read_state(conn, &StateKey::RowCounts(object))
}

pub(in crate::store) fn count(conn: &Connection, object: Object) -> Result<RowCounts> {
    let (table, details, key) = (object.table(), object.detail_table(), object.detail_key());
    let number = |sql: &str| -> Result<u64> { conn.count(sql, []) };
    Ok(RowCounts {
        rows: number(&format!("SELECT count(*) FROM {table}"))?,
        details_current: number(&format!(
            "SELECT count(*) FROM {details} AS d JOIN {table} AS r ON r.id = d.{key} AND d.etag IS r.etag"
        ))?,
    })
}

impl RecordsTx<'_> {
    /// Records the presence of a record, before this transaction first changes it.
    pub(in crate::store) fn count_before(&self, object: Object, id: &str) -> Result<()> {
        if !self.tx.pending.before.borrow()[object as usize].contains_key(id) {
            let presence = self.presence(object, id)?;
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

    fn presence(&self, object: Object, id: &str) -> Result<RowCounts> {
        let (table, details, key) = (object.table(), object.detail_table(), object.detail_key());
        let sql = format!(
            "SELECT d.{key} IS NOT NULL AND d.etag IS r.etag
             FROM {table} AS r LEFT JOIN {details} AS d ON d.{key} = r.id WHERE r.id = ?1"
        );
        let current: Option<bool> = self.find_value(&sql, [id])?;
        Ok(RowCounts { rows: current.is_some().into(), details_current: (current == Some(true)).into() })
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
            held.rows += new;
            for (id, before) in before {
                let after = self.presence(object, &id)?;
                held.rows = (held.rows + after.rows).saturating_sub(before.rows);
                held.details_current =
                    (held.details_current + after.details_current).saturating_sub(before.details_current);
            }
            self.tx.set_state(&StateKey::RowCounts(object), &held)?;
        }
        Ok(())
    }

    pub fn recount(&self, object: Object) -> Result<()> {
        self.tx.pending.before.borrow_mut()[object as usize].clear();
        self.tx.pending.new[object as usize].take();
        self.tx.set_state(&StateKey::RowCounts(object), &count(&self.tx.conn, object)?)
    }

    /// The counts at this point of the transaction; no table is read unless they were lost.
    pub(in crate::store) fn counts_now(&self, object: Object) -> Result<RowCounts> {
        self.flush_counts()?;
        self.count_once(object)?;
        Ok(kept(&self.tx.conn, object)?.unwrap_or_default())
    }

    pub(in crate::store) fn count_once(&self, object: Object) -> Result<()> {
        if kept(&self.tx.conn, object)?.is_none() { self.recount(object) } else { Ok(()) }
    }
}
