//! Runs the daemon together with publishing: a separate task sends changes to PostgreSQL.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::error::DaemonError;
use super::signals::DaemonSignals;
use super::task::Task;
use crate::app::publish_settings;
use crate::config::{Config, Sources};
use crate::error_chain::error_chain;
use crate::model::Clock;
use crate::publish::{PublishPlan, PublishUrl, keep_published};

/// Runs the daemon until it is told to stop, and publishes meanwhile if `[publish]` is configured.
pub async fn run(sources: Sources, clock: Arc<dyn Clock>, signals: DaemonSignals) -> Result<(), DaemonError> {
    let keeper = Config::load(&sources).ok().map(|config| {
        let (again, database) = (sources.clone(), config.database.clone());
        let last = Mutex::new((Vec::new(), config));
        Task::start(keep_published(database, move || plan(&again, &last), clock.clone()))
    });
    let ended = super::lifetime::run(sources, clock, signals).await;
    if let Some(keeper) = keeper {
        keeper.end().await;
    }
    ended
}

type ValidFiles = (Vec<(PathBuf, String)>, Config);

/// Reads the current settings: a changed password needs no restart. While the configuration is invalid, the last valid
/// one counts, as for the runs; the reload reports it.
fn plan(sources: &Sources, last: &Mutex<ValidFiles>) -> Result<PublishPlan, String> {
    let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
    if let Ok(files) = sources.files()
        && files != last.0
        && let Ok(config) = Config::load(sources)
    {
        *last = (files, config);
    }
    let config = &last.1;
    if !config.publish.is_on() {
        return Ok(None);
    }
    let url = config.publish.url().map_err(|error| error_chain(&error))?;
    let url = PublishUrl::new(&url).map_err(|error| error_chain(&error))?;
    Ok(Some((url, publish_settings(config))))
}
