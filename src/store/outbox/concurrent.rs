//! Writes to the outbox concurrently with the writer, from a process that does not hold the mirror's lock.
//!
//! A person who edits must not wait for a run to end. Only the outbox is written this way; records, checkpoints and the
//! ledger are written only by the writer.

use std::path::Path;

use rusqlite::TransactionBehavior;

use crate::model::request_order::RequestRegister;
use crate::store::custom::table_shapes_of_file;
use crate::store::error::{Doing, StoreError};
use crate::store::file::open;
use crate::store::tx::MirrorTx;
use crate::store::tx::RowOrder;

/// Executes `work` in one durable transaction: it is committed if `work` succeeds, and rolled back if it fails. It
/// waits for the mirror's writer as long as storing a page takes.
pub fn write_beside<T, E: From<StoreError>>(
    path: &Path,
    work: impl FnOnce(&MirrorTx<'_>) -> Result<T, E>,
) -> Result<T, E> {
    let mut conn = open::editor(path)?;
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate).doing("begin a transaction")?;
    let shapes = table_shapes_of_file::shapes(&tx)?;
    // No answer is written here, so the order of requests does not matter.
    let rows = RowOrder::new(RequestRegister::default());
    let mut tx = MirrorTx::new(tx, shapes, &rows);
    let out = work(&mut tx)?;
    tx.commit()?;
    Ok(out)
}
