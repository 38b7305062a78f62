//! Rows of the workspace before an accepted one: which rows those are, and when they were replaced.
//!
//! An accepted workspace is copied over the rows of the one before. Which of the two a row is of does not show in its
//! values: ids may be equal, and the version of the other workspace may be newer. So the acceptance takes the time of
//! reading away from every row, and the first answer that shows the record gives it one.
//!
//! # Invariants
//! - A former row blocks no answer, whatever its version, and none of its values remains in the row that replaces it.
//! - No edit that was made on a former row is sent unless a person releases it.

use rusqlite::types::ValueRef;
use rusqlite::{ToSql, params};

use crate::model::{Instant, Object, RecordId};
use crate::store::{Goal, OPEN, RecordsTx, Result, Statements};

/// The time of reading of a row that was not read since another workspace was accepted: no real one is this.
const NEVER: &str = "1970-01-01T00:00:00.000000Z";

const FORMER_ROW: &str =
    "held because another workspace was accepted: its rows had not all been read when the edit was made";

pub(in crate::store) fn is_former(stamp: ValueRef<'_>) -> bool {
    stamp.as_str() == Ok(NEVER)
}

pub(in crate::store) fn former_condition(table: &str) -> String {
    format!("{table}.synced_at = '{NEVER}'")
}

impl RecordsTx<'_> {
    pub fn make_rows_former(&self, object: Object) -> Result<()> {
        self.run(&format!("UPDATE {} SET synced_at = ?1", object.table()), [NEVER])
    }

    /// Holds the new edits of a record whose former row is replaced. While every row is being replaced, the edits of
    /// the whole object are held at the end of that.
    pub(in crate::store) fn hold_edits_of_replaced_row(&self, object: Object, id: &str, now: Instant) -> Result<()> {
        if !self.tx.goals().is_set(Goal::FormerRows(object))? {
            self.tx.edits().hold_new_edits_where(
                "object_type = ?1 AND record_id = ?2",
                params![object, id],
                FORMER_ROW,
                now,
            )?;
        }
        Ok(())
    }

    /// Holds the edits of an object, or of one of its records, that were neither sent nor released, if their rows may
    /// still be of the workspace before an accepted one. Returns their number.
    pub fn hold_edits_of_former_rows(&self, object: Object, record: Option<&RecordId>, now: Instant) -> Result<u64> {
        if self.tx.goals().is_set(Goal::FormerRows(object))? {
            return self.tx.edits().hold_new_edits(Some(object), FORMER_ROW, now);
        }
        let table = object.table();
        let former =
            format!("EXISTS (SELECT 1 FROM {table} WHERE {table}.id = record_id AND {})", former_condition(table));
        let (condition, values): (_, &[&dyn ToSql]) = match record {
            // The index of open edits finds those of a record.
            Some(record) => {
                (format!("object_type = ?1 AND record_id = ?2 AND {OPEN} AND {former}"), params![object, *record])
            }
            None => (format!("object_type = ?1 AND {former}"), params![object]),
        };
        self.tx.edits().hold_new_edits_where(&condition, values, FORMER_ROW, now)
    }
}
