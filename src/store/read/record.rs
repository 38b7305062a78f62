//! One record, now or at an earlier time: its current values, with later changes undone.
//!
//! # Invariants
//! - What the history does not contain is an error, never a guess: a time before it begins, or one at which the record
//!   was not mirrored.

use std::collections::BTreeMap;

use rusqlite::params;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::model::{Instant, Object};
use crate::store::read::feed;
use crate::store::{POINTERS, ReadTx, Result, Statements, StoreError, history_view, json_at};

const CHANGES: u32 = 5;

#[derive(Clone, Debug, Serialize)]
pub struct RecordView {
    pub object: Object,
    pub id: String,
    /// The requested time, UTC; `None` for now.
    pub at: Option<String>,
    pub removed_at: Option<String>,
    /// Its values by column, in the order of the view, without NULLs.
    #[serde(serialize_with = "by_column")]
    pub values: Vec<(String, Value)>,
    pub pending_edits: Vec<PendingEditLine>,
    /// The last entries of its history up to that time, the newest first.
    pub changes: Vec<RecordChange>,
}

fn by_column<S: Serializer>(values: &[(String, Value)], serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_map(values.iter().map(|(column, value)| (column, value)))
}

#[derive(Clone, Debug, Serialize)]
pub struct PendingEditLine {
    pub edit: i64,
    pub column: String,
    pub after: Value,
    /// `queued`, `held`, `sending` or `conflict`.
    pub state: String,
}

#[derive(Clone, Debug, Serialize)]
pub struct RecordChange {
    pub seq: i64,
    pub seen_at: String,
    pub kind: String,
    /// Before and after, by column.
    pub fields: BTreeMap<String, (Value, Value)>,
}

#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("there is no {object} {id}")]
    Unknown { object: Object, id: String },
    #[error("{object} {id} was not in the mirror at {at}")]
    NotThen { object: Object, id: String, at: Instant },
    #[error("the history begins at {begins}, after {at}")]
    BeforeHistory { at: Instant, begins: String },
}

pub fn record(tx: &ReadTx<'_>, object: Object, id: &str, at: Option<Instant>) -> Result<RecordView, RecordError> {
    let mut columns = columns(tx, object)?;
    let now = tx.find_object(&format!("SELECT * FROM {} WHERE id = ?1", object.full_view()), [id])?;
    let removed: Option<(String, String)> = tx.find_tuple(
        "SELECT removed_at, record FROM removed_records WHERE object_type = ?1 AND id = ?2",
        params![object, id],
    )?;
    if now.is_none() && removed.is_none() {
        let known = changes(tx, object, id, None, 1)?;
        // Pruned, or never mirrored.
        if known.is_empty() || at.is_none() {
            return Err(RecordError::Unknown { object, id: id.into() });
        }
    }
    let state = match at {
        None => now.or_else(|| removed.as_ref().and_then(|(_, record)| serde_json::from_str(record).ok())),
        Some(at) => as_of(tx, object, id, now, at)?,
    };
    let Some(mut state) = state else {
        let at = at.unwrap_or(Instant::EPOCH);
        return Err(RecordError::NotThen { object, id: id.into(), at });
    };
    if let Some(at) = at {
        keep_history(tx, &mut state, at)?;
        for (column, value) in of_ended_fields(tx, object, id, at)? {
            if !columns.contains(&column) {
                columns.push(column.clone());
            }
            state.insert(column, value);
        }
    }
    let values = columns.iter().filter_map(|column| Some((column.clone(), state.remove(column)?)));
    Ok(RecordView {
        object,
        id: id.into(),
        at: at.map(|at| at.to_string()),
        removed_at: removed.map(|(removed_at, _)| removed_at).filter(|_| at.is_none()),
        values: values.filter(|(_, value)| !value.is_null()).collect(),
        pending_edits: if at.is_none() { pending(tx, object, id)? } else { Vec::new() },
        changes: changes(tx, object, id, at, CHANGES)?,
    })
}

fn columns(tx: &ReadTx<'_>, object: Object) -> Result<Vec<String>> {
    let stmt = tx.conn.prepare(&format!("SELECT * FROM {}", object.full_view()))?;
    Ok(stmt.column_names().map(String::from).collect())
}

/// Undoes the changes after a time, the newest first.
fn as_of(
    tx: &ReadTx<'_>,
    object: Object,
    id: &str,
    now: Option<Map<String, Value>>,
    at: Instant,
) -> Result<Option<Map<String, Value>>, RecordError> {
    if !tx.is_copied(object)? {
        return Ok(None);
    }
    if let Some(begins) = horizon(tx, object)?
        && begins.as_str() > at.to_string().as_str()
    {
        return Err(RecordError::BeforeHistory { at, begins });
    }
    let mut state = now;
    let (changes, at) = (changes(tx, object, id, None, u32::MAX)?, at.to_string());
    // The clock may have been set back between two of them.
    let undone = changes.iter().rposition(|change| change.seen_at > at).map_or(0, |first| first + 1);
    for change in changes.into_iter().take(undone) {
        let before = change.fields.into_iter().map(|(column, (before, _))| (column, before));
        match (change.kind.as_str(), &mut state) {
            ("insert", _) => state = None,
            // Its history was erased.
            ("remove", _) if before.len() == 0 => state = None,
            ("remove", _) => state = Some(before.chain([("id".to_string(), Value::from(id))]).collect()),
            (_, Some(state)) => state.extend(before),
            (_, None) => {}
        }
    }
    Ok(state)
}

/// The values at a time of the fields that were ever archived or got another type: the old value of a later change may
/// have ended with its field.
fn of_ended_fields(tx: &ReadTx<'_>, object: Object, id: &str, at: Instant) -> Result<Vec<(String, Value)>> {
    let sql = format!(
        "SELECT f.column_name, (SELECT h.value FROM {} AS h WHERE h.id = ?2 AND h.column_name = f.column_name
             AND (h.valid_from IS NULL OR h.valid_from <= ?3) AND (h.valid_to IS NULL OR h.valid_to > ?3))
         FROM (SELECT DISTINCT json_extract(fields, '$.column') AS column_name FROM changes
               WHERE object_type = ?1 AND record_id = '' AND kind = 'schema'
                 AND json_extract(fields, '$.op') IN ('archived', 'retyped', 'removed')) AS f ORDER BY 1",
        history_view(object)
    );
    tx.rows(&sql, params![object, id, at], |row| Ok((row.get(0)?, json_at(row, 1)?)))
}

/// When the history of an object begins: with the oldest entry if older ones were pruned, otherwise with the first run, and
/// never before the end of the first copy, which has no entries. `None` before the first run.
pub fn horizon(tx: &ReadTx<'_>, object: Object) -> Result<Option<String>> {
    let sql = if feed::span(tx)?.forgotten > 0 {
        "SELECT seen_at FROM changes ORDER BY seq LIMIT 1"
    } else {
        "SELECT started_at FROM sync_runs ORDER BY id LIMIT 1"
    };
    let begins: Option<String> = tx.find_value(sql, [])?;
    let copied = "SELECT finished FROM goals WHERE object = ?1 AND kind = 'copied'";
    let copied: Option<Option<String>> = tx.find_value(copied, [object])?;
    Ok(begins.max(copied.flatten()))
}

/// Removes what has no history: when a row was written, and the names of other rows. The company's name is that of its own
/// history.
fn keep_history(tx: &ReadTx<'_>, state: &mut Map<String, Value>, at: Instant) -> Result<()> {
    let names = POINTERS.iter().map(|pointer| pointer.name);
    for column in names.chain(["synced_at", "fetched_at", "details_current"]) {
        state.remove(column);
    }
    let Some(company) = state.get("company_id").and_then(Value::as_str) else { return Ok(()) };
    match record(tx, Object::Company, company, Some(at)) {
        Ok(company) => {
            let name = company.values.into_iter().find(|(column, _)| column == "name");
            state.extend(name.map(|(_, name)| ("company_name".to_string(), name)));
        }
        Err(RecordError::Store(error)) => return Err(error),
        // It was not mirrored then.
        Err(_) => {}
    }
    Ok(())
}

fn pending(tx: &ReadTx<'_>, object: Object, id: &str) -> Result<Vec<PendingEditLine>> {
    tx.rows(
        "SELECT edit_id, column_name, after, state FROM pending_edits
             WHERE object_type = ?1 AND record_id = ?2 ORDER BY edit_id, column_name",
        params![object, id],
        |row| {
            Ok(PendingEditLine { edit: row.get(0)?, column: row.get(1)?, after: json_at(row, 2)?, state: row.get(3)? })
        },
    )
}

fn changes(tx: &ReadTx<'_>, object: Object, id: &str, until: Option<Instant>, most: u32) -> Result<Vec<RecordChange>> {
    let until = until.map(|at| at.to_string());
    tx.rows(
        "SELECT seq, seen_at, kind, fields FROM changes
             WHERE object_type = ?1 AND record_id = ?2 AND (?3 IS NULL OR seen_at <= ?3) ORDER BY seq DESC LIMIT ?4",
        params![object, id, until, most],
        |row| {
            let (seq, seen_at, kind, fields): (_, _, _, String) = row.try_into()?;
            Ok(RecordChange { seq, seen_at, kind, fields: serde_json::from_str(&fields).unwrap_or_default() })
        },
    )
}
