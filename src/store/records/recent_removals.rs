//! Rows of `doubts` about records and items that were removed within the last day: many small removals are treated like one
//! large one, and an answer that shows one of them may be of a moment before.

use std::time::Duration;

use rusqlite::{ToSql, params};

use crate::model::catalogue::Object;
use crate::model::instant::Instant;
use crate::store::error::StoreError;
use crate::store::reader::ReadTx;
use crate::store::sql_types::StoredTime;
use crate::store::statements::Statements;
use crate::store::tx::KnowledgeTx;

/// How long removals count, and an empty list lasts that is evidence.
pub(super) const DAY: Duration = Duration::from_secs(86_400);

const DOING: &str = "read or write the removals of the last day";

/// The removals within a day of an object or a list that nobody accepted, those of what is here again included. A time in the
/// future was stored by a clock that was lost.
pub(super) fn count_removed(tx: &ReadTx<'_>, object: &str, steady: Instant) -> Result<u64, StoreError> {
    let sql = "SELECT coalesce(sum(tries), 0) FROM doubts WHERE object_type = ?1 AND why IN ('gone', 'counted')
               AND first_seen >= ?2 AND first_seen <= ?3";
    tx.conn.count(sql, (object, steady.minus(DAY), steady.plus(DAY)), DOING)
}

impl KnowledgeTx<'_> {
    /// Notes that a record was just removed: an answer that shows the same version may be of a moment before. Whether it
    /// `counts` says that nobody accepted that.
    pub(in crate::store) fn record_removal(
        &self,
        object: Object,
        id: &str,
        (steady, counts): (Instant, bool),
    ) -> Result<(), StoreError> {
        self.tx.conn.run(
            "INSERT INTO doubts (object_type, record_id, why, version, first_seen, tries)
             SELECT object_type, id, 'gone', coalesce(json_extract(record, '$.updated_at'), ''), ?3, ?4
             FROM removed_records WHERE object_type = ?1 AND id = ?2
             ON CONFLICT DO UPDATE SET version = excluded.version, first_seen = excluded.first_seen,
                 tries = tries + excluded.tries",
            params![object, id, steady, counts],
            DOING,
        )
    }

    /// Forgets the removals that do not count any more.
    pub(in crate::store) fn forget_counted_removals(&self, object: Object, steady: Instant) -> Result<(), StoreError> {
        self.delete_doubts(
            "object_type = ?1 AND why = 'counted' AND (first_seen < ?2 OR first_seen > ?3)",
            (object, steady.minus(DAY), steady.plus(DAY)),
        )
    }

    /// Makes removals hide no answer any more: from now on, they only count. The condition may use `?2` and on.
    pub(super) fn settle_removals(
        &self,
        object: Object,
        condition: &str,
        values: &[&dyn ToSql],
    ) -> Result<(), StoreError> {
        let values: Vec<&dyn ToSql> = [&object as &dyn ToSql].into_iter().chain(values.iter().copied()).collect();
        let of_them = format!("object_type = ?1 AND why = 'gone' AND {condition}");
        self.tx.conn.run(
            &format!(
                "INSERT INTO doubts (object_type, record_id, why, first_seen, tries)
                 SELECT object_type, record_id, 'counted', first_seen, tries FROM doubts WHERE {of_them} AND tries > 0
                 ON CONFLICT DO UPDATE SET first_seen = excluded.first_seen, tries = tries + excluded.tries"
            ),
            &values[..],
            DOING,
        )?;
        self.delete_doubts(&of_them, &values[..])
    }

    /// Whether a record was removed within the last quarter of an hour, and this transaction's answer shows no later version
    /// of it. That is a doubt.
    pub(in crate::store) fn was_just_removed(
        &self,
        object: Object,
        id: &str,
        (etag, version): (Option<&str>, &str),
    ) -> Result<bool, StoreError> {
        let Some(answer) = self.tx.answer.get() else { return Ok(false) };
        if !self.has_doubts(object)? {
            return Ok(false);
        }
        let removed: Option<(String, StoredTime)> = self.tx.conn.find(
            "SELECT version, first_seen FROM doubts WHERE object_type = ?1 AND record_id = ?2 AND why = 'gone'",
            (object, id),
            DOING,
            |row| row.try_into(),
        )?;
        let is_before =
            |(removed, at): (String, StoredTime)| version <= removed.as_str() && !answer.is_second_moment(at.0);
        if !removed.is_some_and(is_before) {
            // It is here again, and was removed all the same.
            self.settle_removals(object, "record_id = ?2", &[&id])?;
            self.forget_doubts(object, id)?;
            return Ok(false);
        }
        self.is_older_again(object, id, (etag, version), answer)?;
        Ok(true)
    }
}
