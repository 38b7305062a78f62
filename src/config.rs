//! The configuration: defaults, file, environment and flags, checked once into plain types.
//!
//! `config/default.toml` is embedded: it is where every default stands, and the manual that `crm-mirror init` prints.
//! `layers` puts the sources over each other and knows where each value came from; `values` turns one text into one
//! type; this page names the keys. The key of the service is read only when it is needed, so `status` and `sql` work
//! without one.
//!
//! # Always true
//! - Every error names the key and the file or the variable; no error echoes a value of `[api]`.
//! - The API key passes through no layer: layers guess types and quote what they reject.

mod api_key;
mod cron;
mod error;
mod layers;
mod publish_target;
mod values;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use jiff::tz::TimeZone;

use crate::api::{ApiKey, BaseUrl};
use crate::model::{Resource, Ru};

pub use api_key::KeyPlace;
pub use cron::Cron;
pub use error::ConfigError;
pub use layers::{Environment, Sources};
pub use publish_target::PublishConfig;
pub use values::{LogFormat, duration};

use api_key::KeySource;
use layers::Layers;

/// Every setting with its meaning and default, as `init` prints it.
pub const DEFAULT_TOML: &str = include_str!("../config/default.toml");

/// Every key there is, section by section.
const KEYS: &[(&str, &[&str])] = &[
    ("api", &["base_url", "key_file", "concurrency", "timeout"]),
    ("database", &["path", "custom_indexes"]),
    ("budget", &["limit", "window", "charge_failed"]),
    (
        "sync",
        &[
            "objects",
            "schedule",
            "audit_schedule",
            "sweep_schedule",
            "time_zone",
            "jitter",
            "overlap",
            "details",
            "detail_max_age",
            "max_removals",
        ],
    ),
    ("history", &["retention"]),
    ("daemon", &["socket", "http"]),
    ("write_back", &["enabled"]),
    ("publish", &["url_file", "schema", "objects", "exclude"]),
    ("log", &["level", "format"]),
];

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const YEAR: Duration = Duration::from_secs(366 * 86400);

/// The whole configuration, valid in every part but the address and the key, which [`Config::api`] asks for.
#[derive(Clone, Debug)]
pub struct Config {
    /// `[database] path`: the mirror.
    pub database: PathBuf,
    /// `[database] custom_indexes`: the most custom fields of each object that have an index.
    pub custom_indexes: u32,
    /// `[budget]`.
    pub budget: BudgetConfig,
    /// `[sync]`.
    pub sync: SyncConfig,
    /// `[history] retention`: how long changes are kept; `None` for ever.
    pub history: Option<Duration>,
    /// `[daemon] socket`: the control socket.
    pub socket: PathBuf,
    /// `[daemon] http`: where the status page is served, always on loopback; `None` for nowhere.
    pub http: Option<SocketAddr>,
    /// `[write_back] enabled`.
    pub write_back: bool,
    /// `[publish]`.
    pub publish: PublishConfig,
    /// `[log]`.
    pub log: LogConfig,
    base_url: Option<BaseUrl>,
    key: KeySource,
    concurrency: u32,
    timeout: Duration,
}

/// What a client of the service needs.
#[derive(Clone, Debug)]
pub struct ApiConfig {
    /// The address.
    pub base_url: BaseUrl,
    /// The key.
    pub key: ApiKey,
    /// The most requests under way at once.
    pub concurrency: u32,
    /// How long one answer is waited for.
    pub timeout: Duration,
}

/// What may be spent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetConfig {
    /// Request units per window.
    pub limit: Ru,
    /// The length of a window.
    pub window: Duration,
    /// Whether a failed request counts as charged.
    pub charge_failed: bool,
}

/// What is mirrored, and when.
#[derive(Clone, Debug, PartialEq)]
pub struct SyncConfig {
    /// The objects; `None` for all that the key may read.
    pub objects: Option<Vec<Resource>>,
    /// When to ask for changes; `None` for never.
    pub schedule: Option<Cron>,
    /// When to audit; `None` for never.
    pub audit_schedule: Option<Cron>,
    /// When to sweep; `None` for never.
    pub sweep_schedule: Option<Cron>,
    /// The zone of the schedules.
    pub time_zone: TimeZone,
    /// How much later than the schedule a run may start.
    pub jitter: Duration,
    /// How far a changes walk reads back.
    pub overlap: Duration,
    /// Whether details are read.
    pub details: bool,
    /// The age at which a detail is read again; `None` for never.
    pub detail_max_age: Option<Duration>,
    /// The largest part of an object's records that one run may remove, 0 to 1.
    pub max_removals: f64,
}

/// What is logged, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// A filter of `tracing-subscriber`, checked.
    pub level: String,
    /// The form of a line.
    pub format: LogFormat,
}

impl Config {
    /// Reads and checks everything.
    ///
    /// # Errors
    /// [`ConfigError`] names the key and where it stands.
    pub fn load(sources: &Sources) -> Result<Config, ConfigError> {
        let layers = Layers::read(sources)?;
        let env = &sources.environment;
        let database = layers
            .path("database.path")?
            .or_else(|| env.directory("STATE_DIRECTORY").map(|dir| dir.join("mirror.db")))
            .unwrap_or_else(|| PathBuf::from("mirror.db"));
        let socket = layers
            .path("daemon.socket")?
            .or_else(|| env.directory("RUNTIME_DIRECTORY").map(|dir| dir.join("control.sock")))
            .unwrap_or_else(|| {
                let mut beside = database.clone().into_os_string();
                beside.push(".sock");
                PathBuf::from(beside)
            });
        Ok(Config {
            custom_indexes: layers.whole("database.custom_indexes", 0..=30)? as u32,
            budget: BudgetConfig {
                limit: Ru::new(layers.whole("budget.limit", 1..=1_000_000_000_000)?),
                window: layers.duration("budget.window", 60 * SECOND..=YEAR)?,
                charge_failed: layers.boolean("budget.charge_failed")?,
            },
            sync: SyncConfig {
                objects: layers.objects("sync.objects")?,
                schedule: layers.cron("sync.schedule")?,
                audit_schedule: layers.cron("sync.audit_schedule")?,
                sweep_schedule: layers.cron("sync.sweep_schedule")?,
                time_zone: layers.time_zone("sync.time_zone")?,
                jitter: layers.duration("sync.jitter", Duration::ZERO..=HOUR)?,
                overlap: layers.duration("sync.overlap", Duration::ZERO..=24 * HOUR)?,
                details: layers.one_of("sync.details", &[("all", true), ("off", false)])?,
                detail_max_age: layers.age("sync.detail_max_age")?,
                max_removals: layers.part("sync.max_removals")?,
            },
            history: layers.age("history.retention")?,
            write_back: layers.boolean("write_back.enabled")?,
            publish: PublishConfig::read(&layers, env)?,
            log: LogConfig {
                level: layers.log_filter("log.level")?,
                format: layers.one_of("log.format", LogFormat::WORDS)?,
            },
            base_url: layers.base_url("api.base_url")?,
            key: KeySource::find(env, layers.path("api.key_file")?),
            concurrency: layers.whole("api.concurrency", 1..=64)? as u32,
            timeout: layers.duration("api.timeout", SECOND..=HOUR)?,
            database,
            socket,
            http: layers.loopback("daemon.http")?,
        })
    }

    /// The address of the service, if it is configured.
    pub fn base_url(&self) -> Option<&BaseUrl> {
        self.base_url.as_ref()
    }

    /// Where the key is; reads nothing.
    pub fn key_place(&self) -> KeyPlace {
        self.key.place()
    }

    /// What a client needs; reads the key.
    ///
    /// # Errors
    /// [`ConfigError`] if there is no address or no key, or the key cannot be read or is none.
    pub fn api(&self) -> Result<ApiConfig, ConfigError> {
        Ok(ApiConfig {
            base_url: self.base_url.clone().ok_or(ConfigError::NoBaseUrl)?,
            key: self.api_key()?,
            concurrency: self.concurrency,
            timeout: self.timeout,
        })
    }

    /// The key.
    ///
    /// # Errors
    /// [`ConfigError`] if there is none, or it cannot be read or is none.
    pub fn api_key(&self) -> Result<ApiKey, ConfigError> {
        self.key.read()
    }
}

#[cfg(test)]
mod tests;
