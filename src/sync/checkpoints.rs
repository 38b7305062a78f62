//! The stored state between pages, runs and processes: small values in the mirror's `state` table.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::walks::walk::Walk;
use crate::model::{Instant, Object, Resource, TimeRange};
use crate::store::{MirrorTx, ReadTx, StateKey, StoreError};

/// How far the changes of an object were read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Changes {
    /// The highest `updatedAt` applied by a finished walk. It only decreases where an earlier version of a record is
    /// accepted.
    pub watermark: Option<Instant>,
    /// The service's clock when that walk started; `None` if the service sends no date.
    pub served_at: Option<Instant>,
    /// The walk in progress.
    pub walk: Option<Walk>,
}

impl Changes {
    fn entry(object: Object) -> StateKey {
        StateKey::Changes(object)
    }

    /// Loads the state.
    pub fn load(tx: &ReadTx<'_>, object: Object) -> Result<Changes, StoreError> {
        Ok(tx.state(&Changes::entry(object))?.unwrap_or_default())
    }

    /// Stores the state.
    pub fn store(&self, tx: &MirrorTx<'_>, object: Object) -> Result<(), StoreError> {
        tx.set_state(&Changes::entry(object), self)
    }

    /// Dates otherwise as of when the walk in progress will have read all changes.
    pub(in crate::sync) fn date_walk(
        tx: &MirrorTx<'_>,
        object: Object,
        dated: impl Fn(Instant) -> Option<Instant>,
    ) -> Result<(), StoreError> {
        let mut known = Changes::load(tx, object)?;
        let Some(present) = known.walk.as_mut().map(|walk| &mut walk.present.at) else { return Ok(()) };
        if *present == present.and_then(&dated) {
            return Ok(());
        }
        *present = present.and_then(dated);
        known.store(tx, object)
    }
}

/// A sweep in progress.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// Our clock at its start.
    pub began: Instant,
    /// The service's clock at the first page.
    pub served_at: Option<Instant>,
    /// The highest `updatedAt` in finished slices.
    pub high: Option<Instant>,
    /// Rows read by finished slices.
    pub rows: u64,
    /// Slices that are not finished. If one of them has no entry, nobody knows what it has read.
    pub open: usize,
    /// What finished slices have read by cursor: a count has to show that no record is missing there.
    pub paged: Vec<TimeRange>,
    /// Rows of the largest page.
    pub page_rows: u64,
    /// Records that it passed over because they could not be read.
    #[serde(default)]
    pub left_out: u64,
}

impl Sweep {
    /// How long a removal may be accepted on what a sweep has read.
    const RECENT: Duration = Duration::from_secs(86_400);

    /// Whether it began within the last day.
    pub fn is_recent(&self, now: Instant) -> bool {
        self.began <= now && now.since(self.began) <= Sweep::RECENT
    }

    /// A sweep that has read nothing: our clock, and the service's.
    pub fn begun(began: Instant, served_at: Option<Instant>) -> Sweep {
        Sweep { began, served_at, high: None, rows: 0, open: 0, paged: Vec::new(), page_rows: 0, left_out: 0 }
    }

    /// The state entry.
    pub fn entry(object: Object) -> StateKey {
        StateKey::Sweep(object)
    }

    /// Loads the state; `None` if no sweep is in progress.
    pub fn load(tx: &ReadTx<'_>, object: Object) -> Result<Option<Sweep>, StoreError> {
        tx.state(&Sweep::entry(object))
    }

    /// Stores the state.
    pub fn store(&self, tx: &MirrorTx<'_>, object: Object) -> Result<(), StoreError> {
        tx.set_state(&Sweep::entry(object), self)
    }

    /// Removes the state.
    pub fn clear(tx: &MirrorTx<'_>, object: Object) -> Result<(), StoreError> {
        tx.clear_state(&Sweep::entry(object))
    }

    /// The entry of one slice. Each has its own, so that concurrent slices do not overwrite each other.
    pub fn slice_entry(object: Object, number: usize) -> StateKey {
        StateKey::Slice(object, number.to_string())
    }
}

/// The workspace of the mirror.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The address of the service.
    pub base_url: String,
    /// The fingerprint of the key.
    pub key: String,
}

impl Identity {
    /// The state entry.
    pub const ENTRY: StateKey = StateKey::Identity;
}

/// The scopes that the key lacked when they were last needed, by the resource for reading, and by the scope itself for
/// writing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MissingScopes(pub BTreeMap<String, String>);

impl MissingScopes {
    /// The state entry.
    pub const ENTRY: StateKey = StateKey::MissingScopes;

    /// Adds the results of a run: `served` was read completely, `skipped` was refused.
    pub fn after_run(
        tx: &MirrorTx<'_>,
        served: &BTreeSet<Resource>,
        skipped: &BTreeMap<Resource, &'static str>,
    ) -> Result<(), StoreError> {
        let known: MissingScopes = tx.state(&MissingScopes::ENTRY)?.unwrap_or_default();
        let mut now = known.clone();
        for resource in served {
            now.0.remove(resource.as_str());
        }
        for (resource, scope) in skipped {
            now.0.insert(resource.as_str().into(), (*scope).into());
        }
        if now == known {
            return Ok(());
        }
        tx.set_state(&MissingScopes::ENTRY, &now)
    }

    /// Adds the results of sending edits: the scopes that were sufficient, and those that are missing.
    pub fn after_push(
        tx: &MirrorTx<'_>,
        enough: &BTreeSet<&'static str>,
        missing: &BTreeMap<Resource, &'static str>,
    ) -> Result<(), StoreError> {
        let known: MissingScopes = tx.state(&MissingScopes::ENTRY)?.unwrap_or_default();
        let mut now = known.clone();
        for scope in enough {
            now.0.remove(*scope);
        }
        for scope in missing.values() {
            now.0.insert((*scope).into(), (*scope).into());
        }
        if now == known {
            return Ok(());
        }
        tx.set_state(&MissingScopes::ENTRY, &now)
    }
}

/// Removals that were refused because they look like an outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedRemovals {
    /// Records that would have been removed.
    pub going: u64,
    /// All records of the table.
    pub of: u64,
    /// When it was found.
    pub seen_at: Instant,
    /// When a sample of the records was last looked up, by the ledger's steady clock.
    #[serde(default)]
    pub sampled_at: Option<Instant>,
}

impl RefusedRemovals {
    /// Whether a lookup of a sample is due: once a day by the ledger's steady clock. A time that is ahead of the clock
    /// was stored by a clock that was lost.
    pub fn is_sample_due(&self, steady: Instant) -> bool {
        let day = std::time::Duration::from_secs(86_400);
        self.sampled_at.is_none_or(|sampled| steady.since(sampled) >= day || sampled > steady)
    }

    /// The state entry.
    pub fn entry(object: Object) -> StateKey {
        StateKey::Outage(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_of_refused_removals_is_due_once_a_day() {
        let at = |seconds: u64| Instant::EPOCH.plus(Duration::from_secs(1_000_000 + seconds));
        let day = 86_400;
        for (sampled, steady, due) in [
            (None, 0, true),
            (Some(0), 0, false),
            (Some(0), day - 1, false),
            (Some(0), day, true),
            (Some(0), 3 * day, true),
            (Some(1), 0, true),
        ] {
            let outage = RefusedRemovals { going: 5, of: 5, seen_at: at(0), sampled_at: sampled.map(at) };
            assert_eq!(outage.is_sample_due(at(steady)), due, "{sampled:?} {steady}");
        }
    }
}
