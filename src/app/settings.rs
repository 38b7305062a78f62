//! What a mirror is made of, taken from the configuration.

use std::path::PathBuf;

use jiff::tz::TimeZone;

use crate::api::ClientSettings;
use crate::budget::Limits;
use crate::config::{ApiConfig, BudgetConfig, Config, ConfigError, Cron};
use crate::sync::SyncSettings;

/// What a mirror is made of.
#[derive(Clone, Debug)]
pub struct MirrorSettings {
    /// The service.
    pub api: ApiConfig,
    /// The mirror's file.
    pub database: PathBuf,
    /// The most custom fields of each object that have an index.
    pub custom_indexes: u32,
    /// What may be spent.
    pub limits: Limits,
    /// How runs behave.
    pub sync: SyncSettings,
    /// When runs are scheduled, and in which zone; `None` for never.
    pub schedule: Option<(Cron, TimeZone)>,
}

impl MirrorSettings {
    /// What the configuration asks for; reads the key.
    ///
    /// # Errors
    /// Without an address or a key.
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
            },
            api,
            database: config.database.clone(),
            custom_indexes: config.custom_indexes,
            limits: limits(&config.budget),
            schedule: config.sync.schedule.clone().map(|cron| (cron, config.sync.time_zone.clone())),
        })
    }

    /// How the client of the service behaves.
    pub(super) fn client(&self) -> ClientSettings {
        ClientSettings {
            timeout: self.api.timeout,
            concurrency: self.api.concurrency,
            ..ClientSettings::new(self.api.base_url.clone())
        }
    }
}

/// The budget as the ledger wants it.
pub fn limits(budget: &BudgetConfig) -> Limits {
    Limits { limit: budget.limit, window: budget.window, charge_failed: budget.charge_failed }
}
