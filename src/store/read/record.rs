//! One record, now or at an earlier time, by the history of its columns.
//!
//! # Invariants
//! - What the history does not contain is an error, never a guess: a time before it begins, or one at which the record
//!   was not mirrored.

use rusqlite::params;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::model::{Instant, Object};
use crate::store::{ReadTx, Result, Statements, StoreError, history_view, json_at};

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
}

fn by_column<S: Serializer>(values: &[(String, Value)], serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_map(values.iter().map(|(column, value)| (column, value)))
}

pub fn record(tx: &ReadTx<'_>, object: Object, id: &str, at: Option<Instant>) -> Result<RecordView> {
    let view = tx.conn.prepare(&format!("SELECT * FROM {}", object.full_view()))?;
    let mut columns: Vec<String> = view.column_names().map(String::from).collect();
    let now = tx.objects(&format!("SELECT * FROM {} WHERE id = ?1", object.full_view()), [id])?.pop();
    let removed: Option<(String, String)> = tx.find_tuple(
        "SELECT removed_at, record FROM removed_records WHERE object_type = ?1 AND id = ?2",
        params![object, id],
    )?;
    if now.is_none() && removed.is_none() {
        let known = "SELECT EXISTS (SELECT 1 FROM changes WHERE object_type = ?1 AND record_id = ?2)";
        // Pruned, or never mirrored.
        if at.is_none() || !tx.value(known, params![object, id])? {
            return Err(StoreError::Refused(format!("there is no {object} {id}")));
        }
    }
    let state = match at {
        None => now.or_else(|| removed.as_ref().and_then(|(_, record)| serde_json::from_str(record).ok())),
        Some(at) if was_here(tx, object, id, now.is_some(), at)? => Some(values_at(tx, object, id, at)?),
        Some(_) => None,
    };
    let Some(mut state) = state else {
        let at = at.unwrap_or(Instant::EPOCH);
        return Err(StoreError::Refused(format!("{object} {id} was not in the mirror at {at}")));
    };
    if at.is_some() {
        // Fields that were archived since are in no view.
        let ended: Vec<String> = state.keys().filter(|column| !columns.contains(column)).cloned().collect();
        columns.extend(ended);
    }
    let values = columns.iter().filter_map(|column| Some((column.clone(), state.remove(column)?)));
    Ok(RecordView {
        object,
        id: id.into(),
        at: at.map(|at| at.to_string()),
        removed_at: removed.map(|(removed_at, _)| removed_at).filter(|_| at.is_none()),
        values: values.filter(|(_, value)| !value.is_null()).collect(),
    })
}

/// Whether a record was mirrored at a time; `is_here` says whether it is now.
fn was_here(tx: &ReadTx<'_>, object: Object, id: &str, is_here: bool, at: Instant) -> Result<bool> {
    if !tx.is_copied(object)? {
        return Ok(false);
    }
    if let Some(begins) = horizon(tx, object)?
        && begins.as_str() > at.to_string().as_str()
    {
        return Err(StoreError::Refused(format!("the history begins at {begins}, after {at}")));
    }
    // The clock may have been set back between two entries: the first one that is later decides. An empty removal, and an
    // empty entry at the beginning, say that the history was erased; another one has lost its only fields to an exclusion.
    let was_here: Option<bool> = tx.find_value(
        "SELECT kind <> 'insert' AND NOT (fields = '{}' AND (kind = 'remove' OR seq = (SELECT min(seq) FROM changes)))
         FROM changes WHERE object_type = ?1 AND record_id = ?2 AND seen_at > ?3 ORDER BY seq LIMIT 1",
        params![object, id, at],
    )?;
    Ok(was_here.unwrap_or(is_here))
}

fn values_at(tx: &ReadTx<'_>, object: Object, id: &str, at: Instant) -> Result<Map<String, Value>> {
    let sql = format!(
        "SELECT column_name, value FROM {} WHERE id = ?1 AND (valid_from IS NULL OR valid_from <= ?2)
             AND (valid_to IS NULL OR valid_to > ?2) ORDER BY valid_from DESC",
        history_view(object)
    );
    let mut values: Map<String, Value> = tx.rows(&sql, params![id, at], |row| Ok((row.get(0)?, json_at(row, 1)?)))?;
    values.insert("id".into(), id.into());
    if let Some(company) = values.get("company_id").and_then(Value::as_str) {
        let name = values_at(tx, Object::Company, company, at)?.remove("name");
        values.extend(name.map(|name| ("company_name".to_string(), name)));
    }
    Ok(values)
}

/// When the history of an object begins: at the last entry that was pruned, or the end of the first copy, which has no entries.
/// `None` before the first run.
pub fn horizon(tx: &ReadTx<'_>, object: Object) -> Result<Option<String>> {
    let copied = "(SELECT finished FROM goals WHERE object = ?1 AND kind = 'copied')";
    let first = "(SELECT started_at FROM sync_runs ORDER BY id LIMIT 1)";
    tx.value(&format!("SELECT coalesce({copied}, {first})"), [object])
}
