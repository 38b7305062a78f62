//! Assembles the parts that run a job: the budget's meter, the client of the service and the engine, over an open
//! store.
//!
//! This is the only place that does it. [`Mirror`](super::Mirror) passes the values of the configuration; a caller that
//! needs a different patience, body size or number of attempts passes its own [`EngineSettings`].

use std::sync::Arc;
use std::time::Duration;

use super::error::MirrorError;
use crate::api::{ApiKey, Client, ClientSettings};
use crate::budget::Limits;
use crate::model::Clock;
use crate::store::Store;
use crate::sync::events::RunObserver;
use crate::sync::{BudgetMeter, Engine, SyncSettings};

#[derive(Clone)]
pub struct EngineSettings {
    pub client: ClientSettings,
    pub key: ApiKey,
    pub limits: Limits,
    /// The longest hold that a run waits for. A longer one suspends the run.
    pub patience: Duration,
    pub sync: SyncSettings,
}

pub async fn assemble_engine(
    store: &Store,
    settings: EngineSettings,
    clock: &Arc<dyn Clock>,
    observer: &Arc<dyn RunObserver>,
) -> Result<(Arc<BudgetMeter>, Engine), MirrorError> {
    let EngineSettings { client, key, limits, patience, sync } = settings;
    let meter = BudgetMeter::open(store.clone(), clock.clone(), limits, patience, observer.clone()).await?;
    let meter = Arc::new(meter);
    let client = Client::new(client, key, clock.clone(), meter.clone())?;
    let engine = Engine::new(client, store.clone(), meter.clone(), clock.clone(), observer.clone(), sync);
    Ok((meter, engine))
}
