//! The counts that walks owe for what they have read by cursor: the reference does not say what kind of cursor the service
//! uses, so that is counted before it is relied on. A count that differs is followed, and made once more.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::model::{Instant, Object, TimeField, TimeRange};
use crate::store::{Goal, LastRead, MirrorTx, StoreError, UnprovenRanges};
use crate::sync::walks::range::SECOND;
use crate::sync::walks::walk::MAX_STRETCHES;

/// Records that what a kind of walk owed was counted.
pub(in crate::sync) fn were_made(tx: &MirrorTx<'_>, object: Object, by: TimeField) -> Result<(), StoreError> {
    if by == TimeField::UpdatedAt {
        tx.claims().replace(Goal::UncountedChanges(object), Goal::Changes(object))?;
    }
    tx.claims().set_unproven(object, by, &UnprovenRanges::default())
}

/// Records that what was counted has to be counted again, and withdraws until then what was claimed when it was.
pub(in crate::sync) fn owe_again(
    tx: &MirrorTx<'_>,
    object: Object,
    by: TimeField,
    counted: UnprovenRanges,
) -> Result<(), StoreError> {
    if tx.unproven(object, by)?.is_some() {
        return Ok(());
    }
    if by == TimeField::UpdatedAt {
        if !tx.goals().is_set(Goal::Changes(object))? {
            return Ok(());
        }
        tx.claims().replace(Goal::Changes(object), Goal::UncountedChanges(object))?;
    }
    tx.claims().set_unproven(object, by, &UnprovenRanges { is_second: true, waits_until: None, ..counted })
}

/// Records that a changes walk over these timestamps has to be counted, together with what earlier ones still owe. What lies
/// before an instant is counted apart: where records of that have changed again since, their earlier versions here would make
/// one count of all equal.
pub(in crate::sync) fn owe_changes(
    tx: &MirrorTx<'_>,
    object: Object,
    (from, high): (Option<Instant>, Option<Instant>),
    apart: Option<Instant>,
) -> Result<(), StoreError> {
    let by = TimeField::UpdatedAt;
    // A walk behind the last millisecond of a second has nothing of that second.
    let last = high.map(Instant::whole_second);
    let from = from.map(|from| from.plus(Duration::from_millis(1)).whole_second().min(last.unwrap_or(Instant::MAX)));
    let to = last.map(|last| last.plus(SECOND));
    let known = tx.unproven(object, by)?.unwrap_or_default();
    let before = known.ranges.clone();
    // Where nothing is counted, they do not become ever more.
    let apart = apart.filter(|_| before.len() < MAX_STRETCHES);
    let begins: BTreeSet<Instant> = before.iter().filter_map(|range| range.bounds.dates().0).chain(apart).collect();
    let mut owed = Vec::new();
    before.into_iter().chain([TimeRange::dated(by, from, to)]).for_each(|range| range.join(&mut owed, 1));
    for at in begins {
        if let Some((low, high)) = owed.last().and_then(|last| last.cut(at)) {
            owed.pop();
            owed.extend([low, high]);
        }
    }
    tx.claims().unset(Goal::UncountedChanges(object))?;
    if owed == known.ranges {
        // What waits for another moment goes on waiting.
        return Ok(());
    }
    tx.claims().set_unproven(object, by, &UnprovenRanges { ranges: owed, ..UnprovenRanges::default() })
}

/// Claims that the changes are here, as soon as nothing is left to be counted.
pub(in crate::sync) fn claim_changes(tx: &MirrorTx<'_>, object: Object, fresh: LastRead) -> Result<(), StoreError> {
    let owes = tx.unproven(object, TimeField::UpdatedAt)?.is_some();
    let goal = if owes { Goal::UncountedChanges(object) } else { Goal::Changes(object) };
    tx.claims().reach(goal, fresh)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An earlier version of a record within the second that the walk begins behind would make the counts equal.
    #[tokio::test]
    async fn walk_behind_the_last_millisecond_of_a_second_owes_nothing_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let store = crate::store::Store::open(&dir.path().join("mirror.db")).unwrap();
        let (object, by) = (Object::Contact, TimeField::UpdatedAt);
        let at = |millis: u64| Instant::from_secs(1_700_000_000).map(|at| at.plus(Duration::from_millis(millis)));
        for (from, high, owed) in [(998, 5_500, (0, 6_000)), (999, 5_500, (1_000, 6_000)), (999, 999, (0, 1_000))] {
            let ranges = store.write(move |tx| {
                tx.claims().set_unproven(object, by, &UnprovenRanges::default())?;
                owe_changes(tx, object, (at(from), at(high)), None)?;
                Ok(tx.unproven(object, by)?.unwrap().ranges)
            });
            assert_eq!(ranges.await.unwrap(), [TimeRange::dated(by, at(owed.0), at(owed.1))], "behind {from} ms");
        }
        store.close().await;
    }

    #[tokio::test]
    async fn what_is_still_owed_is_owed_with_what_follows() {
        let dir = tempfile::tempdir().unwrap();
        let store = crate::store::Store::open(&dir.path().join("mirror.db")).unwrap();
        let object = Object::Contact;
        let at = |second: i64| Instant::from_secs(1_700_000_000 + second);
        let changes = TimeField::UpdatedAt;
        let walked = |from, high, apart| {
            store.write(move |tx| {
                owe_changes(tx, object, (at(from), at(high)), at(apart).filter(|_| apart > 0))?;
                Ok(tx.unproven(object, changes)?.unwrap().ranges)
            })
        };
        let dated = move |from, to| vec![TimeRange::dated(changes, at(from), at(to))];
        assert_eq!(walked(50, 90, 0).await.unwrap(), dated(50, 91));
        assert_eq!(walked(80, 99, 0).await.unwrap(), dated(50, 100), "the first walk is still to be counted");
        let apart = [dated(50, 95), dated(95, 120)].concat();
        assert_eq!(walked(90, 119, 95).await.unwrap(), apart, "what has left the first range counts in the second");
        let by_itself = [dated(10, 50), apart].concat();
        assert_eq!(walked(10, 20, 0).await.unwrap(), by_itself, "what is owed is an edge");
        let fresh = LastRead::between(Instant::EPOCH, Instant::EPOCH);
        let owed = store.write(move |tx| {
            let owed = UnprovenRanges { ranges: dated(1, 2), ..UnprovenRanges::default() };
            tx.claims().set_unproven(object, changes, &UnprovenRanges::default())?;
            owe_again(tx, object, changes, owed.clone())?;
            assert_eq!(tx.unproven(object, changes)?, None, "nothing was claimed");
            claim_changes(tx, object, fresh)?;
            owe_again(tx, object, changes, owed.clone())?;
            owe_again(tx, object, TimeField::CreatedAt, owed)?;
            let claimed =
                [Goal::Changes(object), Goal::UncountedChanges(object)].map(|goal| tx.goals().last_read(goal));
            let [claimed, uncounted] = claimed;
            Ok((claimed?, uncounted?, tx.unproven(object, TimeField::CreatedAt)?, tx.unproven(object, changes)?))
        });
        let (claimed, uncounted, of_sweep, of_changes) = owed.await.unwrap();
        assert_eq!((claimed, uncounted), (None, Some(fresh)), "the claim waits for the count");
        assert!(of_changes.is_some());
        assert_eq!(of_sweep.unwrap().ranges, dated(1, 2));
        store.close().await;
    }
}
