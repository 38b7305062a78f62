//! The progress of a long work on an object, as its checkpoints show it to every process.

use serde::Serialize;

use super::walks::sweep::Sweep;
use crate::model::Object;
use crate::store::{ReadTx, StoreError, report};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, strum::Display)]
#[serde(rename_all = "kebab-case")]
pub enum LongWork {
    #[strum(serialize = "first copy")]
    FirstCopy,
    /// Reading a list again.
    #[strum(serialize = "sweep")]
    Sweep,
    #[strum(serialize = "details")]
    Details,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ObjectProgress {
    pub work: LongWork,
    /// Rows or details that are here.
    pub rows: u64,
    pub total: Option<u64>,
}

/// What is being read of an object: its list, or else details. A sweep that was read waits for a decision.
pub fn of_object(tx: &ReadTx<'_>, object: Object) -> Result<Option<ObjectProgress>, StoreError> {
    if let Some(sweep) = Sweep::load(tx, object)?.filter(|sweep| !sweep.is_read()) {
        let rows = sweep.rows();
        let (work, total) = match tx.is_copied(object)? {
            true => (LongWork::Sweep, Some(tx.count_rows(object)?)),
            false => (LongWork::FirstCopy, sweep.total()),
        };
        return Ok(Some(ObjectProgress { work, rows, total: total.map(|total| total.max(rows)) }));
    }
    let held = report::holds(tx, object)?;
    let (rows, left) = (held.details_current, held.details_left());
    Ok((left > 0).then_some(ObjectProgress { work: LongWork::Details, rows, total: Some(rows + left) }))
}
