//! The program's entries in the `state` table.
//!
//! | entry | content | written by |
//! |---|---|---|
//! | `mirror_id` | the mirror's id: the first half of a feed's cursor | `store::file` |
//! | `last_writer` | the process that wrote the file last, and the file: a copy has another one | `store::file` |
//! | `built_from` | what columns, views, search and indexes were built from: program, configuration, files of `database.views` | `store::derived` |
//! | `searched:OBJECT` | the custom texts in the search index | `store::derived` |
//! | `held:OBJECT` | the number of records and current details | `store::records` |
//! | `history_marks` | positions of the history at some times, for retention | `store::records` |
//! | `write_back` | whether edits are accepted, for the triggers of the views | `store::outbox` |
//! | `identity` | the address and key fingerprint of the service | `sync::checks` |
//! | `step_failures` | steps of a run that failed alone, with the time of the next attempt | `sync` |
//! | `service_time` | a lower bound of the service's time | `sync` |
//! | `ledger`, `hold` | request units spent; the end of a hold | `sync::budget_meter` |
//! | `publish` | the progress of publishing | `store::publishing` |
//! | `changed_records` | whether changed records are noted: once the mirror is published or followed | `store::publishing` |
//! | `paused_since` | the start of a pause of the schedule | `daemon` |
//! | `told` | the troubles that people were told about and not yet told the end of | `daemon` |
//!
//! # Invariants
//! - **Entries are hints.** An unparseable entry counts as absent, with a warning. So no stored value can make a verb
//!   fail.
//! - The loss of an entry costs requests at most, never data.

use std::fmt;

use rusqlite::{Connection, params};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::model::Object;
use crate::store::{MirrorTx, ReadTx, Result, Statements, json};

macro_rules! state_keys {
    (
        of_mirror { $($single:ident => $name:literal,)* }
        of_object { $($each:ident => $prefix:literal,)* }
    ) => {
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum StateKey {
            $($single,)*
            $($each(Object),)*
        }

        impl fmt::Display for StateKey {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(StateKey::$single => f.write_str($name),)*
                    $(StateKey::$each(object) => write!(f, "{}:{object}", $prefix),)*
                }
            }
        }

        impl StateKey {
            pub fn all() -> Vec<StateKey> {
                let mut all = vec![$(StateKey::$single,)*];
                for object in Object::ALL {
                    all.extend([$(StateKey::$each(object),)*]);
                }
                all
            }
        }
    };
}

state_keys! {
    of_mirror {
        MirrorId => "mirror_id",
        LastWriter => "last_writer",
        BuiltFrom => "built_from",
        HistoryMarks => "history_marks",
        WriteBack => "write_back",
        Identity => "identity",
        ServiceTime => "service_time",
        Ledger => "ledger",
        Hold => "hold",
        PublishProgress => "publish",
        ChangedRecords => "changed_records",
        PausedSince => "paused_since",
        Told => "told",
        StepFailures => "step_failures",
    }
    of_object {
        Searched => "searched",
        RowCounts => "held",
    }
}

impl StateKey {
    /// The entries about what was read of the workspace. The others are about the file, the program and the budget.
    pub const OF_WORKSPACE: [StateKey; 2] = [StateKey::ServiceTime, StateKey::StepFailures];
}

pub(in crate::store) fn read_state<T: DeserializeOwned>(conn: &Connection, key: &StateKey) -> Result<Option<T>> {
    let name = key.to_string();
    let text: Option<String> = conn.find_value("SELECT value FROM state WHERE name = ?1", [&name])?;
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
        let name = key.to_string();
        self.run(
            "INSERT INTO state (name, value) VALUES (?1, ?2)
                 ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE value IS NOT excluded.value",
            params![name, json(&name, value)?],
        )
    }

    pub fn clear_state(&self, key: &StateKey) -> Result<()> {
        self.run("DELETE FROM state WHERE name = ?1", [key.to_string()])
    }
}
