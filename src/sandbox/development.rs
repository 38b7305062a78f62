//! The sandbox as a standalone service: a world from a seed, a fixture or a state file, a clock that can be advanced,
//! faults and random changes.

use std::sync::Arc;
use std::time::Duration;

use super::churn::{Churn, ChurnRate};
use super::fixture::FixtureError;
use super::handle::Sandbox;
use super::origin::{Development, Origin};
use super::state::{StateError, StateFile};
use super::world::World;

/// The maximum number of requests in the log of a service.
const LOGGED: usize = 100_000;

#[derive(Debug, thiserror::Error)]
pub enum DevelopmentError {
    #[error("the fixture is not valid")]
    Fixture(#[source] FixtureError),
    #[error(transparent)]
    State(#[from] StateError),
}

impl Sandbox {
    /// A sandbox with an admin interface next to the API, and the seed of its key.
    pub fn develop(development: Development) -> Result<(Sandbox, u64), DevelopmentError> {
        let mut seed = development.seed;
        let mut origin = Origin::new(development);
        let clock = origin.clock.clone();
        let mut stored = None;
        if let Some(path) = &origin.development.state {
            let (file, found) = StateFile::open(path, seed, World::new(origin.base))?;
            (origin.file, stored) = (Some(file), found);
        }
        let (world, replays) = match stored {
            Some(stored) => {
                seed = stored.seed;
                clock.set_advanced(stored.advanced);
                (stored.world, stored.replays)
            }
            None => (origin.world().map_err(DevelopmentError::Fixture)?, Default::default()),
        };
        let sandbox = Sandbox::new(world, Arc::new(clock));
        sandbox.configure(|settings| settings.log_limit = Some(LOGGED));
        sandbox.faults().seed(seed);
        sandbox.apply_faults(&origin.development.faults);
        sandbox.begin(origin, replays)?;
        Ok((sandbox, seed))
    }

    /// Changes the world at a rate until the future is dropped.
    pub async fn churn(&self, rate: ChurnRate, seed: u64) {
        let mut churn = Churn::new(seed);
        let mut ticks = tokio::time::interval(rate.every.max(Duration::from_micros(100)));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            if let Err(error) = self.change(|world| churn.step(world)) {
                tracing::warn!("could not write a change: {error}");
            }
        }
    }
}
