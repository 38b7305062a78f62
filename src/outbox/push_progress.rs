//! The shared state of the workers of one push: the records still to visit, and the results so far.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::model::{DelayScope, EditState, Object, RecordId, Ru};
use crate::store::Tally;

/// Consecutive records of one object whose requests fail, or are refused with 404 or again with 412, after which the whole
/// object waits.
const MAX_FAILURES: usize = 3;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PushTally {
    /// Updates sent; one may contain several edits of a record, and one edit may need several.
    pub sent: u64,
    pub applied: u64,
    /// Edits that ended in conflict, which need a decision.
    pub conflicts: u64,
    pub rejected: u64,
    /// Edits still waiting after the run.
    pub waiting: u64,
    pub in_doubt: u64,
    /// Edits in conflict after the run.
    pub in_conflict: u64,
    /// Rejected edits that nobody has decided on, after the run.
    pub all_rejected: u64,
    /// Edits that wait for `crm-mirror outbox release` after the run.
    pub held: u64,
}

impl PushTally {
    /// The cost of the waiting edits, of which those that may have been applied are read first.
    pub fn will_cost(&self) -> Ru {
        Ru::of_edits(self.waiting, self.in_doubt)
    }

    #[must_use]
    pub const fn after(self, earlier: PushTally) -> PushTally {
        PushTally {
            sent: self.sent + earlier.sent,
            applied: self.applied + earlier.applied,
            conflicts: self.conflicts + earlier.conflicts,
            rejected: self.rejected + earlier.rejected,
            ..self
        }
    }

    /// Whether the remaining edits need a decision.
    pub const fn needs_attention(&self) -> bool {
        self.all_rejected > 0 || self.in_conflict > 0 || self.held > 0
    }
}

#[derive(Clone, Debug, Default)]
pub struct Pushed {
    pub push: PushTally,
    /// The changes of the mirror by the answers.
    pub mirror: Tally,
    /// Objects whose records the key may not update.
    pub unwritable: BTreeSet<Object>,
    /// Objects of which an update was applied.
    pub written: BTreeSet<Object>,
    /// Objects of which a record was read.
    pub read: BTreeSet<Object>,
    /// Records for which the service answered 404, and whose removal must be confirmed.
    pub not_found: Vec<(Object, RecordId)>,
    /// Whether an answer contained a custom key without a definition.
    pub unknown_keys: bool,
    pub warnings: BTreeSet<String>,
    /// The edits that need attention, with what is logged of them once it is stored.
    pub(super) attention: Vec<(i64, String)>,
}

impl Pushed {
    /// Counts an edit that finished, or needs a decision.
    pub(super) fn ended(&mut self, of: (Object, &RecordId), id: i64, state: EditState, why: &str) {
        let (count, state) = match state {
            EditState::Applied => (&mut self.push.applied, None),
            EditState::Conflict => (&mut self.push.conflicts, Some("is in conflict")),
            EditState::Rejected => (&mut self.push.rejected, Some("was rejected")),
            _ => return,
        };
        *count += 1;
        let (Some(state), (object, record)) = (state, of) else { return };
        let text = format!("Edit {id} of {object} {record} {state}: {why}; `crm-mirror outbox show {id}`");
        self.attention.push((id, text));
    }
}

#[derive(Default)]
pub(super) struct PushPass {
    pub records: Mutex<VecDeque<(Object, RecordId, DelayScope)>>,
    pub pushed: Mutex<Pushed>,
    /// Objects whose custom values cannot be written.
    pub no_custom: Mutex<BTreeSet<Object>>,
    failures: Mutex<BTreeMap<(Object, DelayScope), BTreeSet<RecordId>>>,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PushPass {
    pub(super) fn pop(&self) -> Option<(Object, RecordId, DelayScope)> {
        lock(&self.records).pop_front()
    }

    pub(super) fn close(&self) {
        lock(&self.records).clear();
    }

    /// Adds what a transaction found, and logs the edits that need attention.
    pub(super) fn add(&self, found: Pushed) {
        for (edit, text) in found.attention {
            tracing::warn!(edit, "{text}");
        }
        let mut pushed = lock(&self.pushed);
        pushed.push = pushed.push.after(found.push);
        pushed.mirror.add(&found.mirror);
        pushed.written.extend(found.written);
        pushed.read.extend(found.read);
        pushed.not_found.extend(found.not_found);
        pushed.warnings.extend(found.warnings);
        pushed.unknown_keys |= found.unknown_keys;
    }

    pub(super) fn warn(&self, warning: String) {
        lock(&self.pushed).warnings.insert(warning);
    }

    /// The service accepted an update of this object, or refused one for its content.
    pub(super) fn answered(&self, of: (Object, DelayScope)) {
        lock(&self.failures).remove(&of);
    }

    /// A request for a record failed, or was refused in a way that may concern its object. Returns whether that makes too many in a row. Of several workers that
    /// fail at the same moment one sees that.
    pub(super) fn failed(&self, of: (Object, DelayScope), id: &RecordId) -> bool {
        let mut failures = lock(&self.failures);
        let records = failures.entry(of).or_default();
        records.insert(id.clone()) && records.len() == MAX_FAILURES
    }

    pub(super) fn forbidden(&self, object: Object, custom: bool) {
        if custom {
            lock(&self.no_custom).insert(object);
            self.warn(format!(
                "edits of custom fields of a {object} are waiting: the key lacks the write scope, or the workspace's plan does \
                 not allow custom fields to be edited"
            ));
        } else {
            lock(&self.pushed).unwritable.insert(object);
        }
    }
}

#[cfg(test)]
#[path = "push_progress_tests.rs"]
mod tests;
