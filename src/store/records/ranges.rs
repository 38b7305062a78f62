//! Ranges of records by a timestamp: counted, divided and listed, for comparison with the service.
//! Rows of `doubts` say what a walk read by cursor and nothing has counted yet, and which ties are listed once a day.

use std::collections::HashSet;

use rusqlite::types::Value;
use rusqlite::{params, params_from_iter};

use crate::model::{Instant, Object, RecordId, TimeBounds, TimeField, TimeRange};
use crate::store::records::doubts::{DAY, Doubt};
use crate::store::{ClaimsTx, KnowledgeTx, ReadTx, Result, Statements, StoredTime, json};

/// The statement that selects this of the records of a range, and its values.
fn select(what: &str, object: Object, range: TimeRange) -> (String, Vec<Value>) {
    let mut values = Vec::new();
    let by_field = bounds_condition(range.field, range.bounds, &mut values);
    let by_other = bounds_condition(range.field.other(), range.within.unwrap_or(TimeBounds::Whole), &mut values);
    (format!("SELECT {what} FROM {} WHERE {by_field} AND {by_other}", object.table()), values)
}

pub(super) fn bounds_condition(field: TimeField, bounds: TimeBounds, values: &mut Vec<Value>) -> String {
    let column = field.column();
    match bounds {
        TimeBounds::Whole => "true".into(),
        TimeBounds::Dateless => format!("{column} IS NULL"),
        TimeBounds::Dated { from, to } => {
            let mut sql = format!("{column} IS NOT NULL");
            for (edge, op) in [(from, ">="), (to, "<")] {
                if let Some(edge) = edge {
                    values.push(edge.to_string().into());
                    sql.push_str(&format!(" AND {column} {op} ?"));
                }
            }
            sql
        }
    }
}

impl ReadTx<'_> {
    pub fn count_range(&self, object: Object, range: TimeRange) -> Result<u64> {
        let (sql, values) = select("count(*)", object, range);
        self.count(&sql, params_from_iter(values))
    }

    pub fn count_unnominated(&self, object: Object, range: TimeRange) -> Result<u64> {
        let (sql, values) = select("count(*)", object, range);
        let nominated = format!("SELECT record_id FROM doubts WHERE object_type = '{object}' AND why = 'missed'");
        self.count(&format!("{sql} AND id NOT IN ({nominated})"), params_from_iter(values))
    }

    pub fn ids_of_range(&self, object: Object, range: TimeRange) -> Result<HashSet<RecordId>> {
        let (sql, values) = select("id", object, range);
        self.column(&sql, params_from_iter(values))
    }

    /// The timestamp of a range's record number `skip`, oldest first, by which it can be cut.
    pub fn nth_of_range(&self, object: Object, range: TimeRange, skip: u64) -> Result<Option<Instant>> {
        // The other one, once the range is of records that share the first.
        let column = if range.within.is_some() { range.field.other() } else { range.field }.column();
        let (sql, mut values) = select(column, object, range);
        values.push(i64::try_from(skip).unwrap_or(i64::MAX).into());
        self.find_time(&format!("{sql} ORDER BY {column} LIMIT 1 OFFSET ?"), params_from_iter(values))
    }

    /// The whole seconds that divide a range into `parts` of about the same number of records; `shift`, from 0 to 1,
    /// moves the edges by a fraction of a part, so that they differ from one audit to the next.
    pub fn edges(&self, object: Object, range: TimeRange, parts: u64, shift: f64) -> Result<Vec<Instant>> {
        let rows = self.count_range(object, range)?;
        let mut edges = Vec::new();
        for part in 1..parts {
            let skip = (rows as f64 * (part as f64 - shift) / parts as f64) as u64;
            edges.extend(self.nth_of_range(object, range, skip)?.map(Instant::whole_second));
        }
        edges.dedup();
        Ok(edges)
    }

    /// What a kind of walk has read and nothing has proven; `None` if all is. A range that cannot be parsed may be any.
    pub fn unproven(&self, object: Object, by: TimeField) -> Result<Option<UnprovenRanges>> {
        let rows: Vec<(String, bool, StoredTime)> = self.tuples(
            "SELECT record_id, tries > 0, not_before FROM doubts WHERE object_type = ?1 AND why = ?2",
            [range_type(object).as_str(), by.column()],
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
    pub fn tie_was_listed(&self, object: Object, range: TimeRange, steady: Instant) -> Result<bool> {
        let listed = self.doubt((&range_type(object), &json("a range", &range)?, "tie"))?;
        Ok(listed.and_then(|tie| tie.first_seen).is_some_and(|at| at <= steady && steady.since(at) < DAY))
    }
}

impl KnowledgeTx<'_> {
    pub fn enter_audit(
        &self,
        object: Object,
        range: TimeRange,
        counts: (u64, u64),
        found: Option<&str>,
        now: Instant,
    ) -> Result<()> {
        let (from, to) = range.bounds.dates();
        let (here, there) = (counts.0 as i64, counts.1 as i64);
        let dateless = range.bounds == TimeBounds::Dateless;
        self.run(
            "INSERT INTO audits (object_type, dimension, range_from, range_to, null_range, count_here, count_there,
                                     found, audited_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            params![object, range.field.column(), from, to, dateless, here, there, found, now],
        )
    }
}

/// What a kind of walk has read by cursor and that a count has to prove: sweeps by `createdAt`, changes by `updatedAt`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnprovenRanges {
    /// Oldest first.
    pub ranges: Vec<TimeRange>,
    /// Whether these ranges differed before: then the audits go on with what is left.
    pub is_second: bool,
    /// Until when, by the ledger's steady clock, nothing is counted: a range differs that could not be listed, or
    /// was listed within a day and cannot be divided.
    pub waits_until: Option<Instant>,
}

/// What doubts about ranges of an object are noted under.
fn range_type(object: Object) -> String {
    format!("{object}_range")
}

impl ClaimsTx<'_> {
    pub fn set_unproven(&self, object: Object, by: TimeField, unproven: &UnprovenRanges) -> Result<()> {
        let of_object = range_type(object);
        self.run("DELETE FROM doubts WHERE object_type = ?1 AND why = ?2", [of_object.as_str(), by.column()])?;
        let (tries, not_before) = (unproven.is_second.into(), unproven.waits_until);
        let doubt = Doubt { tries, not_before, ..Doubt::default() };
        for range in &unproven.ranges {
            self.tx.knowledge().set_doubt((&of_object, &json("a range", range)?, by.column()), &doubt)?;
        }
        Ok(())
    }

    /// Also forgets what was listed more than a day ago.
    pub fn tie_is_listed(&self, object: Object, range: TimeRange, steady: Instant) -> Result<()> {
        let of_object = range_type(object);
        self.run(
            "DELETE FROM doubts WHERE object_type = ?1 AND why = 'tie' AND (first_seen <= ?2 OR first_seen > ?3)",
            params![of_object, steady.minus(DAY), steady],
        )?;
        let tie = Doubt { first_seen: Some(steady), ..Doubt::default() };
        self.tx.knowledge().set_doubt((&of_object, &json("a range", &range)?, "tie"), &tie)
    }
}
