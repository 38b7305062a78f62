//! What a standalone service begins with and keeps: its world, its clock, and its state file.
//!
//! With a file, the world survives restarts and kills: it is written with every request that changes something. It holds
//! one JSON document: the world, the stored PATCH answers, the clock and the seed. Another file takes its place before the
//! request is answered, so a kill keeps either all changes of a request or none.
//!
//! # Invariants
//! - Two processes cannot use the same file: its lock is held until the process ends.
//! - Every value is restored byte for byte, including source text that no JSON value in memory can represent.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

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
    State { path: PathBuf, source: io::Error },
}

impl From<DevelopmentError> for Answer {
    fn from(error: DevelopmentError) -> Answer {
        Answer::refused(500, error.to_string())
    }
}

impl Development {
    pub(super) fn world(&self, now: Instant) -> Result<World, DevelopmentError> {
        match &self.origin {
            WorldOrigin::Generated { contacts, companies, nasty } => {
                let generate = if *nasty { generate } else { generate_plain };
                Ok(generate(self.seed, *contacts, *companies, now))
            }
            WorldOrigin::Fixture(text) => World::from_fixture(text, now).map_err(DevelopmentError::Fixture),
        }
    }
}

pub(super) struct Standalone {
    pub(super) seed: u64,
    pub(super) clock: SandboxClock,
    pub(super) file: Option<StateFile>,
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
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The seed, which determines the key, and the advance of the clock.
pub(super) type StoredState = (u64, Duration, World, Replays);

#[derive(Debug)]
pub(crate) struct StateFile {
    path: PathBuf,
    /// Locked, so that no other process uses it.
    file: File,
    /// The changes of the world and the advance of the clock that were written last.
    written: Option<(u64, Duration)>,
}

impl StateFile {
    /// Opens the file and reads what it holds; a missing or empty one holds nothing.
    pub(super) fn open(path: &Path) -> Result<(StateFile, Option<StoredState>), DevelopmentError> {
        let opened = || {
            let mut file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
            let used = || io::Error::other("it is in use by another process");
            file.try_lock().map_err(|_| used())?;
            // Another process may have put another file in its place meanwhile.
            let (held, named) = (file.metadata()?, std::fs::metadata(path)?);
            if (held.dev(), held.ino()) != (named.dev(), named.ino()) {
                return Err(used());
            }
            let mut text = Vec::new();
            file.read_to_end(&mut text)?;
            let foreign = |why| io::Error::other(format!("it is not a state file of this sandbox: {why}"));
            let stored = (!text.is_empty()).then(|| serde_json::from_slice(&text)).transpose().map_err(foreign)?;
            Ok((StateFile { path: path.canonicalize()?, file, written: None }, stored))
        };
        opened().map_err(|source| DevelopmentError::State { path: path.to_path_buf(), source })
    }

    /// Writes what changed since the last call. What could not be written is written with the next change.
    pub(super) fn write(
        &mut self,
        (seed, advanced): (u64, Duration),
        world: &World,
        replays: &Replays,
    ) -> Result<(), DevelopmentError> {
        let change = Some((world.changes, advanced));
        if self.written != change {
            let text = serde_json::to_string(&(seed, advanced, world, replays)).unwrap_or_default();
            let replaced = self.replaced(&text);
            self.file = replaced.map_err(|source| DevelopmentError::State { path: self.path.clone(), source })?;
            self.written = change;
        }
        Ok(())
    }

    /// A file with this text in place of the old one. It is locked before another process can see it.
    fn replaced(&self, text: &str) -> io::Result<File> {
        let mut next = self.path.clone().into_os_string();
        next.push(".crm-mirror-new");
        // What a kill left behind.
        let _ = std::fs::remove_file(&next);
        let mut file = File::options().write(true).create_new(true).open(&next)?;
        file.try_lock()?;
        file.write_all(text.as_bytes())?;
        std::fs::rename(&next, &self.path)?;
        Ok(file)
    }
}
