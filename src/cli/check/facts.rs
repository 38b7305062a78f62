//! The input of the probes, collected before the first of them runs.

use super::service::{self, ServiceReport};
use super::unit_user::UnitUser;
use crate::app::MirrorSettings;
use crate::app::status::{self, MirrorStatus};
use crate::budget::{Limits, forecast};
use crate::cli::remote::{self, DaemonState};
use crate::cli::{Failure, identity, session};
use crate::config::{Config, Sources, unit};
use crate::daemon::DaemonStatus;
use crate::error_chain::error_chain;
use crate::model::{Instant, Object, Resource};
use crate::store::{BrokenObject, Reader, StateKey, StoreError, lock, people_report};
use crate::sync::checks::identity::Identity;

#[derive(Debug)]
pub(super) struct CheckFacts<'a> {
    pub(super) config: &'a Config,
    /// The user of the unit that reads the configuration, if root runs the check.
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
        let wanted = service::wanted(config.sync.objects.as_deref());
        // The key may be readable for root only.
        let setup = MirrorSettings::from_config(config).ok().filter(|_| !offline);
        let (writer, mirror, service) = identity::acting_as_owner(&config.database, || {
            let writer = lock::current_writer(&config.database);
            let mirror = MirrorFacts::read(config, now);
            let service = match (setup, writer) {
                (None, _) if offline => Err("--offline".into()),
                (None, _) => Err("it needs an address and a key".into()),
                (Some(_), Some(pid)) => {
                    let why = "writes the mirror and its ledger; `crm-mirror status` shows the result of its runs";
                    Err(format!("{} {why}", process(pid)))
                }
                (Some(setup), None) => ask(&setup, &mirror, &wanted)?,
            };
            // Now the ledger contains the cost of the requests.
            let mirror = if service.is_ok() { MirrorFacts::read(config, now) } else { mirror };
            Ok((writer, mirror, service))
        })?;
        // Only root can determine what another user can access.
        let unit = unit::of_file(sources.main_file()).filter(|_| unit::is_root()).map(UnitUser::of);
        let daemon = session::runtime()?.block_on(remote::daemon_state(config));
        let limits = crate::app::limits(&config.budget);
        Ok(CheckFacts { config, unit, offline, now, limits, daemon, writer, mirror, wanted, service })
    }

    /// The number of records of an object at the service, or as far as it was copied; `None` if neither is known.
    pub(super) fn records(&self, object: Object) -> Option<u64> {
        let copied = |mirror: &MirrorFacts| {
            mirror.status.of(object).filter(|held| held.changes_as_of.is_some()).map(|held| held.rows)
        };
        self.counted(object).or_else(|| copied(self.mirror.as_ref().ok()?))
    }

    /// The number of records of an object at the service, if it was counted.
    pub(super) fn counted(&self, object: Object) -> Option<u64> {
        self.service.as_ref().ok()?.total(object)
    }

    /// The likely cost of a run for changes.
    pub(super) fn per_run(&self) -> u64 {
        self.mirror.as_ref().map_or_else(|_| forecast(&[]).get(), |mirror| mirror.status.ru.per_run)
    }
}

#[derive(Debug)]
pub(super) struct MirrorFacts {
    pub status: MirrorStatus,
    /// The workspace; `None` before the first run.
    identity: Option<Identity>,
    pub damaged_search: Vec<BrokenObject>,
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
            damaged_search: people_report::damaged_search(&moment)?,
            not_kept: people_report::not_kept(&moment)?,
        })
    }

    /// Whether the mirror belongs to this address and key, as far as the file shows; `None` before the first run.
    pub(super) fn is_of(&self, base_url: &str, fingerprint: &str) -> Option<bool> {
        let known = self.identity.as_ref()?;
        Some(known.base_url == base_url && known.key == fingerprint)
    }
}

/// Sends the requests, or returns why none was sent.
fn ask(
    setup: &MirrorSettings,
    found: &Result<MirrorFacts, StoreError>,
    wanted: &[Resource],
) -> Result<Result<ServiceReport, String>, Failure> {
    let mirror = match found {
        Ok(mirror) if mirror.status.hold_until.is_some() => {
            return Ok(Err("there is a hold, see `mirror.hold`".into()));
        }
        Ok(mirror) => Some(mirror),
        Err(StoreError::Missing { .. } | StoreError::NotAMirror { .. }) => None,
        Err(_) => return Ok(Err("its cost cannot be recorded in the mirror".into())),
    };
    let is_new =
        |mirror: &MirrorFacts| mirror.is_of(setup.api.base_url.as_str(), &setup.api.key.fingerprint()) == Some(false);
    let asked = service::ask(setup, wanted, mirror.map(is_new));
    Ok(session::runtime()?
        .block_on(asked)
        .map_err(|error| format!("its cost cannot be recorded: {}", error_chain(&error))))
}

pub(super) fn process(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another crm-mirror".into(), |pid| format!("process {pid}"))
}
