//! Rows of `doubts` about ranges of time: what a walk read by cursor and nothing has counted yet, and ties that are listed
//! once a day.

use std::time::Duration;

use rusqlite::params;

use crate::model::catalogue::Object;
use crate::model::instant::Instant;
use crate::model::time_range::{TimeField, TimeRange};
use crate::store::error::StoreError;
use crate::store::reader::ReadTx;
use crate::store::sql_types::StoredTime;
use crate::store::statements::Statements;
use crate::store::tx::ClaimsTx;

const DOING: &str = "read or write the doubts about ranges";

/// How often a tie is listed.
const DAY: Duration = Duration::from_secs(86_400);

/// What a kind of walk has read by cursor and that a count has to prove: sweeps by `createdAt`, changes by `updatedAt`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnprovenRanges {
    /// The ranges, oldest first.
    pub ranges: Vec<TimeRange>,
    /// Whether these ranges differed before: then the audits go on with what is left.
    pub is_second: bool,
    /// Until when, by the ledger's steady clock, nothing is counted: a range differs that cannot be divided, and that was
    /// listed within a day.
    pub waits_until: Option<Instant>,
}

/// What doubts about ranges of an object are noted under.
fn range_type(object: Object) -> String {
    format!("{object}_range")
}

fn json(range: &TimeRange) -> Result<String, StoreError> {
    serde_json::to_string(range).map_err(|source| StoreError::State { name: "a range".into(), source })
}

impl ReadTx<'_> {
    /// What a kind of walk has read and nothing has proven; `None` if everything is. A range that cannot be parsed may be any.
    pub fn unproven(&self, object: Object, by: TimeField) -> Result<Option<UnprovenRanges>, StoreError> {
        let rows: Vec<(String, bool, StoredTime)> = self.conn.rows(
            "SELECT record_id, tries > 0, not_before FROM doubts WHERE object_type = ?1 AND why = ?2",
            [range_type(object).as_str(), by.column()],
            DOING,
            |row| row.try_into(),
        )?;
        let mut unproven = UnprovenRanges::default();
        for (range, is_second, waits) in &rows {
            unproven.ranges.push(serde_json::from_str(range).unwrap_or(TimeRange::WHOLE));
            unproven.is_second |= is_second;
            unproven.waits_until = unproven.waits_until.max(waits.0);
        }
        unproven.ranges.sort_by_key(TimeRange::order);
        Ok((!rows.is_empty()).then_some(unproven))
    }

    /// Whether the records of a range, which share both timestamps, were listed within a day.
    pub fn tie_was_listed(&self, object: Object, range: TimeRange, steady: Instant) -> Result<bool, StoreError> {
        let listed: Option<StoredTime> = self.conn.find_value(
            "SELECT first_seen FROM doubts WHERE object_type = ?1 AND why = 'tie' AND record_id = ?2",
            [range_type(object), json(&range)?],
            DOING,
        )?;
        Ok(listed.and_then(|at| at.0).is_some_and(|at| at <= steady && steady.since(at) < DAY))
    }
}

impl ClaimsTx<'_> {
    /// Says what a kind of walk has read that nothing has proven yet.
    pub fn set_unproven(&self, object: Object, by: TimeField, unproven: &UnprovenRanges) -> Result<(), StoreError> {
        let of_object = range_type(object);
        self.tx.conn.run(
            "DELETE FROM doubts WHERE object_type = ?1 AND why = ?2",
            [of_object.as_str(), by.column()],
            DOING,
        )?;
        for range in &unproven.ranges {
            self.tx.conn.run(
                "INSERT OR REPLACE INTO doubts (object_type, why, record_id, tries, not_before)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
                params![of_object, by.column(), json(range)?, unproven.is_second, unproven.waits_until],
                DOING,
            )?;
        }
        Ok(())
    }

    /// Notes that the records of a range, which share both timestamps, are listed now, and forgets what was listed longer ago.
    pub fn tie_is_listed(&self, object: Object, range: TimeRange, steady: Instant) -> Result<(), StoreError> {
        let of_object = range_type(object);
        self.tx.conn.run(
            "DELETE FROM doubts WHERE object_type = ?1 AND why = 'tie' AND (first_seen <= ?2 OR first_seen > ?3)",
            params![of_object, steady.minus(DAY), steady],
            DOING,
        )?;
        self.tx.conn.run(
            "INSERT OR REPLACE INTO doubts (object_type, why, record_id, first_seen) VALUES (?1, 'tie', ?2, ?3)",
            params![of_object, json(&range)?, steady],
            DOING,
        )
    }
}
