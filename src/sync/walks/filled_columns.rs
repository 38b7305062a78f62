//! The custom columns that are completely filled.
//!
//! The entry lists complete columns rather than missing ones: if it is lost, every column is filled again, which costs
//! requests but no data.

use std::collections::BTreeSet;

use crate::model::{CustomField, Layout, Object, RecordId};
use crate::store::{BackFilledFields, FieldToBackFill, MirrorTx, ReadTx, StateKey, StoreError};
use crate::sync::checkpoints::Sweep;

impl BackFilledFields {
    fn load(tx: &ReadTx<'_>, object: Object) -> Result<BackFilledFields, StoreError> {
        Ok(tx.state(&StateKey::BackFilledFields(object))?.unwrap_or_default())
    }

    fn store(&self, tx: &MirrorTx<'_>, object: Object) -> Result<(), StoreError> {
        tx.set_state(&StateKey::BackFilledFields(object), self)
    }

    /// The fields whose columns are not complete.
    pub(in crate::sync) fn missing(
        tx: &ReadTx<'_>,
        layout: &Layout,
        object: Object,
    ) -> Result<Vec<CustomField>, StoreError> {
        let fields = layout.of(object).fields();
        if fields.is_empty() {
            return Ok(Vec::new());
        }
        let known = BackFilledFields::load(tx, object)?;
        Ok(fields.iter().filter(|field| !known.filled.contains(&field.definition)).cloned().collect())
    }

    /// The slots and fields whose columns have values of an earlier time and are not complete, as far as lists contain
    /// them.
    pub(in crate::sync) fn restored(
        tx: &ReadTx<'_>,
        layout: &Layout,
        object: Object,
    ) -> Result<Vec<(usize, CustomField)>, StoreError> {
        let known = BackFilledFields::load(tx, object)?;
        let is_restored = |field: &CustomField| {
            let is_complete = known.filled.contains(&field.definition);
            !is_complete && !known.made.contains(&field.definition) && !field.data_type.detail_only()
        };
        let fields = layout.of(object).fields().iter().enumerate();
        Ok(fields.filter(|(_, field)| is_restored(field)).map(|(slot, field)| (slot, field.clone())).collect())
    }

    /// Whether a column was made empty and has been filled from answers alone since.
    pub(in crate::sync) fn was_made(tx: &ReadTx<'_>, object: Object, field: &RecordId) -> Result<bool, StoreError> {
        Ok(BackFilledFields::load(tx, object)?.made.contains(field))
    }

    /// Notes what a reading of the definitions left to fill. A table without rows has nothing that could be missing: its
    /// first copy brings the values with it.
    pub(in crate::sync) fn want(
        tx: &MirrorTx<'_>,
        object: Object,
        fields: &[FieldToBackFill],
    ) -> Result<(), StoreError> {
        if tx.is_empty(object)? {
            return BackFilledFields::mark_first_copy(tx, object);
        }
        if fields.is_empty() {
            return Ok(());
        }
        let mut known = BackFilledFields::load(tx, object)?;
        for field in fields {
            known.filled.remove(&field.definition);
            if field.is_new {
                known.made.insert(field.definition.clone());
            } else {
                known.made.remove(&field.definition);
            }
        }
        if let Some(mut sweep) = Sweep::load(tx, object)? {
            // It has pages behind it that were read without them.
            sweep.fills.retain(|id| !fields.iter().any(|field| field.definition == *id));
            sweep.store(tx, object)?;
        }
        known.store(tx, object)
    }

    /// Notes that a first copy begins: it brings the values of every column that there is.
    pub(in crate::sync) fn mark_first_copy(tx: &MirrorTx<'_>, object: Object) -> Result<(), StoreError> {
        let layout = tx.layout();
        let filled: BTreeSet<RecordId> =
            layout.of(object).fields().iter().map(|field| field.definition.clone()).collect();
        BackFilledFields { filled, ..BackFilledFields::default() }.store(tx, object)
    }

    /// Notes that a sweep has ended, which completes these columns and those of all standard fields.
    pub(in crate::sync) fn mark_swept(
        tx: &MirrorTx<'_>,
        object: Object,
        fields: &BTreeSet<RecordId>,
    ) -> Result<(), StoreError> {
        let known = BackFilledFields::load(tx, object)?;
        if known.standard_unread {
            BackFilledFields { standard_unread: false, ..known }.store(tx, object)?;
        }
        BackFilledFields::mark_filled(tx, object, fields)
    }

    /// Notes that columns are complete.
    pub(in crate::sync) fn mark_filled<'f>(
        tx: &MirrorTx<'_>,
        object: Object,
        fields: impl IntoIterator<Item = &'f RecordId>,
    ) -> Result<(), StoreError> {
        let mut known = BackFilledFields::load(tx, object)?;
        for field in fields {
            known.made.remove(field);
            known.filled.insert(field.clone());
        }
        known.store(tx, object)
    }
}
