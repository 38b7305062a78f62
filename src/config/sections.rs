//! The sections of the configuration, one type each. Unknown keys and values out of bounds are refused.
//!
//! Defaults are not here: `config/default.toml` is the lowest layer. A key without a default is an `Option`.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::tz::TimeZone;
use reqwest::Url;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use super::cron::{ChangesSchedule, Cron};
use super::error::ConfigError;
use super::network::Network;
use super::sources::{Environment, PUBLISH_URL};
use super::{api_key, values};
use crate::api::BaseUrl;
use crate::model::{ExcludedFields, Resource, Ru};
use crate::store::{LabelColumns, SearchForm};

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;
const YEAR: u64 = 366 * DAY;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sections {
    pub api: ApiSection,
    pub database: DatabaseSection,
    pub budget: BudgetConfig,
    pub sync: SyncConfig,
    pub history: HistorySection,
    pub daemon: DaemonSection,
    pub write_back: WriteBackSection,
    pub publish: PublishConfig,
    pub notify: NotifySection,
    pub mcp: McpConfig,
    pub log: LogConfig,
}

/// `[api]`: the service. The key itself is not a setting.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ApiSection {
    #[serde(default, deserialize_with = "values::base_url")]
    pub base_url: Option<BaseUrl>,
    #[serde(default, deserialize_with = "values::path")]
    pub key_file: Option<PathBuf>,
    #[serde(deserialize_with = "values::whole::<_, _, 1, 64>")]
    pub concurrency: u32,
    #[serde(deserialize_with = "values::seconds::<_, 1, HOUR>")]
    pub timeout: Duration,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DatabaseSection {
    #[serde(default, deserialize_with = "values::path")]
    pub path: Option<PathBuf>,
    #[serde(deserialize_with = "values::indexed_columns")]
    pub indexes: Vec<String>,
    #[serde(default, deserialize_with = "values::path")]
    pub views: Option<PathBuf>,
    #[serde(deserialize_with = "values::keep_or_hide")]
    pub archived_columns: bool,
    #[serde(deserialize_with = "values::label_columns")]
    pub label_columns: LabelColumns,
    #[serde(deserialize_with = "values::search_form")]
    pub search: SearchForm,
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

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HistorySection {
    /// `None` for forever.
    #[serde(deserialize_with = "values::age")]
    pub retention: Option<Duration>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DaemonSection {
    #[serde(default, deserialize_with = "values::path")]
    pub socket: Option<PathBuf>,
    #[serde(default, deserialize_with = "values::address")]
    pub http: Option<SocketAddr>,
    #[serde(default, deserialize_with = "values::networks")]
    pub http_allow: Vec<Network>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteBackSection {
    #[serde(deserialize_with = "values::switch")]
    pub enabled: bool,
    #[serde(deserialize_with = "values::whole::<_, _, 0, 1_000_000>")]
    pub max_edits: u64,
}

/// `[publish]`: the database to publish to, and what is published. The URL contains a password: like the API key it passes
/// through no layer and is read only when it is needed.
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
    url: Option<SecretString>,
}

impl PublishConfig {
    /// The section with the URL of the environment, which overrides the file.
    pub(super) fn completed(mut self, unmirrored: &[String], env: &Environment) -> PublishConfig {
        self.url = env.get(PUBLISH_URL).map(SecretString::from);
        self.url_file.take_if(|_| self.url.is_some());
        // What is not mirrored any more is withdrawn where it was published.
        self.exclude.extend(unmirrored.iter().flat_map(|entry| ExcludedFields::of_tables(entry)));
        self
    }

    pub fn is_on(&self) -> bool {
        self.url.is_some() || self.url_file.is_some()
    }

    pub fn url_file(&self) -> Option<&Path> {
        self.url_file.as_deref()
    }

    pub(super) fn hold(&mut self) {
        self.url = self.url().ok();
    }

    pub fn url(&self) -> Result<SecretString, ConfigError> {
        let text = match (&self.url, &self.url_file) {
            (Some(text), _) => text.clone(),
            (None, Some(path)) => {
                api_key::read_file(path).map_err(|source| ConfigError::PublishUrlFile { path: path.clone(), source })?
            }
            (None, None) => return Err(ConfigError::NoPublishUrl),
        };
        Ok(SecretString::from(text.expose_secret().trim()))
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NotifySection {
    #[serde(default, deserialize_with = "values::command")]
    pub command: Option<Vec<String>>,
    #[serde(default, deserialize_with = "values::webhook")]
    pub webhook: Option<Url>,
}

#[derive(Clone, Default, strum::AsRefStr)]
pub enum NotifyConfig {
    #[default]
    Off,
    Command(Vec<String>),
    /// An address that is a secret: whoever knows it may post there.
    Webhook(Url),
}

impl NotifyConfig {
    pub(super) fn new(section: NotifySection) -> Result<NotifyConfig, ConfigError> {
        match (section.command, section.webhook) {
            (None, None) => Ok(NotifyConfig::Off),
            (Some(command), None) => Ok(NotifyConfig::Command(command)),
            (None, Some(webhook)) => Ok(NotifyConfig::Webhook(webhook)),
            (Some(_), Some(_)) => Err(ConfigError::Value {
                key: "notify.webhook".into(),
                place: "in the configuration".into(),
                reason: "and `notify.command` are both set: choose one".into(),
            }),
        }
    }
}

impl fmt::Debug for NotifyConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_ref())
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
