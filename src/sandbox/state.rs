//! A world that survives restarts and kills: an SQLite file, written with every request that changes something.
//!
//! The changes of one request are one transaction, committed before the request is answered, so a kill keeps either all
//! of them or none. Records, definitions and stored PATCH answers are JSON.
//!
//! # Invariants
//! - Two processes cannot use the same file: SQLite's exclusive lock is held until the process ends.
//! - Every value is restored byte for byte, including source text that no JSON value in memory can represent.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::Type;
use rusqlite::{Connection, ErrorCode, Row};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::model::Resource;

use super::exchange::Answer;
use super::patch::Replays;
use super::table::WorldRecord;
use super::world::World;

/// Marks the file as a state file (`CRMS`).
const APPLICATION_ID: i32 = 0x4352_4D53;

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS world (seed_ids_advance_definitions TEXT);
    CREATE TABLE IF NOT EXISTS records (list TEXT, id TEXT, record TEXT, PRIMARY KEY (list, id)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS replays (key TEXT PRIMARY KEY, answer TEXT) WITHOUT ROWID;";

#[derive(Debug, thiserror::Error)]
pub enum StateError {
    #[error("could not {what} the state file {path}")]
    Sqlite { what: &'static str, path: PathBuf, source: rusqlite::Error },
    #[error("the state file {0} is in use by another process")]
    InUse(PathBuf),
    /// It is something else, or was written by a newer version.
    #[error("{path} is not a state file of this sandbox{why}")]
    Unreadable { path: PathBuf, why: String },
}

impl From<StateError> for Answer {
    fn from(error: StateError) -> Answer {
        Answer::refused(500, error.to_string())
    }
}

/// The world, the stored answers, and the advance of the clock.
pub(crate) type StoredState = (World, Replays, Duration);

#[derive(Debug)]
pub(crate) struct StateFile {
    path: PathBuf,
    /// The seed of the stored world, which determines its key.
    pub(crate) seed: u64,
    conn: Connection,
    /// The advance of the clock that was written last.
    advanced: Option<Duration>,
}

impl StateFile {
    /// Opens the file and reads its world; a missing or empty file has none.
    pub(crate) fn open(path: &Path, seed: u64, empty: World) -> Result<(StateFile, Option<StoredState>), StateError> {
        let failed = |source: rusqlite::Error| match (source.sqlite_error_code(), &source) {
            (Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked), _) => StateError::InUse(path.to_path_buf()),
            (Some(ErrorCode::NotADatabase), _) => StateError::Unreadable { path: path.into(), why: String::new() },
            (_, rusqlite::Error::FromSqlConversionFailure(_, _, why)) => {
                StateError::Unreadable { path: path.into(), why: format!(": {why}") }
            }
            _ => StateError::Sqlite { what: "open", path: path.to_path_buf(), source },
        };
        let conn = connect(path).map_err(failed)?;
        let mut file = StateFile { path: path.to_path_buf(), seed, conn, advanced: None };
        let stored = file.read(empty).map_err(failed)?;
        Ok((file, stored))
    }

    /// Writes what changed since the last call, and the clock; `whole` writes the whole world in place of the stored one.
    /// What could not be written is written with the next change.
    pub(crate) fn write(
        &mut self,
        world: &mut World,
        replays: &mut Replays,
        advanced: Duration,
        whole: bool,
    ) -> Result<(), StateError> {
        let is_touched = world.touched.as_ref().is_some_and(|touched| !touched.is_empty());
        let is_new = is_touched || !replays.new.is_empty() || self.advanced != Some(advanced);
        if !is_new && !whole {
            return Ok(());
        }
        let stored = self.conn.transaction().and_then(|tx| {
            if whole {
                tx.execute_batch("DELETE FROM records; DELETE FROM replays")?;
                for resource in Resource::ALL {
                    world.table(resource).iter().try_for_each(|record| put(&tx, world, resource, &record.id))?;
                }
            }
            for (resource, id) in world.touched.iter().flatten() {
                put(&tx, world, *resource, id)?;
            }
            let mut stmt = tx.prepare_cached("INSERT OR REPLACE INTO replays VALUES (?1, ?2)")?;
            for (key, answer) in replays.stored.iter().filter(|(key, _)| whole || replays.new.contains(*key)) {
                stmt.execute([key, &text(answer)])?;
            }
            drop(stmt);
            tx.execute("DELETE FROM world", [])?;
            tx.execute(
                "INSERT INTO world VALUES (?1)",
                [text(&(self.seed, world.born, advanced, &world.definitions))],
            )?;
            tx.commit()
        });
        stored.map_err(|source| StateError::Sqlite { what: "write", path: self.path.clone(), source })?;
        world.touched.iter_mut().for_each(|touched| touched.clear());
        replays.new.clear();
        self.advanced = Some(advanced);
        Ok(())
    }

    fn read(&mut self, mut world: World) -> rusqlite::Result<Option<StoredState>> {
        let mut stmt = self.conn.prepare("SELECT * FROM world")?;
        let mut found = stmt.query([])?;
        let Some(row) = found.next()? else { return Ok(None) };
        let advanced;
        (self.seed, world.born, advanced, world.definitions) = parsed(row, 0)?;
        let mut stmt = self.conn.prepare("SELECT list, id, record FROM records")?;
        let mut rows = stmt.query([])?;
        while let Some(row) = rows.next()? {
            let (list, id): (String, String) = (row.get(0)?, row.get(1)?);
            let resource = Resource::ALL.into_iter().find(|resource| resource.path() == list);
            let resource = resource.ok_or_else(|| unreadable(format!("`{list}` is not a list of the service")))?;
            let mut record: WorldRecord = parsed(row, 2)?;
            record.id = id.into();
            world.table_mut(resource).put(record.into());
        }
        let mut stmt = self.conn.prepare("SELECT key, answer FROM replays")?;
        let stored = stmt.query_map([], |row| Ok((row.get(0)?, parsed(row, 1)?)))?.collect::<rusqlite::Result<_>>()?;
        Ok(Some((world, Replays { stored, ..Replays::default() }, advanced)))
    }
}

fn unreadable(why: impl Into<Box<dyn Error + Send + Sync>>) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, Type::Text, why.into())
}

/// Opens the file, and takes its lock. Only a new file, or a state file, is changed.
fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let conn = Connection::open(path)?;
    conn.busy_timeout(Duration::ZERO)?;
    conn.pragma_update(None, "locking_mode", "exclusive")?;
    let id: i32 = conn.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let is_empty: bool = conn.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0))?;
    if !is_empty && id != APPLICATION_ID {
        return Err(unreadable("it is a database of another program"));
    }
    // A kill of the process loses nothing that was committed; the file need not survive one of the machine.
    conn.execute_batch("PRAGMA journal_mode = wal; PRAGMA synchronous = off")?;
    conn.pragma_update(None, "application_id", APPLICATION_ID)?;
    conn.execute_batch(TABLES)?;
    Ok(conn)
}

fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// Stores a record as it is now, or that it is gone.
fn put(conn: &Connection, world: &World, resource: Resource, id: &str) -> rusqlite::Result<()> {
    match world.table(resource).get(id) {
        Some(record) => conn.prepare_cached("INSERT OR REPLACE INTO records VALUES (?1, ?2, ?3)")?.execute([
            resource.path(),
            id,
            &text(record),
        ]),
        None => conn.execute("DELETE FROM records WHERE list = ?1 AND id = ?2", [resource.path(), id]),
    }
    .map(drop)
}

fn parsed<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    serde_json::from_str(row.get_ref(column)?.as_str()?).map_err(unreadable)
}
