//! `crm-mirror push`: sends the waiting edits, and nothing else.

use crate::cli::Failure;
use crate::cli::Global;
use crate::cli::verbs::{edit, sync};
use crate::exit::Exit;
use crate::sync::Job;

/// Send the waiting edits now, at 2 RU per update. `sync` also sends them, before it reads anything.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror push\n  crm-mirror push --json | jq .push")]
pub struct PushArgs {
    /// Print the result as one JSON document.
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
///
/// # Errors
/// [`Exit::Config`] if writing back is disabled; else the error that ended the run and that waiting does not fix.
pub fn run(global: &Global, args: &PushArgs) -> Result<Exit, Failure> {
    let config = global.load()?;
    if !config.write_back {
        return Err(edit::off());
    }
    sync::run_now(&config, &Job::Push, &[], args.json)
}
