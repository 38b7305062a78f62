//! Values that lists omit: a changed record whose row in a list lacks a key with a stored value is read by id for 1 RU.
//! Omitted does not mean null, and nothing else would show that the value was cleared. With details on, the detail is
//! read anyway. With details off, only the parts that lists return are stored.
//!
//! The records are noted in the transaction of the page and read after it, so that a kill in between loses none.

use std::collections::BTreeSet;

use crate::model::{FieldValue, Object, Record, RecordId};
use crate::store::{MirrorTx, StoreError};

/// Notes the records of a page of a sweep that have a value in a restored column and that lack its key on the page: it
/// may have been cleared while the field was archived, which changed nothing that a list shows. Those that the page has in
/// an `older` version than the row, and those that are missed, may lack it as well.
pub(super) fn mark_restored(
    tx: &MirrorTx<'_>,
    object: Object,
    (records, older): (&[Record], &BTreeSet<RecordId>),
    details: bool,
) -> Result<(), StoreError> {
    let layout = tx.layout().clone();
    for field in tx.goals().restored(&layout, object)? {
        let Some((slot, _)) = layout.of(object).by_key(field.key.as_str()) else { continue };
        let lacks_it = |record: &&Record| {
            older.contains(&record.id)
                || matches!(record.custom.get(slot), None | Some(FieldValue::Absent | FieldValue::Omitted))
        };
        let ids: Vec<RecordId> = records.iter().filter(lacks_it).map(|record| record.id.clone()).collect();
        mark_unshown(tx, object, &tx.with_value(object, &field, &ids)?, details)?;
    }
    Ok(())
}

/// Notes records with a value that no list shows any more: their details say whether it was cleared.
pub(super) fn mark_unshown(
    tx: &MirrorTx<'_>,
    object: Object,
    ids: &[RecordId],
    details: bool,
) -> Result<(), StoreError> {
    // Noted in both cases: details may be switched off while they wait.
    tx.unread().mark_unread(object, ids)?;
    if details { tx.knowledge().make_details_due(object, Some(ids)) } else { Ok(()) }
}
