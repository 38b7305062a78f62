//! How many records are here, and how many of them with a current detail: kept in the file's state by the writer, in the
//! transaction that changes it, so that `status` reads two numbers where it would have to join two whole tables.
//!
//! A transaction notes how each record before that it is about to write, and adds the differences up at its end. A sweep
//! and a verification count anew, for the sake of mirrors that somebody has edited by hand.

use rusqlite::{Connection, OptionalExtension};
use serde::{Deserialize, Serialize};

use crate::model::catalogue::Object;
use crate::store::error::{Doing, StoreError};
use crate::store::pending::RecordPresence;
use crate::store::state::{StateKey, read_state};
use crate::store::tx::MirrorTx;

const DOING: &str = "count what is here";

/// How many records of an object are here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::store) struct RowCounts {
    /// Records.
    pub(in crate::store) rows: u64,
    /// Those whose detail is as new as the record.
    pub(in crate::store) details_current: u64,
}

/// What is kept about an object; `None` in a mirror that no writer of this program has opened yet.
pub(in crate::store) fn kept(conn: &Connection, object: Object) -> Result<Option<RowCounts>, StoreError> {
    read_state(conn, &StateKey::RowCounts(object))
}

/// Counts an object's records and details: reads all of both tables.
pub(in crate::store) fn count(conn: &Connection, object: Object) -> Result<RowCounts, StoreError> {
    let (table, details, key) = (object.table(), object.detail_table(), object.detail_key());
    let number = |sql: &str| -> Result<u64, StoreError> {
        let number: i64 = conn.query_row(sql, [], |row| row.get(0)).doing(DOING)?;
        Ok(number.unsigned_abs())
    };
    Ok(RowCounts {
        rows: number(&format!("SELECT count(*) FROM {table}"))?,
        details_current: number(&format!(
            "SELECT count(*) FROM {details} AS d JOIN {table} AS r ON r.id = d.{key} AND d.etag IS r.etag"
        ))?,
    })
}

impl MirrorTx<'_> {
    /// Notes how a record presence, before this transaction first changes that.
    pub(in crate::store) fn note_before(&self, object: Object, id: &str) -> Result<(), StoreError> {
        if !self.pending.before.borrow()[object as usize].contains_key(id) {
            let presence = self.presence(object, id)?;
            self.pending.before.borrow_mut()[object as usize].insert(id.into(), presence);
        }
        Ok(())
    }

    /// Notes a new record that has no detail yet: what a first copy writes, where looking each one up would cost time.
    pub(in crate::store) fn note_new(&self, object: Object, id: &str) {
        let before = &mut self.pending.before.borrow_mut()[object as usize];
        if !before.contains_key(id) {
            let new = &self.pending.new[object as usize];
            new.set(new.get() + 1);
        }
    }

    fn presence(&self, object: Object, id: &str) -> Result<RecordPresence, StoreError> {
        let (table, details, key) = (object.table(), object.detail_table(), object.detail_key());
        let sql = format!(
            "SELECT d.{key} IS NOT NULL AND d.etag IS r.etag
             FROM {table} AS r LEFT JOIN {details} AS d ON d.{key} = r.id WHERE r.id = ?1"
        );
        let current: Option<bool> = self
            .conn
            .prepare_cached(&sql)
            .and_then(|mut stmt| stmt.query_row([id], |row| row.get(0)).optional())
            .doing(DOING)?;
        Ok(RecordPresence { is_here: current.is_some(), has_current_detail: current == Some(true) })
    }

    /// Adds up what this transaction did so far.
    pub(in crate::store) fn settle_counts(&self) -> Result<(), StoreError> {
        let before = self.pending.before.take();
        for (object, before) in Object::ALL.into_iter().zip(before) {
            let new = self.pending.new[object as usize].take();
            if new == 0 && before.is_empty() {
                continue;
            }
            let Some(mut held) = kept(&self.conn, object)? else {
                self.recount(object)?;
                continue;
            };
            held.rows += new;
            for (id, before) in before {
                let after = self.presence(object, &id)?;
                held.rows = (held.rows + u64::from(after.is_here)).saturating_sub(u64::from(before.is_here));
                held.details_current = (held.details_current + u64::from(after.has_current_detail))
                    .saturating_sub(u64::from(before.has_current_detail));
            }
            self.set_state(&StateKey::RowCounts(object), &held)?;
        }
        Ok(())
    }

    /// Counts anew.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn recount(&self, object: Object) -> Result<(), StoreError> {
        self.pending.before.borrow_mut()[object as usize].clear();
        self.pending.new[object as usize].take();
        self.set_state(&StateKey::RowCounts(object), &count(&self.conn, object)?)
    }

    /// Counts where no writer has yet.
    pub(in crate::store) fn count_once(&self) -> Result<(), StoreError> {
        for object in Object::ALL {
            if kept(&self.conn, object)?.is_none() {
                self.recount(object)?;
            }
        }
        Ok(())
    }
}
