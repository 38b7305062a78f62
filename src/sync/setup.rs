//! From the configuration to an engine on an open mirror: what the verbs in the foreground and the daemon have in common.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;

use super::events::RunObserver;
use super::{BudgetMeter, Engine, SyncSettings};
use crate::api::ClientSettings;
use crate::api::{ApiError, Client};
use crate::budget::{self, Limits};
use crate::config::{ApiConfig, BudgetConfig, Config, ConfigError, Cron};
use crate::model::{Clock, Instant, Ru};
use crate::store::{Reader, Store, StoreError, StoreOptions, report};

/// Runs that the forecast of a run's cost is the median of.
pub const RUNS_OF_FORECAST: u32 = 20;

/// What a session is made of.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The service.
    pub api: ApiConfig,
    /// The mirror's file.
    pub database: PathBuf,
    /// The most custom fields of each object that have an index.
    pub custom_indexes: u32,
    /// What may be spent.
    pub limits: Limits,
    /// How runs behave.
    pub settings: SyncSettings,
    /// When runs are scheduled, and in which zone; `None` for never.
    pub schedule: Option<(Cron, TimeZone)>,
}

impl Setup {
    /// The setup that the configuration asks for; reads the key.
    ///
    /// # Errors
    /// Without an address or a key.
    pub fn from_config(config: &Config) -> Result<Setup, ConfigError> {
        let api = config.api()?;
        Ok(Setup {
            settings: SyncSettings {
                overlap: config.sync.overlap,
                details: config.sync.details,
                concurrency: api.concurrency,
                most_removals: config.sync.max_removals,
                retention: config.history,
                detail_max_age: config.sync.detail_max_age,
                write_back: config.write_back,
                max_edits: config.max_edits,
            },
            api,
            database: config.database.clone(),
            custom_indexes: config.custom_indexes,
            limits: limits(&config.budget),
            schedule: config.sync.schedule.clone().map(|cron| (cron, config.sync.time_zone.clone())),
        })
    }

    /// Opens the mirror for writing, makes it if there is none.
    ///
    /// # Errors
    /// When the file is not to be had.
    pub fn store(&self) -> Result<Store, StoreError> {
        Store::open_with(&self.database, StoreOptions { indexed: Some(self.custom_indexes), ..StoreOptions::default() })
    }

    /// The engine for this setup on an open mirror, and the meter that it spends from.
    ///
    /// # Errors
    /// When the mirror cannot be read, or no client can be made.
    pub async fn engine(
        &self,
        store: Store,
        clock: Arc<dyn Clock>,
        patience: Duration,
        observer: Arc<dyn RunObserver>,
    ) -> Result<(Engine, Arc<BudgetMeter>), SetupError> {
        let meter = BudgetMeter::open(store.clone(), clock.clone(), self.limits, patience, observer.clone()).await?;
        let meter = Arc::new(meter);
        self.keep_back(&meter, false, clock.now())?;
        let client = ClientSettings {
            timeout: self.api.timeout,
            concurrency: self.api.concurrency,
            ..ClientSettings::new(self.api.base_url.clone())
        };
        let client = Client::new(client, self.api.key.clone(), clock.clone(), meter.clone())?;
        let engine = Engine::new(client, store, meter.clone(), clock, observer, self.settings);
        Ok((engine, meter))
    }

    /// Keeps back what scheduled runs will still need in this window. `driven` says that the schedule is certain to run;
    /// else it counts where it has run in the last window.
    ///
    /// # Errors
    /// When the mirror cannot be read.
    pub fn keep_back(&self, meter: &BudgetMeter, driven: bool, now: Instant) -> Result<(), StoreError> {
        if let Some((cron, zone)) = &self.schedule {
            meter.set_reserve(reserve(&self.database, meter, (cron, zone), driven, now)?);
        }
        Ok(())
    }
}

/// Why no engine could be made.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The mirror's file.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The client of the service.
    #[error(transparent)]
    Api(#[from] ApiError),
}

/// The budget as the ledger wants it.
pub fn limits(budget: &BudgetConfig) -> Limits {
    Limits { limit: budget.limit, window: budget.window, charge_failed: budget.charge_failed }
}

/// What scheduled runs will still need in this window. Nothing, where nobody drives the schedule and none has run in the
/// last one.
fn reserve(
    database: &Path,
    meter: &BudgetMeter,
    (cron, zone): (&Cron, &TimeZone),
    driven: bool,
    now: Instant,
) -> Result<Ru, StoreError> {
    let limits = meter.limits();
    let reader = Reader::open(database)?;
    let (costs, scheduled) = report::cost_of_runs(&reader.begin()?, RUNS_OF_FORECAST, now.minus(limits.window))?;
    if !driven && !scheduled {
        return Ok(Ru::ZERO);
    }
    let window_ends = meter.ledger().refills_at(limits);
    Ok(budget::reserve(cron.due_after(now, zone), window_ends, budget::forecast(&costs), limits.limit))
}
