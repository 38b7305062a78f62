//! The program's entries in the `state` table.
//!
//! # Invariants
//! - **Entries are hints.** An unparseable entry counts as absent, with a warning. So no stored value can make a verb
//!   fail.
//! - The loss of an entry costs requests at most, never data.

use rusqlite::{Connection, params};
use serde::Serialize;
use serde::de::DeserializeOwned;
use strum::{Display, IntoStaticStr, VariantArray};

use crate::model::Object;
use crate::store::{MirrorTx, ReadTx, Result, Statements, json};

/// An entry, by the room that writes it: first the store, then sync, publish and the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Display, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum StateKey {
    /// The mirror's id: the first half of a feed's cursor.
    MirrorId,
    /// The process that wrote the file last, and the file: a copy has another one.
    LastWriter,
    /// What columns, views, search and indexes were built from: program, configuration, files of `database.views`.
    BuiltFrom,
    /// The custom texts in the search index.
    #[strum(serialize = "searched:contact")]
    SearchedContacts,
    #[strum(serialize = "searched:company")]
    SearchedCompanies,
    /// The number of records and current details.
    #[strum(serialize = "held:contact")]
    ContactCounts,
    #[strum(serialize = "held:company")]
    CompanyCounts,
    /// Positions of the history at some times, for retention.
    HistoryMarks,
    /// Whether edits are accepted, for the triggers of the views.
    WriteBack,
    /// The address and key fingerprint of the service.
    Identity,
    /// Steps of a run that failed alone, with the time of the next attempt.
    StepFailures,
    /// A lower bound of the service's time.
    ServiceTime,
    /// Request units spent, and the hold.
    Ledger,
    /// The progress of publishing.
    #[strum(serialize = "publish")]
    PublishProgress,
    /// Whether changed records are noted: once the mirror is published or followed.
    ChangedRecords,
    /// The start of a pause of the schedule.
    PausedSince,
    /// The troubles that were reported to people, and whose end was not.
    Reported,
}

impl StateKey {
    /// The entries about what was read of the workspace. The others are about the file, the program and the budget.
    pub const OF_WORKSPACE: [StateKey; 2] = [StateKey::ServiceTime, StateKey::StepFailures];

    pub fn as_str(self) -> &'static str {
        self.into()
    }

    pub(in crate::store) const fn searched(object: Object) -> StateKey {
        object.pick(StateKey::SearchedContacts, StateKey::SearchedCompanies)
    }

    pub(in crate::store) const fn row_counts(object: Object) -> StateKey {
        object.pick(StateKey::ContactCounts, StateKey::CompanyCounts)
    }
}

pub(in crate::store) fn read_state<T: DeserializeOwned>(conn: &Connection, key: &StateKey) -> Result<Option<T>> {
    let name = key.as_str();
    let text: Option<String> = conn.find_value("SELECT value FROM state WHERE name = ?1", [name])?;
    let read = text.map(|text| serde_json::from_str(&text)).transpose();
    Ok(read.unwrap_or_else(|error| {
        tracing::warn!(entry = name, %error, "The mirror's state `{name}` cannot be read and is ignored: {error}");
        None
    }))
}

impl ReadTx<'_> {
    pub fn state<T: DeserializeOwned>(&self, key: &StateKey) -> Result<Option<T>> {
        read_state(&self.conn, key)
    }
}

impl MirrorTx<'_> {
    pub fn set_state<T: Serialize>(&self, key: &StateKey, value: &T) -> Result<()> {
        self.run(
            "INSERT INTO state (name, value) VALUES (?1, ?2)
                 ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE value IS NOT excluded.value",
            params![key.as_str(), json(key.as_str(), value)?],
        )
    }

    pub fn clear_state(&self, key: &StateKey) -> Result<()> {
        self.run("DELETE FROM state WHERE name = ?1", [key.as_str()])
    }
}
