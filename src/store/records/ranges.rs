//! Ranges of records by a timestamp: counted, cut and listed here, to be held against the service.

use std::collections::HashSet;

use rusqlite::types::Value;
use rusqlite::{OptionalExtension, params, params_from_iter};

use crate::model::catalogue::Object;
use crate::model::ids::RecordId;
use crate::model::instant::Instant;
use crate::store::error::{Doing, StoreError};
use crate::store::reader::ReadTx;
use crate::store::tx::MirrorTx;

/// A range of an object's records: the timestamp's column, and the condition on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// `created_at` or `updated_at`.
    pub column: &'static str,
    /// Which records.
    pub part: Part,
}

/// The condition of a [`Stretch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// `from` inclusive, `to` exclusive, open where there is none.
    Dated(Option<Instant>, Option<Instant>),
    /// Records without the timestamp.
    Dateless,
    /// Every record.
    Whole,
}

impl Stretch {
    fn condition(&self) -> (String, Vec<Value>) {
        let column = self.column;
        match self.part {
            Part::Whole => ("true".into(), Vec::new()),
            Part::Dateless => (format!("{column} IS NULL"), Vec::new()),
            Part::Dated(from, to) => {
                let mut sql = format!("{column} IS NOT NULL");
                let mut values = Vec::new();
                for (edge, op) in [(from, ">="), (to, "<")] {
                    if let Some(edge) = edge {
                        values.push(edge.to_string().into());
                        sql.push_str(&format!(" AND {column} {op} ?{}", values.len()));
                    }
                }
                (sql, values)
            }
        }
    }
}

impl ReadTx<'_> {
    /// How many records a range has here.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn count_stretch(&self, object: Object, stretch: Stretch) -> Result<u64, StoreError> {
        let (condition, values) = stretch.condition();
        let sql = format!("SELECT count(*) FROM {} WHERE {condition}", object.table());
        let count: i64 = self
            .conn
            .prepare_cached(&sql)
            .and_then(|mut stmt| stmt.query_row(params_from_iter(values), |row| row.get(0)))
            .doing("count a range")?;
        Ok(count.unsigned_abs())
    }

    /// How many records a range has here that are not nominated for removal.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn count_unnominated(&self, object: Object, stretch: Stretch) -> Result<u64, StoreError> {
        let (condition, mut values) = stretch.condition();
        values.push(object.as_str().to_string().into());
        let sql = format!(
            "SELECT count(*) FROM {} WHERE {condition}
             AND id NOT IN (SELECT id FROM sweep_missing WHERE object_type = ?{})",
            object.table(),
            values.len()
        );
        let count: i64 = self
            .conn
            .prepare_cached(&sql)
            .and_then(|mut stmt| stmt.query_row(params_from_iter(values), |row| row.get(0)))
            .doing("count a range")?;
        Ok(count.unsigned_abs())
    }

    /// The records of a range.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn ids_of_stretch(&self, object: Object, stretch: Stretch) -> Result<HashSet<RecordId>, StoreError> {
        let doing = "list a range";
        let (condition, values) = stretch.condition();
        let sql = format!("SELECT id FROM {} WHERE {condition}", object.table());
        let mut stmt = self.conn.prepare_cached(&sql).doing(doing)?;
        stmt.query_map(params_from_iter(values), |row| Ok(RecordId::new(row.get::<_, String>(0)?)))
            .and_then(Iterator::collect)
            .doing(doing)
    }

    /// The timestamp of a range's record number `skip`, oldest first.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn nth_of_stretch(&self, object: Object, stretch: Stretch, skip: u64) -> Result<Option<Instant>, StoreError> {
        let (condition, mut values) = stretch.condition();
        values.push(i64::try_from(skip).unwrap_or(i64::MAX).into());
        let sql = format!(
            "SELECT {column} FROM {table} WHERE {condition} ORDER BY {column} LIMIT 1 OFFSET ?{n}",
            column = stretch.column,
            table = object.table(),
            n = values.len()
        );
        let at: Option<Option<String>> = self
            .conn
            .prepare_cached(&sql)
            .and_then(|mut stmt| stmt.query_row(params_from_iter(values), |row| row.get(0)).optional())
            .doing("cut a range")?;
        Ok(at.flatten().and_then(|at| at.parse().ok()))
    }

    /// The whole seconds that cut a range into `parts` of about as many records each; `shift`, from 0 to 1, moves the
    /// edges by a part of a part, so that they differ from one audit to the next.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn edges(&self, object: Object, stretch: Stretch, parts: u64, shift: f64) -> Result<Vec<Instant>, StoreError> {
        let rows = self.count_stretch(object, stretch)?;
        let mut edges = Vec::new();
        for part in 1..parts {
            let skip = (rows as f64 * (part as f64 - shift) / parts as f64) as u64;
            edges.extend(self.nth_of_stretch(object, stretch, skip)?.map(Instant::whole_second));
        }
        edges.dedup();
        Ok(edges)
    }
}

impl MirrorTx<'_> {
    /// Enters that a range was counted.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn enter_audit(
        &self,
        object: Object,
        stretch: Stretch,
        counts: (u64, u64),
        found: Option<&str>,
        now: Instant,
    ) -> Result<(), StoreError> {
        let (from, to) = match stretch.part {
            Part::Dated(from, to) => (from, to),
            Part::Dateless | Part::Whole => (None, None),
        };
        let text = |at: Option<Instant>| at.map(|at| at.to_string());
        let (here, there) = (counts.0 as i64, counts.1 as i64);
        let dateless = stretch.part == Part::Dateless;
        self.conn
            .prepare_cached(
                "INSERT INTO audits (object_type, dimension, range_from, range_to, null_range, count_here, count_there,
                                     found, audited_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )
            .and_then(|mut stmt| {
                stmt.execute(params![
                    object.as_str(),
                    stretch.column,
                    text(from),
                    text(to),
                    dateless,
                    here,
                    there,
                    found,
                    now.to_string()
                ])
            })
            .doing("enter an audit")?;
        Ok(())
    }
}
