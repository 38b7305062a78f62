//! What the workers of one push share: the records still to visit, and what was done so far.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::edit_tx::EndedEdit;
use crate::model::{EditState, Object, RecordId, Ru};
use crate::store::Tally;

/// Records of one object in a row that the service failed to answer for, after which the object waits as a whole.
const MOST_FAILURES: usize = 3;

/// What a run did with local edits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PushTally {
    /// Updates sent; one may carry several edits of a record, and one edit may take several.
    pub sent: u64,
    /// Edits that the service has now.
    pub applied: u64,
    /// Edits that met another's change of the same field and wait for a person.
    pub conflicts: u64,
    /// Edits that the service does not take.
    pub rejected: u64,
    /// Edits still on their way after the run.
    pub waiting: u64,
    /// Those of them that may have been carried out.
    pub in_doubt: u64,
    /// Edits in conflict after the run.
    pub in_conflict: u64,
    /// Edits that wait for `crm-mirror outbox release` after the run.
    pub held: u64,
}

impl PushTally {
    /// What the edits will cost that are still on their way: an update each, and a reading where one may have been carried
    /// out.
    pub fn will_cost(&self) -> Ru {
        let updates = self.waiting.saturating_mul(Ru::PATCH.get());
        Ru::new(updates.saturating_add(self.in_doubt.saturating_mul(Ru::GET.get())))
    }

    /// Whether a person has to look at what is left.
    pub const fn needs_attention(&self) -> bool {
        self.rejected > 0 || self.in_conflict > 0 || self.held > 0
    }
}

/// What sending edits brought.
#[derive(Clone, Debug, Default)]
pub struct Pushed {
    /// What became of the edits.
    pub push: PushTally,
    /// What the answers did to the mirror.
    pub mirror: Tally,
    /// Objects whose records the key may not update.
    pub unwritable: BTreeSet<Object>,
    /// Objects of which an update was carried out.
    pub written: BTreeSet<Object>,
    /// Records that the service said it does not have.
    pub gone: Vec<(Object, RecordId)>,
    /// Whether an answer had a custom key that no definition explains.
    pub unknown_keys: bool,
    /// What a person should know.
    pub warnings: BTreeSet<String>,
}

/// What the workers of one push share.
#[derive(Default)]
pub(super) struct PushPass {
    pub records: Mutex<VecDeque<(Object, RecordId)>>,
    pub pushed: Mutex<Pushed>,
    /// Objects whose custom values may not be written.
    pub no_custom: Mutex<BTreeSet<Object>>,
    failures: Mutex<BTreeMap<Object, BTreeSet<RecordId>>>,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PushPass {
    pub fn pop(&self) -> Option<(Object, RecordId)> {
        lock(&self.records).pop_front()
    }

    /// Leaves the rest to another run.
    pub fn close(&self) {
        lock(&self.records).clear();
    }

    /// Counts edits that came to an end, and tells the log of those that a person should look at.
    pub fn ended(&self, ended: Vec<EndedEdit>) {
        let push = &mut lock(&self.pushed).push;
        for EndedEdit { id, object, record, state, why } in ended {
            match state {
                EditState::Applied => push.applied += 1,
                EditState::Conflict => push.conflicts += 1,
                EditState::Rejected => push.rejected += 1,
                _ => {}
            }
            if matches!(state, EditState::Conflict | EditState::Rejected) {
                let state = if state == EditState::Conflict { "is in conflict" } else { "was rejected" };
                tracing::warn!(
                    edit = id,
                    "Edit {id} of {object} {record} {state}: {why}; `crm-mirror outbox show {id}`"
                );
            }
        }
    }

    /// Tells that the brake held edits.
    pub fn held(&self, held: u64, max_edits: u64) {
        if held > 0 {
            self.warn(format!(
                "{} held, since there are more than {max_edits} new edits within an hour: `crm-mirror outbox list` shows \
                 them, `crm-mirror outbox release --all` sends them",
                crate::format::counted(held, "edit is", "edits are")
            ));
        }
    }

    pub fn warn(&self, warning: String) {
        lock(&self.pushed).warnings.insert(warning);
    }

    /// The service took an update of this object, or said what is wrong with one.
    pub fn answered(&self, object: Object) {
        lock(&self.failures).remove(&object);
    }

    /// The service failed to answer for a record. Says whether that makes too many in a row.
    pub fn failed(&self, object: Object, id: &RecordId) -> bool {
        let mut failures = lock(&self.failures);
        let records = failures.entry(object).or_default();
        records.insert(id.clone());
        records.len() >= MOST_FAILURES
    }

    pub fn forbidden(&self, object: Object, custom: bool) {
        if custom {
            lock(&self.no_custom).insert(object);
            self.warn(format!(
                "edits of custom fields of a {object} wait: the key lacks the write scope, or the workspace's plan does \
                 not let custom fields be edited"
            ));
        } else {
            lock(&self.pushed).unwritable.insert(object);
        }
    }
}
