//! What is stored between pages, runs and processes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::walks::walk::{MAX_STRETCHES, Seen, Walk};
use crate::model::{Instant, Object, Resource, TimeRange};
use crate::store::{KnownChanges, MirrorTx, ReadPart, ReadPurpose, ReadTx, StateKey, StoreError, uncovered};

/// A sweep in progress.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// Our clock at its start.
    pub began: Instant,
    /// Records that it passed over because they could not be read.
    pub left_out: u64,
    /// What it reads, part by part. What none of them covers was not read.
    pub parts: Vec<ReadPart<Walk>>,
}

impl Sweep {
    /// How long a removal may be accepted on what a sweep has read.
    const RECENT: Duration = Duration::from_secs(86_400);

    /// Whether it began within the last day.
    pub fn is_recent(&self, now: Instant) -> bool {
        self.began <= now && now.since(self.began) <= Sweep::RECENT
    }

    /// The sweep of an object; `None` if none is in progress.
    pub fn load(tx: &ReadTx<'_>, object: Object) -> Result<Option<Sweep>, StoreError> {
        let Some((began, left_out)) = tx.goals().sweeping(object)? else { return Ok(None) };
        Ok(Some(Sweep { began, left_out, parts: tx.reads(object, ReadPurpose::Sweep)? }))
    }

    /// Whether it has read every record.
    pub fn is_read(&self) -> bool {
        self.parts.iter().all(|part| part.done) && uncovered(&self.parts).is_empty()
    }

    /// Rows read so far.
    pub fn rows(&self) -> u64 {
        self.seen().map(|seen| seen.rows).sum()
    }

    /// How far the changes are known once everything is read: the first changes walk begins where the copy began.
    pub fn known_changes(&self) -> KnownChanges {
        KnownChanges {
            watermark: self.seen().filter_map(|seen| seen.high).max(),
            served_at: self.seen().filter_map(|seen| seen.served_at).min(),
        }
    }

    /// What was read by cursor: a count has to show that no record is missing there.
    pub(in crate::sync) fn paged(&self) -> Vec<TimeRange> {
        let mut ranges: Vec<&TimeRange> = self.seen().flat_map(|seen| &seen.paged).collect();
        ranges.sort_by_key(|range| range.order());
        let mut joined = Vec::new();
        ranges.into_iter().for_each(|range| range.join(&mut joined, MAX_STRETCHES));
        joined
    }

    fn seen(&self) -> impl Iterator<Item = &Seen> {
        self.parts.iter().map(|part| &part.position.seen)
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
