//! The sections of the configuration, one type each. Unknown keys and values out of bounds are refused.
//!
//! Defaults are not here: `config/default.toml` is the lowest layer. A key without a default is an `Option`.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use jiff::tz::TimeZone;
use reqwest::Url;
use secrecy::SecretString;
use serde::Deserialize;

use super::cron::{ChangesSchedule, Cron};
use super::error::ConfigError;
use super::network::Network;
use super::secret::{Secret, SecretPlace};
use super::sources::{Environment, PUBLISH_URL};
use super::values;
use crate::api::BaseUrl;
use crate::model::{Exclusions, Resource, Ru};

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;
const YEAR: u64 = 366 * DAY;

/// `[api]`: the service. The key itself is not a setting.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiConfig {
    #[serde(default, deserialize_with = "values::base_url")]
    pub base_url: Option<BaseUrl>,
    #[serde(default, deserialize_with = "values::path")]
    pub(super) key_file: Option<PathBuf>,
    #[serde(deserialize_with = "values::whole::<_, _, 1, 64>")]
    pub concurrency: u32,
    #[serde(deserialize_with = "values::seconds::<_, 1, HOUR>")]
    pub timeout: Duration,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DatabaseSection {
    #[serde(default, deserialize_with = "values::path")]
    pub path: Option<PathBuf>,
    #[serde(deserialize_with = "values::columns")]
    pub indexes: Vec<String>,
    #[serde(default, deserialize_with = "values::path")]
    pub views: Option<PathBuf>,
    #[serde(deserialize_with = "values::keep_or_hide")]
    pub archived_columns: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BudgetConfig {
    #[serde(deserialize_with = "values::request_units")]
    pub limit: Ru,
    #[serde(deserialize_with = "values::seconds::<_, 60, YEAR>")]
    pub window: Duration,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SyncConfig {
    /// The objects; `None` for all that the key may read.
    #[serde(deserialize_with = "values::objects")]
    pub objects: Option<Vec<Resource>>,
    #[serde(deserialize_with = "values::excluded_columns")]
    pub exclude: Vec<String>,
    #[serde(deserialize_with = "values::changes_schedule")]
    pub schedule: ChangesSchedule,
    #[serde(deserialize_with = "values::seconds::<_, 5, HOUR>")]
    pub min_interval: Duration,
    #[serde(deserialize_with = "values::schedule")]
    pub audit_schedule: Option<Cron>,
    /// When to read definitions and team members again; `None` means never by time alone.
    #[serde(deserialize_with = "values::schedule")]
    pub definitions_schedule: Option<Cron>,
    #[serde(deserialize_with = "values::schedule")]
    pub sweep_schedule: Option<Cron>,
    #[serde(deserialize_with = "values::time_zone")]
    pub time_zone: TimeZone,
    #[serde(deserialize_with = "values::seconds::<_, 0, DAY>")]
    pub overlap: Duration,
    #[serde(deserialize_with = "values::all_or_off")]
    pub details: bool,
    /// The age at which a detail is read again; `None` for never.
    #[serde(deserialize_with = "values::age")]
    pub detail_max_age: Option<Duration>,
    #[serde(deserialize_with = "values::fraction")]
    pub max_removals: f64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistoryConfig {
    /// How long changes are kept; `None` for forever.
    #[serde(deserialize_with = "values::age")]
    pub retention: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DaemonConfig {
    #[serde(default, deserialize_with = "values::path")]
    pub(super) socket: Option<PathBuf>,
    /// Where the status page is served: a loopback address, unless `http_allow` names networks.
    #[serde(default, deserialize_with = "values::address")]
    pub http: Option<SocketAddr>,
    #[serde(default, deserialize_with = "values::networks")]
    pub http_allow: Vec<Network>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteBackConfig {
    #[serde(deserialize_with = "values::switch")]
    pub enabled: bool,
    #[serde(deserialize_with = "values::whole::<_, _, 0, 1_000_000>")]
    pub max_edits: u64,
}

/// `[publish]`: where to, and what. The URL contains a password: like the API key it passes through no layer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishConfig {
    #[serde(default, deserialize_with = "values::path")]
    url_file: Option<PathBuf>,
    #[serde(deserialize_with = "values::schema_name")]
    pub schema: String,
    #[serde(deserialize_with = "values::objects")]
    pub objects: Option<Vec<Resource>>,
    /// Columns that are never published: `column`, or `table.column`.
    #[serde(deserialize_with = "values::columns")]
    pub exclude: Vec<String>,
    #[serde(skip)]
    pub url: Secret,
}

impl PublishConfig {
    /// Adds the URL of the environment, which overrides the file.
    pub(super) fn complete(&mut self, unmirrored: &[String], env: &Environment) {
        self.url = Secret::find(env, PUBLISH_URL, self.url_file.take());
        // What is not mirrored any more is withdrawn where it was published.
        self.exclude.extend(unmirrored.iter().flat_map(|entry| Exclusions::of_tables(entry)));
    }

    pub fn is_on(&self) -> bool {
        self.url.place != SecretPlace::Nowhere
    }

    pub fn url(&self) -> Result<SecretString, ConfigError> {
        self.url.read(ConfigError::NoPublishUrl)
    }
}

/// `[notify]`: at most one of the two is set.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NotifyConfig {
    #[serde(default, deserialize_with = "values::command")]
    pub command: Option<Vec<String>>,
    /// An address that is a secret: whoever knows it may post there.
    #[serde(default, deserialize_with = "values::webhook")]
    pub webhook: Option<Url>,
}

impl NotifyConfig {
    pub fn is_on(&self) -> bool {
        self.command.is_some() || self.webhook.is_some()
    }
}

impl fmt::Debug for NotifyConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotifyConfig").field("is_on", &self.is_on()).finish()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McpConfig {
    #[serde(deserialize_with = "values::columns")]
    pub exclude: Vec<String>,
    #[serde(default, deserialize_with = "values::path")]
    pub log: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogConfig {
    #[serde(deserialize_with = "values::log_filter")]
    pub level: String,
    pub format: LogFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For the journal under systemd, text elsewhere.
    Auto,
    Text,
    Json,
}
