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
mod facts;
pub mod finding;
mod http;
mod key;
mod mirror;
mod notify;
mod publish;
mod readers;
mod service;
mod socket;
mod space;
mod unit;
mod unit_user;
mod workspace;

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
    findings.extend(key::check(config));
    findings.extend(unit::check(&facts));
    match &facts.service {
        Ok(answers) => findings.extend(service::check(answers, &facts.wanted)),
        Err(why) => findings.push(Finding::skip("service.scopes", why)),
    }
    findings.extend(mirror::check(config, &facts.mirror, facts.now));
    findings.extend(workspace::check(&facts));
    let expected = facts.totals().into_iter().flatten().reduce(|a, b| a + b);
    findings.extend(space::check(&config.database, facts.unit.as_ref(), facts.here(), expected));
    findings.extend(readers::check(&config.database));
    findings.extend(budget::check(config, &facts.limits, facts.here(), facts.totals(), facts.now));
    findings.extend(publish::check(&facts));
    findings.push(socket::check(config, &facts.daemon, facts.writer, facts.now));
    findings.extend(http::check(&facts));
    findings.extend(notify::check(&config.notify));
    Ok(CheckReport::new(findings))
}
