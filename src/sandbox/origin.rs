//! The origin of a service's world, for resets: a generator or a fixture, its clock, and the file that its changes are
//! written to.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::faults::FaultLine;
use super::generate::{generate, generate_plain};
use super::state::{StateError, StateFile};
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
    #[error(transparent)]
    State(#[from] StateError),
}

/// What a reset restores, and the file that changes are written to.
pub(crate) struct Origin {
    pub(super) development: Development,
    pub(super) base: Instant,
    pub(super) clock: SandboxClock,
    pub(super) file: Option<StateFile>,
}

impl Origin {
    pub(super) fn new(development: Development) -> Origin {
        let clock = SandboxClock { fixed: development.now, advanced: Arc::default() };
        Origin { base: clock.now(), clock, file: None, development }
    }

    pub(super) fn world(&self) -> Result<World, DevelopmentError> {
        match &self.development.origin {
            WorldOrigin::Generated { contacts, companies, nasty } => {
                let generate = if *nasty { generate } else { generate_plain };
                Ok(generate(self.development.seed, *contacts, *companies, self.base))
            }
            WorldOrigin::Fixture(text) => World::from_fixture(text, self.base).map_err(DevelopmentError::Fixture),
        }
    }
}

/// The system's clock or a fixed time, plus the advance. Clones share the advance.
#[derive(Clone, Debug)]
pub(crate) struct SandboxClock {
    fixed: Option<Instant>,
    advanced: Arc<Mutex<Duration>>,
}

impl SandboxClock {
    pub(super) fn advanced(&self) -> Duration {
        *self.advanced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_advanced(&self, by: Duration) {
        *self.advanced.lock().unwrap_or_else(PoisonError::into_inner) = by;
    }
}

impl Clock for SandboxClock {
    fn now(&self) -> Instant {
        self.fixed.unwrap_or_else(Instant::system_now).plus(self.advanced())
    }

    fn sleep_until(&self, when: Instant) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep(when.since(self.now())))
    }
}
