//! `crm-mirror hold clear`: ends the hold of a rate limit, for a person who knows that the service answers again.

use serde_json::{Value, json};

use crate::budget::Hold;
use crate::cli::ui::output;
use crate::cli::ui::progress::ProgressView;
use crate::cli::{Failure, Global, logging, remote, session};
use crate::exit::Exit;
use crate::model::Instant;
use crate::store::{Store, StoreError};
use crate::sync::budget_meter::HOLD;
use crate::{config::Config, format};

/// Manage the hold: the wait that the service requested with 429 or `Retry-After`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror hold clear")]
pub struct HoldArgs {
    #[command(subcommand)]
    action: HoldAction,
}

/// What to do with the hold.
#[derive(clap::Subcommand, Clone, Debug)]
enum HoldAction {
    /// End the hold now. If the service still limits the rate, its next answer starts a new one.
    #[command(after_help = "Example:\n  crm-mirror hold clear")]
    Clear,
}

/// Runs the verb.
///
/// # Errors
/// [`Exit::Storage`] if there is no mirror, or a process other than the daemon writes it.
pub fn run(global: &Global, args: &HoldArgs) -> Result<Exit, Failure> {
    let HoldAction::Clear = args.action;
    let config = global.load()?;
    logging::start(&config.log, &ProgressView::nothing());
    let until = session::runtime()?.block_on(clear(&config))?;
    output::note(&match until {
        Some(until) => format!("hold cleared; it would have ended at {}", format::moment(until)),
        None => "there is no hold".into(),
    });
    Ok(Exit::Done)
}

/// Ends the hold, through the daemon or directly; returns its end if there was one.
async fn clear(config: &Config) -> Result<Option<Instant>, Failure> {
    let now = Instant::system_now();
    let status = crate::app::status::read(config, now)?;
    if let Some((client, _)) = remote::daemon(config).await? {
        client.post::<Value>("/hold/clear", &json!({})).await?;
        return Ok(status.hold_until);
    }
    let store = Store::open(&config.database)?;
    let cleared: Result<(), StoreError> = store
        .write(move |tx| {
            if tx.state::<Hold>(&HOLD)?.is_some() {
                tx.clear_state(&HOLD)?;
            }
            Ok(())
        })
        .await;
    store.close().await;
    cleared?;
    Ok(status.hold_until)
}
