//! The program's own entries in the `state` table: checkpoints, watermarks, the ledger. One enum names them all.
//!
//! | entry | holds | written by |
//! |---|---|---|
//! | `mirror_id` | which mirror this is: the first half of a feed's cursor | `store::file` |
//! | `sequence` | the number of the last request that was taken into account | `store::records` |
//! | `layout` | the version of the custom columns | `store::custom` |
//! | `derived` | for which schema views, search, indexes and dictionary were built | `store::derived` |
//! | `custom_indexes` | how many custom fields of an object have an index | `store::derived` |
//! | `view_options` | what the configuration asks of views and indexes | `store::derived` |
//! | `people_objects` | what became of people's own views and indexes | `store::derived` |
//! | `searched:OBJECT` | with which custom texts the search index was built | `store::derived` |
//! | `copied:OBJECT` | that the first copy is finished | `store::derived` |
//! | `held:OBJECT` | how many records and current details there are | `store::records` |
//! | `settled:OBJECT` | that no detail is due | `store::records` |
//! | `history_clock` | the newest time that runs confirmed, which retention counts from | `store::records` |
//! | `write_back` | whether edits are accepted; the triggers of the views read it | `store::outbox` |
//! | `identity` | address and key fingerprint of the service | `sync::checks` |
//! | `missing_scopes` | the scopes that the key lacks | `sync` |
//! | `ledger`, `hold` | request units spent; until when no request is sent | `sync::meter` |
//! | `changes:OBJECT` | watermark and checkpoint of the changes walk | `sync::walks` |
//! | `sweep:OBJECT`, `slice:OBJECT:…` | a sweep under way, and the checkpoint of each of its slices | `sync::walks` |
//! | `asked_sweep:OBJECT` | that a sweep was asked for and has not begun | `sync::walks` |
//! | `wanted_sweep:OBJECT` | that only a sweep can fill a custom column | `sync::walks` |
//! | `fill` | custom columns that wait for their values | `sync::walks` |
//! | `detail_failures:OBJECT` | records whose detail could not be read, and when each is asked for again | `sync::walks` |
//! | `unknown_keys:OBJECT` | custom keys that no definition explains, and whether they were asked for | `sync::walks` |
//! | `swept:OBJECT`, `caught_up:OBJECT`, `read:…` | when something was last read whole | `sync::walks` |
//! | `evidence:OBJECT` | until when the mirror is known to be complete | `sync::checks` |
//! | `check:OBJECT:COLUMN` | counts that a walk of several pages still owes | `sync::checks` |
//! | `outage:OBJECT` | removals that wait for a person | `sync::walks` |
//! | `removals:OBJECT` | removals of the last day that nobody accepted | `store::records` |
//! | `publish` | how far publishing came | `store::publishing` |
//! | `changed_records` | that changed records are noted; it exists once the mirror is published or followed | `store::publishing` |
//! | `paused_since` | since when the schedule is suspended | `daemon` |
//!
//! # Always true
//! - **Entries are hints.** One that cannot be parsed counts as absent: a warning is logged, and the transaction that
//!   met it drops it. So no stored value can make a verb fail.
//! - Whoever reads an entry has a default for its absence that costs requests at most, never contents.

use std::fmt;

use rusqlite::{Connection, OptionalExtension, params};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::{Doing, StoreError};
use super::reader::ReadTx;
use super::tx::MirrorTx;
use crate::model::catalogue::Object;

const READ: &str = "read the program's state";
const WRITE: &str = "write the program's state";

/// The name of an entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the table above says what each holds")]
pub enum StateKey {
    MirrorId,
    Sequence,
    Layout,
    Derived,
    CustomIndexes,
    ViewOptions,
    PeopleObjects,
    Searched(Object),
    Copied(Object),
    RowCounts(Object),
    DetailsSettled(Object),
    HistoryClock,
    WriteBack,
    Identity,
    MissingScopes,
    Ledger,
    Hold,
    Changes(Object),
    Sweep(Object),
    Slice(Object, String),
    AskedSweep(Object),
    WantedSweep(Object),
    Fill,
    DetailFailures(Object),
    UnknownKeys(Object),
    Swept(Object),
    CaughtUp(Object),
    DefinitionsRead,
    TeamRead,
    Evidence(Object),
    Check(Object, &'static str),
    Outage(Object),
    RecentRemovals(Object),
    PausedSince,
    PublishProgress,
    ChangedRecords,
}

impl fmt::Display for StateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StateKey::MirrorId => f.write_str("mirror_id"),
            StateKey::Sequence => f.write_str("sequence"),
            StateKey::Layout => f.write_str("layout"),
            StateKey::Derived => f.write_str("derived"),
            StateKey::CustomIndexes => f.write_str("custom_indexes"),
            StateKey::ViewOptions => f.write_str("view_options"),
            StateKey::PeopleObjects => f.write_str("people_objects"),
            StateKey::Searched(object) => write!(f, "searched:{object}"),
            StateKey::Copied(object) => write!(f, "copied:{object}"),
            StateKey::RowCounts(object) => write!(f, "held:{object}"),
            StateKey::DetailsSettled(object) => write!(f, "settled:{object}"),
            StateKey::HistoryClock => f.write_str("history_clock"),
            StateKey::WriteBack => f.write_str("write_back"),
            StateKey::Identity => f.write_str("identity"),
            StateKey::MissingScopes => f.write_str("missing_scopes"),
            StateKey::Ledger => f.write_str("ledger"),
            StateKey::Hold => f.write_str("hold"),
            StateKey::Changes(object) => write!(f, "changes:{object}"),
            StateKey::Sweep(object) => write!(f, "sweep:{object}"),
            StateKey::Slice(object, name) => write!(f, "slice:{object}:{name}"),
            StateKey::AskedSweep(object) => write!(f, "asked_sweep:{object}"),
            StateKey::WantedSweep(object) => write!(f, "wanted_sweep:{object}"),
            StateKey::Fill => f.write_str("fill"),
            StateKey::UnknownKeys(object) => write!(f, "unknown_keys:{object}"),
            StateKey::DetailFailures(object) => write!(f, "detail_failures:{object}"),
            StateKey::Swept(object) => write!(f, "swept:{object}"),
            StateKey::CaughtUp(object) => write!(f, "caught_up:{object}"),
            StateKey::DefinitionsRead => f.write_str("read:custom-fields"),
            StateKey::TeamRead => f.write_str("read:team-members"),
            StateKey::Evidence(object) => write!(f, "evidence:{object}"),
            StateKey::Check(object, column) => write!(f, "check:{object}:{column}"),
            StateKey::Outage(object) => write!(f, "outage:{object}"),
            StateKey::RecentRemovals(object) => write!(f, "removals:{object}"),
            StateKey::PublishProgress => f.write_str("publish"),
            StateKey::ChangedRecords => f.write_str("changed_records"),
            StateKey::PausedSince => f.write_str("paused_since"),
        }
    }
}

impl StateKey {
    /// The entry of a part of a slice: a walk that falls apart goes on in several.
    #[must_use]
    pub fn part(&self, part: &str) -> StateKey {
        match self {
            StateKey::Slice(object, name) => StateKey::Slice(*object, format!("{name}.{part}")),
            other => other.clone(),
        }
    }
}

/// The text of an entry.
fn text(conn: &Connection, name: &str) -> Result<Option<String>, StoreError> {
    conn.prepare_cached("SELECT value FROM state WHERE name = ?1")
        .and_then(|mut stmt| stmt.query_row([name], |row| row.get(0)).optional())
        .doing(READ)
}

/// Reads an entry; what cannot be parsed is absent, and is not dropped here.
pub(in crate::store) fn read_state<T: DeserializeOwned>(
    conn: &Connection,
    key: &StateKey,
) -> Result<Option<T>, StoreError> {
    let name = key.to_string();
    Ok(text(conn, &name)?.and_then(|text| parse(&name, &text)))
}

/// An entry's value, or a warning.
fn parse<T: DeserializeOwned>(name: &str, text: &str) -> Option<T> {
    match serde_json::from_str(text) {
        Ok(value) => Some(value),
        Err(error) => {
            tracing::warn!(
                entry = name,
                %error,
                "The mirror's state `{name}` cannot be read and is ignored: {error}"
            );
            None
        }
    }
}

impl ReadTx<'_> {
    /// Reads an entry of the program's own state; one that cannot be parsed is absent.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn state<T: DeserializeOwned>(&self, key: &StateKey) -> Result<Option<T>, StoreError> {
        let name = key.to_string();
        let Some(text) = text(&self.conn, &name)? else { return Ok(None) };
        let value = parse(&name, &text);
        if value.is_none() {
            self.unreadable.borrow_mut().insert((name, text));
        }
        Ok(value)
    }

    /// The checkpoints of the slices of a sweep, in order of their names; `None` if one of them cannot be read, so that
    /// nobody knows what is still to be read.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn slices<T: DeserializeOwned>(&self, object: Object) -> Result<Option<Vec<(StateKey, T)>>, StoreError> {
        let prefix = StateKey::Slice(object, String::new()).to_string();
        let mut stmt = self
            .conn
            .prepare_cached(
                "SELECT substr(name, length(?1) + 1) FROM state WHERE substr(name, 1, length(?1)) = ?1 ORDER BY name",
            )
            .doing(READ)?;
        let names: Vec<String> = stmt.query_map([prefix], |row| row.get(0)).and_then(Iterator::collect).doing(READ)?;
        let mut slices = Vec::new();
        for name in names {
            let key = StateKey::Slice(object, name);
            let Some(value) = self.state(&key)? else { return Ok(None) };
            slices.push((key, value));
        }
        Ok(Some(slices))
    }
}

impl MirrorTx<'_> {
    /// Writes an entry of the program's own state, if it changed.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn set_state<T: Serialize>(&self, key: &StateKey, value: &T) -> Result<(), StoreError> {
        let name = key.to_string();
        let text = serde_json::to_string(value).map_err(|source| StoreError::State { name: name.clone(), source })?;
        self.conn
            .prepare_cached(
                "INSERT INTO state (name, value) VALUES (?1, ?2)
                 ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE value IS NOT excluded.value",
            )
            .and_then(|mut stmt| stmt.execute(params![name, text]))
            .doing(WRITE)?;
        Ok(())
    }

    /// Removes an entry of the program's own state.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn clear_state(&self, key: &StateKey) -> Result<(), StoreError> {
        self.conn
            .prepare_cached("DELETE FROM state WHERE name = ?1")
            .and_then(|mut stmt| stmt.execute([key.to_string()]))
            .doing(WRITE)?;
        Ok(())
    }

    /// Removes the checkpoints of all slices of a sweep.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn clear_slices(&self, object: Object) -> Result<(), StoreError> {
        self.conn
            .prepare_cached("DELETE FROM state WHERE substr(name, 1, length(?1)) = ?1")
            .and_then(|mut stmt| stmt.execute([StateKey::Slice(object, String::new()).to_string()]))
            .doing(WRITE)?;
        Ok(())
    }

    /// Drops the entries that could not be read and were not written since.
    pub(in crate::store) fn drop_unreadable(&self) -> Result<(), StoreError> {
        for (name, text) in self.unreadable.take() {
            self.conn.execute("DELETE FROM state WHERE name = ?1 AND value = ?2", params![name, text]).doing(WRITE)?;
        }
        Ok(())
    }
}
