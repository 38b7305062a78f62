//! The configuration as the program uses it: its sections, with paths completed by systemd's directories.

use std::path::{Path, PathBuf};

use secrecy::ExposeSecret as _;
use serde::Deserialize;

use super::error::ConfigError;
use super::layers;
use super::secret::Secret;
use super::sections::{
    ApiConfig, BudgetConfig, DaemonConfig, DatabaseSection, HistoryConfig, LogConfig, McpConfig, NotifyConfig,
    PublishConfig, SyncConfig, WriteBackConfig,
};
use super::sources::{API_KEY, Sources};
use super::unit::{self, ServiceUnit};
use crate::api::ApiKey;
use crate::format::shell_word;
use crate::model::{Object, Resource};
use crate::store::{ViewOptions, beside};

/// The whole configuration. Every part is validated except the address, which may be missing, and the key.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub api: ApiConfig,
    #[serde(rename = "database")]
    storage: DatabaseSection,
    pub budget: BudgetConfig,
    pub sync: SyncConfig,
    pub history: HistoryConfig,
    pub daemon: DaemonConfig,
    pub write_back: WriteBackConfig,
    pub publish: PublishConfig,
    pub notify: NotifyConfig,
    pub mcp: McpConfig,
    pub log: LogConfig,
    #[serde(skip)]
    pub file: Option<PathBuf>,
    #[serde(skip)]
    pub unit: Option<String>,
    #[serde(skip)]
    pub database: PathBuf,
    #[serde(skip)]
    pub socket: PathBuf,
    #[serde(skip)]
    pub key: Secret,
}

impl Config {
    pub fn load(sources: &Sources) -> Result<Config, ConfigError> {
        let (mut config, env): (Config, _) = (layers::read(sources)?, &sources.environment);
        config.validate()?;
        let file = Some(sources.main_file()).filter(|file| file.exists());
        let unit = file.and_then(unit::of_file);
        let ServiceUnit { state_directory, runtime_directory, .. } = unit.clone().unwrap_or_default();
        config.database = config.storage.path.take().unwrap_or_else(|| {
            let of_unit = state_directory.or_else(|| env.directory("STATE_DIRECTORY"));
            let folder = of_unit.or_else(|| file?.parent().map(Path::to_path_buf));
            folder.unwrap_or_default().join("mirror.db").components().collect()
        });
        config.socket = config.daemon.socket.take().unwrap_or_else(|| {
            let of_unit = runtime_directory.or_else(|| env.directory("RUNTIME_DIRECTORY"));
            of_unit.map_or_else(|| beside(&config.database, ".sock"), |dir| dir.join("control.sock"))
        });
        config.publish.complete(&config.sync.exclude, env);
        config.key = Secret::find_key(env, config.api.key_file.take(), unit.as_ref());
        config.file = file.and_then(|file| std::path::absolute(file).ok());
        config.unit = unit.map(|unit| unit.name);
        Ok(config)
    }

    /// What no value shows alone.
    fn validate(&self) -> Result<(), ConfigError> {
        let public = self.daemon.http.filter(|address| !address.ip().is_loopback());
        let (key, reason) = if let Some(address) = public.filter(|_| self.daemon.http_allow.is_empty()) {
            let instead = "list the allowed networks in `daemon.http_allow`, or listen on 127.0.0.1 and use `ssh -L`";
            ("daemon.http", format!("is {address}, which other machines could reach, without a password: {instead}"))
        } else if self.notify.command.is_some() && self.notify.webhook.is_some() {
            ("notify.webhook", "and `notify.command` are both set: choose one".into())
        } else {
            return Ok(());
        };
        Err(ConfigError::Value { key: key.into(), place: "in the configuration".into(), reason })
    }

    pub fn views(&self) -> ViewOptions {
        ViewOptions {
            keep_archived: self.storage.archived_columns,
            indexes: self.storage.indexes.clone(),
            folder: self.storage.views.as_ref().map(|folder| folder.to_string_lossy().into_owned()),
            exclude: self.sync.exclude.clone(),
        }
    }

    pub fn workspace(&self) -> String {
        let stem = self.file.as_deref().and_then(Path::file_stem);
        stem.map_or_else(|| "default".into(), |stem| stem.to_string_lossy().into_owned())
    }

    pub fn command(&self, verb: &str) -> String {
        match &self.file {
            Some(file) => format!("`crm-mirror -c {} {verb}`", shell_word(&file.to_string_lossy())),
            None => format!("`crm-mirror {verb}`"),
        }
    }

    pub fn mirrors(&self, object: Resource) -> bool {
        self.sync.objects.as_deref().is_none_or(|named| named.contains(&object))
    }

    /// Whether a resource is read: definitions are needed by the records that have them, too.
    pub fn reads(&self, resource: Resource) -> bool {
        let has_records = || Object::ALL.into_iter().any(|object| self.mirrors(object.resource()));
        self.mirrors(resource) || resource == Resource::CustomFields && has_records()
    }

    /// Reads the files of secrets now: later the process may not be allowed to. With `as_unit` only what systemd reads for it.
    pub fn hold_secrets(&mut self, as_unit: bool) {
        self.key.hold(as_unit);
        self.publish.url.hold(as_unit);
    }

    pub fn api_key(&self) -> Result<ApiKey, ConfigError> {
        let text = self.key.read(ConfigError::NoKey)?;
        ApiKey::new(text.expose_secret()).map_err(|why| {
            let path = self.key.place.path().map(|path| path.display().to_string());
            ConfigError::BadKey { place: path.unwrap_or_else(|| API_KEY.into()), why }
        })
    }
}
