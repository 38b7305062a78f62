//! The options that every verb accepts, and the configuration that they select.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::Failure;
use super::identity::{self, Owner};
use super::ui::output;
use crate::config::{Config, ConfigError, LOCAL_FILE, LogConfig, ServiceUnit, Sources};
use crate::model::Object;

pub(super) fn one_of<T, const N: usize>(words: [&'static str; N]) -> impl TypedValueParser<Value = T>
where
    T: FromStr + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(words).try_map(|word| word.parse::<T>().map_err(|_| "no such object"))
}

pub(super) fn objects() -> impl TypedValueParser<Value = Object> {
    one_of(Object::ALL.map(Object::as_str))
}

/// Takes the identity of the mirror's owner, or of a unit's user before its first start, when there is no folder.
pub(super) fn as_owner(mut config: Config, unit: Option<&ServiceUnit>) -> Result<Config, Failure> {
    if let Some(owner) = identity::needed_for(&config.database).or_else(|| Owner::named(&unit?.user)) {
        // The files of the secrets may be readable for root only.
        config.hold_secrets(unit.is_some());
        owner.take(&config.database)?;
    }
    Ok(config)
}

/// Options that may precede or follow the verb.
#[derive(Args, Clone, Debug, Default)]
pub struct Global {
    /// The configuration file [default: ./crm-mirror.toml, else /etc/crm-mirror/config.toml].
    #[arg(short, long, global = true, value_name = "FILE", help_heading = "Global options")]
    pub config: Option<PathBuf>,
    /// The mirror [default: `database.path` of the configuration].
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    pub database: Option<PathBuf>,
    /// Print the result as one JSON document.
    #[arg(long, global = true, help_heading = "Global options")]
    pub json: bool,
    /// How much is logged: error, warn, info, debug, trace, or a filter.
    #[arg(long, global = true, value_name = "LEVEL", help_heading = "Global options")]
    pub log_level: Option<String>,
    /// The form of the log's lines: auto, text or json.
    #[arg(long, global = true, value_name = "FORMAT", help_heading = "Global options")]
    pub log_format: Option<String>,
}

impl Global {
    /// Reads the configuration, overridden by these options, and takes the identity of the mirror's owner.
    pub fn load(&self) -> Result<Config, Failure> {
        as_owner(Config::load(&self.sources())?, None)
    }

    /// The mirror that a verb reads: the given one, or that of the configuration. Takes the identity of its owner.
    pub fn mirror(&self) -> Result<PathBuf, Failure> {
        match &self.database {
            None => Ok(self.load()?.database),
            Some(path) => identity::take(path).map(|()| path.clone()),
        }
    }

    /// The sources of the configuration. A verb asks once, and may read them more often.
    pub fn sources(&self) -> Sources {
        let mut flags = self.flags();
        flags.extend(self.database.as_ref().map(|path| ("database.path", path.to_string_lossy().into_owned())));
        let sources = Sources::of_process(self.config.clone(), flags);
        if sources.is_local() {
            output::note(&format!("configuration: ./{LOCAL_FILE}"));
        }
        sources
    }

    /// The log settings for verbs that need no configuration: only these options count.
    pub fn log_alone(&self) -> Result<LogConfig, ConfigError> {
        let sources = Sources { flags: self.flags(), ..Sources::default() };
        Ok(Config::load(&sources)?.log)
    }

    pub(super) fn flags(&self) -> Vec<(&'static str, String)> {
        let given = [("log.level", &self.log_level), ("log.format", &self.log_format)];
        given.into_iter().filter_map(|(key, text)| Some((key, text.clone()?))).collect()
    }
}
