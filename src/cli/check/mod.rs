//! The probes of `crm-mirror check`, from the configuration to the disk.
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
mod publish;
mod service;
mod space;
mod unit_user;

use crate::cli::Failure;
use crate::config::{Config, ConfigError, Sources};
use facts::CheckFacts;
use finding::{CheckReport, Finding};

/// Runs every probe that can be run, in the order of the report.
pub fn run(sources: &Sources, read: &Result<Config, ConfigError>, offline: bool) -> Result<CheckReport, Failure> {
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
    findings.extend(space::check(&facts));
    findings.extend(space::check_readers(&config.database));
    findings.push(budget::check(&facts));
    findings.extend(publish::check(&facts));
    findings.extend(daemon::check(&facts));
    Ok(CheckReport::new(findings))
}
