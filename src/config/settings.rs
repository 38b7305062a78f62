//! The configuration as the program uses it: plain values, with paths completed by systemd's directories.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::api_key::{KeyPlace, KeySource};
use super::error::ConfigError;
use super::layers;
use super::network::Network;
use super::sections::{
    ApiSection, BudgetConfig, LogConfig, McpConfig, NotifyConfig, PublishConfig, Sections, SyncConfig,
};
use super::sources::Sources;
use super::unit::{self, ServiceUnit};
use crate::api::{ApiKey, BaseUrl};
use crate::format::shell_word;
use crate::model::Resource;
use crate::store::{ViewOptions, beside};

/// The whole configuration. Every part is validated except the address and the key, which [`Config::api`] requires.
#[derive(Clone, Debug)]
pub struct Config {
    pub file: Option<PathBuf>,
    pub unit: Option<String>,
    pub database: PathBuf,
    pub views: ViewOptions,
    pub budget: BudgetConfig,
    pub sync: SyncConfig,
    /// `[history] retention`: how long changes are kept; `None` for forever.
    pub history: Option<Duration>,
    pub socket: PathBuf,
    /// Where the status page is served: a loopback address, unless `http_allow` names networks.
    pub http: Option<SocketAddr>,
    pub http_allow: Vec<Network>,
    pub write_back: bool,
    pub max_edits: u64,
    pub publish: PublishConfig,
    pub notify: NotifyConfig,
    pub mcp: McpConfig,
    pub log: LogConfig,
    api: ApiSection,
    key: KeySource,
    invalid: Option<Arc<ConfigError>>,
}

#[derive(Clone, Debug)]
pub struct ApiConfig {
    pub base_url: BaseUrl,
    pub key: ApiKey,
    pub concurrency: u32,
    pub timeout: Duration,
}

impl Config {
    pub fn load(sources: &Sources) -> Result<Config, ConfigError> {
        Config::of(sources, layers::read(sources, &sources.files()?)?)
    }

    /// Like [`Config::load`]; while the configuration is invalid, only where the mirror and its daemon are, and
    /// [`Config::invalid`]: the daemon goes on with the old one, and the mirror can be read. An error if the file is missing
    /// or belongs to another user, or not even the place is known.
    pub fn load_or_place(sources: &Sources) -> Result<Config, ConfigError> {
        let error = match Config::load(sources) {
            Err(error) if !error.is_of_no_mirror() => error,
            loaded => return loaded,
        };
        match layers::read_place(sources).and_then(|place| Config::of(sources, place)) {
            Ok(place) => Ok(Config { invalid: Some(Arc::new(error)), ..place }),
            Err(_) => Err(error),
        }
    }

    fn of(sources: &Sources, sections: Sections) -> Result<Config, ConfigError> {
        let env = &sources.environment;
        let file = Some(sources.main_file()).filter(|file| file.exists());
        let unit = file.and_then(unit::of_file);
        let of_unit =
            |directory: fn(&ServiceUnit) -> &Option<PathBuf>| unit.as_ref().and_then(|u| directory(u).clone());
        let database = sections.database.path.unwrap_or_else(|| {
            let of_unit = of_unit(|unit| &unit.state_directory).or_else(|| env.directory("STATE_DIRECTORY"));
            let folder = of_unit.or_else(|| file?.parent().map(Path::to_path_buf));
            folder.unwrap_or_default().join("mirror.db").components().collect()
        });
        let socket = sections.daemon.socket.unwrap_or_else(|| {
            let of_unit = of_unit(|unit| &unit.runtime_directory).or_else(|| env.directory("RUNTIME_DIRECTORY"));
            of_unit.map_or_else(|| beside(&database, ".sock"), |dir| dir.join("control.sock"))
        });
        if let Some(address) = sections.daemon.http
            && !address.ip().is_loopback()
            && sections.daemon.http_allow.is_empty()
        {
            return Err(ConfigError::NotLoopback { address });
        }
        Ok(Config {
            file: file.and_then(|file| std::path::absolute(file).ok()),
            unit: unit.map(|unit| unit.name),
            database,
            views: ViewOptions {
                keep_archived: sections.database.archived_columns,
                labels: sections.database.label_columns,
                indexes: sections.database.indexes,
                folder: sections.database.views.map(|folder| folder.to_string_lossy().into_owned()),
                search: sections.database.search,
                exclude: sections.sync.exclude.clone(),
            },
            publish: sections.publish.completed(&sections.sync.exclude, env),
            budget: sections.budget,
            sync: sections.sync,
            history: sections.history.retention,
            socket,
            http: sections.daemon.http,
            http_allow: sections.daemon.http_allow,
            write_back: sections.write_back.enabled,
            max_edits: sections.write_back.max_edits,
            notify: NotifyConfig::new(sections.notify)?,
            mcp: sections.mcp,
            log: sections.log,
            key: KeySource::find(env, sections.api.key_file.clone(), sources.main_file()),
            api: sections.api,
            invalid: None,
        })
    }

    /// Why the configuration cannot be used, if only where the mirror is was read of it.
    pub fn invalid(&self) -> Option<ConfigError> {
        self.invalid.clone().map(ConfigError::Invalid)
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

    /// Reads the files of secrets now: later the process may not be allowed to. What cannot be read is read when it is
    /// needed, with its error.
    pub fn hold_secrets(&mut self) {
        self.key.hold();
        self.publish.hold();
    }

    pub fn base_url(&self) -> Option<&BaseUrl> {
        self.api.base_url.as_ref()
    }

    pub fn key_place(&self) -> &KeyPlace {
        &self.key.place
    }

    pub fn api(&self) -> Result<ApiConfig, ConfigError> {
        self.invalid().map_or(Ok(()), Err)?;
        Ok(ApiConfig {
            base_url: self.api.base_url.clone().ok_or(ConfigError::NoBaseUrl)?,
            key: self.api_key()?,
            concurrency: self.api.concurrency,
            timeout: self.api.timeout,
        })
    }

    pub fn api_key(&self) -> Result<ApiKey, ConfigError> {
        self.key.read()
    }
}
