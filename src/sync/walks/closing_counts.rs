//! The counts that a walk of more than one page owes: the reference does not say what kind of cursor the service uses,
//! so the result of such a walk is counted before it is relied on.

use serde::{Deserialize, Serialize};

use crate::model::{Instant, Object, TimeBounds, TimeField, TimeRange};
use crate::store::{MirrorTx, ReadTx, StateKey, StoreError};
use crate::sync::checkpoints::LastRead;

/// The most ranges with dates that are counted by one timestamp.
pub(in crate::sync) const MAX_PARTS: u64 = 15;

/// The counts that a walk still owes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::sync) struct OwedCounts {
    pub(in crate::sync) by: TimeField,
    pub(in crate::sync) from: Option<Instant>,
    pub(in crate::sync) to: Option<Instant>,
    /// Into how many ranges the dated records are divided; 0 if they are counted.
    pub(in crate::sync) parts: u64,
    /// Into how many ranges they were divided at first; 0 if an older version has stored this.
    #[serde(default)]
    pub(in crate::sync) of: u64,
    /// Until when, by the ledger's steady clock, nothing is counted: a range differs that cannot be divided, and that was
    /// listed within a day.
    #[serde(default)]
    pub(in crate::sync) waits_until: Option<Instant>,
    /// What the changes walk claims once its counts are made.
    #[serde(default)]
    pub(in crate::sync) claim: Option<LastRead>,
    /// Whether the records without the timestamp need no count: a single page had all of them, and no cursor.
    #[serde(default)]
    pub(in crate::sync) without_dateless: bool,
    /// Whether the counts have found records here that the service did not list. Until their removal is decided on, what
    /// the walk has read is not relied on.
    #[serde(default)]
    pub(in crate::sync) has_nominated: bool,
}

impl OwedCounts {
    /// All dated records in so many ranges, and those without the timestamp unless they need no count.
    const fn whole(by: TimeField, parts: u64, without_dateless: bool) -> OwedCounts {
        let (from, to, waits_until, claim) = (None, None, None, None);
        OwedCounts { by, from, to, parts, of: parts, waits_until, claim, without_dateless, has_nominated: false }
    }

    /// The state entry.
    pub(in crate::sync) fn entry(object: Object, by: TimeField) -> StateKey {
        StateKey::Check(object, by.column())
    }

    /// Records that the counts in this entry were made. Where those of a sweep have nominated records, that is kept until
    /// their removal is decided on; then the second count is owed.
    pub(in crate::sync) fn made(self, tx: &MirrorTx<'_>, object: Object, entry: &StateKey) -> Result<(), StoreError> {
        if let Some(fresh) = self.claim {
            tx.set_state(&LastRead::changes(object), &fresh)?;
        }
        if !self.has_nominated || *entry != OwedCounts::entry(object, TimeField::CreatedAt) {
            return tx.clear_state(entry);
        }
        if tx.count_nominated(object)? > 0 {
            return tx.set_state(entry, &OwedCounts { parts: 0, without_dateless: true, ..self });
        }
        match self.by {
            TimeField::CreatedAt => tx.set_state(entry, &OwedCounts::second(self.of)),
            TimeField::UpdatedAt => tx.clear_state(entry),
        }
    }

    /// The second count of a sweep whose first one found records that the service had removed. With cursors that count
    /// rows, each removal hides another record from the walk. If that one and a removed one are in the same range, the
    /// numbers are equal. The second count divides the records otherwise: by `updatedAt`, and at other places. It is made
    /// after the next changes walk, because until then records that have changed are here by their old date.
    fn second(parts: u64) -> OwedCounts {
        let parts = if parts == 0 { MAX_PARTS } else { parts };
        OwedCounts::whole(TimeField::UpdatedAt, parts, false)
    }

    /// Records that no nomination is left: what counts of a sweep were kept for that is over.
    pub(in crate::sync) fn nominations_are_settled(tx: &MirrorTx<'_>, object: Object) -> Result<(), StoreError> {
        let entry = OwedCounts::entry(object, TimeField::CreatedAt);
        match tx.state::<OwedCounts>(&entry)? {
            Some(owed) if owed.parts == 0 && owed.without_dateless => owed.made(tx, object, &entry),
            _ => Ok(()),
        }
    }

    /// Records that the counts of a sweep are owed again, unless the second count, which finds the same, is still owed.
    pub(in crate::sync) fn owe_again(self, tx: &MirrorTx<'_>, object: Object) -> Result<(), StoreError> {
        let entry = OwedCounts::entry(object, TimeField::CreatedAt);
        match tx.state::<OwedCounts>(&entry)? {
            Some(owed) if owed.by == TimeField::UpdatedAt => Ok(()),
            owed => {
                let has_nominated = owed.is_some_and(|owed| owed.has_nominated);
                tx.set_state(&entry, &OwedCounts { has_nominated, ..self })
            }
        }
    }

    /// Records that the counts of changes are owed again, and withdraws until then what was claimed when they were made.
    pub(in crate::sync) fn owe_changes_again(self, tx: &MirrorTx<'_>, object: Object) -> Result<(), StoreError> {
        let entry = OwedCounts::entry(object, TimeField::UpdatedAt);
        let claim = tx.state(&LastRead::changes(object))?;
        if claim.is_none() || tx.state::<OwedCounts>(&entry)?.is_some() {
            return Ok(());
        }
        tx.clear_state(&LastRead::changes(object))?;
        tx.set_state(&entry, &OwedCounts { claim, ..self })
    }

    /// Whether the ranges are of about a page each, because the walk had few pages. Then it costs no more to list them, and
    /// a list shows which records are there: with cursors that count rows, a record that is removed behind the walk hides
    /// the one after it, and their range has as many rows as the service has records.
    pub(in crate::sync) const fn has_a_page_each(&self) -> bool {
        self.of > 0 && self.of < MAX_PARTS
    }

    /// What is still owed after these ranges, the oldest of those that were owed, have been counted.
    pub(in crate::sync) fn after(self, counted: &[TimeRange]) -> OwedCounts {
        counted.iter().fold(self, |owed, range| match range.bounds {
            TimeBounds::Dated { to, .. } if to == owed.to => OwedCounts { from: to, parts: 0, ..owed },
            TimeBounds::Dated { to, .. } => OwedCounts { from: to, parts: owed.parts.saturating_sub(1).max(1), ..owed },
            TimeBounds::Dateless | TimeBounds::Whole => OwedCounts { without_dateless: true, ..owed },
        })
    }

    /// Records that a changes walk over these timestamps has to be counted, together with what earlier ones still owe.
    pub(in crate::sync) fn of_changes(
        tx: &MirrorTx<'_>,
        object: Object,
        from: Option<Instant>,
        high: Option<Instant>,
        pages: u64,
    ) -> Result<(), StoreError> {
        let (by, second) = (TimeField::UpdatedAt, std::time::Duration::from_secs(1));
        let (mut from, mut to) = (from.map(Instant::whole_second), high.map(|high| high.whole_second().plus(second)));
        // At most two: changes cost little more than their pages.
        let mut parts = pages.min(2);
        let entry = OwedCounts::entry(object, by);
        if let Some(owed) = tx.state::<OwedCounts>(&entry)? {
            from = from.min(owed.from);
            to = to.zip(owed.to).map(|(one, other)| one.max(other));
            parts = parts.max(owed.parts);
        }
        tx.set_state(&entry, &OwedCounts { from, to, ..OwedCounts::whole(by, parts, true) })
    }

    /// Claims that the changes are here, as soon as nothing is left to be counted.
    pub(in crate::sync) fn claim_changes(tx: &MirrorTx<'_>, object: Object, fresh: LastRead) -> Result<(), StoreError> {
        let entry = OwedCounts::entry(object, TimeField::UpdatedAt);
        match tx.state::<OwedCounts>(&entry)? {
            Some(owed) => tx.set_state(&entry, &OwedCounts { claim: Some(fresh), ..owed }),
            None => tx.set_state(&LastRead::changes(object), &fresh),
        }
    }

    /// Dates what a changes walk will claim otherwise.
    pub(in crate::sync) fn date_claim(
        tx: &MirrorTx<'_>,
        object: Object,
        dated: impl Fn(LastRead) -> Option<LastRead>,
    ) -> Result<(), StoreError> {
        let entry = OwedCounts::entry(object, TimeField::UpdatedAt);
        match tx.state::<OwedCounts>(&entry)? {
            Some(owed) if owed.claim.is_some() => {
                tx.set_state(&entry, &OwedCounts { claim: owed.claim.and_then(dated), ..owed })
            }
            _ => Ok(()),
        }
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
        let owed = OwedCounts::whole(by, pages.clamp(2, MAX_PARTS), without_dateless);
        tx.set_state(&OwedCounts::entry(object, by), &owed)
    }
}

/// Whether an object's last sweep still has to be counted, or what its counts have found is not decided on.
pub(crate) fn is_sweep_uncounted(tx: &ReadTx<'_>, object: Object) -> Result<bool, StoreError> {
    Ok(tx.state::<OwedCounts>(&OwedCounts::entry(object, TimeField::CreatedAt))?.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counted_ranges_are_owed_no_more() {
        let at = |second: i64| Instant::from_secs(1_700_000_000 + second);
        let by = TimeField::CreatedAt;
        let owed = OwedCounts::whole(by, 3, false);
        let (first, second) = (TimeRange::dated(by, None, at(5)), TimeRange::dated(by, at(5), at(9)));
        let (third, dateless) = (TimeRange::dated(by, at(9), None), TimeRange::of(by, TimeBounds::Dateless));
        assert_eq!(owed.after(&[first]), OwedCounts { from: at(5), parts: 2, ..owed });
        assert_eq!(owed.after(&[first, second]), OwedCounts { from: at(9), parts: 1, ..owed });
        let dated = owed.after(&[first, second]).after(&[third]);
        assert_eq!((dated.parts, dated.without_dateless), (0, false));
        assert!(dated.after(&[dateless]).without_dateless);
    }

    #[tokio::test]
    async fn counts_of_a_sweep_are_kept_until_their_nominations_are_settled() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mirror.db");
        let store = crate::store::Store::open(&path).unwrap();
        let conn = rusqlite::Connection::open(&path).unwrap();
        conn.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
        conn.execute("INSERT INTO contacts (id, synced_at) VALUES ('a', '')", []).unwrap();
        let (object, nothing) = (Object::Contact, OwedCounts::owing_nothing());
        let kept = |walk: TimeField, owed: OwedCounts, nominated: bool| {
            store.write(move |tx| {
                tx.knowledge().clear_nominations(object)?;
                if nominated {
                    tx.knowledge().nominate(object, &["a".into()])?;
                }
                let entry = OwedCounts::entry(object, walk);
                owed.made(tx, object, &entry)?;
                tx.state::<OwedCounts>(&entry)
            })
        };
        let (sweep, changes) = (TimeField::CreatedAt, TimeField::UpdatedAt);
        let (first, second) = (OwedCounts { parts: 3, without_dateless: false, ..nothing }, OwedCounts::second(9));
        let counted = OwedCounts { parts: 0, without_dateless: true, has_nominated: true, ..second };
        for (walk, owed, nominated, expected) in [
            (sweep, OwedCounts { has_nominated: false, ..nothing }, true, None),
            (sweep, first, true, Some(nothing)),
            (sweep, first, false, Some(second)),
            (sweep, OwedCounts { has_nominated: true, ..second }, true, Some(counted)),
            (sweep, counted, false, None),
            (changes, OwedCounts { by: changes, ..nothing }, true, None),
        ] {
            assert_eq!(
                kept(walk, owed, nominated).await.unwrap(),
                expected,
                "{walk:?} {owed:?}, nominated: {nominated}"
            );
        }
        let settled = |nominated: bool, owed: OwedCounts| {
            store.write(move |tx| {
                if !nominated {
                    tx.knowledge().clear_nominations(object)?;
                }
                tx.set_state(&OwedCounts::entry(object, TimeField::CreatedAt), &owed)?;
                OwedCounts::nominations_are_settled(tx, object)?;
                is_sweep_uncounted(tx, object)
            })
        };
        assert!(settled(true, nothing).await.unwrap(), "a nomination is left");
        assert!(settled(false, OwedCounts { parts: 1, ..nothing }).await.unwrap(), "a range is left");
        assert!(
            settled(false, OwedCounts { without_dateless: false, ..nothing }).await.unwrap(),
            "those without a date"
        );
        assert!(settled(false, nothing).await.unwrap(), "the second count");
        assert!(!settled(false, counted).await.unwrap());
        store.close().await;
    }

    #[tokio::test]
    async fn what_is_still_owed_is_owed_with_what_follows() {
        let dir = tempfile::tempdir().unwrap();
        let store = crate::store::Store::open(&dir.path().join("mirror.db")).unwrap();
        let object = Object::Contact;
        let at = |second: i64| Instant::from_secs(1_700_000_000 + second);
        let (sweep, changes) = (TimeField::CreatedAt, TimeField::UpdatedAt);
        let walked = |from, high, pages| {
            store.write(move |tx| {
                OwedCounts::of_changes(tx, object, at(from), at(high), pages)?;
                let owed = tx.state::<OwedCounts>(&OwedCounts::entry(object, changes))?.unwrap();
                Ok((owed.from, owed.to, owed.parts))
            })
        };
        assert_eq!(walked(50, 90, 1).await.unwrap(), (at(50), at(91), 1));
        assert_eq!(walked(80, 99, 3).await.unwrap(), (at(50), at(100), 2), "the first walk is still to be counted");
        assert_eq!(walked(10, 20, 1).await.unwrap(), (at(10), at(100), 2));
        let again = |known: Option<OwedCounts>| {
            store.write(move |tx| {
                let entry = OwedCounts::entry(object, sweep);
                tx.clear_state(&entry)?;
                known.map_or(Ok(()), |known| tx.set_state(&entry, &known))?;
                OwedCounts::whole(sweep, 4, false).owe_again(tx, object)?;
                tx.state::<OwedCounts>(&entry)
            })
        };
        let (whole, second) = (OwedCounts::whole(sweep, 4, false), OwedCounts::second(0));
        assert_eq!(again(None).await.unwrap(), Some(whole));
        assert_eq!(again(Some(OwedCounts { from: at(5), parts: 2, ..whole })).await.unwrap(), Some(whole));
        let nominated = Some(OwedCounts { has_nominated: true, ..whole });
        assert_eq!(
            again(Some(OwedCounts::owing_nothing())).await.unwrap(),
            nominated,
            "the second count is not forgotten"
        );
        assert_eq!((again(Some(second)).await.unwrap(), second.parts), (Some(second), MAX_PARTS));
        store.close().await;
    }

    impl OwedCounts {
        /// Counts of a sweep that were made, and have nominated records.
        fn owing_nothing() -> OwedCounts {
            OwedCounts { parts: 0, has_nominated: true, ..OwedCounts::whole(TimeField::CreatedAt, 9, true) }
        }
    }
}
