//! `crm-mirror check`: finds problems, from the configuration to the disk, and shows how to fix them.
//!
//! Each probe evaluates the facts that `facts` collected. A failure does not end the check: the other probes still run.
//! They look at the setup; what becomes of it (the budget's window, the published copy) is in `status`.
//!
//! # Invariants
//! - For root, the check also covers the unit that reads the configuration: its user, its credential, its directory.
//! - Nothing is changed and no file is created. The cost of requests (1 RU per resource) is recorded in the mirror's
//!   ledger; if that is not possible, no request is sent: while another process writes the mirror, and during a hold.
//! - Every warning and every failure has a fix.

mod budget;
mod configuration;
mod daemon;
mod facts;
pub mod finding;
mod mirror;
mod service;

use crate::cli::ui::output;
use crate::cli::ui::progress::ProgressView;
use crate::cli::{Failure, Global, logging};
use crate::config::{Config, ConfigError, Sources};
use crate::exit::Exit;
use facts::CheckFacts;
use finding::{CheckReport, Finding};

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
    let findings = findings(&sources, &read, args.offline)?;
    if args.json {
        output::json(&findings)?;
    } else {
        output::prose(&output::complete(&findings.text()))?;
    }
    Ok(findings.exit())
}

/// Runs every probe that can be run, in the order of the report.
fn findings(sources: &Sources, read: &Result<Config, ConfigError>, offline: bool) -> Result<CheckReport, Failure> {
    let mut findings = configuration::check(sources, read);
    let Ok(config) = read else {
        return Ok(CheckReport::new(findings));
    };
    let facts = CheckFacts::collect(sources, config, offline)?;
    findings.extend(configuration::check_key(config));
    findings.extend(configuration::check_unit(&facts, sources));
    match &facts.service {
        Ok(answers) => findings.extend(service::check(answers, &facts.wanted)),
        Err(why) => findings.push(Finding::skip("service.scopes", format!("no request sent: {why}"))),
    }
    findings.extend(mirror::check(&facts));
    findings.extend(mirror::check_disk(&facts));
    findings.extend(mirror::check_readers(&config.database));
    findings.push(budget::check(&facts));
    findings.extend(configuration::check_publish(&facts));
    findings.extend(daemon::check(&facts));
    Ok(CheckReport::new(findings))
}
