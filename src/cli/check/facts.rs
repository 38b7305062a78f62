//! What the probes judge: collected once, before the first of them.

use super::mirror::{self, MirrorFacts};
use super::service::{self, ServiceReport};
use crate::app::MirrorSettings;
use crate::budget::Limits;
use crate::cli::Failure;
use crate::cli::session;
use crate::config::Config;
use crate::error_chain::error_chain;
use crate::model::{Instant, Object, Resource};
use crate::store::{StoreError, lock};

/// What is known, and what could not be found out.
#[derive(Debug)]
pub struct CheckFacts<'a> {
    /// The configuration, which can be used.
    pub(super) config: &'a Config,
    /// Whether nothing beyond this machine may be asked.
    pub(super) offline: bool,
    /// The time of the check.
    pub(super) now: Instant,
    /// What may be spent.
    pub(super) limits: Limits,
    /// Which process writes the mirror, where one does.
    pub(super) writer: Option<Option<u32>>,
    /// The mirror.
    pub(super) mirror: Result<MirrorFacts, StoreError>,
    /// What the service is asked for.
    pub(super) wanted: Vec<Resource>,
    /// What the service answered, or why it was not asked.
    pub(super) service: Result<ServiceReport, String>,
}

impl<'a> CheckFacts<'a> {
    /// Collects everything.
    ///
    /// # Errors
    /// When the system gives no threads.
    pub fn collect(config: &'a Config, offline: bool) -> Result<CheckFacts<'a>, Failure> {
        let now = Instant::system_now();
        let limits = crate::app::limits(&config.budget);
        let writer = lock::who_writes(&config.database);
        let mut mirror = MirrorFacts::read(&config.database, &limits, now);
        let wanted = service::wanted(config.sync.objects.as_deref());
        let service = ask(config, offline, writer, &mirror, &wanted)?;
        if service.is_ok() {
            // Its ledger has what the answers cost.
            mirror = MirrorFacts::read(&config.database, &limits, now);
        }
        Ok(CheckFacts { config, offline, now, limits, writer, mirror, wanted, service })
    }

    /// The mirror, where there is one that can be read.
    pub(super) fn here(&self) -> Option<&MirrorFacts> {
        self.mirror.as_ref().ok()
    }

    /// What the service has of each object, where that is known.
    pub(super) fn totals(&self) -> [Option<u64>; 2] {
        Object::ALL.map(|object| self.service.as_ref().ok()?.total(object))
    }
}

/// Asks the service; or says why it was not asked.
fn ask(
    config: &Config,
    offline: bool,
    writer: Option<Option<u32>>,
    found: &Result<MirrorFacts, StoreError>,
    wanted: &[Resource],
) -> Result<Result<ServiceReport, String>, Failure> {
    let Ok(setup) = MirrorSettings::from_config(config) else {
        return Ok(Err("not asked: it takes an address and a key".into()));
    };
    if offline {
        return Ok(Err("not asked: --offline".into()));
    }
    if let Some(pid) = writer {
        let why = "writes the mirror and keeps its ledger; `crm-mirror status` shows the result of its runs";
        return Ok(Err(format!("not asked: {} {why}", mirror::process(pid))));
    }
    let runtime = session::runtime()?;
    let asked = match found {
        Ok(here) if here.hold.is_some() => Err("not asked: a rate limit is in force, see `mirror.hold`".into()),
        Ok(here) if here.is_older() => {
            Err("not asked, since what it costs cannot be entered before the mirror is up to date".into())
        }
        Ok(here) => {
            let fingerprint = setup.api.key.fingerprint();
            let new = mirror::is_ours(here, setup.api.base_url.as_str(), &fingerprint) == Some(false);
            let asked = runtime.block_on(service::ask_for(&config.database, &setup, wanted, new));
            asked.map_err(|error| format!("not asked, since what it costs cannot be entered: {}", error_chain(&error)))
        }
        Err(StoreError::Missing { .. } | StoreError::NotAMirror { .. }) => {
            Ok(runtime.block_on(service::ask_alone(&setup, wanted)))
        }
        Err(_) => Err("not asked, since what it costs cannot be entered in the mirror".into()),
    };
    Ok(asked)
}
