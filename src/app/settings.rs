//! The settings of a mirror, taken from the configuration.

use std::path::PathBuf;
use std::sync::Arc;

use crate::api::ClientSettings;
use crate::budget::Limits;
use crate::config::{ApiConfig, BudgetConfig, Config, ConfigError, Sources, SyncConfig};
use crate::publish::{Check, PublishSettings};
use crate::store::ViewOptions;
use crate::sync::{ListSchedule, SyncSettings};

/// The number of runs whose median cost is the forecast.
pub const RUNS_OF_FORECAST: u32 = 20;

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
    /// When runs are scheduled.
    pub schedule: SyncConfig,
    /// Whether no new files stay next to the mirror, as after a forecast.
    pub leaves_no_files: bool,
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
            schedule: config.sync.clone(),
            leaves_no_files: false,
        })
    }

    pub(super) fn list_schedule(&self) -> ListSchedule {
        let (cron, zone) = (self.schedule.definitions_schedule.clone(), self.schedule.time_zone.clone());
        Arc::new(move |read| cron.as_ref()?.next_after(read, &zone))
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
