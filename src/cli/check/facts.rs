//! The input of the probes, collected before the first of them runs; and the user of the unit that reads the configuration.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::Access;
use rustix::process::geteuid;

use super::Finding;
use super::service::{self, ServiceReport};
use crate::app::status::{self, MirrorStatus};
use crate::app::{MirrorSettings, ids_of, publish_settings};
use crate::budget::forecast;
use crate::cli::{DaemonState, Failure, identity, mcp, session};
use crate::config::{Config, ServiceUnit, Sources, unit};
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
    pub(super) unit: Option<UnitUser>,
    pub(super) offline: bool,
    pub(super) now: Instant,
    pub(super) daemon: (Option<DaemonStatus>, DaemonState),
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
        let setup = MirrorSettings::new(config.clone()).ok().filter(|_| !offline);
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
        let unit = unit::of_file(sources.main_file()).filter(|_| geteuid().is_root()).map(UnitUser::of);
        let daemon = session::runtime()?.block_on(session::daemon_state(config));
        Ok(CheckFacts { config, unit, offline, now, daemon, writer, mirror, wanted, service })
    }

    /// The number of records of an object at the service, or as far as it was copied; `None` if neither is known.
    pub(super) fn records(&self, object: Object) -> Option<u64> {
        let copied = |mirror: &MirrorFacts| {
            mirror.status.of(object).filter(|held| held.changes_as_of.is_some()).map(|held| held.rows)
        };
        self.counted(object).or_else(|| copied(self.mirror.as_ref().ok()?))
    }

    pub(super) fn counted(&self, object: Object) -> Option<u64> {
        self.service.as_ref().ok()?.total(object)
    }

    pub(super) fn per_run(&self) -> u64 {
        self.mirror.as_ref().map_or_else(|_| forecast(&[]).get(), |mirror| mirror.status.ru.per_run)
    }
}

#[derive(Debug)]
pub(super) struct MirrorFacts {
    pub status: MirrorStatus,
    identity: Option<Identity>,
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

    /// Whether the mirror belongs to this address and key, as far as the file shows; `None` before the first run.
    pub(super) fn is_of(&self, base_url: &str, fingerprint: &str) -> Option<bool> {
        let known = self.identity.as_ref()?;
        Some(known.base_url == base_url && known.key == fingerprint)
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

/// A process of that user asks the system whether access is allowed, because modes alone do not include access control
/// lists and parent directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnitUser {
    pub unit: ServiceUnit,
    /// The ids of the user and its group; `None` if there is no such user.
    ids: Option<(u32, u32)>,
}

impl UnitUser {
    pub(super) fn of(unit: ServiceUnit) -> UnitUser {
        let ids = ids_of(&unit.user);
        UnitUser { unit, ids }
    }

    pub(super) fn exists(&self) -> bool {
        self.ids.is_some()
    }

    /// Whether the user may read a file or write it; to write a directory is to create files in it.
    pub(super) fn may(&self, wanted: Access, path: &Path) -> Option<bool> {
        let (user, group) = self.ids?;
        let flag = if wanted == Access::WRITE_OK { "-w" } else { "-r" };
        // The process keeps none of the groups of the current user.
        let mut command = Command::new("/usr/bin/test");
        command.arg(flag).arg(path).uid(user).gid(group).stdin(Stdio::null()).stderr(Stdio::null());
        command.status().ok().map(|status| status.success())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown};

    #[test]
    fn access_of_a_user_is_determined_by_the_system() {
        let dir = tempfile::tempdir().unwrap();
        let directory = dir.path().join("state");
        std::fs::create_dir(&directory).unwrap();
        // Only root can change the owner of a directory.
        if chown(&directory, Some(65_534), Some(65_534)).is_err() {
            return;
        }
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let unit = ServiceUnit {
            name: "u".into(),
            user: "nobody".into(),
            credential: None,
            state_directory: None,
            runtime_directory: None,
        };
        let user = UnitUser { unit, ids: Some((65_534, 65_534)) };
        assert_eq!(user.may(Access::WRITE_OK, &directory), Some(true));
        assert_eq!(user.may(Access::WRITE_OK, dir.path()), Some(false));
        let key = dir.path().join("key");
        std::fs::write(&key, "k").unwrap();
        std::fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).unwrap();
        assert_eq!(user.may(Access::READ_OK, &key), Some(false));
        // A parent directory that the user cannot enter.
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o700)).unwrap();
        assert_eq!(user.may(Access::WRITE_OK, &directory), Some(false));
    }
}
