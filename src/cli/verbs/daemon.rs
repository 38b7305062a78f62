//! `crm-mirror daemon`, `pause` and `resume`: the scheduler, in the foreground, which systemd keeps in the background; suspending
//! its schedule, and resuming it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::runtime::Builder;

use crate::app::limits;
use crate::cli::{Failure, Global, identity, logging, output, session};
use crate::config::Config;
use crate::daemon::DaemonSignals;
use crate::daemon::client::DaemonClient;
use crate::exit::Exit;
use crate::format;
use crate::model::{Instant, SystemClock};
use crate::store::{Store, StoreError};
use crate::sync::{BudgetMeter, Silent};

pub fn run(global: &Global) -> Result<Exit, Failure> {
    // Before anything else, and in a runtime without threads: another identity can be taken only while there are none.
    let first = Builder::new_current_thread().enable_all().build()?;
    let signals = first.block_on(async { DaemonSignals::listen() })?;
    let sources = global.sources(None);
    let config = Config::load(&sources)?;
    // It reads its configuration again as that user, whenever it is told to.
    identity::take(&config.database)?;
    // There is no user watching, so the log reports how each run ended.
    logging::start_for_daemon(&config.log);
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
    let config = global.load(None)?;
    session::runtime()?.block_on(async { post(&daemon(&config).await?, "/pause").await })?;
    output::note("the schedule is paused; `crm-mirror resume` resumes it");
    Ok(Exit::Done)
}

pub fn resume(global: &Global, args: &ResumeArgs) -> Result<Exit, Failure> {
    let config = global.load(None)?;
    logging::start(&config.log);
    session::runtime()?.block_on(async {
        if args.now {
            return resume_now(&config).await;
        }
        post(&daemon(&config).await?, "/resume").await?;
        output::note("the schedule is resumed");
        Ok(Exit::Done)
    })
}

async fn resume_now(config: &Config) -> Result<Exit, Failure> {
    let hold_until = crate::app::status::read(config, Instant::system_now())?.hold_until;
    match session::daemon(config).await? {
        Some((client, _)) => {
            client.post::<Value>("/hold/clear", &json!({})).await?;
            post(&client, "/resume").await?;
            output::note("the schedule is resumed");
        }
        None => clear_stored_hold(config).await?,
    }
    output::note(&match hold_until {
        Some(until) => format!("the rate limit's hold has ended; it would have lasted until {}", format::moment(until)),
        None => "there is no hold of a rate limit".into(),
    });
    Ok(Exit::Done)
}

async fn clear_stored_hold(config: &Config) -> Result<(), StoreError> {
    let store = Store::open(&config.database)?;
    let (clock, limits) = (Arc::new(SystemClock), limits(&config.budget));
    let meter = BudgetMeter::open(store.clone(), clock, limits, Duration::ZERO, Arc::new(Silent)).await?;
    let cleared = Arc::new(meter).clear_hold().await;
    store.close().await;
    cleared
}

async fn daemon(config: &Config) -> Result<DaemonClient, Failure> {
    match session::daemon(config).await? {
        Some((client, _)) => Ok(client),
        None => {
            let message = format!("no daemon of this mirror listens on {}", config.socket.display());
            let start = match &config.unit {
                Some(unit) => format!("`systemctl start {unit}`"),
                None => "`crm-mirror daemon`".into(),
            };
            Err(Failure::new(Exit::Unavailable, message)
                .hint(format!("without a daemon nothing is scheduled; {start} starts one")))
        }
    }
}

async fn post(client: &DaemonClient, path: &str) -> Result<(), Failure> {
    let answer: Value = client.post(path, &json!({})).await?;
    if answer["stored"] == false {
        let reason = answer["reason"].as_str().unwrap_or("unknown");
        output::note(&format!("warning: this is in effect, but not stored yet: {reason}; a restart may lose it"));
    }
    Ok(())
}
