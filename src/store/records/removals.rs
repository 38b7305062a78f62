//! The gate for every removal: evidence, a limit, and then the removal itself, in one transaction.
//!
//! # Invariants
//! - [`ConfirmedRemovals`] can only be made from an answer that contains a witness, a record that exists: an empty or
//!   foreign answer proves nothing. There is no other way to remove a record from the mirror. Whether the answer
//!   decides about a record depends on how new it is ([`doubts`](super::doubts)).
//! - If the service lists no record at all, there is no witness. Then only a person can accept the removal.
//! - The limit counts unconfirmed removals within the last day, so that many small removals are treated like one large
//!   one. A day is measured by the ledger's steady clock, which no jump of the wall clock can shorten.
//!
//! What was removed within the last day stays a row of `doubts`: an answer that shows it may be of a moment before.

use std::collections::HashSet;

use rusqlite::types::Value;
use rusqlite::{ToSql, params, params_from_iter};
use serde::Serialize;

use crate::model::{Instant, Object, RecordId, RequestOrder, TimeBounds, TimeField};
use crate::store::records::doubts::{DAY, Doubt};
use crate::store::records::ranges::bounds_condition;
use crate::store::{Goal, KnowledgeTx, ReadTx, RecordsTx, Result, Statements, Version, json_list};

/// Smaller tables may lose all of their rows at once.
const TINY_TABLE: u64 = 10;

/// The limit on removals without a person's confirmation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RemovalGuard {
    /// The share of a table, from 0 to 1.
    pub most: f64,
    pub accepted: bool,
}

impl RemovalGuard {
    pub fn allows(&self, going: u64, of: u64) -> bool {
        self.accepted || of < TINY_TABLE || going < of && (going as f64) <= (of as f64) * self.most
    }
}

#[derive(Clone, Debug)]
pub struct ConfirmedRemovals {
    object: Object,
    ids: Vec<RecordId>,
    orders: Vec<u64>,
    /// Whether each answer contained a record that exists.
    is_witnessed: bool,
}

impl ConfirmedRemovals {
    pub fn none(object: Object) -> ConfirmedRemovals {
        ConfirmedRemovals { object, ids: Vec::new(), orders: Vec::new(), is_witnessed: true }
    }

    /// Takes in a complete answer to `asked` and the witness. Says whether it proves anything: only if it holds the
    /// witness, and no record that was not asked for. Without a witness, because the service lists no record at all, an
    /// empty answer is accepted; then the removals need a person's confirmation.
    pub fn take(
        &mut self,
        asked: &[RecordId],
        witness: Option<&RecordId>,
        answered: &HashSet<RecordId>,
        order: &RequestOrder,
    ) -> bool {
        let foreign = answered.iter().any(|id| Some(id) != witness && !asked.contains(id));
        let proven = match witness {
            Some(witness) => answered.contains(witness),
            None => answered.is_empty(),
        };
        if foreign || !proven {
            return false;
        }
        self.is_witnessed &= witness.is_some();
        self.ids.extend(asked.iter().filter(|id| !answered.contains(*id)).cloned());
        self.orders.resize(self.ids.len(), order.number());
        true
    }

    pub fn ids(&self) -> &[RecordId] {
        &self.ids
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovalDecision<T> {
    Removed(T),
    /// There were too many, or the service lists no record at all: nothing was removed.
    Refused(RemovalShare),
}

/// The condition that the record of an edit `o` seems to be removed, and a person has to decide it.
pub(in crate::store) const AWAITS_REMOVAL: &str =
    "EXISTS (SELECT 1 FROM goals AS g JOIN doubts AS d ON d.object_type = g.object AND d.why = 'missed'
             WHERE g.object = o.object_type AND g.kind = 'refused removals' AND d.record_id = o.record_id)";

/// A number of removals and of rows, including the removals of the last day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemovalShare {
    pub going: u64,
    pub of: u64,
}

impl ReadTx<'_> {
    /// The share that removing so many more would reach, with the last day's removals that nobody accepted.
    pub fn removal_share(&self, object: Object, more: u64, steady: Instant) -> Result<RemovalShare> {
        let recent = count_removed(self, object.as_str(), steady)?;
        Ok(RemovalShare { going: recent.saturating_add(more), of: self.count_rows(object)?.saturating_add(recent) })
    }

    /// The nominated records, if they were too many once.
    pub fn refused_removals(&self, object: Object) -> Result<Option<RefusedRemovals>> {
        let Some(refused) = self.goals().last_read(Goal::RefusedRemovals(object))? else { return Ok(None) };
        let (going, of) = (self.count_nominated(object)?, self.count_rows(object)?);
        Ok((going > 0).then_some(RefusedRemovals { going, of, seen_at: refused.began }))
    }

    /// Removals that were refused, and are too many still. Fewer are decided on again.
    pub fn standing_refusal(
        &self,
        object: Object,
        guard: &RemovalGuard,
        steady: Instant,
    ) -> Result<Option<RefusedRemovals>> {
        let Some(refused) = self.refused_removals(object)? else { return Ok(None) };
        let share = self.removal_share(object, refused.going, steady)?;
        // Nothing vouches for answers of a service that lists none of them, however small the table is.
        let is_few = refused.going < refused.of && guard.allows(share.going, share.of);
        Ok((!is_few).then_some(refused))
    }
}

impl RecordsTx<'_> {
    /// Removes all of the records or none.
    pub fn remove_confirmed(
        &self,
        confirmed: &ConfirmedRemovals,
        guard: &RemovalGuard,
        steady: Instant,
        now: Instant,
    ) -> Result<RemovalDecision<u64>> {
        let object = confirmed.object;
        let share = self.tx.removal_share(object, confirmed.ids.len() as u64, steady)?;
        let unwitnessed = !confirmed.is_witnessed && !guard.accepted && !confirmed.ids.is_empty();
        if !guard.allows(share.going, share.of) || unwitnessed {
            return Ok(RemovalDecision::Refused(share));
        }
        self.tx.knowledge().delete_doubts(
            "object_type = ?1 AND why = 'gone' AND version IS NULL AND (first_seen < ?2 OR first_seen > ?3)",
            (object, steady.minus(DAY), steady.plus(DAY)),
        )?;
        let mut removed = 0;
        for (id, order) in confirmed.ids.iter().zip(&confirmed.orders) {
            let was_here = self.remove(object, id, now)?;
            removed += u64::from(was_here);
            let counts = was_here && !guard.accepted;
            // An answer that shows the same version may be of a moment before.
            self.run(
                "INSERT INTO doubts (object_type, record_id, why, version, first_seen, tries)
                 SELECT object_type, id, 'gone', coalesce(json_extract(record, '$.updated_at'), ''), ?3, ?4
                 FROM removed_records WHERE object_type = ?1 AND id = ?2
                 ON CONFLICT DO UPDATE SET version = excluded.version, first_seen = excluded.first_seen,
                     tries = tries + excluded.tries",
                params![object, id, steady, counts],
            )?;
            self.tx.remember_order(object, id.as_str(), *order);
        }
        if removed > 0 {
            self.tx.claims().forget_left(object)?;
        }
        Ok(RemovalDecision::Removed(removed))
    }
}

impl KnowledgeTx<'_> {
    /// Unknown records are ignored.
    pub fn nominate(&self, object: Object, ids: &[RecordId]) -> Result<()> {
        self.nominate_where(object, "id IN (SELECT value FROM json_each(?3))", vec![json_list(ids).into()])
    }

    /// Nominates the records of a range by `createdAt` that are not among `ids`, a JSON array.
    pub fn nominate_unseen(&self, object: Object, bounds: TimeBounds, ids: &str) -> Result<()> {
        let mut values: Vec<Value> = vec![ids.to_string().into()];
        let of_range = bounds_condition(TimeField::CreatedAt, bounds, &mut values);
        let condition = format!("id NOT IN (SELECT value FROM json_each(?3)) AND {of_range}");
        self.nominate_where(object, &condition, values)
    }

    /// The values of the condition begin with `?3`.
    fn nominate_where(&self, object: Object, condition: &str, values: Vec<Value>) -> Result<()> {
        let sql = format!(
            "INSERT OR IGNORE INTO doubts (object_type, record_id, why, first_seen)
             SELECT ?1, id, 'missed', ?2 FROM {} WHERE {condition}",
            object.table()
        );
        let steady = self.tx.answer.get().map(|answer| answer.steady.to_string());
        let values = [object.as_str().to_string().into(), steady.into()].into_iter().chain(values);
        let nominated = self.change(&sql, params_from_iter(values))?;
        if nominated > 0 {
            self.tx.pending.doubts[object as usize].set(Some(true));
        }
        Ok(())
    }

    /// Makes removals hide no answer any more: from now on, they only count. The condition may use `?2` and on.
    pub(super) fn settle_removals(&self, object: Object, condition: &str, values: &[&dyn ToSql]) -> Result<()> {
        let values: Vec<&dyn ToSql> = [&object as &dyn ToSql].into_iter().chain(values.iter().copied()).collect();
        let of_them = format!("object_type = ?1 AND why = 'gone' AND {condition}");
        self.delete_doubts(&format!("{of_them} AND tries = 0"), &values[..])?;
        self.run(&format!("UPDATE doubts SET version = NULL WHERE {of_them}"), &values[..])
    }

    /// Whether a record was removed within the last quarter of an hour, and this transaction's answer shows no later
    /// version of it. That is a doubt.
    pub(in crate::store) fn was_just_removed(&self, object: Object, id: &str, seen: Version<'_>) -> Result<bool> {
        let Some(answer) = self.tx.answer.get() else { return Ok(false) };
        if !self.has_doubts(object)? {
            return Ok(false);
        }
        let removed = self.tx.doubt((object.as_str(), id, "gone"))?.filter(|removed| removed.version.is_some());
        let is_before = |removed: Doubt| {
            seen.updated_at <= removed.version.as_deref() && !answer.is_second_moment(removed.first_seen)
        };
        if !removed.is_some_and(is_before) {
            // It is here again, and was removed all the same.
            self.settle_removals(object, "record_id = ?2", &[&id])?;
            self.forget_doubts(object, id)?;
            return Ok(false);
        }
        self.is_older_again(object, id, seen, answer)?;
        Ok(true)
    }
}

/// The removals within a day of an object or a list that nobody accepted, those of what is here again included. A time
/// in the future was stored by a clock that was lost.
pub(super) fn count_removed(tx: &ReadTx<'_>, object: &str, steady: Instant) -> Result<u64> {
    let sql = "SELECT coalesce(sum(tries), 0) FROM doubts WHERE object_type = ?1 AND why = 'gone'
               AND first_seen >= ?2 AND first_seen <= ?3";
    tx.count(sql, (object, steady.minus(DAY), steady.plus(DAY)))
}

/// Removals that were refused because they look like an outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RefusedRemovals {
    pub going: u64,
    pub of: u64,
    pub seen_at: Instant,
}

#[cfg(test)]
#[path = "removals_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "nominations_tests.rs"]
mod nominations_tests;
