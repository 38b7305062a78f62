//! `crm-mirror check`: finds problems, from the configuration to the disk, and shows how to fix them.
//!
//! Each probe evaluates the facts that `facts` collected. A failure does not end the check: the other probes still run.
//! They look at the setup; what becomes of it (the budget's window, the published copy) is in `status`.
//!
//! # Invariants
//! - Root checks as the user who owns the mirror's folder, or whom the unit names, with the key that the unit loads: what the
//!   service cannot read fails here, too.
//! - Nothing is changed and no file is created. The cost of requests (1 RU per resource) is recorded in the mirror's
//!   ledger; if that is not possible, no request is sent: while another process writes the mirror, and during a hold.
//! - Every warning and every failure has a fix.

mod budget;
mod configuration;
mod facts;
mod mirror;
mod service;

use std::fmt::Write as _;

use facts::CheckFacts;
use serde::Serialize;

use crate::cli::args::as_owner;
use crate::cli::{Failure, Global, logging, output};
use crate::config::{Config, ConfigError, Sources, unit};
use crate::exit::Exit;
use crate::format::{counted, plain};

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
    let unit = unit::of_file(sources.main_file());
    let read = match Config::load(&sources) {
        Ok(config) => {
            let config = as_owner(config, unit.as_ref())?;
            // Again, as the service.
            unit.map_or(Ok(()), |_| sources.read().map(drop)).map(|()| config)
        }
        Err(error) => Err(error),
    };
    if let Ok(config) = &read {
        logging::start(&config.log);
    }
    let findings = findings(&sources, &read, args.offline)?;
    output::report(args.json, &findings, || output::complete(&findings.text()))?;
    Ok(findings.exit())
}

fn findings(sources: &Sources, read: &Result<Config, ConfigError>, offline: bool) -> Result<CheckReport, Failure> {
    let mut findings = configuration::check(sources, read);
    let Ok(config) = read else {
        return Ok(CheckReport::new(findings));
    };
    let facts = CheckFacts::collect(sources, config, offline)?;
    findings.extend(configuration::check_key(config));
    match &facts.service {
        Ok(answers) => findings.extend(service::check(answers, &facts.wanted)),
        Err(why) => findings.push(Finding::skip("service.scopes", format!("no request sent: {why}"))),
    }
    findings.extend(mirror::check(&facts));
    findings.extend(mirror::check_disk(&facts));
    findings.extend(mirror::check_readers(&config.database));
    findings.push(budget::check(&facts));
    findings.extend(configuration::check_publish(&facts));
    findings.push(mirror::check_daemon(&facts));
    Ok(CheckReport::new(findings))
}

/// The states, the worst one last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum FindingState {
    /// It was not checked; the message says why.
    Skip,
    Ok,
    Warn,
    #[strum(serialize = "FAIL")]
    Fail,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its group and its own name, as in `key.permissions`.
    pub name: String,
    pub state: FindingState,
    pub message: String,
    pub fix: Option<String>,
    #[serde(skip)]
    pub exit: Exit,
}

impl Finding {
    pub fn ok(name: &str, message: impl Into<String>) -> Finding {
        Finding { name: name.into(), state: FindingState::Ok, message: message.into(), fix: None, exit: Exit::Done }
    }

    pub fn warn(name: &str, message: impl Into<String>, fix: impl Into<String>) -> Finding {
        Finding { state: FindingState::Warn, fix: Some(fix.into()), ..Finding::ok(name, message) }
    }

    pub fn fail(name: &str, exit: Exit, message: impl Into<String>, fix: impl Into<String>) -> Finding {
        Finding { state: FindingState::Fail, exit, ..Finding::warn(name, message, fix) }
    }

    pub fn skip(name: &str, why: impl Into<String>) -> Finding {
        Finding { state: FindingState::Skip, ..Finding::ok(name, why) }
    }

    fn group_and_name(&self) -> (&str, &str) {
        self.name.split_once('.').unwrap_or(("", &self.name))
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct CheckReport {
    pub checks: Vec<Finding>,
    pub verdict: FindingState,
}

/// The exit codes of failures, the one to fix first in front.
const IMPORTANCE: [Exit; 5] = [Exit::Config, Exit::KeyRefused, Exit::Unavailable, Exit::Storage, Exit::Paused];

impl CheckReport {
    pub fn new(checks: Vec<Finding>) -> CheckReport {
        let worst = checks.iter().map(|finding| finding.state).max();
        CheckReport { checks, verdict: worst.unwrap_or(FindingState::Ok).max(FindingState::Ok) }
    }

    pub fn exit(&self) -> Exit {
        let failed = self.checks.iter().filter(|finding| finding.state == FindingState::Fail);
        let rank = |exit: &Exit| IMPORTANCE.iter().position(|known| known == exit).unwrap_or(IMPORTANCE.len());
        failed.map(|finding| finding.exit).min_by_key(rank).unwrap_or(Exit::Done)
    }

    pub fn text(&self) -> String {
        let width = self.checks.iter().map(|finding| finding.group_and_name().1.len()).max().unwrap_or(0);
        let mut text = String::new();
        let mut last_group = "";
        for finding in &self.checks {
            let (group, name) = finding.group_and_name();
            if group != last_group {
                last_group = group;
                let _ = writeln!(text, "{group}");
            }
            let _ = writeln!(text, "  {:<4}  {name:<width$}  {}", finding.state, plain(&finding.message));
            if let Some(fix) = &finding.fix {
                let _ = writeln!(text, "  {:<4}  {:<width$}  fix: {}", "", "", plain(fix));
            }
        }
        let _ = writeln!(text, "\nverdict: {}", self.sentence());
        text
    }

    fn sentence(&self) -> String {
        let counts = [
            (FindingState::Fail, "failure", "failures"),
            (FindingState::Warn, "warning", "warnings"),
            (FindingState::Skip, "skipped", "skipped"),
        ];
        let count = |state| self.checks.iter().filter(|finding| finding.state == state).count() as u64;
        let counts = counts.map(|(state, one, more)| (count(state), one, more)).into_iter();
        let counts: Vec<String> =
            counts.filter(|(number, ..)| *number > 0).map(|(number, one, more)| counted(number, one, more)).collect();
        let verdict = if self.verdict == FindingState::Fail { "FAIL" } else { "ok" };
        if counts.is_empty() { verdict.into() } else { format!("{verdict}, with {}", counts.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_to_fix_first_determines_the_exit_code() {
        let fail = |exit| Finding::fail("a.b", exit, "broken", "fix it");
        let warn = Finding::warn("a.c", "bad", "fix it");
        for (lines, exit) in [
            (vec![], Exit::Done),
            (vec![warn.clone()], Exit::Done),
            (vec![fail(Exit::Paused), fail(Exit::Storage)], Exit::Storage),
            (vec![fail(Exit::Storage), fail(Exit::Unavailable)], Exit::Unavailable),
            (vec![fail(Exit::KeyRefused), fail(Exit::Config)], Exit::Config),
            (vec![warn, fail(Exit::Internal)], Exit::Internal),
        ] {
            assert_eq!(CheckReport::new(lines.clone()).exit(), exit, "{lines:?}");
        }
    }
}
