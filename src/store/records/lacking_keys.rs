//! Active custom keys that a detail lacked. A detail lists every active key, with null for a missing value (reference,
//! *Custom values*, rules 3 and 4), so a field whose key is not there was archived when the detail was read, and the
//! mirror did not know. If it is active again when the definitions are read, nothing else shows that it ever was
//! archived, and the record may have changed its value before: its detail is read once more.
//!
//! A service whose details omit nulls, or a key that may not see a field, costs a bounded number of requests.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::model::catalogue::Object;
use crate::model::custom::CustomField;
use crate::model::field_value::FieldValue;
use crate::model::ids::RecordId;
use crate::model::record::Record;
use crate::store::custom::changes::FieldToBackFill;
use crate::store::error::StoreError;
use crate::store::state_keys::StateKey;
use crate::store::tx::KnowledgeTx;

/// The maximum number of records that are noted at once, for all fields together. If there were more, the columns that
/// they lacked are filled again.
const MAX_RECORDS: usize = 200;

/// A key that details still lack after so many readings of the definitions says nothing.
const MAX_READINGS: u8 = 3;

/// After so many more readings it is noted again, about a week later: the service may have changed.
const READINGS_WITHOUT: u8 = 30;

/// The fields whose keys were missing, by their definitions; `None` after an unparseable entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
struct LackingKeys(Option<BTreeMap<RecordId, LackedBy>>);

/// The details that lacked one key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct LackedBy {
    /// The records since the last reading of the definitions.
    records: BTreeSet<RecordId>,
    /// Whether there ever were more.
    more: bool,
    /// Whether any detail lacked the key since the last reading of the definitions.
    lacked: bool,
    /// How many readings of the definitions in a row found records here; once these are too many, how many there were.
    readings: u8,
}

/// What must be read again when the definitions show that the fields are active.
#[derive(Debug, Default)]
pub struct LackedValues {
    /// Records whose details lacked a key.
    pub records: Vec<RecordId>,
    /// Fields of which more records may lack values.
    pub fields: Vec<FieldToBackFill>,
}

impl KnowledgeTx<'_> {
    /// Notes the active keys that a detail lacked, of long texts only if the `whole` detail is stored.
    pub(in crate::store) fn mark_lacking(
        &self,
        object: Object,
        record: &Record,
        whole: bool,
    ) -> Result<(), StoreError> {
        let is_lacking = |(slot, field): &(usize, &CustomField)| {
            (whole || !field.data_type.detail_only())
                && matches!(record.custom.get(*slot), None | Some(FieldValue::Absent))
        };
        let layout = self.tx.layout().clone();
        let lacking: Vec<&CustomField> =
            layout.of(object).fields().iter().enumerate().filter(is_lacking).map(|(_, field)| field).collect();
        if lacking.is_empty() {
            return Ok(());
        }
        let entry = StateKey::LackingKeys(object);
        let known: Option<LackingKeys> = self.tx.state(&entry)?;
        let mut fields = match known {
            Some(LackingKeys(Some(fields))) => fields,
            // Every column is filled again.
            Some(LackingKeys(None)) => return Ok(()),
            None if self.tx.is_unparseable(&entry) => return Ok(()),
            None => BTreeMap::new(),
        };
        let before = fields.clone();
        let noted: BTreeSet<&RecordId> = fields.values().flat_map(|by| &by.records).collect();
        let has_room = noted.len() < MAX_RECORDS || noted.contains(&record.id);
        for field in lacking {
            let by = fields.entry(field.definition.clone()).or_default();
            if by.readings >= MAX_READINGS {
                continue;
            }
            by.lacked = true;
            if has_room {
                by.records.insert(record.id.clone());
            } else {
                by.more = true;
            }
        }
        if fields == before { Ok(()) } else { self.tx.set_state(&entry, &LackingKeys(Some(fields))) }
    }

    /// What must be read again, now that the definitions were read and their columns updated.
    ///
    /// A column is filled only after the details that were read again had its key: a service that omits it would be
    /// asked for the same values again and again.
    pub fn take_lacking(&self, object: Object) -> Result<LackedValues, StoreError> {
        let entry = StateKey::LackingKeys(object);
        let mut out = LackedValues::default();
        let known: Option<LackingKeys> = self.tx.state(&entry)?;
        let layout = self.tx.layout().clone();
        let of_lists = |field: &&CustomField| !field.data_type.detail_only();
        let refilled = |definition: &RecordId| FieldToBackFill { definition: definition.clone(), is_new: false };
        let Some(LackingKeys(Some(mut fields))) = known else {
            if known.is_some() || self.tx.is_unparseable(&entry) {
                let fields = layout.of(object).fields().iter().filter(of_lists);
                out.fields = fields.map(|field| refilled(&field.definition)).collect();
                self.tx.clear_state(&entry)?;
            }
            return Ok(out);
        };
        // The column of a field that is not active any more is filled when it is restored.
        fields.retain(|id, _| layout.of(object).fields().iter().any(|field| field.definition == *id));
        fields.retain(|id, by| {
            if by.readings < MAX_READINGS && !by.lacked && by.records.is_empty() {
                out.fields.extend(by.more.then(|| refilled(id)));
                return false;
            }
            by.readings = by.readings.saturating_add(1);
            by.lacked = false;
            out.records.extend(std::mem::take(&mut by.records));
            by.readings < MAX_READINGS + READINGS_WITHOUT
        });
        out.records.sort();
        out.records.dedup();
        if fields.is_empty() {
            self.tx.clear_state(&entry)?;
        } else {
            self.tx.set_state(&entry, &LackingKeys(Some(fields)))?;
        }
        Ok(out)
    }
}
