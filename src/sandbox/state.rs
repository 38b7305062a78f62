//! What a standalone service begins with and keeps: the origin of its world, its clock, and its state file.
//!
//! With a file, the world survives restarts and kills: it is an SQLite file, written with every request that changes
//! something. It holds one JSON document: the world, the stored PATCH answers, the clock and the seed. It is replaced before the
//! request is answered, in one transaction, so a kill keeps either all changes of a request or none.
//!
//! # Invariants
//! - Two processes cannot use the same file: SQLite's exclusive lock is held until the process ends.
//! - Every value is restored byte for byte, including source text that no JSON value in memory can represent.

use std::error::Error;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::types::Type;
use rusqlite::{Connection, ErrorCode, OptionalExtension};

use super::exchange::Answer;
use super::faults::FaultLine;
use super::generate::{generate, generate_plain};
use super::patch::Replays;
use super::world::World;
use crate::model::{Clock, Instant};

#[derive(Clone, Debug)]
pub enum WorldOrigin {
    Generated {
        contacts: usize,
        companies: usize,
        /// Data full of edge cases instead of realistic data.
        nasty: bool,
    },
    Fixture(String),
}

#[derive(Clone, Debug)]
pub struct Development {
    /// The origin of the world, unless the state file contains one.
    pub origin: WorldOrigin,
    /// Determines the generated data, the key, the faults that have a share, and the changes.
    pub seed: u64,
    /// The fixed time of the clock; without it, the clock follows the system's.
    pub now: Option<Instant>,
    pub state: Option<PathBuf>,
    pub faults: FaultLine,
}

#[derive(Debug, thiserror::Error)]
pub enum DevelopmentError {
    #[error("the fixture is not valid: {0}")]
    Fixture(String),
    #[error("could not use the state file {path}")]
    State { path: PathBuf, source: rusqlite::Error },
    #[error("the state file {0} is in use by another process")]
    StateInUse(PathBuf),
    /// It is something else, or was written by a newer version.
    #[error("{path} is not a state file of this sandbox")]
    NoState { path: PathBuf, source: rusqlite::Error },
}

impl From<DevelopmentError> for Answer {
    fn from(error: DevelopmentError) -> Answer {
        Answer::refused(500, error.to_string())
    }
}

/// What a reset restores, and the file that changes are written to.
pub(super) struct Origin {
    pub(super) development: Development,
    pub(super) base: Instant,
    pub(super) clock: SandboxClock,
    pub(super) file: Option<StateFile>,
}

impl Origin {
    pub(super) fn world(&self) -> Result<World, DevelopmentError> {
        match &self.development.origin {
            WorldOrigin::Generated { contacts, companies, nasty } => {
                let generate = if *nasty { generate } else { generate_plain };
                Ok(generate(self.development.seed, *contacts, *companies, self.base))
            }
            WorldOrigin::Fixture(text) => World::from_fixture(text, self.base).map_err(DevelopmentError::Fixture),
        }
    }

    pub(super) fn write(&mut self, world: &World, replays: &Replays, anew: bool) -> Result<(), DevelopmentError> {
        let Some(file) = &mut self.file else { return Ok(()) };
        file.write((self.development.seed, *locked(&self.clock.advanced)), world, replays, anew)
    }
}

/// The system's clock or a fixed time, plus the advance. Clones share the advance.
#[derive(Clone, Debug)]
pub(super) struct SandboxClock {
    pub(super) fixed: Option<Instant>,
    pub(super) advanced: Arc<Mutex<Duration>>,
}

impl Clock for SandboxClock {
    fn now(&self) -> Instant {
        self.fixed.unwrap_or_else(Instant::system_now).plus(*locked(&self.advanced))
    }

    fn sleep_until(&self, when: Instant) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep(when.since(self.now())))
    }
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Marks the file as a state file (`CRMS`).
const APPLICATION_ID: i32 = 0x4352_4D53;

/// The seed, which determines the key, and the advance of the clock.
pub(super) type StoredState = (u64, Duration, World, Replays);

#[derive(Debug)]
pub(crate) struct StateFile {
    path: PathBuf,
    conn: Connection,
    /// The changes of the world and the advance of the clock that were written last.
    written: Option<(u64, Duration)>,
}

impl StateFile {
    /// Opens the file and reads what it holds; a missing or empty one holds nothing.
    pub(super) fn open(path: &Path) -> Result<(StateFile, Option<StoredState>), DevelopmentError> {
        let opened = connect(path).and_then(|conn| {
            let text: Option<String> = conn.query_row("SELECT * FROM world", [], |row| row.get(0)).optional()?;
            let stored = text.map(|text| serde_json::from_str(&text).map_err(unreadable)).transpose()?;
            Ok((StateFile { path: path.to_path_buf(), conn, written: None }, stored))
        });
        opened.map_err(|source| failed(path, source))
    }

    /// Writes what changed since the last call; `anew` writes another world. What could not be written is written with the
    /// next change.
    pub(super) fn write(
        &mut self,
        (seed, advanced): (u64, Duration),
        world: &World,
        replays: &Replays,
        anew: bool,
    ) -> Result<(), DevelopmentError> {
        let change = Some((world.changes, advanced));
        if anew || self.written != change {
            let text = serde_json::to_string(&(seed, advanced, world, replays)).unwrap_or_default();
            let stored = self.conn.transaction().and_then(|tx| {
                tx.execute("DELETE FROM world", [])?;
                tx.execute("INSERT INTO world VALUES (?1)", [text])?;
                tx.commit()
            });
            stored.map_err(|source| failed(&self.path, source))?;
            self.written = change;
        }
        Ok(())
    }
}

fn failed(path: &Path, source: rusqlite::Error) -> DevelopmentError {
    let path = path.to_path_buf();
    match (source.sqlite_error_code(), &source) {
        (Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked), _) => DevelopmentError::StateInUse(path),
        (Some(ErrorCode::NotADatabase), _) | (_, rusqlite::Error::FromSqlConversionFailure(..)) => {
            DevelopmentError::NoState { path, source }
        }
        _ => DevelopmentError::State { path, source },
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
    conn.execute_batch("CREATE TABLE IF NOT EXISTS world (seed_advance_world_replays TEXT)")?;
    Ok(conn)
}
