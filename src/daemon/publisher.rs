//! The daemon with publishing beside it: what the runs change is sent to PostgreSQL by a task of its own.

use std::sync::Arc;

use super::error::DaemonError;
use crate::config::{Config, Sources};
use crate::error_chain::error_chain;
use crate::model::Clock;
use crate::publish::{PublishKeeper, PublishPlan, PublishSettings, PublishUrl};

/// Runs the daemon until it is asked to end, and publishes meanwhile where `[publish]` says so.
///
/// # Errors
/// Why it cannot begin, or cannot continue. Nothing about publishing ends it.
pub async fn run(sources: Sources, clock: Arc<dyn Clock>) -> Result<(), DaemonError> {
    let keeper = Config::load(&sources).ok().map(|config| {
        let again = sources.clone();
        PublishKeeper::start(&config.database, move || plan(&again), clock.clone())
    });
    let ended = super::run::run(sources, clock).await;
    if let Some(keeper) = keeper {
        keeper.end().await;
    }
    ended
}

/// Reads the settings anew: a password that was changed needs no restart.
fn plan(sources: &Sources) -> Result<PublishPlan, String> {
    let config = Config::load(sources).map_err(|error| error_chain(&error))?;
    if !config.publish.is_on() {
        return Ok(None);
    }
    let url = config.publish.url().map_err(|error| error_chain(&error))?;
    let url = PublishUrl::new(&url).map_err(|error| error_chain(&error))?;
    Ok(Some((url, PublishSettings::of(&config.database, &config.publish))))
}
