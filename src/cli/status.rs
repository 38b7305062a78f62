//! `crm-mirror status`: what the mirror holds, how fresh it is, what it cost and what is still missing.

use std::path::PathBuf;

use super::exit::Exit;
use super::failure::Failure;
use super::{Global, output, status_text};
use crate::model::Instant;
use crate::sync::status;

/// Show what the mirror holds, how fresh it is, what it cost and what is still missing.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror status\n  crm-mirror status --json | jq .ru.left")]
pub struct StatusArgs {
    /// The mirror [default: `database.path` of the configuration].
    #[arg(long, value_name = "FILE")]
    database: Option<PathBuf>,
    /// Print it as one JSON document.
    #[arg(long)]
    json: bool,
}

/// Carries the verb out.
///
/// # Errors
/// [`Exit::Storage`] if there is no mirror, or it cannot be read.
pub fn run(global: &Global, args: &StatusArgs) -> Result<Exit, Failure> {
    let config = global.load_with(args.database.as_deref())?;
    let now = Instant::system_now();
    let status = status::read(&config, now)?;
    if args.json {
        output::json(&status)?;
    } else {
        output::text(&status_text::text(&status, now))?;
    }
    Ok(Exit::Done)
}
