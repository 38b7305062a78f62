//! `reads` and `frontier`: what is being read, and how far the changes of an object are known.
//!
//! A row of `reads` is a part of a list that one walk reads, with the walk's position, which is a hint. The parts of a sweep
//! that were read to their end keep their rows until the sweep ends: what no row covers was not read. So a row that is lost
//! or cannot be parsed is read again, and nothing else.

use rusqlite::params;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::model::{Instant, Object, TimeBounds};
use crate::store::{ClaimsTx, ReadTx, Result, Statements, StoredTime, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum ReadOf {
    Changes(Object),
    Sweep(Object),
    Fill(Object),
    Ages(Object),
}

impl ReadOf {
    fn row(self) -> [&'static str; 2] {
        let (ReadOf::Changes(of) | ReadOf::Sweep(of) | ReadOf::Fill(of) | ReadOf::Ages(of)) = self;
        [of.as_str(), self.into()]
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint<P> {
    /// The number of a slice, or the key of a field.
    pub part: String,
    /// What it has, by `createdAt`.
    pub bounds: TimeBounds,
    pub done: bool,
    /// As of when changes will be complete.
    pub as_of: Option<Instant>,
    pub position: P,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct KnownChanges {
    /// The highest `updatedAt` applied by a finished walk. It only decreases where a walk begins and an earlier version of a
    /// record was accepted.
    pub watermark: Option<Instant>,
    /// The service's clock when that walk started; `None` if the service sends no date.
    pub served_at: Option<Instant>,
}

pub fn uncovered<P>(parts: &[Checkpoint<P>]) -> Vec<TimeBounds> {
    if parts.is_empty() {
        return vec![TimeBounds::Whole];
    }
    let has = |bounds| parts.iter().any(|part| part.bounds == bounds);
    if has(TimeBounds::Whole) {
        return Vec::new();
    }
    let dated = parts.iter().filter(|part| part.bounds != TimeBounds::Dateless);
    let mut dated: Vec<_> = dated.map(|part| part.bounds.dates()).collect();
    dated.sort_unstable();
    let mut missing = Vec::new();
    // The end of what is covered from the oldest record on; `None` if nothing is.
    let (mut end, mut is_open) = (None, true);
    for (from, to) in dated {
        if is_open && from > end {
            missing.push(TimeBounds::Dated { from: end, to: from });
        }
        is_open &= to.is_some();
        end = end.max(to);
    }
    if is_open {
        missing.push(TimeBounds::Dated { from: end, to: None });
    }
    if !has(TimeBounds::Dateless) {
        missing.push(TimeBounds::Dateless);
    }
    missing
}

impl ReadTx<'_> {
    /// One whose position or bounds cannot be parsed is none.
    pub fn reads<P: DeserializeOwned>(&self, what: ReadOf) -> Result<Vec<Checkpoint<P>>> {
        let rows: Vec<(String, String, bool, StoredTime, String)> = self.tuples(
            "SELECT part, bounds, done, as_of, position FROM reads WHERE object = ?1 AND purpose = ?2
             ORDER BY length(part), part",
            what.row(),
        )?;
        let parsed = rows.into_iter().filter_map(|(part, bounds, done, as_of, position)| {
            let (bounds, position) = (serde_json::from_str(&bounds).ok()?, serde_json::from_str(&position).ok()?);
            Some(Checkpoint { part, bounds, done, as_of: as_of.0, position })
        });
        Ok(parsed.collect())
    }

    pub fn position<P: DeserializeOwned>(&self, what: ReadOf) -> Result<Option<P>> {
        Ok(self.reads(what)?.pop().map(|read| read.position))
    }

    pub fn known_changes(&self, object: Object) -> Result<KnownChanges> {
        let sql = "SELECT watermark, served_at FROM frontier WHERE object = ?1";
        Ok(self.find_parsed(sql, [object])?.unwrap_or_default())
    }
}

impl ClaimsTx<'_> {
    pub fn know_changes(&self, object: Object, known: KnownChanges) -> Result<()> {
        self.run(
            "INSERT INTO frontier (object, watermark, served_at) VALUES (?1, ?2, ?3)
             ON CONFLICT DO UPDATE SET watermark = ?2, served_at = ?3",
            params![object, known.watermark, known.served_at],
        )
    }

    /// Has the next changes walk begin here at the latest, whatever a walk that is under way may finish with.
    pub fn doubt_changes(&self, object: Object, from: Instant) -> Result<()> {
        let sql = "UPDATE frontier SET doubt_from = min(?2, coalesce(doubt_from, ?2)) WHERE object = ?1";
        self.run(sql, params![object, from])
    }

    /// Says that a changes walk begins, which reads what is in doubt.
    pub fn begin_changes(&self, object: Object) -> Result<()> {
        let lowered = "watermark = min(watermark, doubt_from), doubt_from = NULL";
        self.run(&format!("UPDATE frontier SET {lowered} WHERE object = ?1 AND doubt_from IS NOT NULL"), [object])
    }

    pub fn keep_read<P: Serialize>(&self, what: ReadOf, read: &Checkpoint<P>) -> Result<()> {
        let [object, purpose] = what.row();
        let (bounds, position) = (json(purpose, &read.bounds)?, json(purpose, &read.position)?);
        self.run(
            "INSERT OR REPLACE INTO reads (object, purpose, part, bounds, done, as_of, position)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![object, purpose, read.part, bounds, read.done, read.as_of, position],
        )
    }

    pub fn keep_position<P: Serialize>(&self, what: ReadOf, position: &P) -> Result<()> {
        let (part, bounds) = (String::new(), TimeBounds::Whole);
        self.keep_read(what, &Checkpoint { part, bounds, done: false, as_of: None, position })
    }

    pub fn end_read(&self, what: ReadOf) -> Result<()> {
        self.run("DELETE FROM reads WHERE object = ?1 AND purpose = ?2", what.row())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(bounds: TimeBounds) -> Checkpoint<()> {
        Checkpoint { part: String::new(), bounds, done: true, as_of: None, position: () }
    }

    #[test]
    fn what_no_part_covers_is_read_again() {
        let at = |second: i64| Some(Instant::from_secs(second).unwrap());
        let dated = |from, to| TimeBounds::Dated { from, to };
        let (whole, dateless) = (TimeBounds::Whole, TimeBounds::Dateless);
        for (parts, missing) in [
            (vec![], vec![whole]),
            (vec![whole], vec![]),
            (vec![dateless], vec![dated(None, None)]),
            (vec![dated(None, None)], vec![dateless]),
            (vec![dateless, dated(at(5), None), dated(None, at(5))], vec![]),
            (vec![dateless, dated(None, at(5))], vec![dated(at(5), None)]),
            (vec![dateless, dated(at(5), None)], vec![dated(None, at(5))]),
            (vec![dated(None, at(5)), dated(at(7), at(9))], vec![dated(at(5), at(7)), dated(at(9), None), dateless]),
            (vec![dateless, dated(at(1), None), dated(None, at(9)), dated(at(2), at(3))], vec![]),
        ] {
            let parts: Vec<_> = parts.into_iter().map(part).collect();
            assert_eq!(uncovered(&parts), missing, "{parts:?}");
        }
    }
}
