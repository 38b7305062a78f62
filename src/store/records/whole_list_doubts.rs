//! The lists that are always read whole, and doubts about their items: team members and definitions have no id filter,
//! so a removal cannot be confirmed by id. An item is removed when two complete lists at least an hour apart do not
//! have it, within the same guard as records. An empty list is no evidence.

use std::collections::BTreeSet;
use std::time::Duration;

use rusqlite::params;

use crate::model::{Instant, Object, Record, RecordId};
use crate::store::records::doubts::DAY;
use crate::store::records::removals::count_removed;
use crate::store::{
    KnowledgeTx, ReadTx, RecordsTx, RemovalDecision, RemovalGuard, RemovalShare, Result, Statements, Tally, json_list,
};

/// The minimum time between two lists that are evidence.
const LISTS_APART: Duration = Duration::from_secs(3_600);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WholeListKind {
    Team,
    Definitions(Object),
}

impl WholeListKind {
    const fn as_str(self) -> &'static str {
        match self {
            WholeListKind::Team => "team_member",
            WholeListKind::Definitions(object) => object.pick("contact_field", "company_field"),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct ListedItems {
    pub ids: BTreeSet<RecordId>,
    pub complete: bool,
}

impl ReadTx<'_> {
    pub fn team_ids(&self) -> Result<Vec<RecordId>> {
        self.column("SELECT id FROM team_members", [])
    }

    /// Whether a list must be read again: an hour has passed since it lacked an item, or a person `accepted` removals.
    pub fn needs_list(&self, list: WholeListKind, steady: Instant, accepted: bool) -> Result<bool> {
        if accepted && self.count_unlisted(list)? > 0 {
            return Ok(true);
        }
        // A time that is far ahead was stored by a clock that was lost.
        let sql = "SELECT EXISTS (SELECT 1 FROM doubts WHERE object_type = ?1 AND why = 'unlisted'
                   AND (not_before <= ?2 OR not_before > ?3))";
        self.value(sql, params![list.as_str(), steady, steady.plus(LISTS_APART)])
    }

    /// The number of items that the last complete list did not have, and that are kept.
    pub fn count_unlisted(&self, list: WholeListKind) -> Result<u64> {
        let sql = "SELECT count(*) FROM doubts WHERE object_type = ?1 AND why = 'unlisted'";
        self.count(sql, [list.as_str()])
    }
}

impl KnowledgeTx<'_> {
    pub fn clear_unlisted(&self) -> Result<()> {
        self.run("DELETE FROM doubts WHERE object_type IN ('team_member', 'contact_field', 'company_field')", [])
    }

    /// Takes in a list of which the mirror has the `known` items. Says which of them are removed: none without proof.
    pub fn decide_unlisted(
        &self,
        list: WholeListKind,
        known: &[RecordId],
        listed: &ListedItems,
        guard: &RemovalGuard,
        steady: Instant,
    ) -> Result<RemovalDecision<Vec<RecordId>>> {
        let kind = list.as_str();
        let items = "object_type = ?1 AND record_id IN (SELECT value FROM json_each(?2))";
        self.run(&format!("DELETE FROM doubts WHERE {items}"), [kind, &json_list(&listed.ids)])?;
        // Neither what is longer than a day ago counts, nor what a clock dated that was lost.
        self.run(
            "DELETE FROM doubts WHERE object_type = ?1 AND (why = 'gone' AND first_seen < ?2 OR first_seen > ?3)",
            (kind, steady.minus(DAY), steady),
        )?;
        // A list that keeps lacking an item, or says nothing of it, is read on its interval.
        self.run(
            "UPDATE doubts SET not_before = NULL WHERE object_type = ?1 AND why = 'unlisted' AND not_before <= ?2",
            (kind, steady),
        )?;
        if !listed.complete || listed.ids.is_empty() {
            return Ok(RemovalDecision::Removed(Vec::new()));
        }
        let missing: Vec<RecordId> = known.iter().filter(|id| !listed.ids.contains(*id)).cloned().collect();
        self.run(
            "INSERT OR IGNORE INTO doubts (object_type, record_id, why, first_seen, not_before)
             SELECT ?1, value, 'unlisted', ?3, ?4 FROM json_each(?2)",
            (kind, json_list(&missing), steady, steady.plus(LISTS_APART)),
        )?;
        let sql = "SELECT record_id FROM doubts WHERE object_type = ?1 AND why = 'unlisted' AND first_seen <= ?2";
        let before: BTreeSet<RecordId> = self.column(sql, (kind, steady.minus(LISTS_APART)))?;
        let gone: Vec<RecordId> = missing.into_iter().filter(|id| guard.accepted || before.contains(id)).collect();
        let recent = count_removed(self.tx, kind, steady)?;
        let share = RemovalShare { going: recent + gone.len() as u64, of: recent + known.len() as u64 };
        if !gone.is_empty() && !guard.allows(share.going, share.of) {
            return Ok(RemovalDecision::Refused(share));
        }
        self.run(
            &format!(
                "UPDATE OR REPLACE doubts SET why = 'gone', first_seen = ?3, tries = ?4, not_before = NULL
                 WHERE why = 'unlisted' AND {items}"
            ),
            (kind, json_list(&gone), steady, !guard.accepted),
        )?;
        Ok(RemovalDecision::Removed(gone))
    }
}

impl RecordsTx<'_> {
    pub fn apply_team(&self, records: &[Record], gone: &[RecordId], asked_at: Instant) -> Result<Tally> {
        let shape = self.tx.shapes().team.clone();
        let mut tally = Tally { rows: records.len() as u64, ..Tally::default() };
        for record in records {
            tally.count(record, self.apply_plain(&shape, record, asked_at)?);
        }
        let delete = "DELETE FROM team_members WHERE id IN (SELECT value FROM json_each(?1))";
        tally.removed = self.change(delete, [json_list(gone)])? as u64;
        Ok(tally)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;

    fn ids(text: &str) -> BTreeSet<RecordId> {
        text.chars().map(|id| RecordId::new(id.to_string())).collect()
    }

    fn at(minutes: u64) -> Instant {
        Instant::EPOCH.plus(Duration::from_secs((100_000 + minutes) * 60))
    }

    #[tokio::test]
    async fn item_missing_in_two_complete_lists_an_hour_apart_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("mirror.db")).unwrap();
        for (minutes, listed, complete, gone, open, due) in [
            (0, "abc", true, "", 0, false),
            (1, "ab", true, "", 1, false),
            (60, "ab", true, "", 1, false),
            (61, "ab", true, "c", 0, false),
            // The item is here again, and the hour begins again.
            (62, "ab", true, "", 1, false),
            (63, "abc", true, "", 0, false),
            (64, "ab", true, "", 1, false),
            // Neither an empty nor an incomplete list says anything.
            (124, "", true, "", 1, false),
            (125, "a", false, "", 1, false),
            (126, "ab", true, "c", 0, false),
            (127, "a", true, "", 2, false),
            (187, "b", true, "c", 1, false),
        ] {
            let decided = store.write(move |tx| {
                let (known, listed) =
                    (ids("abc").into_iter().collect::<Vec<_>>(), ListedItems { ids: ids(listed), complete });
                let guard = RemovalGuard { most: 0.2, accepted: false };
                let gone = tx.knowledge().decide_unlisted(WholeListKind::Team, &known, &listed, &guard, at(minutes))?;
                Ok((
                    gone,
                    tx.count_unlisted(WholeListKind::Team)?,
                    tx.needs_list(WholeListKind::Team, at(minutes), false)?,
                ))
            });
            let expected = RemovalDecision::Removed(ids(gone).into_iter().collect());
            assert_eq!(decided.await.unwrap(), (expected, open, due), "{minutes}");
        }
        let due = store.read(|tx| {
            Ok((
                tx.needs_list(WholeListKind::Team, at(246), false)?,
                tx.needs_list(WholeListKind::Team, at(247), false)?,
            ))
        });
        assert_eq!(due.await.unwrap(), (false, true));
        store.close().await;
    }

    #[tokio::test]
    async fn removals_of_a_day_count_together_unless_they_are_accepted() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("mirror.db")).unwrap();
        let refused = |going, of| RemovalDecision::Refused(RemovalShare { going, of });
        let mut known: BTreeSet<RecordId> = (0..20).map(|n| RecordId::new(format!("{n:02}"))).collect();
        for (hours, first, accepted, expected) in [
            (0, 3, false, RemovalDecision::Removed(Vec::new())),
            (1, 3, false, RemovalDecision::Removed((0..3).map(|n| RecordId::new(format!("{n:02}"))).collect())),
            (2, 5, false, RemovalDecision::Removed(Vec::new())),
            (3, 5, false, refused(5, 20)),
            (26, 5, false, RemovalDecision::Removed((3..5).map(|n| RecordId::new(format!("{n:02}"))).collect())),
            (27, 15, true, RemovalDecision::Removed((5..15).map(|n| RecordId::new(format!("{n:02}"))).collect())),
        ] {
            let listed = known.iter().filter(|id| **id >= RecordId::new(format!("{first:02}"))).cloned().collect();
            let items: Vec<RecordId> = known.iter().cloned().collect();
            let decided = store.write(move |tx| {
                let (guard, listed) =
                    (RemovalGuard { most: 0.2, accepted }, ListedItems { ids: listed, complete: true });
                tx.knowledge().decide_unlisted(WholeListKind::Team, &items, &listed, &guard, at(60 * hours))
            });
            let decided = decided.await.unwrap();
            assert_eq!(decided, expected, "{hours}");
            if let RemovalDecision::Removed(gone) = decided {
                known.retain(|id| !gone.contains(id));
            }
        }
        store.close().await;
    }
}
