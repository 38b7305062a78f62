//! A row of `goals` that waits for a person: removals that are refused because they look like an outage.

use std::time::Duration;

use rusqlite::params;

use crate::model::catalogue::Object;
use crate::model::instant::Instant;
use crate::store::error::StoreError;
use crate::store::reader::ReadTx;
use crate::store::sql_types::StoredTime;
use crate::store::statements::Statements;
use crate::store::tx::ClaimsTx;

const DOING: &str = "read or write refused removals";

/// How often a sample of the records is looked up.
const DAY: Duration = Duration::from_secs(86_400);

/// Removals that were refused because they look like an outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedRemovals {
    /// Records that would have been removed.
    pub going: u64,
    /// All records of the table.
    pub of: u64,
    /// When it was found.
    pub seen_at: Instant,
    /// When a sample of the records was last looked up, by the ledger's steady clock.
    pub sampled_at: Option<Instant>,
}

impl RefusedRemovals {
    /// Whether a lookup of a sample is due: once a day by the ledger's steady clock. A time that is ahead of the clock
    /// was stored by a clock that was lost.
    pub fn is_sample_due(&self, steady: Instant) -> bool {
        self.sampled_at.is_none_or(|sampled| steady.since(sampled) >= DAY || sampled > steady)
    }
}

impl ReadTx<'_> {
    /// The removals of an object that wait for a person. The table has what they would be removed from.
    pub fn refused_removals(&self, object: Object) -> Result<Option<RefusedRemovals>, StoreError> {
        let sql = "SELECT since, steady, open FROM goals WHERE object = ?1 AND kind = 'refused removals'";
        let found: Option<(StoredTime, StoredTime, i64)> =
            self.conn.find(sql, [object], DOING, |row| row.try_into())?;
        let Some((seen_at, sampled_at, going)) = found else { return Ok(None) };
        Ok(Some(RefusedRemovals {
            going: going.unsigned_abs(),
            of: self.count_rows(object)?,
            seen_at: seen_at.0.unwrap_or(Instant::EPOCH),
            sampled_at: sampled_at.0,
        }))
    }
}

impl ClaimsTx<'_> {
    /// Says that removals of an object wait for a person, or that none do.
    pub fn set_refused_removals(&self, object: Object, refused: Option<RefusedRemovals>) -> Result<(), StoreError> {
        let Some(RefusedRemovals { going, seen_at, sampled_at, .. }) = refused else {
            let sql = "DELETE FROM goals WHERE object = ?1 AND kind = 'refused removals'";
            return self.tx.conn.change(sql, [object], DOING).map(drop);
        };
        let sql = "INSERT OR REPLACE INTO goals (object, kind, since, steady, open) VALUES (?1, 'refused removals', ?2, ?3, ?4)";
        let values = params![object, seen_at, sampled_at, going.cast_signed()];
        self.tx.conn.run(sql, values, DOING).map(drop)
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
