//! The outbox as people read it: every edit, whatever became of it, and the trail of one.

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension, Row, params};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::model::{EditState, EditedFields, Instant, Object};
use crate::store::error::{Doing, StoreError};
use crate::store::outbox::edits;
use crate::store::reader::ReadTx;

const DOING: &str = "read the outbox";

/// An edit.
#[derive(Clone, Debug, Serialize)]
pub struct EditLine {
    /// Its number.
    pub id: i64,
    /// Whose record it is of.
    pub object: Object,
    /// The record's id.
    pub record: String,
    /// What the record is called, where it is here.
    pub name: Option<String>,
    /// How far it is.
    #[serde(serialize_with = "word")]
    pub state: EditState,
    /// `sql`, `edit` or `socket`.
    pub source: String,
    /// What it changes: before and after, by column.
    pub fields: EditedFields,
    /// In a conflict, what the columns hold at the service.
    pub theirs: Option<BTreeMap<String, Value>>,
    /// How often a request with it was sent.
    pub attempts: u64,
    /// The status of the last answer.
    pub status: Option<u16>,
    /// What the service said, or why it was refused here.
    pub answer: Option<Box<RawValue>>,
    /// The edit that carries it along.
    pub merged_into: Option<i64>,
    /// When it was made, UTC.
    pub queued_at: String,
    /// When a request with it was last sent, UTC.
    pub last_sent_at: Option<String>,
    /// When it came to its end, UTC.
    pub finished_at: Option<String>,
    /// No request is made for its record before, UTC.
    pub not_before: Option<String>,
    /// The applied edit that it takes back.
    pub undoes: Option<i64>,
    /// Why it cannot be read: it was not written by this program.
    pub unreadable: Option<String>,
}

/// How many edits are in the states that a person may have to know of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EditCounts {
    /// Edits that wait to be sent.
    pub queued: u64,
    /// Edits that a person has to release.
    pub held: u64,
    /// Edits whose request may have been carried out.
    pub sending: u64,
    /// Edits that met another's change of the same field.
    pub conflict: u64,
    /// Edits that were refused, and not tried again since.
    pub rejected: u64,
    /// When the oldest edit that is not at its end was made, UTC.
    #[serde(serialize_with = "crate::model::instant::utc")]
    pub oldest: Option<Instant>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the serializer's form")]
fn word<S: serde::Serializer>(state: &EditState, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(state.as_str())
}

/// A step of an edit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TrailLine {
    /// When, UTC.
    pub at: String,
    /// The state before; `None` where the edit was made.
    pub from: Option<String>,
    /// The state after.
    pub to: String,
    /// Why.
    pub why: String,
}

const SELECT: &str = "SELECT o.id, o.object_type, o.record_id, coalesce(c.name, k.name), o.state, o.source, o.fields,
        o.theirs, o.attempts, o.status, o.answer, o.merged_into, o.queued_at, o.last_sent_at, o.finished_at, w.not_before,
        o.undoes
    FROM outbox AS o
    LEFT JOIN outbox_delays AS w ON o.state IN ('queued', 'sending') AND w.scope = 'record'
      AND w.object_type = o.object_type AND w.record_id = o.record_id
    LEFT JOIN contacts AS c ON o.object_type = 'contact' AND c.id = o.record_id
    LEFT JOIN companies AS k ON o.object_type = 'company' AND k.id = o.record_id";

/// The edits in order: those that are open, or all of them. A row that is no edit at all is left out.
///
/// # Errors
/// If SQLite refuses.
pub fn edits(tx: &ReadTx<'_>, all: bool) -> Result<Vec<EditLine>, StoreError> {
    let open = if all { "" } else { " WHERE o.state IN ('queued', 'held', 'sending', 'conflict')" };
    let mut stmt = tx.conn.prepare(&format!("{SELECT}{open} ORDER BY o.id")).doing(DOING)?;
    stmt.query_map([], line).and_then(Iterator::collect).doing(DOING)
}

/// One edit, with its trail.
///
/// # Errors
/// As [`edits`].
pub fn edit(tx: &ReadTx<'_>, id: i64) -> Result<Option<(EditLine, Vec<TrailLine>)>, StoreError> {
    let edit = tx.conn.query_row(&format!("{SELECT} WHERE o.id = ?1"), [id], line).optional().doing(DOING)?;
    let Some(edit) = edit else { return Ok(None) };
    let mut stmt = tx
        .conn
        .prepare("SELECT at, from_state, to_state, why FROM outbox_events WHERE outbox_id = ?1 ORDER BY id")
        .doing(DOING)?;
    let trail = stmt.query_map(params![id], |row| {
        Ok(TrailLine { at: row.get(0)?, from: row.get(1)?, to: row.get(2)?, why: row.get(3)? })
    });
    Ok(Some((edit, trail.and_then(Iterator::collect).doing(DOING)?)))
}

/// Edits by state.
///
/// # Errors
/// If SQLite refuses.
pub fn counts(tx: &ReadTx<'_>) -> Result<EditCounts, StoreError> {
    let mut counts = EditCounts { rejected: rejected(tx)?, ..EditCounts::default() };
    let mut stmt = tx
        .conn
        .prepare_cached(
            "SELECT state, count(*), min(queued_at) FROM outbox
             WHERE state IN ('queued', 'held', 'sending', 'conflict') GROUP BY state",
        )
        .doing(DOING)?;
    let rows = stmt.query_map([], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?.unsigned_abs(), row.get::<_, String>(2)?))
    });
    for row in rows.doing(DOING)? {
        let (state, count, oldest) = row.doing(DOING)?;
        match state.parse() {
            Ok(EditState::Queued) => counts.queued = count,
            Ok(EditState::Held) => counts.held = count,
            Ok(EditState::Sending) => counts.sending = count,
            _ => counts.conflict = count,
        }
        let oldest: Option<Instant> = oldest.parse().ok();
        counts.oldest = counts.oldest.into_iter().chain(oldest).min();
    }
    Ok(counts)
}

impl ReadTx<'_> {
    /// Edits by state.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn edit_counts(&self) -> Result<EditCounts, StoreError> {
        counts(self)
    }
}

/// Edits that were applied at an instant or later, and are not taken back by another one.
///
/// # Errors
/// If SQLite refuses.
pub fn applied_since(tx: &ReadTx<'_>, since: Instant) -> Result<Vec<i64>, StoreError> {
    tx.conn
        .prepare_cached(
            "SELECT o.id FROM outbox AS o WHERE o.state = 'applied' AND o.finished_at >= ?1 AND o.undoes IS NULL
           AND NOT EXISTS (SELECT 1 FROM outbox AS u WHERE u.undoes = o.id AND u.state NOT IN ('rejected', 'dropped'))
         ORDER BY o.id",
        )
        .and_then(|mut stmt| stmt.query_map([since.to_string()], |row| row.get(0))?.collect())
        .doing(DOING)
}

/// How many edits were refused, by the service or here, and were not tried again since.
///
/// # Errors
/// If SQLite refuses.
pub fn rejected(tx: &ReadTx<'_>) -> Result<u64, StoreError> {
    let count: i64 = tx
        .conn
        .query_row(
            "SELECT count(*) FROM outbox AS o WHERE o.state = 'rejected' AND NOT EXISTS (
                SELECT 1 FROM outbox_events AS e WHERE e.why = 'edit ' || o.id || ' tried again by hand')",
            [],
            |row| row.get(0),
        )
        .doing(DOING)?;
    Ok(count.unsigned_abs())
}

fn line(row: &Row<'_>) -> rusqlite::Result<EditLine> {
    let (object, state, fields) = (edits::text(row, 1)?, edits::text(row, 4)?, edits::text(row, 6)?);
    let (theirs, answer): (Option<String>, Option<String>) = (row.get(7)?, row.get(10)?);
    let (fields, unreadable) = match serde_json::from_str(&fields) {
        Ok(fields) => (fields, None),
        Err(error) => (EditedFields::new(), Some(format!("its fields cannot be understood: {error}"))),
    };
    let odd = |place, what: String| {
        rusqlite::Error::FromSqlConversionFailure(place, rusqlite::types::Type::Text, what.into())
    };
    Ok(EditLine {
        id: row.get(0)?,
        object: object.parse().map_err(|_| odd(1, format!("no object: {object}")))?,
        record: edits::text(row, 2)?,
        name: row.get(3)?,
        state: state.parse().map_err(|_| odd(4, format!("no state: {state}")))?,
        source: row.get(5)?,
        fields,
        theirs: theirs.and_then(|text| serde_json::from_str(&text).ok()),
        attempts: row.get::<_, i64>(8)?.unsigned_abs(),
        status: row.get(9)?,
        answer: answer.and_then(|text| RawValue::from_string(text).ok()),
        merged_into: row.get(11)?,
        queued_at: row.get(12)?,
        last_sent_at: row.get(13)?,
        finished_at: row.get(14)?,
        not_before: row.get(15)?,
        undoes: row.get(16)?,
        unreadable,
    })
}
