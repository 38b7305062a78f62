//! The configuration of columns, views, indexes and search. The file stores what it was built from, so that every process
//! builds the same.

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::store::{AppliedFiles, DerivedTx, Result, StateKey, read_state};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ViewOptions {
    pub keep_archived: bool,
    /// Columns to index, as `contacts.cf_tier`.
    pub indexes: Vec<String>,
    pub folder: Option<String>,
    /// The fields that are not mirrored, as `contacts.notes`.
    pub exclude: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(in crate::store) struct BuiltFrom {
    pub revision: String,
    /// How often the columns were laid out.
    pub layout: u64,
    /// How many views, triggers and indexes the program had made then.
    pub objects: usize,
    pub options: ViewOptions,
    pub files: AppliedFiles,
    /// The excluded fields whose former values are in no unused part of the file any more.
    pub erased: Vec<String>,
    /// How often values were erased from the history because their field was excluded.
    pub rewrites: u32,
}

impl BuiltFrom {
    pub(in crate::store) fn read(conn: &Connection) -> Result<BuiltFrom> {
        Ok(read_state(conn, &StateKey::BuiltFrom)?.unwrap_or_default())
    }
}

impl DerivedTx<'_> {
    pub(in crate::store) fn now_built_from(&self, change: impl FnOnce(&mut BuiltFrom)) -> Result<()> {
        let mut built = BuiltFrom::read(&self.tx.conn)?;
        change(&mut built);
        self.tx.set_state(&StateKey::BuiltFrom, &built)
    }
}
