//! The table of probes, in the order of the report.

use super::facts::CheckFacts;
use super::finding::{CheckReport, Finding};
use super::{budget, configuration, http, key, mirror, publish, readers, schedule, service, space, unit, workspace};
use crate::cli::Failure;
use crate::config::{Config, ConfigError, Sources};

/// What a probe needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeNeeds {
    /// The configuration only.
    Configuration,
    /// A readable mirror.
    Mirror,
    /// The service's answers.
    Service,
}

/// One probe.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    /// Its name: the group of its findings, or one of them.
    pub name: &'static str,
    /// What it needs; without that, it is skipped.
    pub needs: ProbeNeeds,
    /// Evaluates the facts.
    run: fn(&CheckFacts<'_>) -> Vec<Finding>,
}

/// Every probe that needs a valid configuration.
pub const PROBES: &[Probe] = &[
    Probe { name: "key", needs: ProbeNeeds::Configuration, run: |facts| key::check(facts.config) },
    Probe { name: "unit", needs: ProbeNeeds::Configuration, run: unit::check },
    Probe {
        name: "service.scopes",
        needs: ProbeNeeds::Service,
        run: |facts| {
            let asked = facts.service.as_ref().ok();
            asked.map_or_else(Vec::new, |asked| service::check(asked, &facts.wanted, facts.config.write_back))
        },
    },
    Probe {
        name: "mirror",
        needs: ProbeNeeds::Configuration,
        run: |facts| mirror::check(facts.config, &facts.mirror, facts.writer, facts.now),
    },
    Probe {
        name: "mirror.workspace",
        needs: ProbeNeeds::Mirror,
        run: |facts| workspace::check(facts).into_iter().collect(),
    },
    Probe {
        name: "disk",
        needs: ProbeNeeds::Configuration,
        run: |facts| {
            let expected = facts.totals().into_iter().flatten().reduce(|a, b| a + b);
            space::check(&facts.config.database, facts.unit.as_ref(), facts.here(), expected)
        },
    },
    Probe { name: "readers", needs: ProbeNeeds::Configuration, run: |facts| readers::check(&facts.config.database) },
    Probe {
        name: "budget",
        needs: ProbeNeeds::Configuration,
        run: |facts| budget::check(facts.config, &facts.limits, facts.here(), facts.totals(), facts.now),
    },
    Probe {
        name: "schedule",
        needs: ProbeNeeds::Configuration,
        run: |facts| schedule::check(&facts.config.sync, facts.now),
    },
    Probe { name: "publish", needs: ProbeNeeds::Configuration, run: publish::check },
    Probe {
        name: "daemon.socket",
        needs: ProbeNeeds::Configuration,
        run: |facts| vec![schedule::socket(&facts.config.socket, facts.writer)],
    },
    Probe { name: "daemon.http", needs: ProbeNeeds::Configuration, run: http::check },
];

/// Runs every probe that can be run.
///
/// # Errors
/// Returns an error only if nothing can be checked; problems are part of the report.
pub fn run(sources: &Sources, read: &Result<Config, ConfigError>, offline: bool) -> Result<CheckReport, Failure> {
    let mut findings = configuration::check(sources, read);
    let Ok(config) = read else {
        return Ok(CheckReport::new(findings));
    };
    let facts = CheckFacts::collect(sources, config, offline)?;
    for probe in PROBES {
        match (probe.needs, &facts.service) {
            (ProbeNeeds::Service, Err(why)) => findings.push(Finding::skip(probe.name, why)),
            // Another probe reports why there is no mirror.
            (ProbeNeeds::Mirror, _) if facts.here().is_none() => {}
            _ => findings.extend((probe.run)(&facts)),
        }
    }
    findings.iter_mut().for_each(|finding| finding.acknowledge(&config.acknowledged));
    Ok(CheckReport::new(findings))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_probe_has_a_unique_name() {
        let mut names: Vec<&str> = PROBES.iter().map(|probe| probe.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), PROBES.len());
    }
}
