//! The changes of definitions and options when they are read: for display, and the columns that need values.

use std::collections::BTreeMap;

use crate::model::ids::{FieldKey, RecordId};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct DefinitionChanges {
    pub added: u64,
    /// Fields that were archived or are no longer on any list.
    pub archived: u64,
    pub restored: u64,
    /// Fields with other changes.
    pub changed: u64,
    /// Options that were added, removed or relabelled.
    pub options: u64,
}

impl DefinitionChanges {
    pub fn add(&mut self, other: DefinitionChanges) {
        self.added += other.added;
        self.archived += other.archived;
        self.restored += other.restored;
        self.changed += other.changed;
        self.options += other.options;
    }

    /// Separates archived and restored fields from other changes, by the fields that were active before and are active
    /// now.
    pub(super) fn count_states(&mut self, before: &BTreeMap<RecordId, bool>, now: &BTreeMap<RecordId, bool>) {
        for (id, is_active) in now {
            match (before.get(id), is_active) {
                (Some(true), false) => self.archived += 1,
                (Some(false), true) => self.restored += 1,
                _ => {}
            }
        }
        self.changed = self.changed.saturating_sub(self.archived + self.restored);
    }
}

/// A field whose column needs values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldToBackFill {
    pub definition: RecordId,
    /// Whether the column is new and empty; otherwise it was restored from the archive with its last values.
    pub is_new: bool,
}

/// The result of applying the definitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redefined {
    pub changes: DefinitionChanges,
    /// Fields whose column is new, emptied or restored, and therefore needs its values.
    pub to_fill: Vec<FieldToBackFill>,
    /// Active fields without a column, because there is no room or their type is unknown.
    pub without_column: Vec<FieldKey>,
}
