//! The counts that a walk of more than one page owes: the reference does not say what kind of cursor the service uses,
//! so the result of such a walk is counted before it is relied on.

use serde::{Deserialize, Serialize};

use crate::model::TimeField;
use crate::model::{Instant, Object};
use crate::store::{MirrorTx, StateKey, StoreError};

/// The counts that a walk still owes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::sync) struct OwedCounts {
    pub(in crate::sync) by: TimeField,
    pub(in crate::sync) from: Option<Instant>,
    pub(in crate::sync) to: Option<Instant>,
    pub(in crate::sync) parts: u64,
    /// Whether the records without the timestamp need no count: a single page had all of them, and no cursor.
    #[serde(default)]
    pub(in crate::sync) without_dateless: bool,
}

impl OwedCounts {
    /// The state entry.
    pub(in crate::sync) fn entry(object: Object, by: TimeField) -> StateKey {
        StateKey::Check(object, by.column())
    }

    /// Records that a changes walk over these timestamps has to be counted.
    pub(in crate::sync) fn of_changes(
        tx: &MirrorTx<'_>,
        object: Object,
        from: Option<Instant>,
        high: Option<Instant>,
        pages: u64,
    ) -> Result<(), StoreError> {
        let by = TimeField::UpdatedAt;
        let second = std::time::Duration::from_secs(1);
        let (from, to) = (from.map(Instant::whole_second), high.map(|high| high.whole_second().plus(second)));
        tx.set_state(
            &OwedCounts::entry(object, by),
            &OwedCounts { by, from, to, parts: pages.clamp(2, 8), without_dateless: true },
        )
    }

    /// Records that a sweep has to be counted: in as many ranges as it had pages, up to those of a full audit. With
    /// cursors that count rows, a record that is removed behind the walk makes the walk miss another one at the next
    /// page's edge. A total would not show that, because one record is extra and one is missing, but in different
    /// ranges.
    pub(in crate::sync) fn of_sweep(
        tx: &MirrorTx<'_>,
        object: Object,
        pages: u64,
        without_dateless: bool,
    ) -> Result<(), StoreError> {
        let by = TimeField::CreatedAt;
        tx.set_state(
            &OwedCounts::entry(object, by),
            &OwedCounts { by, from: None, to: None, parts: pages.clamp(2, 15), without_dateless },
        )
    }
}
