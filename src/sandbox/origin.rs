//! Where the world of a service comes from, so that a reset can make it once more, and where its changes are written.

use std::path::PathBuf;

use crate::model::{Clock, Instant};

use super::clock::SandboxClock;
use super::fault_line::FaultLine;
use super::fixture::FixtureError;
use super::generate::generate;
use super::plain;
use super::state::StateFile;
use super::world::World;

/// Where a world comes from.
#[derive(Clone, Debug)]
pub enum WorldOrigin {
    /// Generated from the seed.
    Generated {
        /// How many contacts.
        contacts: usize,
        /// How many companies.
        companies: usize,
        /// Realistic and sane, not full of edge cases.
        plain: bool,
    },
    /// The text of a fixture.
    Fixture(String),
}

/// What kind of service is wanted.
#[derive(Clone, Debug)]
pub struct Development {
    /// Where the world comes from, unless the state file has one.
    pub origin: WorldOrigin,
    /// Decides the generated data, the key, the faults that have a share, and the changes.
    pub seed: u64,
    /// Where the clock stands still; without, it runs with the system's.
    pub now: Option<Instant>,
    /// The file of a world that survives restarts.
    pub state: Option<PathBuf>,
    /// The faults of the beginning.
    pub faults: FaultLine,
}

/// What a reset restores, and where changes are written.
pub(crate) struct Origin {
    pub(crate) development: Development,
    /// Generated data is dated before this.
    base: Instant,
    pub(crate) clock: SandboxClock,
    pub(crate) file: Option<StateFile>,
}

impl Origin {
    /// An origin without a file, whose clock begins now.
    pub(crate) fn new(development: Development) -> Origin {
        let clock = SandboxClock::new(development.now);
        let base = clock.now();
        Origin { development, base, clock, file: None }
    }

    /// When it began.
    pub(crate) fn base(&self) -> Instant {
        self.base
    }

    /// The world of the beginning.
    pub(crate) fn world(&self) -> Result<World, FixtureError> {
        match &self.development.origin {
            WorldOrigin::Generated { contacts, companies, plain: false } => {
                Ok(generate(self.development.seed, *contacts, *companies, self.base))
            }
            WorldOrigin::Generated { contacts, companies, plain: true } => {
                Ok(plain::generate(self.development.seed, *contacts, *companies, self.base))
            }
            WorldOrigin::Fixture(text) => World::from_fixture(text, self.base),
        }
    }
}
