//! Items that a short list no longer has. Team members and definitions have no id filter, so a removal cannot be
//! confirmed by id: an item is removed when two complete lists, read by different runs, do not have it. An empty list
//! is no evidence.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::model::RecordId;
use crate::store::{MirrorTx, ReadTx, StateKey, StoreError};

/// Items that the last complete list did not have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(in crate::sync) struct UnlistedItems {
    ids: BTreeSet<RecordId>,
    /// Whether the next run must read the list again. A list that keeps lacking an item is read on its interval.
    next_run: bool,
}

impl UnlistedItems {
    /// Whether the next run must read the list again.
    pub(in crate::sync) fn needs_list(tx: &ReadTx<'_>, entry: &StateKey) -> Result<bool, StoreError> {
        Ok(tx.state::<UnlistedItems>(entry)?.is_some_and(|unlisted| unlisted.next_run))
    }

    /// The items that the last complete list did not have.
    pub(in crate::sync) fn count(tx: &ReadTx<'_>, entry: &StateKey) -> Result<u64, StoreError> {
        Ok(tx.state::<UnlistedItems>(entry)?.unwrap_or_default().ids.len() as u64)
    }

    /// Takes in a list. Returns the known items that neither it nor the list of an earlier run has; if the user
    /// `accepted` removals, those that it does not have.
    pub(in crate::sync) fn after_list(
        tx: &MirrorTx<'_>,
        entry: &StateKey,
        known: &[RecordId],
        listed: &ShortList,
        accepted: bool,
    ) -> Result<Vec<RecordId>, StoreError> {
        let mut before: UnlistedItems = tx.state(entry)?.unwrap_or_default();
        if accepted {
            before.ids.extend(known.iter().cloned());
        }
        let (gone, after) = before.decide(known, listed);
        if after.ids.is_empty() {
            tx.clear_state(entry)?
        } else {
            tx.set_state(entry, &after)?
        }
        Ok(gone)
    }

    fn decide(self, known: &[RecordId], listed: &ShortList) -> (Vec<RecordId>, UnlistedItems) {
        if !listed.complete || listed.ids.is_empty() {
            return (Vec::new(), UnlistedItems::default());
        }
        let missing: BTreeSet<RecordId> = known.iter().filter(|id| !listed.ids.contains(*id)).cloned().collect();
        let (gone, open): (Vec<RecordId>, Vec<RecordId>) = missing.into_iter().partition(|id| self.ids.contains(id));
        let next_run = self.ids.is_empty() && !open.is_empty();
        (gone, UnlistedItems { ids: open.into_iter().collect(), next_run })
    }
}

/// The content of a list.
#[derive(Clone, Debug, Default)]
pub(in crate::sync) struct ShortList {
    /// The items.
    pub(in crate::sync) ids: BTreeSet<RecordId>,
    /// Whether every item could be parsed.
    pub(in crate::sync) complete: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(text: &str) -> BTreeSet<RecordId> {
        text.chars().map(|id| RecordId::new(id.to_string())).collect()
    }

    #[test]
    fn item_missing_in_two_complete_lists_is_removed() {
        let known: Vec<RecordId> = ids("abc").into_iter().collect();
        let mut unlisted = UnlistedItems::default();
        for (listed, complete, gone, open, next_run) in [
            ("abc", true, "", "", false),
            ("ab", true, "", "c", true),
            ("", true, "", "", false),
            ("ab", true, "", "c", true),
            ("a", false, "", "", false),
            ("ab", true, "", "c", true),
            ("abc", true, "", "", false),
            ("ab", true, "", "c", true),
            ("b", true, "c", "a", false),
            ("b", true, "a", "c", false),
        ] {
            let list = ShortList { ids: ids(listed), complete };
            let (went, after) = unlisted.decide(&known, &list);
            assert_eq!((went.into_iter().collect(), &after.ids), (ids(gone), &ids(open)), "{listed:?}");
            assert_eq!(after.next_run, next_run, "{listed:?}");
            unlisted = after;
        }
    }
}
