//! The settings of a mirror, taken from the configuration.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::tz::TimeZone;

use crate::api::ClientSettings;
use crate::budget::Limits;
use crate::config::{ApiConfig, BudgetConfig, ChangesSchedule, Config, ConfigError, Cron, Sources};
use crate::publish::{Check, PublishSettings};
use crate::store::ViewOptions;
use crate::sync::{ListSchedule, SyncSettings};

pub fn publish_settings(config: &Config) -> PublishSettings {
    let publish = &config.publish;
    PublishSettings {
        mirror: config.database.clone(),
        schema: publish.schema.clone(),
        objects: publish.objects.clone(),
        exclude: publish.exclude.clone(),
        full: false,
        check: Check::None,
    }
}

#[derive(Clone, Debug)]
pub struct MirrorSettings {
    pub api: ApiConfig,
    pub database: PathBuf,
    pub views: ViewOptions,
    pub limits: Limits,
    pub sync: SyncSettings,
    /// When definitions and team members are read again, with the time zone; `None` means never by time alone.
    pub definitions: Option<(Cron, TimeZone)>,
    /// When runs are scheduled that nothing else may starve.
    pub schedule: ReservedRuns,
    /// Whether no new files stay next to the mirror, as after a forecast.
    pub leaves_no_files: bool,
}

/// When the runs are due that edits, sweeps and details leave RU for.
#[derive(Clone, Debug)]
pub struct ReservedRuns {
    pub changes: ChangesSchedule,
    pub audits: Option<Cron>,
    pub zone: TimeZone,
}

impl ReservedRuns {
    pub(super) fn of(config: &Config) -> ReservedRuns {
        let sync = &config.sync;
        ReservedRuns {
            changes: sync.schedule.clone(),
            audits: sync.audit_schedule.clone(),
            zone: sync.time_zone.clone(),
        }
    }
}

impl MirrorSettings {
    /// Reads the configuration, and the key.
    pub fn load(sources: &Sources) -> Result<(MirrorSettings, Config), ConfigError> {
        let config = Config::load(sources)?;
        Ok((MirrorSettings::from_config(&config)?, config))
    }

    /// Takes the settings from the configuration, and reads the key.
    pub fn from_config(config: &Config) -> Result<MirrorSettings, ConfigError> {
        let api = config.api()?;
        Ok(MirrorSettings {
            sync: SyncSettings {
                overlap: config.sync.overlap,
                details: config.sync.details,
                concurrency: api.concurrency,
                most_removals: config.sync.max_removals,
                retention: config.history,
                detail_max_age: config.sync.detail_max_age,
                write_back: config.write_back,
                max_edits: config.max_edits,
                ..SyncSettings::default()
            },
            api,
            database: config.database.clone(),
            views: config.views.clone(),
            limits: limits(&config.budget),
            definitions: config.sync.definitions_schedule.clone().map(|cron| (cron, config.sync.time_zone.clone())),
            schedule: ReservedRuns::of(config),
            leaves_no_files: false,
        })
    }

    pub(super) fn list_schedule(&self) -> ListSchedule {
        let schedule = self.definitions.clone();
        Arc::new(move |read| schedule.as_ref().and_then(|(cron, zone)| cron.next_after(read, zone)))
    }

    pub fn client(&self) -> ClientSettings {
        ClientSettings {
            timeout: self.api.timeout,
            concurrency: self.api.concurrency,
            ..ClientSettings::new(self.api.base_url.clone())
        }
    }
}

/// The limits of the ledger. The service does not document whether it charges failed requests: that it does is the safe
/// assumption.
pub fn limits(budget: &BudgetConfig) -> Limits {
    Limits { limit: budget.limit, window: budget.window, charge_failed: true }
}
