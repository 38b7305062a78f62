//! The gate that every removal passes: evidence, a limit, and only then the removal itself, in one transaction.
//!
//! # Always true
//! - [`ConfirmedRemovals`] can only be made from an answer that holds a witness, a record that exists: an empty or foreign
//!   answer proves nothing. Nothing else lets a record leave the mirror.
//! - The limit counts what was removed within the last day and nobody accepted, so that many small removals are judged
//!   like one large one. A day is counted by the windows of the budget, which no jump of the clock can shorten.

use std::collections::HashSet;
use std::time::Duration;

use rusqlite::params;
use serde::{Deserialize, Serialize};

use crate::model::catalogue::Object;
use crate::model::ids::RecordId;
use crate::model::instant::Instant;
use crate::store::error::{Doing, StoreError};
use crate::store::reader::ReadTx;
use crate::store::state::StateKey;
use crate::store::tx::MirrorTx;

/// Tables smaller than this may lose all of their rows at once.
const TINY_TABLE: u64 = 10;

/// How long removals count.
const DAY: Duration = Duration::from_secs(86_400);

/// How many removals are carried out without a person's confirmation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RemovalGuard {
    /// The share of a table, from 0 to 1.
    pub most: f64,
    /// Whether a person confirmed that whatever is gone may be removed.
    pub accepted: bool,
}

impl RemovalGuard {
    /// Whether so many of so many rows may be removed.
    pub fn allows(&self, going: u64, of: u64) -> bool {
        self.accepted || going == 0 || of < TINY_TABLE || going < of && (going as f64) <= (of as f64) * self.most
    }
}

/// Records of one object that the service confirmed not to have.
#[derive(Clone, Debug)]
pub struct ConfirmedRemovals {
    object: Object,
    ids: Vec<RecordId>,
    witnessed: bool,
}

impl ConfirmedRemovals {
    /// No record yet.
    pub fn none(object: Object) -> ConfirmedRemovals {
        ConfirmedRemovals { object, ids: Vec::new(), witnessed: true }
    }

    /// Takes in a complete answer to `asked` and the witness. Says whether it proves anything: only if it holds the
    /// witness, and no record that was not asked for. Without a witness, because the service lists no record at all, an
    /// empty answer is taken, and the gate lets it count for tiny tables and with a person's confirmation only.
    pub fn take(&mut self, asked: &[RecordId], witness: Option<&RecordId>, answered: &HashSet<RecordId>) -> bool {
        let foreign = answered.iter().any(|id| Some(id) != witness && !asked.contains(id));
        let proven = match witness {
            Some(witness) => answered.contains(witness),
            None => answered.is_empty(),
        };
        if foreign || !proven {
            return false;
        }
        self.witnessed &= witness.is_some();
        self.ids.extend(asked.iter().filter(|id| !answered.contains(*id)).cloned());
        true
    }

    /// The records.
    pub fn ids(&self) -> &[RecordId] {
        &self.ids
    }
}

/// What the gate decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovalDecision {
    /// So many records were removed.
    Removed(u64),
    /// It would have been too many: nothing was removed.
    Refused(RemovalShare),
}

/// Removals and what they are measured by, those of the last day included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemovalShare {
    /// Records that would be gone.
    pub going: u64,
    /// Of so many rows.
    pub of: u64,
}

/// Removals of the last day that nobody accepted: the budget window, and how many.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct RecentRemovals(Vec<(Instant, u64)>);

impl RecentRemovals {
    const fn entry(object: Object) -> StateKey {
        StateKey::RecentRemovals(object)
    }

    /// Those that still count in this budget window.
    fn in_window(mut self, window: Instant) -> RecentRemovals {
        self.0.retain(|(of, _)| window.since(*of) <= DAY);
        self
    }

    fn count(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }
}

impl ReadTx<'_> {
    /// What removing so many more records would come to, with the removals of the last day.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn removal_share(&self, object: Object, more: u64, window: Instant) -> Result<RemovalShare, StoreError> {
        let recent = self.recent_removals(object, window)?.count();
        Ok(RemovalShare { going: recent + more, of: self.count_rows(object)? + recent })
    }

    fn recent_removals(&self, object: Object, window: Instant) -> Result<RecentRemovals, StoreError> {
        let recent: Option<RecentRemovals> = self.state(&RecentRemovals::entry(object))?;
        Ok(recent.unwrap_or_default().in_window(window))
    }

    /// Whether records of an object are nominated for removal.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn has_nominations(&self, object: Object) -> Result<bool, StoreError> {
        self.conn
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM sweep_missing WHERE object_type = ?1)")
            .and_then(|mut stmt| stmt.query_row([object.as_str()], |row| row.get(0)))
            .doing("look for nominated records")
    }

    /// A record that is not nominated, the newest: a witness that an answer by id is asked together with.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn witness(&self, object: Object) -> Result<Option<RecordId>, StoreError> {
        let sql = format!(
            "SELECT id FROM {} WHERE instr(id, ',') = 0
             AND id NOT IN (SELECT id FROM sweep_missing WHERE object_type = ?1) ORDER BY updated_at DESC LIMIT 1",
            object.table()
        );
        let mut stmt = self.conn.prepare_cached(&sql).doing("choose a witness")?;
        let mut rows = stmt.query([object.as_str()]).doing("choose a witness")?;
        let row = rows.next().doing("choose a witness")?;
        row.map(|row| Ok(RecordId::new(row.get::<_, String>(0).doing("choose a witness")?))).transpose()
    }
}

impl MirrorTx<'_> {
    /// Removes confirmed records, all of them or none. `window` is the beginning of the budget's window.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn remove_confirmed(
        &self,
        confirmed: &ConfirmedRemovals,
        guard: &RemovalGuard,
        window: Instant,
        now: Instant,
    ) -> Result<RemovalDecision, StoreError> {
        let object = confirmed.object;
        let share = self.removal_share(object, confirmed.ids.len() as u64, window)?;
        let unwitnessed = !confirmed.witnessed && !guard.accepted && share.of >= TINY_TABLE;
        if !guard.allows(share.going, share.of) || unwitnessed && !confirmed.ids.is_empty() {
            return Ok(RemovalDecision::Refused(share));
        }
        let phase = self.phase(object)?;
        let mut removed = 0;
        for id in &confirmed.ids {
            removed += u64::from(self.remove(object, id, now, phase)?);
        }
        if removed > 0 && !guard.accepted {
            let mut recent = self.recent_removals(object, window)?;
            recent.0.push((window, removed));
            self.set_state(&RecentRemovals::entry(object), &recent)?;
        }
        Ok(RemovalDecision::Removed(removed))
    }

    /// Nominates records for removal; those that are not here are left out.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn nominate(&self, object: Object, ids: &[RecordId]) -> Result<(), StoreError> {
        let sql = format!(
            "INSERT OR IGNORE INTO sweep_missing (object_type, id)
             SELECT ?1, value FROM json_each(?2) WHERE value IN (SELECT id FROM {})",
            object.table()
        );
        let ids: Vec<&str> = ids.iter().map(RecordId::as_str).collect();
        let ids = serde_json::Value::from(ids).to_string();
        self.conn
            .prepare_cached(&sql)
            .and_then(|mut stmt| stmt.execute(params![object.as_str(), ids]))
            .doing("nominate records for removal")?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> RecordId {
        RecordId::new(text)
    }

    #[test]
    fn an_outage_is_told_apart_from_ordinary_removals() {
        let guard = RemovalGuard { most: 0.2, accepted: false };
        for (going, of, allowed) in [
            (0, 0, true),
            (9, 9, true),
            (10, 10, false),
            (2, 10, true),
            (3, 10, false),
            (20, 100, true),
            (21, 100, false),
            (100_000, 100_000, false),
        ] {
            assert_eq!(guard.allows(going, of), allowed, "{going} of {of}");
            assert!(RemovalGuard { accepted: true, ..guard }.allows(going, of));
        }
        assert!(!RemovalGuard { most: 1.0, accepted: false }.allows(10, 10), "never all of them");
    }

    #[test]
    fn only_an_answer_with_the_witness_confirms_a_removal() {
        let (asked, witness) = ([id("a"), id("b")], id("w"));
        for (answered, proven, confirmed) in [
            (vec![], false, vec![]),
            (vec!["a"], false, vec![]),
            (vec!["w"], true, vec!["a", "b"]),
            (vec!["w", "b"], true, vec!["a"]),
            (vec!["w", "x"], false, vec![]),
        ] {
            let answered: HashSet<RecordId> = answered.into_iter().map(id).collect();
            let mut removals = ConfirmedRemovals::none(Object::Contact);
            assert_eq!(removals.take(&asked, Some(&witness), &answered), proven, "{answered:?}");
            let expected: Vec<RecordId> = confirmed.into_iter().map(id).collect();
            assert_eq!(removals.ids(), expected, "{answered:?}");
        }
    }

    #[test]
    fn removals_count_for_a_day_of_budget_windows() {
        let at = |hours: u64| Instant::EPOCH.plus(Duration::from_secs(hours * 3_600));
        let recent = RecentRemovals(vec![(at(48), 3), (at(24), 2), (at(0), 9)]);
        assert_eq!(recent.clone().in_window(at(48)).count(), 5, "today and yesterday");
        assert_eq!(recent.in_window(at(12)).count(), 14, "a clock that was set back forgets nothing");
    }
}
