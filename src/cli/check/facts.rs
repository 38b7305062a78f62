//! The input of the probes, collected before the first of them runs.

use std::path::PathBuf;

use super::mirror::{self, MirrorFacts};
use super::service::{self, ServiceReport};
use super::unit_user::UnitUser;
use crate::app::MirrorSettings;
use crate::budget::Limits;
use crate::cli::remote::{self, DaemonState};
use crate::cli::{Failure, identity, session};
use crate::config::{Config, ConfigError, Sources, unit};
use crate::daemon::DaemonStatus;
use crate::error_chain::error_chain;
use crate::model::{Instant, Object, Resource};
use crate::store::{StoreError, lock};

#[derive(Debug)]
pub(super) struct CheckFacts<'a> {
    pub(super) config: &'a Config,
    pub(super) configuration_files: Vec<PathBuf>,
    /// The user of the unit that reads it, if root runs the check.
    pub(super) unit: Option<UnitUser>,
    pub(super) offline: bool,
    pub(super) now: Instant,
    pub(super) limits: Limits,
    pub(super) daemon: (Option<DaemonStatus>, DaemonState),
    /// The process that writes the mirror, if there is one.
    pub(super) writer: Option<Option<u32>>,
    pub(super) mirror: Result<MirrorFacts, StoreError>,
    pub(super) wanted: Vec<Resource>,
    /// The service's answers, or why no request was sent.
    pub(super) service: Result<ServiceReport, String>,
}

impl<'a> CheckFacts<'a> {
    pub(super) fn collect(sources: &Sources, config: &'a Config, offline: bool) -> Result<CheckFacts<'a>, Failure> {
        let now = Instant::system_now();
        let limits = crate::app::limits(&config.budget);
        let wanted = service::wanted(config.sync.objects.as_deref());
        // The key may be readable for root only.
        let setup = MirrorSettings::from_config(config);
        let (writer, mirror, service) = identity::acting_as_owner(&config.database, || {
            let writer = lock::current_writer(&config.database);
            let mirror = MirrorFacts::read(&config.database, &limits, now);
            let service = ask(setup, offline, writer, &mirror, &wanted)?;
            // Now the ledger contains the cost of the requests.
            let mirror = if service.is_ok() { MirrorFacts::read(&config.database, &limits, now) } else { mirror };
            Ok((writer, mirror, service))
        })?;
        let configuration_files: Vec<PathBuf> =
            sources.files().unwrap_or_default().into_iter().map(|(path, _)| path).collect();
        // Only root can determine what another user can access.
        let unit = unit::of_file(sources.main_file()).filter(|_| unit::is_root()).map(UnitUser::of);
        let daemon = session::runtime()?.block_on(remote::daemon_state(config));
        Ok(CheckFacts {
            config,
            configuration_files,
            unit,
            offline,
            now,
            limits,
            daemon,
            writer,
            mirror,
            wanted,
            service,
        })
    }

    pub(super) fn here(&self) -> Option<&MirrorFacts> {
        self.mirror.as_ref().ok()
    }

    /// The number of records of each object at the service, if known.
    pub(super) fn totals(&self) -> [Option<u64>; 2] {
        Object::ALL.map(|object| self.service.as_ref().ok()?.total(object))
    }
}

/// Sends the requests, or returns why none was sent.
fn ask(
    setup: Result<MirrorSettings, ConfigError>,
    offline: bool,
    writer: Option<Option<u32>>,
    found: &Result<MirrorFacts, StoreError>,
    wanted: &[Resource],
) -> Result<Result<ServiceReport, String>, Failure> {
    let Ok(setup) = setup else {
        return Ok(Err("no request sent: it needs an address and a key".into()));
    };
    if offline {
        return Ok(Err("no request sent: --offline".into()));
    }
    if let Some(pid) = writer {
        let why = "writes the mirror and its ledger; `crm-mirror status` shows the result of its runs";
        return Ok(Err(format!("no request sent: {} {why}", mirror::process(pid))));
    }
    let runtime = session::runtime()?;
    let asked = match found {
        Ok(here) if here.hold.is_some() => Err("no request sent: there is a hold, see `mirror.hold`".into()),
        Ok(here) => {
            let fingerprint = setup.api.key.fingerprint();
            let new = mirror::is_ours(here, setup.api.base_url.as_str(), &fingerprint) == Some(false);
            let asked = runtime.block_on(service::ask_for(&setup.database, &setup, wanted, new));
            asked.map_err(|error| format!("no request sent: its cost cannot be recorded: {}", error_chain(&error)))
        }
        Err(StoreError::Missing { .. } | StoreError::NotAMirror { .. }) => {
            Ok(runtime.block_on(service::request_without_mirror(&setup, wanted)))
        }
        Err(_) => Err("no request sent: its cost cannot be recorded in the mirror".into()),
    };
    Ok(asked)
}
