//! The gate for every removal: evidence, a limit, and then the removal itself, in one transaction.
//!
//! # Invariants
//! - [`ConfirmedRemovals`] can only be made from an answer that contains a witness, a record that exists: an empty or
//!   foreign answer proves nothing. There is no other way to remove a record from the mirror. Whether the answer decides
//!   about a record depends on how new it is ([`doubts`](super::doubts)).
//! - If the service lists no record at all, there is no witness. Then the records of a small table are removed after
//!   two reads at least a day apart that both found nothing, with no record seen in between, and only if the detail of
//!   each is not found either: lists and details would have to fail in the same way for a day. Larger tables need a
//!   person.
//! - The limit counts unconfirmed removals within the last day, so that many small removals are treated like one large
//!   one. A day is measured by the ledger's steady clock, which no jump of the wall clock can shorten.

use std::collections::HashSet;

use crate::model::catalogue::Object;
use crate::model::ids::RecordId;
use crate::model::instant::Instant;
use crate::model::request_order::RequestOrder;
use crate::store::error::StoreError;
use crate::store::reader::ReadTx;
use crate::store::records::recent_removals::{DAY, count_removed};
use crate::store::tx::RecordsTx;

/// Smaller tables may lose all of their rows at once.
const TINY_TABLE: u64 = 10;

/// The limit on removals without a person's confirmation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RemovalGuard {
    /// The share of a table, from 0 to 1.
    pub most: f64,
    /// Whether a person confirmed the removal.
    pub accepted: bool,
}

impl RemovalGuard {
    /// Whether so many of so many rows may be removed.
    pub fn allows(&self, going: u64, of: u64) -> bool {
        self.accepted || of < TINY_TABLE || going < of && (going as f64) <= (of as f64) * self.most
    }
}

/// Records of one object that the service confirmed as removed.
#[derive(Clone, Debug)]
pub struct ConfirmedRemovals {
    object: Object,
    ids: Vec<RecordId>,
    /// The number of the request that confirmed each of them.
    orders: Vec<u64>,
    proof: RemovalProof,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RemovalProof {
    /// Each answer contained a record that exists.
    Witness,
    EmptyList,
    /// The service has listed no record for a day, and no detail is found.
    LongEmpty,
}

impl ConfirmedRemovals {
    pub fn none(object: Object) -> ConfirmedRemovals {
        ConfirmedRemovals { object, ids: Vec::new(), orders: Vec::new(), proof: RemovalProof::Witness }
    }

    /// Takes in a complete answer to `asked` and the witness. Says whether it proves anything: only if it holds the
    /// witness, and no record that was not asked for. Without a witness, because the service lists no record at all, an
    /// empty answer is accepted; see [`ConfirmedRemovals::is_witnessed`].
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
        if witness.is_none() {
            self.proof = RemovalProof::EmptyList;
        }
        self.ids.extend(asked.iter().filter(|id| !answered.contains(*id)).cloned());
        self.orders.resize(self.ids.len(), order.number());
        true
    }

    /// Whether every answer contained a witness. Otherwise the removals need a person's confirmation, or
    /// [`ConfirmedRemovals::long_empty`].
    pub fn is_witnessed(&self) -> bool {
        self.proof == RemovalProof::Witness
    }

    /// Whether a list that has been empty since then is sufficient evidence of the removals.
    pub fn is_long_enough(&self, empty_since: Instant, steady: Instant) -> bool {
        self.proof == RemovalProof::EmptyList
            && self.ids.len() < TINY_TABLE as usize
            && steady.since(empty_since) >= DAY
    }

    /// Adds that the service has listed no record since `empty_since`, and that these details were not found. Returns
    /// whether that is sufficient evidence of the removals.
    pub fn long_empty(&mut self, empty_since: Instant, steady: Instant, not_found: &HashSet<RecordId>) -> bool {
        let proven = self.is_long_enough(empty_since, steady) && self.ids.iter().all(|id| not_found.contains(id));
        if proven {
            self.proof = RemovalProof::LongEmpty;
        }
        proven
    }

    pub fn ids(&self) -> &[RecordId] {
        &self.ids
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovalDecision {
    Removed(u64),
    /// There were too many: nothing was removed.
    Refused(RemovalShare),
    /// The service lists no record at all, but not for long enough: nothing was removed.
    Unproven,
}

/// A number of removals and of rows, including the removals of the last day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemovalShare {
    /// Records that would be removed.
    pub going: u64,
    pub of: u64,
}

impl ReadTx<'_> {
    /// The share that removing so many more records would reach, with the removals of the last day that nobody accepted.
    pub fn removal_share(&self, object: Object, more: u64, steady: Instant) -> Result<RemovalShare, StoreError> {
        let recent = count_removed(self, object.as_str(), steady)?;
        Ok(RemovalShare { going: recent.saturating_add(more), of: self.count_rows(object)?.saturating_add(recent) })
    }
}

impl RecordsTx<'_> {
    /// Removes confirmed records, all of them or none. `steady` is the time of the ledger's steady clock.
    pub fn remove_confirmed(
        &self,
        confirmed: &ConfirmedRemovals,
        guard: &RemovalGuard,
        steady: Instant,
        now: Instant,
    ) -> Result<RemovalDecision, StoreError> {
        let object = confirmed.object;
        let share = self.tx.removal_share(object, confirmed.ids.len() as u64, steady)?;
        let unwitnessed = !confirmed.is_witnessed() && !guard.accepted && !confirmed.ids.is_empty();
        if !guard.allows(share.going, share.of) || unwitnessed && share.of >= TINY_TABLE {
            return Ok(RemovalDecision::Refused(share));
        }
        if unwitnessed && confirmed.proof != RemovalProof::LongEmpty {
            return Ok(RemovalDecision::Unproven);
        }
        let phase = self.tx.phase(object)?;
        self.tx.knowledge().forget_counted_removals(object, steady)?;
        let mut removed = 0;
        for (id, order) in confirmed.ids.iter().zip(&confirmed.orders) {
            let was_here = self.remove(object, id, now, phase)?;
            removed += u64::from(was_here);
            let counts = was_here && !guard.accepted;
            self.tx.knowledge().record_removal(object, id.as_str(), (steady, counts))?;
            self.tx.remember_order(object, id.as_str(), *order);
        }
        Ok(RemovalDecision::Removed(removed))
    }
}

#[cfg(test)]
#[path = "removals_tests.rs"]
mod tests;
