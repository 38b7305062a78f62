//! Runs the probes, in the order of the report.

use super::facts::CheckFacts;
use super::finding::{CheckReport, Finding};
use super::{
    budget, configuration, http, key, mirror, notify, publish, readers, service, socket, space, unit, workspace,
};
use crate::cli::Failure;
use crate::config::{Config, ConfigError, Sources};

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
