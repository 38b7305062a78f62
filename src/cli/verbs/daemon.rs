//! `crm-mirror daemon`, `pause` and `resume`: the scheduler, in the foreground; suspending and resuming its schedule.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::runtime::Builder;

use crate::app::limits;
use crate::cli::ui::status_text::starter;
use crate::cli::{Failure, Global, identity, logging, output, session};
use crate::config::Config;
use crate::daemon::DaemonSignals;
use crate::exit::Exit;
use crate::model::SystemClock;
use crate::store::{Reader, Store, StoreError};
use crate::sync::{BudgetMeter, Silent};

pub fn run(global: &Global) -> Result<Exit, Failure> {
    // Before anything else, and in a runtime without threads: another identity can be taken only while there are none.
    let first = Builder::new_current_thread().enable_all().build()?;
    let signals = first.block_on(async { DaemonSignals::listen() })?;
    let sources = global.sources();
    let config = Config::load(&sources)?;
    // It reads its configuration again as that user, whenever it is asked to.
    identity::take(&config.database)?;
    // There is no user watching, so the log reports how each run ended.
    logging::begin(&config.log, true);
    let runtime = session::runtime()?;
    let ended = runtime.block_on(crate::daemon::run(sources, Arc::new(SystemClock), signals));
    // Blocking work that another process delays is abandoned, as after a kill.
    runtime.shutdown_background();
    ended?;
    Ok(Exit::Done)
}

#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror resume\n  crm-mirror resume --now")]
pub struct ResumeArgs {
    /// Also end the wait that the service requested with 429 or Retry-After, with or without a daemon. If the service
    /// still limits the rate, its next answer starts a new one.
    #[arg(long)]
    now: bool,
}

/// Suspends the schedule; jobs that a person requests still run.
pub fn pause(global: &Global) -> Result<Exit, Failure> {
    let config = global.load()?;
    session::runtime()?.block_on(async {
        let (client, _) = session::daemon(&config).await?.ok_or_else(|| no_daemon(&config))?;
        client.post::<Value>("/pause", &json!({})).await.map_err(Failure::from)
    })?;
    output::note("the schedule is paused; `crm-mirror resume` resumes it");
    Ok(Exit::Done)
}

pub fn resume(global: &Global, args: &ResumeArgs) -> Result<Exit, Failure> {
    let config = global.load()?;
    logging::start(&config.log);
    session::runtime()?.block_on(async {
        match session::daemon(&config).await? {
            Some((client, _)) => {
                if args.now {
                    client.post::<Value>("/hold/clear", &json!({})).await?;
                }
                client.post::<Value>("/resume", &json!({})).await?;
                output::note("the schedule is resumed");
            }
            None if args.now => clear_stored_hold(&config).await?,
            None => return Err(no_daemon(&config)),
        }
        if args.now {
            output::note("no request waits for a rate limit");
        }
        Ok(Exit::Done)
    })
}

async fn clear_stored_hold(config: &Config) -> Result<(), StoreError> {
    // A writer would make a mirror where there is none.
    Reader::open(&config.database)?;
    let store = Store::open(&config.database)?;
    let (clock, limits) = (Arc::new(SystemClock), limits(&config.budget));
    let meter = BudgetMeter::open(store.clone(), clock, limits, Duration::ZERO, Arc::new(Silent)).await?;
    let cleared = Arc::new(meter).clear_hold().await;
    store.close().await;
    cleared
}

fn no_daemon(config: &Config) -> Failure {
    let message = format!("no daemon of this mirror listens on {}", config.socket.display());
    let start = starter(config.unit.as_deref());
    Failure::new(Exit::Unavailable, message).hint(format!("without a daemon nothing is scheduled; {start} starts one"))
}
