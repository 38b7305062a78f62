//! The input of the probes, collected before the first of them runs.

use std::path::PathBuf;

use super::Finding;
use super::service::{self, ServiceReport};
use crate::app::status::{self, MirrorStatus};
use crate::app::{MirrorSettings, publish_settings};
use crate::budget::forecast;
use crate::cli::{DaemonState, Failure, mcp, session};
use crate::config::{Config, Sources, unit};
use crate::daemon::DaemonStatus;
use crate::error_chain::error_chain;
use crate::exit::Exit;
use crate::model::{Instant, Object, Resource};
use crate::publish;
use crate::store::{BrokenObject, ReadTx, Reader, StateKey, StoreError, expect_no_edits_of, lock, people_report};
use crate::sync::checks::identity::Identity;

#[derive(Debug)]
pub(super) struct CheckFacts<'a> {
    pub(super) config: &'a Config,
    /// The folder that systemd creates for the unit that reads the configuration.
    pub(super) state_directory: Option<PathBuf>,
    pub(super) offline: bool,
    pub(super) now: Instant,
    pub(super) daemon: (Option<DaemonStatus>, DaemonState),
    pub(super) mirror: Result<MirrorFacts, StoreError>,
    pub(super) wanted: Vec<Resource>,
    /// The service's answers, or why no request was sent.
    pub(super) service: Result<ServiceReport, String>,
}

impl<'a> CheckFacts<'a> {
    pub(super) fn collect(sources: &Sources, config: &'a Config, offline: bool) -> Result<CheckFacts<'a>, Failure> {
        let now = Instant::system_now();
        let wanted = service::wanted(config.sync.objects.as_deref());
        let mirror = MirrorFacts::read(config, now);
        let service = match (MirrorSettings::new(config.clone()), lock::current_writer(&config.database)) {
            _ if offline => Err("--offline".into()),
            (Err(_), _) => Err("it needs an address and a key".into()),
            (Ok(_), Some(pid)) => {
                let process = pid.map_or("another crm-mirror".into(), |pid| format!("process {pid}"));
                let why = "writes the mirror and its ledger; `crm-mirror status` shows the result of its runs";
                Err(format!("{process} {why}"))
            }
            (Ok(setup), None) => ask(&setup, &mirror, &wanted)?,
        };
        // Now the ledger contains the cost of the requests.
        let mirror = if service.is_ok() { MirrorFacts::read(config, now) } else { mirror };
        let state_directory = unit::of_file(sources.main_file()).and_then(|unit| unit.state_directory);
        let daemon = session::runtime()?.block_on(session::daemon_state(config));
        Ok(CheckFacts { config, state_directory, offline, now, daemon, mirror, wanted, service })
    }

    /// The number of records of an object at the service, or as far as it was copied; `None` if neither is known.
    pub(super) fn records(&self, object: Object) -> Option<u64> {
        let copied = |mirror: &MirrorFacts| {
            mirror.status.of(object).filter(|held| held.changes_as_of.is_some()).map(|held| held.rows)
        };
        let counted = self.service.as_ref().ok().and_then(|service| service.total(object));
        counted.or_else(|| copied(self.mirror.as_ref().ok()?))
    }

    pub(super) fn per_run(&self) -> u64 {
        self.mirror.as_ref().map_or_else(|_| forecast(&[]).get(), |mirror| mirror.status.ru.per_run)
    }
}

#[derive(Debug)]
pub(super) struct MirrorFacts {
    pub status: MirrorStatus,
    pub identity: Option<Identity>,
    pub damaged_search: Vec<BrokenObject>,
    pub refused_entries: Vec<Finding>,
    /// Users' indexes and triggers, which a run may drop.
    pub not_kept: Vec<String>,
}

impl MirrorFacts {
    fn read(config: &Config, now: Instant) -> Result<MirrorFacts, StoreError> {
        let reader = Reader::open(&config.database)?;
        let moment = reader.begin()?;
        Ok(MirrorFacts {
            status: status::at_moment(&moment, config, now)?,
            identity: moment.state(&StateKey::Identity)?,
            refused_entries: refused_entries(&moment, config)?,
            damaged_search: people_report::damaged_search(&moment)?,
            not_kept: people_report::not_kept(&moment)?,
        })
    }
}

/// The entries of the configuration that commands will refuse, because of what the mirror has.
fn refused_entries(tx: &ReadTx<'_>, config: &Config) -> Result<Vec<Finding>, StoreError> {
    let mut findings = Vec::new();
    let mut refused = |name, what: String, fix| findings.push(Finding::fail(name, Exit::Config, what, fix));
    if config.publish.is_on()
        && let Err(error) = publish::expect_columns(tx, &publish_settings(config))
    {
        refused("exclude.publish", error.to_string(), error.hint().unwrap_or_default());
    }
    if let Some(what) = mcp::unknown_column(tx, config)? {
        refused("exclude.mcp", what, mcp::COLUMNS);
    }
    match expect_no_edits_of(tx, &config.sync.exclude) {
        Err(error @ StoreError::EditOfExcluded { .. }) => {
            refused("exclude.sync", error.to_string(), error.hint().unwrap_or_default());
        }
        read => read?,
    }
    Ok(findings)
}

fn ask(
    setup: &MirrorSettings,
    found: &Result<MirrorFacts, StoreError>,
    wanted: &[Resource],
) -> Result<Result<ServiceReport, String>, Failure> {
    let has_mirror = match found {
        Ok(mirror) if mirror.status.hold_until.is_some() => {
            return Ok(Err("there is a hold, see `mirror.hold`".into()));
        }
        Ok(_) => true,
        Err(StoreError::Missing { .. } | StoreError::NotAMirror { .. }) => false,
        Err(_) => return Ok(Err("its cost cannot be recorded in the mirror".into())),
    };
    let asked = session::runtime()?.block_on(service::ask(setup, wanted, has_mirror));
    Ok(asked.map_err(|error| format!("its cost cannot be recorded: {}", error_chain(&error))))
}
