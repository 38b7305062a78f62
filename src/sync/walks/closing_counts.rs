//! The counts that walks owe for what they have read by cursor: the reference does not say what kind of cursor the service
//! uses, so that is counted before it is relied on. A count that differs is followed, and made once more.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::{Instant, Object, TimeField, TimeRange};
use crate::store::{Goal, LastRead, MirrorTx, ReadTx, StateKey, StoreError};

/// The counts that a kind of walk still owes: sweeps, or changes walks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::sync) struct OwedCounts {
    /// What was read by cursor, oldest first.
    pub(in crate::sync) ranges: Vec<TimeRange>,
    /// Of ranges of at most so many rows, a list costs no more than the count, and shows which records are there.
    pub(in crate::sync) page_rows: u64,
    /// Whether these ranges differed before: then the audits go on with what is left.
    pub(in crate::sync) is_second: bool,
    /// Until when, by the ledger's steady clock, nothing is counted: a range differs that cannot be divided, and that was
    /// listed within a day.
    pub(in crate::sync) waits_until: Option<Instant>,
}

impl OwedCounts {
    /// The state entry.
    pub(in crate::sync) fn entry(object: Object, by: TimeField) -> StateKey {
        StateKey::Check(object, by.column())
    }

    /// Records that the counts in this entry were made.
    pub(in crate::sync) fn made(self, tx: &MirrorTx<'_>, object: Object, entry: &StateKey) -> Result<(), StoreError> {
        if *entry == OwedCounts::entry(object, TimeField::UpdatedAt) {
            tx.claims().replace(Goal::UncountedChanges(object), Goal::Changes(object))?;
        }
        tx.clear_state(entry)
    }

    /// Records that what was counted has to be counted again, and withdraws until then what was claimed when it was.
    pub(in crate::sync) fn owe_again(self, tx: &MirrorTx<'_>, object: Object, by: TimeField) -> Result<(), StoreError> {
        let entry = OwedCounts::entry(object, by);
        if tx.state::<OwedCounts>(&entry)?.is_some() {
            return Ok(());
        }
        if by == TimeField::UpdatedAt {
            if !tx.goals().is_set(Goal::Changes(object))? {
                return Ok(());
            }
            tx.claims().replace(Goal::Changes(object), Goal::UncountedChanges(object))?;
        }
        tx.set_state(&entry, &OwedCounts { is_second: true, waits_until: None, ..self })
    }

    /// Records that a sweep has read these ranges by cursor.
    pub(in crate::sync) fn of_sweep(
        tx: &MirrorTx<'_>,
        object: Object,
        ranges: Vec<TimeRange>,
        page_rows: u64,
    ) -> Result<(), StoreError> {
        let entry = OwedCounts::entry(object, TimeField::CreatedAt);
        if ranges.is_empty() {
            // What an earlier sweep owed, this one has read.
            return tx.clear_state(&entry);
        }
        tx.set_state(&entry, &OwedCounts { ranges, page_rows, ..OwedCounts::default() })
    }

    /// Records that a changes walk over these timestamps has to be counted, together with what earlier ones still owe, in
    /// at most two ranges: changes cost little more than their pages.
    pub(in crate::sync) fn of_changes(
        tx: &MirrorTx<'_>,
        object: Object,
        from: Option<Instant>,
        high: Option<Instant>,
        pages: u64,
    ) -> Result<(), StoreError> {
        let (by, second) = (TimeField::UpdatedAt, Duration::from_secs(1));
        let (from, to) = (from.map(Instant::whole_second), high.map(|high| high.whole_second().plus(second)));
        let entry = OwedCounts::entry(object, by);
        let known = tx.state::<OwedCounts>(&entry)?.map_or_else(Vec::new, |owed| owed.ranges);
        let parts = pages.min(2).max(known.len() as u64);
        let mut all = Vec::new();
        known.into_iter().chain([TimeRange::dated(by, from, to)]).for_each(|range| range.join(&mut all, 1));
        let mut ranges = Vec::new();
        for range in all {
            let mut rest = range;
            for edge in tx.edges(object, range, parts, 0.0)? {
                if let Some((low, high)) = rest.cut(edge) {
                    ranges.push(low);
                    rest = high;
                }
            }
            ranges.push(rest);
        }
        tx.claims().unset(Goal::UncountedChanges(object))?;
        tx.set_state(&entry, &OwedCounts { ranges, ..OwedCounts::default() })
    }

    /// Claims that the changes are here, as soon as nothing is left to be counted.
    pub(in crate::sync) fn claim_changes(tx: &MirrorTx<'_>, object: Object, fresh: LastRead) -> Result<(), StoreError> {
        let owes = tx.state::<OwedCounts>(&OwedCounts::entry(object, TimeField::UpdatedAt))?.is_some();
        let goal = if owes { Goal::UncountedChanges(object) } else { Goal::Changes(object) };
        tx.claims().reach(goal, fresh)
    }
}

/// Whether an object's last sweep still has to be counted.
pub(crate) fn is_sweep_uncounted(tx: &ReadTx<'_>, object: Object) -> Result<bool, StoreError> {
    Ok(tx.state::<OwedCounts>(&OwedCounts::entry(object, TimeField::CreatedAt))?.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_still_owed_is_owed_with_what_follows() {
        let dir = tempfile::tempdir().unwrap();
        let store = crate::store::Store::open(&dir.path().join("mirror.db")).unwrap();
        let object = Object::Contact;
        let at = |second: i64| Instant::from_secs(1_700_000_000 + second);
        let changes = TimeField::UpdatedAt;
        let walked = |from, high, pages| {
            store.write(move |tx| {
                OwedCounts::of_changes(tx, object, at(from), at(high), pages)?;
                Ok(tx.state::<OwedCounts>(&OwedCounts::entry(object, changes))?.unwrap().ranges)
            })
        };
        let dated = move |from, to| vec![TimeRange::dated(changes, at(from), at(to))];
        assert_eq!(walked(50, 90, 1).await.unwrap(), dated(50, 91));
        assert_eq!(walked(80, 99, 1).await.unwrap(), dated(50, 100), "the first walk is still to be counted");
        assert_eq!(walked(10, 20, 1).await.unwrap(), dated(10, 100));
        let fresh = LastRead::between(Instant::EPOCH, Instant::EPOCH);
        let owed = store.write(move |tx| {
            let owed = OwedCounts { ranges: dated(1, 2), ..OwedCounts::default() };
            let entries = [TimeField::CreatedAt, changes].map(|by| OwedCounts::entry(object, by));
            tx.clear_state(&entries[1])?;
            owed.clone().owe_again(tx, object, changes)?;
            assert_eq!(tx.state::<OwedCounts>(&entries[1])?, None, "nothing was claimed");
            OwedCounts::claim_changes(tx, object, fresh)?;
            owed.clone().owe_again(tx, object, changes)?;
            owed.owe_again(tx, object, TimeField::CreatedAt)?;
            let claimed =
                [Goal::Changes(object), Goal::UncountedChanges(object)].map(|goal| tx.goals().last_read(goal));
            let [claimed, uncounted] = claimed;
            Ok((claimed?, uncounted?, tx.state::<OwedCounts>(&entries[0])?, tx.state::<OwedCounts>(&entries[1])?))
        });
        let (claimed, uncounted, of_sweep, of_changes) = owed.await.unwrap();
        assert_eq!((claimed, uncounted), (None, Some(fresh)), "the claim waits for the count");
        assert!(of_changes.is_some());
        assert_eq!(of_sweep.unwrap().ranges, dated(1, 2));
        store.close().await;
    }
}
