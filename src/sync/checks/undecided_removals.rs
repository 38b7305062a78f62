//! Nominations that no answer decided: they are kept, and the lookup is repeated with increasing delay.
//!
//! A lookup by id decides nothing if one of its items could not be decoded, or if it lacks the witness. If the service
//! lists no record of an object at all, there is no witness, and an empty answer could be an outage. So a small table
//! that seems to have lost every record keeps them for a day; if the service shows none of them in that time, and
//! answers the detail of each with 404, they are removed. The time is the ledger's steady clock.

use std::collections::HashSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::api::ErrorClass;
use crate::model::{Instant, Object, Purpose, Resource};
use crate::store::{ConfirmedRemovals, ReadTx, StateKey, StoreError};
use crate::sync::error::{Asking, SyncError};
use crate::sync::run::Run;
use crate::sync::walks::short_lists::UnlistedItems;

/// The first delay; each further one is twice as long.
const FIRST_WAIT: Duration = Duration::from_secs(15 * 60);
/// The longest delay.
const LONGEST_WAIT: Duration = Duration::from_secs(6 * 3600);

/// The stored state of an object's undecided nominations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(in crate::sync) struct UndecidedRemovals {
    /// The number of undecided nominations.
    left: u64,
    /// Consecutive lookups that decided nothing.
    looks: u32,
    /// When the next lookup is due.
    not_before: Option<Instant>,
    /// The time since which the service has listed no record of the object.
    empty_since: Option<Instant>,
}

impl UndecidedRemovals {
    /// Loads the state.
    pub(in crate::sync) fn load(tx: &ReadTx<'_>, object: Object) -> Result<UndecidedRemovals, StoreError> {
        Ok(tx.state(&StateKey::UndecidedRemovals(object))?.unwrap_or_default())
    }

    /// Whether nominations wait for another lookup.
    pub(in crate::sync) const fn is_waiting(&self) -> bool {
        self.left > 0
    }

    /// Whether a lookup of so many nominated records is due: the delay is over, others were nominated since, or the
    /// clock of the delay was lost.
    pub(in crate::sync) fn is_due(&self, nominated: u64, steady: Instant) -> bool {
        let waits = |at: Instant| at > steady && at.since(steady) <= LONGEST_WAIT;
        nominated > self.left || !self.not_before.is_some_and(waits)
    }

    /// The state after a lookup that left so many; `empty` says that the service listed no record at all.
    fn after_look(self, left: u64, empty: bool, steady: Instant) -> UndecidedRemovals {
        let wait = FIRST_WAIT.saturating_mul(2_u32.saturating_pow(self.looks)).min(LONGEST_WAIT);
        UndecidedRemovals {
            left,
            looks: self.looks.saturating_add(1),
            not_before: Some(steady.plus(wait)),
            empty_since: empty.then(|| self.empty_since.map_or(steady, |since| since.min(steady))),
        }
    }
}

/// Removals of a resource that are neither proven nor withdrawn: their number, and how long the next lookup or list waits
/// if that has a time of its own.
pub fn undecided(tx: &ReadTx<'_>, resource: Resource, steady: Instant) -> Result<(u64, Option<Duration>), StoreError> {
    let Some(object) = Object::ALL.into_iter().find(|object| object.resource() == resource) else {
        let members = resource == Resource::TeamMembers;
        let definitions = || Object::ALL.into_iter().map(StateKey::UnlistedDefinitions).collect();
        let entries: Vec<StateKey> = if members { vec![StateKey::UnlistedMembers] } else { definitions() };
        let counts: Result<u64, StoreError> = entries.iter().map(|entry| UnlistedItems::count(tx, entry)).sum();
        return Ok((counts?, None));
    };
    let known = UndecidedRemovals::load(tx, object)?;
    let wait = known.not_before.map(|at| at.since(steady)).filter(|wait| *wait <= LONGEST_WAIT);
    Ok((tx.count_nominated(object)?, wait.filter(|_| known.is_waiting())))
}

impl Run<'_> {
    /// Stores the nominations that no answer decided.
    pub(in crate::sync) async fn leave_undecided(
        &self,
        object: Object,
        left: u64,
        empty: bool,
    ) -> Result<(), SyncError> {
        if left == 0 {
            return Ok(());
        }
        self.warn(format!(
            "{left} {object} records seem to be removed, but no answer of the service proves it: they are kept"
        ));
        let steady = self.steady_time();
        let stored = self.engine.store.write(move |tx| {
            let undecided = UndecidedRemovals::load(tx, object)?.after_look(left, empty, steady);
            tx.set_state(&StateKey::UndecidedRemovals(object), &undecided)
        });
        Ok(stored.await?)
    }

    /// If the service has listed no record for a day, reads the detail of each, and takes the answers into account.
    pub(in crate::sync) async fn check_details(
        &self,
        object: Object,
        gone: &mut ConfirmedRemovals,
    ) -> Result<(), SyncError> {
        let steady = self.steady_time();
        let undecided = self.engine.store.read(move |tx| UndecidedRemovals::load(tx, object)).await?;
        let Some(since) = undecided.empty_since.filter(|since| gone.is_long_enough(*since, steady)) else {
            return Ok(());
        };
        let mut not_found = HashSet::new();
        for id in gone.ids() {
            match self.engine.client.detail(object, id, Purpose::Audit).await {
                Err(error) if error.class() == ErrorClass::Gone => not_found.insert(id.clone()),
                Err(error) if error.class() == ErrorClass::Pause => {
                    return Err(error).asking("read a detail of", object.resource());
                }
                // The record exists, or it is unknown: the lists cannot be trusted.
                _ => return self.forget_emptiness(object).await,
            };
        }
        gone.long_empty(since, steady, &not_found);
        Ok(())
    }

    /// Restarts the day.
    async fn forget_emptiness(&self, object: Object) -> Result<(), SyncError> {
        let forgotten = self.engine.store.write(move |tx| {
            let undecided = UndecidedRemovals { empty_since: None, ..UndecidedRemovals::load(tx, object)? };
            tx.set_state(&StateKey::UndecidedRemovals(object), &undecided)
        });
        Ok(forgotten.await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minutes: u64) -> Instant {
        Instant::EPOCH.plus(Duration::from_secs(minutes * 60))
    }

    #[test]
    fn undecided_nominations_are_looked_up_with_increasing_delay() {
        let (mut undecided, mut now, mut waits) = (UndecidedRemovals::default(), 100_000, Vec::new());
        assert!(undecided.is_due(3, at(now)) && !undecided.is_waiting());
        for _ in 0..7 {
            undecided = undecided.after_look(3, true, at(now));
            let begin = now;
            while !undecided.is_due(3, at(now)) {
                now += 1;
            }
            waits.push(now - begin);
        }
        assert_eq!(waits, [15, 30, 60, 120, 240, 360, 360]);
        assert_eq!(undecided.empty_since, Some(at(100_000)), "the first lookup counts");
        undecided = undecided.after_look(3, true, at(now));
        assert!(undecided.is_due(4, at(now)), "one more nomination");
        assert!(undecided.is_due(3, at(50_000)), "a clock that restarted");
        assert_eq!(undecided.after_look(3, false, at(now)).empty_since, None);
    }

    #[test]
    fn delay_that_was_lost_or_stored_by_another_clock_is_over() {
        let second = Duration::from_secs(1);
        for (not_before, due) in [
            (None, true),
            (Some(at(100)), true),
            (Some(at(100).plus(second)), false),
            (Some(at(100).plus(LONGEST_WAIT)), false),
            (Some(at(100).plus(LONGEST_WAIT + second)), true),
        ] {
            let undecided = UndecidedRemovals { left: 3, looks: 1, not_before, empty_since: None };
            assert_eq!(undecided.is_due(3, at(100)), due, "{not_before:?}");
        }
    }

    #[test]
    fn only_what_is_left_waits_for_another_lookup() {
        let undecided = UndecidedRemovals::default();
        for (left, waits) in [(0, false), (1, true), (2, true)] {
            assert_eq!(undecided.clone().after_look(left, false, at(0)).is_waiting(), waits, "{left}");
        }
    }

    #[test]
    fn emptiness_that_began_in_the_future_begins_again() {
        let since = |minutes| UndecidedRemovals { empty_since: Some(at(minutes)), ..UndecidedRemovals::default() };
        for (before, begins) in [(50, 50), (100, 100), (101, 100)] {
            let undecided = since(before).after_look(1, true, at(100));
            assert_eq!(undecided.empty_since, Some(at(begins)), "{before}");
        }
    }

    #[tokio::test]
    async fn a_wait_is_shown_only_while_nominations_are_undecided() {
        let dir = tempfile::tempdir().unwrap();
        let store = crate::store::Store::open(&dir.path().join("mirror.db")).unwrap();
        let (now, second) = (at(100_000), Duration::from_secs(1));
        for (left, waits, shown) in [
            (1, Some(Duration::ZERO), Some(Duration::ZERO)),
            (1, Some(second), Some(second)),
            (1, Some(LONGEST_WAIT), Some(LONGEST_WAIT)),
            (1, Some(LONGEST_WAIT + second), None),
            (1, None, None),
            (0, Some(second), None),
        ] {
            let not_before = waits.map(|wait| now.plus(wait));
            let known = UndecidedRemovals { left, looks: 1, not_before, empty_since: None };
            let key = StateKey::UndecidedRemovals(Object::Contact);
            store.write(move |tx| tx.set_state(&key, &known)).await.unwrap();
            for (resource, shown) in
                [(Resource::Contacts, shown), (Resource::Companies, None), (Resource::TeamMembers, None)]
            {
                let found = store.read(move |tx| undecided(tx, resource, now)).await.unwrap();
                assert_eq!(found, (0, shown), "{resource:?}, {left} left, {waits:?}");
            }
        }
        store.close().await;
    }

    #[tokio::test]
    async fn unlisted_items_of_a_short_list_are_counted_without_a_wait() {
        let dir = tempfile::tempdir().unwrap();
        let store = crate::store::Store::open(&dir.path().join("mirror.db")).unwrap();
        let noted = store.write(|tx| {
            let ids = |ids: &[&str]| serde_json::json!({ "ids": ids });
            tx.set_state(&StateKey::UnlistedMembers, &ids(&["a"]))?;
            tx.set_state(&StateKey::UnlistedDefinitions(Object::Contact), &ids(&["b", "c"]))?;
            tx.set_state(&StateKey::UnlistedDefinitions(Object::Company), &ids(&["d", "e", "f", "g"]))
        });
        noted.await.unwrap();
        for (resource, count) in [(Resource::TeamMembers, 1), (Resource::CustomFields, 6), (Resource::Contacts, 0)] {
            let found = store.read(move |tx| undecided(tx, resource, at(0))).await.unwrap();
            assert_eq!(found, (count, None), "{resource:?}");
        }
        store.close().await;
    }
}
