//! What the runs remember between pages, runs and processes: small values in the mirror's `state` table.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::walks::walk::Walk;
use crate::model::{Instant, Object, Resource};
use crate::store::{MirrorTx, ReadTx, StateKey, StoreError};

/// How far the changes of an object are known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Changes {
    /// The highest `updatedAt` applied by a finished walk. It only moves forward.
    pub watermark: Option<Instant>,
    /// The service's clock when that walk began; `None` where the service does not tell.
    pub served_at: Option<Instant>,
    /// The walk that is under way.
    pub walk: Option<Walk>,
}

impl Changes {
    fn entry(object: Object) -> StateKey {
        StateKey::Changes(object)
    }

    /// Reads it.
    ///
    /// # Errors
    /// If the state cannot be read.
    pub fn load(tx: &ReadTx<'_>, object: Object) -> Result<Changes, StoreError> {
        Ok(tx.state(&Changes::entry(object))?.unwrap_or_default())
    }

    /// Writes it.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn store(&self, tx: &MirrorTx<'_>, object: Object) -> Result<(), StoreError> {
        tx.set_state(&Changes::entry(object), self)
    }
}

/// A sweep that is under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// Our clock when it began.
    pub began: Instant,
    /// The service's clock at the first page.
    pub served_at: Option<Instant>,
    /// The highest `updatedAt` seen by slices that are read.
    pub high: Option<Instant>,
    /// Rows read by slices that are read.
    pub rows: u64,
    /// Pages read by slices that are read.
    pub pages: u64,
    /// Whether a column waits for it, so that nobody may end it for good.
    #[serde(default)]
    pub needed: bool,
}

impl Sweep {
    /// The entry.
    pub fn entry(object: Object) -> StateKey {
        StateKey::Sweep(object)
    }

    /// Reads it; `None` where no sweep is under way.
    ///
    /// # Errors
    /// If the state cannot be read.
    pub fn load(tx: &ReadTx<'_>, object: Object) -> Result<Option<Sweep>, StoreError> {
        tx.state(&Sweep::entry(object))
    }

    /// Writes it.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn store(&self, tx: &MirrorTx<'_>, object: Object) -> Result<(), StoreError> {
        tx.set_state(&Sweep::entry(object), self)
    }

    /// Ends it.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn clear(tx: &MirrorTx<'_>, object: Object) -> Result<(), StoreError> {
        tx.clear_state(&Sweep::entry(object))
    }

    /// The entry that says that a person or the schedule asked for a sweep that has not begun.
    pub fn asked(object: Object) -> StateKey {
        StateKey::AskedSweep(object)
    }

    /// The entry of one slice. Each has its own, so that slices side by side never write over each other.
    pub fn slice_entry(object: Object, number: usize) -> StateKey {
        StateKey::Slice(object, number.to_string())
    }
}

/// When something was last read whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fresh {
    /// Our clock when the reading began.
    pub began: Instant,
    /// Our clock when it was finished.
    pub finished: Instant,
}

impl Fresh {
    /// The entry for the last finished sweep of an object.
    pub fn sweep(object: Object) -> StateKey {
        StateKey::Swept(object)
    }

    /// The entry for the last finished changes walk of an object.
    pub fn changes(object: Object) -> StateKey {
        StateKey::CaughtUp(object)
    }

    /// The entry for the definitions.
    pub const DEFINITIONS: StateKey = StateKey::DefinitionsRead;

    /// The entry for the team members.
    pub const TEAM: StateKey = StateKey::TeamRead;
}

/// Whose mirror this is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The address of the service.
    pub base_url: String,
    /// The fingerprint of the key.
    pub key: String,
}

impl Identity {
    /// The entry.
    pub const ENTRY: StateKey = StateKey::Identity;
}

/// What the key could not do when it was last tried: the scope that is missing, by what it is missing for. That is a
/// resource for reading, and the scope itself for writing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MissingScopes(pub BTreeMap<String, String>);

impl MissingScopes {
    /// The entry.
    pub const ENTRY: StateKey = StateKey::MissingScopes;

    /// Takes over what a run found: `served` was answered to its end, `skipped` was refused.
    ///
    /// # Errors
    /// If SQLite refuses.
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

    /// Takes over what sending edits found: the scopes that were enough, and those that are missing.
    ///
    /// # Errors
    /// If SQLite refuses.
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
pub struct Outage {
    /// Records that would have been removed.
    pub going: u64,
    /// Records of the table.
    pub of: u64,
    /// When that was seen.
    pub seen_at: Instant,
    /// The budget window in which the service was last asked whether they are back.
    #[serde(default)]
    pub sampled_in: Option<Instant>,
}

impl Outage {
    /// Whether it is time to ask whether the records are back: once a day, counted by the budget's windows.
    pub fn is_sample_due(&self, window: Instant) -> bool {
        let day = std::time::Duration::from_secs(86_400);
        self.sampled_in.is_none_or(|sampled| window.since(sampled) >= day)
    }

    /// The state entry.
    pub fn entry(object: Object) -> StateKey {
        StateKey::Outage(object)
    }
}

/// Until when an object's mirror is known to be complete, and how that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// Our clock when the comparison began.
    pub as_of: Instant,
    /// Whether every record was compared, or ranges were counted.
    pub by_record: bool,
    /// Differences that were found and not repaired.
    pub open: u64,
    /// The last comparison that left nothing open; it may be this one.
    #[serde(default)]
    pub complete: Option<Completeness>,
}

/// A comparison that left no difference open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completeness {
    /// Our clock when it began.
    pub as_of: Instant,
    /// Whether every record was compared, or ranges were counted.
    pub by_record: bool,
}

impl Evidence {
    /// The evidence after a comparison, with what an earlier one showed.
    pub fn after(before: Option<Evidence>, as_of: Instant, by_record: bool, open: u64) -> Evidence {
        let now = (open == 0).then_some(Completeness { as_of, by_record });
        Evidence { as_of, by_record, open, complete: now.or(before.and_then(|before| before.last_complete())) }
    }

    /// The last comparison that left nothing open.
    pub fn last_complete(&self) -> Option<Completeness> {
        let own = Completeness { as_of: self.as_of, by_record: self.by_record };
        if self.open == 0 { Some(own) } else { self.complete }
    }

    /// The state entry.
    pub fn entry(object: Object) -> StateKey {
        StateKey::Evidence(object)
    }
}
