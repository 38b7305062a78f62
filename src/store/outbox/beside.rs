//! Writing beside the writer: one transaction on the outbox by a process that does not hold the mirror.
//!
//! Whoever edits must not wait for a run to end. Only the outbox is written this way; records, checkpoints and the
//! ledger are the writer's alone.

use std::path::Path;
use std::sync::Arc;

use rusqlite::TransactionBehavior;

use crate::store::custom::columns;
use crate::store::error::{Doing, StoreError};
use crate::store::file::open;
use crate::store::shapes::Shapes;
use crate::store::tx::MirrorTx;

/// Carries out `work` in one transaction that outlives a power cut: committed if it succeeds, as if it never was if it
/// fails. Whoever writes the mirror is waited for as long as a page takes.
///
/// # Errors
/// What `work` gives; [`StoreError`] where there is no mirror, or no way to write it.
pub fn write_beside<T, E: From<StoreError>>(
    path: &Path,
    work: impl FnOnce(&mut MirrorTx<'_>) -> Result<T, E>,
) -> Result<T, E> {
    let mut conn = open::editor(path)?;
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate).doing("begin a transaction")?;
    let shapes = Shapes::new(Arc::new(columns::layout(&tx)?));
    let mut tx = MirrorTx::new(tx, shapes);
    let out = work(&mut tx)?;
    tx.commit()?;
    Ok(out)
}
