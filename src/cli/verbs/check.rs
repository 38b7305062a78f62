//! `crm-mirror check`: finds problems, from the configuration to the disk, and shows how to fix them.

use crate::cli::ui::output;
use crate::cli::ui::progress::ProgressView;
use crate::cli::{Failure, Global, check, logging};
use crate::config::Config;
use crate::exit::Exit;

/// Check configuration, key, service, mirror, disk and budget, and show how to fix problems; costs 1 RU per resource.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror check\n  crm-mirror check --offline\n  \
                        crm-mirror check --json | jq '.checks[] | select(.state != \"ok\")'")]
pub struct CheckArgs {
    /// Do not contact the service; no RU is spent.
    #[arg(long)]
    offline: bool,
    /// Print the result as one JSON document.
    #[arg(long)]
    json: bool,
}

pub fn run(global: &Global, args: &CheckArgs) -> Result<Exit, Failure> {
    let sources = global.sources(None);
    let read = Config::load(&sources);
    if let Ok(config) = &read {
        logging::start(&config.log, &ProgressView::nothing());
    }
    let findings = check::run(&sources, &read, args.offline)?;
    if args.json {
        output::json(&findings)?;
    } else {
        output::prose(&output::complete(&findings.text()))?;
    }
    Ok(findings.exit())
}
