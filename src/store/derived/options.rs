//! The configuration of columns, views, indexes and search. The file stores it, so that every process builds the same.

use serde::{Deserialize, Serialize};

use super::search_form::SearchForm;

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

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ViewOptions {
    /// Whether the columns of archived fields stay in the views.
    pub keep_archived: bool,
    pub labels: LabelColumns,
    /// Columns to index, as `contacts.cf_tier`.
    pub indexes: Vec<String>,
    /// The directory of users' views.
    pub folder: Option<String>,
    pub search: SearchForm,
    /// The fields that are not mirrored, as `contacts.notes`.
    pub exclude: Vec<String>,
    /// Those of them whose former values are in no unused part of the file any more; only the file knows them.
    pub erased: Vec<String>,
}

impl ViewOptions {
    /// Whether unused parts of the file may hold values of excluded fields.
    pub(in crate::store) fn owes_erasure(&self) -> bool {
        self.exclude.iter().any(|column| !self.erased.contains(column))
    }
}
