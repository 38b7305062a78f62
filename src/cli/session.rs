//! Everything that a run in the foreground needs, from the configuration to a tidy end.
//!
//! The order matters: address and key are checked before the mirror's file is touched, so a configuration that cannot
//! work leaves no trace. Ctrl-C and SIGTERM let nothing more be sent, the page in hand is stored, and the file is closed
//! as after a good run; asked a second time, the program ends at once.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use super::exit::Exit;
use super::failure::Failure;
use super::output;
use super::signals::Signals;
use crate::api::client::ClientSettings;
use crate::api::{ApiError, Client};
use crate::budget::{Ledger, Limits};
use crate::config::{ApiConfig, BudgetConfig, Config};
use crate::model::{Clock, SystemClock};
use crate::store::Store;
use crate::sync::observe::Observer;
use crate::sync::{Engine, Plan, Purse, Report, Settings};

/// The longest hold that is waited for while a person watches; a longer one ends the run.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How long the requests under way may take to end once a stop was asked for.
const GRACE: Duration = Duration::from_secs(10);

/// What a session is made of.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The service.
    pub api: ApiConfig,
    /// The mirror's file.
    pub database: PathBuf,
    /// What may be spent.
    pub limits: Limits,
    /// How runs behave.
    pub settings: Settings,
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
            limits: limits(&config.budget),
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
            limits,
            settings,
        } = setup;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let store = Store::open(&database)?;
        let purse = Purse::open(store.clone(), clock.clone(), limits, PATIENCE, observer.clone()).await?;
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
        let mut running = std::pin::pin!(self.engine.run(plan, trigger));
        let report = tokio::select! {
            report = &mut running => report?,
            () = signals.next() => {
                self.purse.stop();
                output::note("stopping after the page in hand; Ctrl-C again ends at once");
                tokio::select! {
                    report = &mut running => report?,
                    () = signals.next() => return Err(cut_off()),
                    () = tokio::time::sleep(GRACE) => return Err(cut_off()),
                }
            }
        };
        Ok(Ran {
            report,
            took: began.elapsed(),
            ledger: self.purse.ledger(),
        })
    }

    /// Closes the mirror.
    pub async fn close(self) {
        let store = self.engine.store().clone();
        // Each holds the store too, and the writer ends with the last of them.
        drop(self);
        store.close().await;
    }
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
