//! Values that lists omit: a changed record whose row in a list lacks a key with a stored value is read by id for 1 RU.
//! Omitted does not mean null, and nothing else would show that the value was cleared. With details on, the detail is
//! read anyway. With details off, only the parts that lists return are stored.
//!
//! The records are noted in the transaction of the page and read after it, so that a kill in between loses none. If the
//! note cannot be parsed, every custom column is filled again, which finds the cleared values, too.

use std::collections::{BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use crate::api::ErrorClass;
use crate::error_chain::error_chain;
use crate::model::{CustomField, FieldValue, Object, Purpose, Record, RecordId};
use crate::store::{BackFilledFields, FieldToBackFill, MirrorTx, StateKey, StoreError};
use crate::sync::doors::BackFills;
use crate::sync::error::SyncError;

/// The parts of a detail that are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DetailPart {
    /// All of it.
    Whole,
    /// The parts that lists return, too.
    List,
}

/// The records of an object to be read; `None` after an unparseable note, which named records that nothing else names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
struct OmittedValues(Option<BTreeSet<RecordId>>);

/// Takes over the records noted by the transaction. Returns whether there are any to read by id.
///
/// Where details are read, the detail of a changed record is due anyway, with one exception: the etag is that of the
/// detail again. Meanwhile the row had another version, which may have written the value that is omitted now, so the
/// detail is read once more.
pub(in crate::sync) fn note(tx: &MirrorTx<'_>, object: Object, details: bool) -> Result<bool, StoreError> {
    let noted = tx.knowledge().take_omitted(object);
    if details {
        let ids: Vec<RecordId> =
            noted.into_iter().filter(|(_, has_other_etag)| *has_other_etag).map(|(id, _)| id).collect();
        tx.knowledge().make_current_details_due(object, &ids)?;
        return Ok(false);
    }
    if noted.is_empty() {
        return Ok(false);
    }
    add(tx, object, noted.into_iter().map(|(id, _)| id))?;
    Ok(true)
}

/// The noted records. If it is not known any more which they were, notes that the columns are to be filled again.
fn noted_or_refilled(tx: &MirrorTx<'_>, object: Object) -> Result<BTreeSet<RecordId>, StoreError> {
    let entry = StateKey::OmittedValues(object);
    let noted: Option<OmittedValues> = tx.state(&entry)?;
    let is_lost = match &noted {
        Some(OmittedValues(ids)) => ids.is_none(),
        None => tx.is_unparseable(&entry),
    };
    if is_lost {
        let layout = tx.layout().clone();
        let refilled = |field: &CustomField| FieldToBackFill { definition: field.definition.clone(), is_new: false };
        let of_lists = layout.of(object).fields().iter().filter(|field| !field.data_type.detail_only());
        let fields: Vec<FieldToBackFill> = of_lists.map(refilled).collect();
        BackFilledFields::want(tx, object, &fields)?;
        // A back-fill under way has read records before.
        tx.clear_state(&StateKey::FillWalk(object))?;
        tx.custom().clear_filled(object)?;
        tx.clear_state(&entry)?;
    }
    Ok(noted.and_then(|noted| noted.0).unwrap_or_default())
}

/// Stores which records are noted.
fn store(tx: &MirrorTx<'_>, object: Object, ids: BTreeSet<RecordId>) -> Result<(), StoreError> {
    let entry = StateKey::OmittedValues(object);
    if ids.is_empty() { tx.clear_state(&entry) } else { tx.set_state(&entry, &OmittedValues(Some(ids))) }
}

/// Notes records to be read.
fn add(tx: &MirrorTx<'_>, object: Object, ids: impl IntoIterator<Item = RecordId>) -> Result<(), StoreError> {
    let mut noted = noted_or_refilled(tx, object)?;
    noted.extend(ids);
    store(tx, object, noted)
}

/// Notes the records of a page of a sweep that have a value in a restored column and that lack its key on the page: it
/// may have been cleared while the field was archived, which changed nothing that a list shows. Those that the page has in
/// an `older` version than the row may lack it as well.
pub(super) fn mark_restored(
    tx: &MirrorTx<'_>,
    object: Object,
    (records, older): (&[Record], &BTreeSet<RecordId>),
    details: bool,
) -> Result<(), StoreError> {
    let layout = tx.layout().clone();
    for (slot, field) in BackFilledFields::restored(tx, &layout, object)? {
        let lacks_it = |record: &&Record| {
            older.contains(&record.id) || matches!(record.custom.get(slot), None | Some(FieldValue::Absent))
        };
        let ids: Vec<RecordId> = records.iter().filter(lacks_it).map(|record| record.id.clone()).collect();
        mark_unshown(tx, object, tx.with_value(object, &field, &ids)?, details)?;
    }
    Ok(())
}

/// Notes records with a value that no list shows any more: their details say whether it was cleared.
pub(super) fn mark_unshown(
    tx: &MirrorTx<'_>,
    object: Object,
    ids: Vec<RecordId>,
    details: bool,
) -> Result<(), StoreError> {
    if details { tx.knowledge().make_details_due(object, Some(&ids)) } else { add(tx, object, ids) }
}

/// Notes that a record was read, in the transaction that stores it.
pub(super) fn was_read(tx: &MirrorTx<'_>, object: Object, id: &RecordId) -> Result<(), StoreError> {
    let mut noted = noted_or_refilled(tx, object)?;
    if noted.remove(id) { store(tx, object, noted) } else { Ok(()) }
}

impl BackFills<'_> {
    /// How many records are to be read for which a list omitted a value.
    pub(in crate::sync) async fn unread(&self, object: Object) -> Result<u64, SyncError> {
        let entry = StateKey::OmittedValues(object);
        let noted: Option<OmittedValues> = self.run.engine.store.read(move |tx| tx.state(&entry)).await?;
        Ok(noted.and_then(|noted| noted.0).map_or(0, |ids| ids.len() as u64))
    }

    /// Reads the records for which a list omitted a value.
    pub(in crate::sync) async fn read_omitted(&self, object: Object) -> Result<(), SyncError> {
        let entry = StateKey::OmittedValues(object);
        let is_noted = self.run.engine.store.read(move |tx| {
            let noted: Option<OmittedValues> = tx.state(&entry)?;
            Ok(noted.is_some() || tx.is_unparseable(&entry))
        });
        if !is_noted.await? {
            return Ok(());
        }
        let there = self.run.engine.store.write(move |tx| {
            let noted: Vec<RecordId> = noted_or_refilled(tx, object)?.into_iter().collect();
            // Records whose details are read anyway, or that were removed meanwhile, are skipped.
            let versions = tx.versions(object, &noted)?;
            let there: BTreeSet<RecordId> = noted.into_iter().filter(|id| versions.contains_key(id)).collect();
            store(tx, object, there.clone())?;
            Ok(there)
        });
        let there = there.await?;
        let (failures, waiting) = self.run.details().detail_failures(object).await?;
        let ids: VecDeque<RecordId> = there.into_iter().filter(|id| !waiting.contains(id)).collect();
        if !ids.is_empty() {
            match self
                .run
                .details()
                .read_batch(object, ids, (Purpose::Changes, DetailPart::List), &failures, &mut 0)
                .await
            {
                // The lists of the object may be answered although its details are not: the rest stays noted.
                Err(error) if error.class() == Some(ErrorClass::Retry) => {
                    tracing::info!(%object, "Some values of {object} records stay as they were: {}", error_chain(&error));
                }
                read => drop(read?),
            }
        }
        Ok(())
    }
}
