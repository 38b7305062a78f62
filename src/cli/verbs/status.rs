//! `crm-mirror status`: what the mirror holds, how fresh it is, what it cost and what is still missing.

use std::path::PathBuf;

use crate::cli::Failure;
use crate::cli::ui::{output, status_text};
use crate::cli::{Global, remote, session};
use crate::daemon::Standing;
use crate::exit::Exit;
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
    // A daemon that does not answer is worth a word; what the file tells is true all the same.
    let daemon = match session::runtime()?.block_on(remote::daemon(&config)) {
        Ok(daemon) => daemon.map(|(_, daemon)| daemon),
        Err(failure) => {
            output::note(failure.text().trim_end());
            None
        }
    };
    let standing = Standing { status, daemon };
    if args.json {
        output::json(&standing)?;
    } else {
        output::text(&status_text::text(&standing, now))?;
    }
    Ok(Exit::Done)
}
