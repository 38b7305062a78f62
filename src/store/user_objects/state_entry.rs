//! What the state of the mirror records about users' objects.

use serde::{Deserialize, Serialize};

use super::files::AppliedFiles;
use super::objects::PersonsObject;

/// The stored state of users' objects.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct PeopleState {
    /// Objects that SQLite refused to restore.
    pub refused: Vec<PersonsObject>,
    /// The views created from files of the directory.
    pub files: AppliedFiles,
}
