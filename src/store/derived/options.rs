//! The configuration of columns, views, indexes and search. The file stores what it was built from, so that every process
//! builds the same.

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::store::{AppliedFiles, DerivedTx, Result, StateKey, read_state};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LabelColumns {
    #[default]
    Off,
    All,
    /// These, as `contacts.cf_tier`, or as `cf_tier` for both objects.
    Of(Vec<String>),
}

impl LabelColumns {
    pub(in crate::store) fn takes(&self, table: &str, column: &str) -> bool {
        match self {
            LabelColumns::Off => false,
            LabelColumns::All => true,
            LabelColumns::Of(names) => names.iter().any(|name| match name.split_once('.') {
                Some((of, name)) => name == column && of.strip_suffix("_full").unwrap_or(of) == table,
                None => name == column,
            }),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SearchForm {
    /// Words, ignoring accents and case.
    #[default]
    Words,
    /// Every sequence of three characters: finds parts of words, and texts without spaces between words.
    Trigram,
}

impl SearchForm {
    pub(super) const fn tokenizer(self) -> &'static str {
        match self {
            SearchForm::Words => "unicode61 remove_diacritics 2",
            SearchForm::Trigram => "trigram",
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ViewOptions {
    pub keep_archived: bool,
    pub labels: LabelColumns,
    /// Columns to index, as `contacts.cf_tier`.
    pub indexes: Vec<String>,
    pub folder: Option<String>,
    pub search: SearchForm,
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
    /// How often a rewrite that would erase them failed or was put off; 0 if the next chance is taken.
    pub erasure_chances: u32,
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
