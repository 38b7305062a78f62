//! Everything that a run in the foreground needs, from the configuration to a tidy end.
//!
//! The order matters: address and key are checked before the mirror's file is touched, so a configuration that cannot
//! work leaves no trace. Ctrl-C and SIGTERM let nothing more be sent, the page in hand is stored, and the file is closed
//! as after a good run; asked a second time, the program ends at once.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use tokio::runtime::{Builder, Runtime};

use super::exit::Exit;
use super::failure::Failure;
use super::output;
use super::signals::Signals;
use crate::api::client::ClientSettings;
use crate::api::{ApiError, Client};
use crate::budget::{self, Ledger, Limits};
use crate::config::{ApiConfig, BudgetConfig, Config, Cron};
use crate::model::{Clock, Object, Ru, SystemClock};
use crate::store::{Store, StoreError, open, report};
use crate::sync::observe::Observer;
use crate::sync::{Engine, Findings, Forecast, Plan, Purse, Report, Settings, SyncError, Verify};

/// The longest hold that is waited for while a person watches; a longer one ends the run.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Runs that the forecast of a run's cost is the median of.
pub const RUNS_OF_FORECAST: u32 = 20;

/// How long the requests under way may take to end once a stop was asked for.
const GRACE: Duration = Duration::from_secs(10);

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
    pub settings: Settings,
    /// When runs are scheduled, and in which zone; `None` for never.
    pub schedule: Option<(Cron, TimeZone)>,
}

impl Setup {
    /// The setup that the configuration asks for; reads the key.
    ///
    /// # Errors
    /// Without an address or a key.
    pub fn from_config(config: &Config, accept_workspace: bool) -> Result<Setup, Failure> {
        let api = config.api()?;
        Ok(Setup {
            settings: Settings {
                overlap: config.sync.overlap,
                details: config.sync.details,
                concurrency: api.concurrency,
                most_removals: config.sync.max_removals,
                retention: config.history,
                detail_max_age: config.sync.detail_max_age,
                accept_workspace,
            },
            api,
            database: config.database.clone(),
            custom_indexes: config.custom_indexes,
            limits: limits(&config.budget),
            schedule: config
                .sync
                .schedule
                .clone()
                .map(|cron| (cron, config.sync.time_zone.clone())),
        })
    }
}

/// The budget as the ledger wants it.
pub fn limits(budget: &BudgetConfig) -> Limits {
    Limits {
        limit: budget.limit,
        window: budget.window,
        charge_failed: budget.charge_failed,
    }
}

/// A mirror open for runs.
pub struct Session {
    engine: Engine,
    purse: Arc<Purse>,
}

/// How a run in the foreground went.
#[derive(Debug)]
pub struct Ran {
    /// What the engine reports.
    pub report: Report,
    /// The ledger after it.
    pub ledger: Ledger,
    /// How long it took.
    pub took: Duration,
}

impl Session {
    /// Opens the mirror, makes it if there is none.
    ///
    /// # Errors
    /// When the file is not to be had, or no client can be made.
    pub async fn open(setup: Setup, observer: Arc<dyn Observer>) -> Result<Session, Failure> {
        let Setup {
            api,
            database,
            custom_indexes,
            limits,
            settings,
            schedule,
        } = setup;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let store = Store::open_indexing(&database, custom_indexes)?;
        let purse = Purse::open(store.clone(), clock.clone(), limits, PATIENCE, observer.clone()).await?;
        if let Some((cron, zone)) = schedule {
            purse.set_reserve(reserve(&database, &purse, &cron, &zone)?);
        }
        let purse = Arc::new(purse);
        let client = ClientSettings {
            timeout: api.timeout,
            concurrency: api.concurrency,
            ..ClientSettings::new(api.base_url)
        };
        let client = Client::new(client, api.key, clock.clone(), purse.clone())?;
        let engine = Engine::new(client, store, purse.clone(), clock, observer, settings);
        Ok(Session { engine, purse })
    }

    /// What may be spent.
    pub fn limits(&self) -> &Limits {
        self.purse.limits()
    }

    /// Carries out a run, as far as nobody asks to stop.
    ///
    /// # Errors
    /// What ended the run and will not mend itself by waiting; [`Exit::Paused`] where it was cut off.
    pub async fn run(&self, plan: &Plan, trigger: &'static str, signals: &mut Signals) -> Result<Ran, Failure> {
        let began = std::time::Instant::now();
        let report = self.until_stopped(self.engine.run(plan, trigger), signals).await?;
        Ok(Ran {
            report,
            took: began.elapsed(),
            ledger: self.purse.ledger(),
        })
    }

    /// Holds the mirror against the service, as far as nobody asks to stop.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub async fn verify(
        &self,
        verify: &Verify,
        trigger: &'static str,
        signals: &mut Signals,
    ) -> Result<(Report, Vec<(Object, Findings)>), Failure> {
        self.until_stopped(self.engine.verify(verify, trigger), signals).await
    }

    /// Says what a run would cost, and how the budget stands.
    ///
    /// # Errors
    /// When the service does not answer.
    pub async fn forecast(&self, plan: &Plan) -> Result<(Forecast, Ledger), Failure> {
        let forecast = self.engine.forecast(plan).await?;
        Ok((forecast, self.purse.ledger()))
    }

    /// Does the work; asked to stop, lets it end after what is in hand, and asked again, ends at once.
    async fn until_stopped<T>(
        &self,
        work: impl Future<Output = Result<T, SyncError>>,
        signals: &mut Signals,
    ) -> Result<T, Failure> {
        let mut running = std::pin::pin!(work);
        tokio::select! {
            done = &mut running => Ok(done?),
            () = signals.next() => {
                self.purse.stop();
                output::note("stopping after the page in hand; Ctrl-C again ends at once");
                tokio::select! {
                    done = &mut running => Ok(done?),
                    () = signals.next() => Err(cut_off()),
                    () = tokio::time::sleep(GRACE) => Err(cut_off()),
                }
            }
        }
    }

    /// Closes the mirror.
    pub async fn close(self) {
        let store = self.engine.store().clone();
        // Each holds the store too, and the writer ends with the last of them.
        drop(self);
        store.close().await;
    }
}

/// What scheduled runs will still need in this window. Nothing, where none has run in the last one: a schedule that
/// nobody drives needs nothing.
fn reserve(database: &Path, purse: &Purse, cron: &Cron, zone: &TimeZone) -> Result<Ru, StoreError> {
    let (now, limits) = (SystemClock.now(), purse.limits());
    let reader = open::reader(database)?;
    let (costs, scheduled) = report::cost_of_runs(&reader, RUNS_OF_FORECAST, now.minus(limits.window))?;
    if !scheduled {
        return Ok(Ru::ZERO);
    }
    let window_ends = purse.ledger().refills_at(limits);
    Ok(budget::reserve(
        cron.due_after(now, zone),
        window_ends,
        budget::forecast(&costs),
        limits.limit,
    ))
}

fn cut_off() -> Failure {
    Failure::new(
        Exit::Paused,
        "stopped in the middle of a request; what was stored stays",
    )
    .hint("`crm-mirror sync` goes on from there")
}

/// The runtime of a verb: one thread to fetch and decode, one beside it; the mirror's writer is a third.
///
/// # Errors
/// When the system gives no threads.
pub fn runtime() -> Result<Runtime, Failure> {
    Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|source| {
            Failure::from(ApiError::Setup {
                why: source.to_string(),
            })
        })
}
