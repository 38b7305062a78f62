//! The `changes` feed, for readers that store a cursor.
//!
//! # Invariants
//! - There is one writer, `seq` increases with every change, and a change is visible only once its transaction is
//!   committed: a reader at `seq` N has seen everything up to N and misses nothing after it.
//! - Only retention removes entries at the beginning, so a gap is detected by its number. Of a record that is erased the
//!   oldest entry of all stays, empty, and an empty one at the end removes it.

use serde::Deserialize;

use crate::model::Object;
use crate::store::{ReadTx, Result, StateKey, Statements};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeedSpan {
    /// The number of the newest change, pruned ones included; 0 before the first.
    pub newest: i64,
    /// The numbers up to this one were pruned; 0 if none was.
    pub forgotten: i64,
}

pub fn span(tx: &ReadTx<'_>) -> Result<FeedSpan> {
    let newest = tx.value("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'changes'", [])?;
    let oldest: Option<i64> = tx.value("SELECT min(seq) FROM changes", [])?;
    Ok(FeedSpan { newest, forgotten: oldest.map_or(newest, |oldest| oldest - 1) })
}

/// The id of the mirror, which cursors begin with; empty if no current version has opened the file for writing.
pub fn mirror_id(tx: &ReadTx<'_>) -> Result<String> {
    Ok(tx.state(&StateKey::MirrorId)?.unwrap_or_default())
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ColumnEvent {
    pub object: Object,
    pub column: String,
    /// `added`, `archived`, `restored`, `retyped` or `removed`.
    pub op: String,
    /// The type of the values before.
    pub from: Option<String>,
}

/// The changes of the columns of both objects after a position.
pub fn column_events(tx: &ReadTx<'_>, since: i64) -> Result<Vec<ColumnEvent>> {
    let sql = "SELECT object_type AS object, json_extract(fields, '$.column') AS \"column\", json_extract(fields, '$.op') AS op,
                 json_extract(fields, '$.from') AS \"from\"
               FROM changes WHERE object_type IN ('contact', 'company') AND record_id = '' AND seq > ?1 AND kind = 'schema' ORDER BY seq";
    tx.parsed(sql, [since])
}
