//! The settings of a mirror, taken from the configuration.

use crate::api::{ApiKey, BaseUrl, ClientSettings};
use crate::budget::Limits;
use crate::config::{BudgetConfig, Config, ConfigError};
use crate::publish::{Check, PublishSettings};
use crate::sync::SyncSettings;

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

/// A configuration with the address and the key, so that a mirror can be opened.
#[derive(Clone, Debug)]
pub struct MirrorSettings {
    pub config: Config,
    pub base_url: BaseUrl,
    pub key: ApiKey,
}

impl MirrorSettings {
    pub fn new(config: Config) -> Result<MirrorSettings, ConfigError> {
        let base_url = config.api.base_url.clone().ok_or(ConfigError::NoBaseUrl)?;
        Ok(MirrorSettings { base_url, key: config.api_key()?, config })
    }

    pub fn sync(&self) -> SyncSettings {
        let (config, sync) = (&self.config, &self.config.sync);
        SyncSettings {
            overlap: sync.overlap,
            details: sync.details,
            concurrency: config.api.concurrency,
            most_removals: sync.max_removals,
            retention: config.history.retention,
            detail_max_age: sync.detail_max_age,
            write_back: config.write_back.enabled,
            max_edits: config.write_back.max_edits,
            ..SyncSettings::default()
        }
    }

    pub fn client(&self) -> ClientSettings {
        ClientSettings {
            timeout: self.config.api.timeout,
            concurrency: self.config.api.concurrency,
            ..ClientSettings::new(self.base_url.clone())
        }
    }
}

/// The limits of the ledger. Nothing says whether failed requests are charged: that they are is the safe assumption.
pub fn limits(budget: &BudgetConfig) -> Limits {
    Limits { limit: budget.limit, window: budget.window, charge_failed: true }
}
