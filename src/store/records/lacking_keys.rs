//! What an answer should have shown and did not.
//!
//! A field that is missing from an answer is not a field without a value: what the service has in its column is unknown
//! from then on, until an answer shows it. Lists omit custom values, and what only details have; nothing else may be
//! missing from any answer, as far as it can be edited.
//!
//! # Active custom keys that a detail lacked
//! A detail lists every active key, with null for a missing value (reference,
//! *Custom values*, rules 3 and 4), so a field whose key is not there was archived when the detail was read, and the
//! mirror did not know. If it is active again when the definitions are read, nothing else shows that it ever was
//! archived, and the record may have changed its value before: its detail is read once more.
//!
//! A service whose details omit nulls, or a key that may not see a field, costs a bounded number of requests.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};

use crate::model::catalogue::{FieldProjection, Object};
use crate::model::custom::CustomField;
use crate::model::field_value::{FieldValue, SqlValue};
use crate::model::ids::RecordId;
use crate::model::record::Record;
use crate::store::custom::changes::FieldToBackFill;
use crate::store::error::{Doing, StoreError};
use crate::store::state_keys::StateKey;
use crate::store::tx::KnowledgeTx;

/// The maximum number of records that are noted at once, for all fields together. If there were more, the columns that
/// they lacked are filled again.
const MAX_RECORDS: usize = 200;

/// A key that details still lack after so many readings of the definitions says nothing.
const MAX_READINGS: u8 = 3;

/// After so many more readings it is noted again, about a week later: the service may have changed.
const READINGS_WITHOUT: u8 = 30;

const DOING: &str = "read or write what answers did not show";

/// Which part of a record an answer should show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Shows {
    /// The fields of a list, of which custom values may be missing.
    List,
    /// The fields of a list, from a detail.
    ListOfDetail,
    /// All of it.
    Detail,
    /// Only what it shows: the answer to an update.
    Nothing,
}

/// The columns of a record that the last answer should have shown and did not.
pub(in crate::store) fn unshown_columns(
    conn: &Connection,
    object: Object,
    id: &RecordId,
) -> Result<BTreeSet<String>, StoreError> {
    let found: Option<String> = conn
        .prepare_cached("SELECT columns FROM unshown_columns WHERE object_type = ?1 AND record_id = ?2")
        .and_then(|mut stmt| stmt.query_row([object.as_str(), id.as_str()], |row| row.get(0)).optional())
        .doing(DOING)?;
    Ok(found.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
}

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
    /// Notes which columns that can be edited an answer shows, and which it should have shown.
    pub(in crate::store) fn mark_unshown(
        &self,
        object: Object,
        record: &Record,
        shows: Shows,
    ) -> Result<(), StoreError> {
        let layout = self.tx.layout();
        let standard = object.fields().iter().zip(&record.fields).filter(|(field, _)| field.writable);
        let standard = standard.filter(|(field, _)| !layout.exclusions.takes_column(object, field.column));
        let standard = standard.map(|(field, value)| {
            let is_due = match shows {
                Shows::List | Shows::ListOfDetail => field.projection == FieldProjection::List,
                Shows::Detail => true,
                Shows::Nothing => false,
            };
            (field.column, value, is_due)
        });
        let custom = layout.of(object).fields().iter().zip(&record.custom).map(|(field, value)| {
            let is_due = match shows {
                Shows::ListOfDetail => !field.data_type.detail_only(),
                Shows::Detail => true,
                Shows::List | Shows::Nothing => false,
            };
            (field.column.as_str(), value, is_due || *value == FieldValue::Withheld)
        });
        let is_unshown = |value: &FieldValue<SqlValue>| matches!(value, FieldValue::Absent | FieldValue::Withheld);
        let columns = standard.chain(custom).map(|(column, value, is_due)| (column, !is_unshown(value), is_due));
        let has_unshown = &self.tx.pending.unshown;
        if has_unshown.get().is_none() {
            let sql = "SELECT EXISTS (SELECT 1 FROM unshown_columns)";
            has_unshown.set(Some(self.tx.conn.query_row(sql, [], |row| row.get(0)).doing(DOING)?));
        }
        if has_unshown.get() == Some(false) && columns.clone().all(|(_, is_shown, is_due)| is_shown || !is_due) {
            return Ok(());
        }
        let before = unshown_columns(&self.tx.conn, object, &record.id)?;
        let mut unshown = before.clone();
        for (column, is_shown, is_due) in columns {
            if is_shown {
                unshown.remove(column);
            } else if is_due {
                unshown.insert(column.to_string());
            }
        }
        if unshown == before {
            return Ok(());
        }
        has_unshown.set(Some(true));
        let (sql, columns) = match unshown.is_empty() {
            true => (
                "DELETE FROM unshown_columns WHERE object_type = ?1 AND record_id = ?2 AND ?3 IS NOT NULL",
                String::new(),
            ),
            false => {
                ("INSERT OR REPLACE INTO unshown_columns VALUES (?1, ?2, ?3)", serde_json::json!(unshown).to_string())
            }
        };
        self.tx
            .conn
            .prepare_cached(sql)
            .and_then(|mut stmt| stmt.execute(params![object.as_str(), record.id.as_str(), columns]))
            .doing(DOING)?;
        Ok(())
    }

    /// Notes the active keys that a detail lacked, of long texts only if the whole detail is stored.
    pub(in crate::store) fn mark_lacking(
        &self,
        object: Object,
        record: &Record,
        shows: Shows,
    ) -> Result<(), StoreError> {
        self.mark_unshown(object, record, shows)?;
        let whole = shows == Shows::Detail;
        let is_lacking = |(slot, field): &(usize, &CustomField)| {
            (whole || !field.data_type.detail_only())
                && matches!(record.custom.get(*slot), None | Some(FieldValue::Absent | FieldValue::Withheld))
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
