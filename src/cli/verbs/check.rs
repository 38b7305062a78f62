//! `crm-mirror check`: what is wrong, and how to fix it, from the configuration to the disk.

use crate::cli::ui::output;
use crate::cli::ui::progress::ProgressView;
use crate::cli::{Failure, Global, check, logging};
use crate::config::Config;
use crate::exit::Exit;

/// Check configuration, key, service, mirror, disk and budget, and show how to fix what is wrong: 1 RU per resource.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror check\n  crm-mirror check --offline\n  \
                        crm-mirror check --json | jq '.checks[] | select(.state != \"ok\")'")]
pub struct CheckArgs {
    /// Ask nothing of the service: no RU is spent.
    #[arg(long)]
    offline: bool,
    /// Print it as one JSON document.
    #[arg(long)]
    json: bool,
}

/// Carries the verb out.
///
/// # Errors
/// Only where nothing can be said at all; what is wrong is in the answer, and in its code.
pub fn run(global: &Global, args: &CheckArgs) -> Result<Exit, Failure> {
    let sources = global.sources();
    let read = Config::load(&sources);
    if let Ok(config) = &read {
        logging::start(&config.log, &ProgressView::nothing());
    }
    let findings = check::run(&sources, &read, args.offline)?;
    if args.json {
        output::json(&findings)?;
    } else {
        output::text(&findings.text())?;
    }
    Ok(findings.exit())
}
