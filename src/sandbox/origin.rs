//! The origin of a service's world, for resets, and the file that its changes are written to.

use std::path::PathBuf;

use crate::model::{Clock, Instant};

use super::clock::SandboxClock;
use super::fault_line::FaultLine;
use super::fixture::FixtureError;
use super::generate::generate;
use super::generate_plain;
use super::state::StateFile;
use super::world::World;

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

/// The options of a standalone service.
#[derive(Clone, Debug)]
pub struct Development {
    /// The origin of the world, unless the state file contains one.
    pub origin: WorldOrigin,
    /// Determines the generated data, the key, the faults that have a share, and the changes.
    pub seed: u64,
    /// The fixed time of the clock; without it, the clock follows the system's.
    pub now: Option<Instant>,
    /// The file of a world that survives restarts.
    pub state: Option<PathBuf>,
    pub faults: FaultLine,
}

/// What a reset restores, and where changes are written.
pub(crate) struct Origin {
    pub(crate) development: Development,
    /// Generated data is dated before this.
    pub(crate) base: Instant,
    pub(crate) clock: SandboxClock,
    pub(crate) file: Option<StateFile>,
}

impl Origin {
    /// An origin without a file, whose clock starts now.
    pub(crate) fn new(development: Development) -> Origin {
        let clock = SandboxClock::new(development.now);
        let base = clock.now();
        Origin { development, base, clock, file: None }
    }

    pub(crate) fn world(&self) -> Result<World, FixtureError> {
        match &self.development.origin {
            WorldOrigin::Generated { contacts, companies, nasty } => {
                let generate = if *nasty { generate } else { generate_plain::generate };
                Ok(generate(self.development.seed, *contacts, *companies, self.base))
            }
            WorldOrigin::Fixture(text) => World::from_fixture(text, self.base),
        }
    }
}
