//! An open mirror that can run jobs, assembled from a store, the budget's meter, the client of the service and the engine.

use std::sync::Arc;
use std::time::{Duration, Instant as Monotonic};

use tokio::sync::watch;

use super::reserves;
use super::settings::{MirrorSettings, limits};
use crate::api::{ApiError, ApiKey, Client, ClientSettings};
use crate::app::summary::Summary;
use crate::budget::Limits;
use crate::model::{Clock, Instant, Object, Ru};
use crate::store::{MirrorTx, Store, StoreError, StoreOptions};
use crate::sync::step_failures::{StepFailures, limits_of};
use crate::sync::{BudgetMeter, Engine, Findings, Forecast, Job, RunObserver, SyncError, SyncSettings};

/// The longest hold that a run waits for; a longer one suspends it.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
pub enum MirrorError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Api(#[from] ApiError),
}

/// An open mirror that runs one job at a time. Stopping it and reading its state do not wait for the running job.
pub struct Mirror {
    clock: Arc<dyn Clock>,
    observer: Arc<dyn RunObserver>,
    parts: watch::Sender<Arc<OpenParts>>,
}

/// The parts that belong together: replaced as a whole when the settings change or the file is replaced.
struct OpenParts {
    settings: MirrorSettings,
    store: Store,
    meter: Arc<BudgetMeter>,
    engine: Engine,
}

/// The summary of a run, and what its checks found.
pub type RunResult = (Summary, Vec<(Object, Findings)>);

impl Mirror {
    pub async fn open(
        settings: MirrorSettings,
        clock: Arc<dyn Clock>,
        observer: Arc<dyn RunObserver>,
    ) -> Result<Mirror, MirrorError> {
        let store = open_store(&settings).await?;
        let parts = assemble(settings, store, &clock, &observer).await?;
        Ok(Mirror { clock, observer, parts: watch::Sender::new(Arc::new(parts)) })
    }

    fn parts(&self) -> Arc<OpenParts> {
        self.parts.borrow().clone()
    }

    pub fn settings(&self) -> MirrorSettings {
        self.parts().settings.clone()
    }

    pub fn store(&self) -> Store {
        self.parts().store.clone()
    }

    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// What a run spends from, and what stops it: after `stop`, answers that are on their way are stored, then the run ends.
    pub fn meter(&self) -> Arc<BudgetMeter> {
        self.parts().meter.clone()
    }

    pub async fn reconfigure(&self, settings: MirrorSettings) -> Result<(), MirrorError> {
        match self.follow_file().await {
            Ok(()) | Err(MirrorError::Store(StoreError::Missing { .. })) => {}
            Err(error) => return Err(error),
        }
        let known = self.parts();
        let meter = known.meter.clone();
        // The next meter takes over this one's state.
        let views = settings.config.views();
        let apply = move |tx: &MirrorTx<'_>| {
            meter.enter(tx)?;
            tx.derived().configure_views(&views)
        };
        known.store.write(apply).await?;
        let parts = assemble(settings, known.store.clone(), &self.clock, &self.observer).await?;
        self.parts.send_replace(Arc::new(parts));
        Ok(())
    }

    /// Reopens the file if another one or other contents have replaced it, as a restore or a mount does; [`StoreError::Missing`]
    /// if there is none any more: a new one is not created while this one is in use.
    pub async fn follow_file(&self) -> Result<(), MirrorError> {
        let store = self.store();
        let found = match store.is_at_path() {
            Ok(()) => store.write(|_| Ok(())).await,
            found => found,
        };
        match found {
            Ok(()) => return Ok(()),
            Err(StoreError::Replaced { path }) => {
                tracing::warn!("{} was replaced by another file or by other contents; opening them", path.display())
            }
            Err(error) => return Err(error.into()),
        }
        let known = self.parts();
        // Its lock and its WAL have the names that the new one needs. If that cannot be opened, nothing is written.
        known.store.close().await;
        let store = open_store(&known.settings).await?;
        let meter = known.meter.clone();
        store.write(move |tx| meter.hand_over(tx)).await?;
        let parts = assemble(known.settings.clone(), store, &self.clock, &self.observer).await?;
        self.parts.send_replace(Arc::new(parts));
        Ok(())
    }

    /// Reserves what the runs of the schedule will need, and says how much others than for changes need in this window.
    pub async fn reserve_for_schedule(&self) -> Result<Ru, StoreError> {
        let (known, now) = (self.parts(), self.clock.now());
        let read = move || {
            let units = reserves::for_schedule(&known.settings.config, &known.meter, now)?;
            known.meter.set_reserve(units);
            reserves::beside_changes(&known.settings.config, &known.meter, now)
        };
        tokio::task::spawn_blocking(read).await.unwrap_or(Err(StoreError::Closed))
    }

    pub async fn run(&self, job: &Job, trigger: &'static str) -> Result<RunResult, SyncError> {
        let (known, began) = (self.parts(), Monotonic::now());
        let report = known.engine.run(job, trigger).await?;
        let (ledger, limits) = (known.meter.ledger(), known.meter.limits());
        Ok((Summary::new(job.name(), &report, began.elapsed(), &ledger, limits), report.findings))
    }

    /// When the schedule next attempts the steps that failed, if any did, and whether others were answered.
    pub async fn next_attempt_of_failed_steps(&self, job: &Job) -> Option<(Instant, bool)> {
        let known = self.parts();
        let failures = known.store.read(StepFailures::load).await.ok()?;
        let wait = failures.shortest_wait(known.meter.ledger().steady_time(), &limits_of(job, known.meter.limits()))?;
        Some((self.clock.now().plus(wait), !failures.are_of_everything()))
    }

    /// What a job will cost, and what is left for it in this window and in the whole next one.
    pub async fn forecast(&self, job: &Job) -> Result<(Forecast, [Ru; 2]), SyncError> {
        let known = self.parts();
        let forecast = known.engine.forecast(job).await;
        // The cost is stored, even if no run follows.
        let meter = known.meter.clone();
        known.store.write(move |tx| meter.enter(tx)).await?;
        let (forecast, ledger, now) = (forecast?, known.meter.ledger(), self.clock.now());
        let (purpose, config) = (forecast.purpose(), known.settings.config.clone());
        let reading = known.store.read(move |tx| reserves::left_for(purpose, tx, &config, &ledger, now));
        Ok((forecast, reading.await?))
    }

    /// Closes the mirror, so that users with read-only access can still read it.
    pub async fn close(self) {
        let store = self.store();
        // Each part holds the store, too, and the writer ends with the last of them.
        drop(self);
        store.close().await;
    }
}

/// Opens the file for writing on a blocking thread, because a migration can take long.
async fn open_store(settings: &MirrorSettings) -> Result<Store, StoreError> {
    let path = settings.config.database.clone();
    let options = StoreOptions { views: Some(settings.config.views()), ..StoreOptions::default() };
    let open = move || Store::open_with(&path, options);
    tokio::task::spawn_blocking(open).await.unwrap_or(Err(StoreError::Closed))
}

async fn assemble(
    settings: MirrorSettings,
    store: Store,
    clock: &Arc<dyn Clock>,
    observer: &Arc<dyn RunObserver>,
) -> Result<OpenParts, MirrorError> {
    let write_back = settings.config.write_back.enabled;
    if store.read(|tx| tx.takes_edits()).await? != write_back {
        // Immediately rather than with the next run, because the triggers of the views read it.
        store.write(move |tx| tx.edits().set_write_back(write_back)).await?;
    }
    let parts = EngineSettings {
        client: settings.client(),
        key: settings.key.clone(),
        limits: limits(&settings.config.budget),
        patience: PATIENCE,
        sync: settings.sync(),
    };
    let (meter, mut engine) = assemble_engine(&store, parts, clock, observer).await?;
    let (cron, zone) = (settings.config.sync.definitions_schedule.clone(), settings.config.sync.time_zone.clone());
    engine.list_schedule = Arc::new(move |read| cron.as_ref()?.next_after(read, &zone));
    meter.set_reserve(reserves::for_schedule(&settings.config, &meter, clock.now())?);
    Ok(OpenParts { settings, store, meter, engine })
}

/// What an engine needs; a caller that wants a different patience, body size or number of attempts passes its own.
#[derive(Clone)]
pub struct EngineSettings {
    pub client: ClientSettings,
    pub key: ApiKey,
    pub limits: Limits,
    pub patience: Duration,
    pub sync: SyncSettings,
}

/// Connects meter, client and engine over an open store. This is the only place that does it.
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
