//! Earlier states of records: the undo log of a world, from which a lagging replica answers.
//!
//! The log holds the latest [`MAX_CHANGES`] changes of records, in order. For an earlier time, the oldest state that
//! the log can restore is used.

use std::collections::VecDeque;

use crate::model::{Instant, Resource};

use super::table::{Id, WorldRecord};

/// The maximum number of changes that can be undone.
const MAX_CHANGES: usize = 10_000;

/// One record as it was before a change, or that it did not exist.
#[derive(Clone, Debug)]
pub(crate) struct PastRecord {
    pub(crate) changed_at: Instant,
    pub(crate) resource: Resource,
    pub(crate) id: Id,
    pub(crate) before: Option<WorldRecord>,
}

/// The latest changes, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct UndoLog(VecDeque<PastRecord>);

impl UndoLog {
    pub(crate) fn push(&mut self, past: PastRecord) {
        if self.0.len() == MAX_CHANGES {
            self.0.pop_front();
        }
        self.0.push_back(past);
    }

    /// The changes to undo, newest first, for the state at `at`.
    pub(crate) fn since(&self, at: Instant) -> impl Iterator<Item = &PastRecord> {
        // The clock may have been set back in between, so the first change after `at` decides, not the time of each
        // change.
        let first = self.0.iter().position(|past| past.changed_at > at).unwrap_or(self.0.len());
        self.0.range(first..).rev()
    }
}
