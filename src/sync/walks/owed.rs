//! The counts that a walk of more than one page owes: what kind of cursor the service uses is not documented, so what
//! such a walk has read is counted before it is relied on.

use serde::{Deserialize, Serialize};

use crate::model::{Instant, Object};
use crate::store::{MirrorTx, StateKey, StoreError};
use crate::sync::time_range::TimeField;

/// The counts that a walk still owes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::sync) struct OwedCounts {
    pub(in crate::sync) by: TimeField,
    pub(in crate::sync) from: Option<Instant>,
    pub(in crate::sync) to: Option<Instant>,
    pub(in crate::sync) parts: u64,
}

impl OwedCounts {
    /// The state entry.
    pub(in crate::sync) fn entry(object: Object, by: TimeField) -> StateKey {
        StateKey::Check(object, by.column())
    }

    /// Notes that a changes walk over these timestamps is to be counted.
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
        tx.set_state(&OwedCounts::entry(object, by), &OwedCounts { by, from, to, parts: pages.clamp(2, 8) })
    }

    /// Notes that a sweep is to be counted: in as many ranges as it had pages, up to a full audit's. With cursors that
    /// count rows, a record removed behind the walk lets another slip at the next page's edge: a total would not tell,
    /// since one lingers and one is lost, but they are pages apart.
    pub(in crate::sync) fn of_sweep(tx: &MirrorTx<'_>, object: Object, pages: u64) -> Result<(), StoreError> {
        let by = TimeField::CreatedAt;
        tx.set_state(
            &OwedCounts::entry(object, by),
            &OwedCounts { by, from: None, to: None, parts: pages.clamp(2, 15) },
        )
    }
}
