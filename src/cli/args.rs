//! The options that every verb accepts, and the configuration that they select.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Once;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::ui::output;
use super::{Failure, identity};
use crate::config::{Config, ConfigError, LOCAL_FILE, LogConfig, Sources};
use crate::model::Object;

/// Says once that the configuration is invalid, to who goes on without it.
pub(super) fn note_invalid(config: &Config) {
    static SAID: Once = Once::new();
    if let Some(error) = config.invalid() {
        let text = Failure::from(error).text();
        SAID.call_once(|| output::note(&text.trim_end().replacen("error: ", "warning: ", 1)));
    }
}

pub(super) fn one_of<T, const N: usize>(words: [&'static str; N]) -> impl TypedValueParser<Value = T>
where
    T: FromStr + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(words).try_map(|word| word.parse::<T>().map_err(|_| "no such object"))
}

pub(super) fn objects() -> impl TypedValueParser<Value = Object> {
    one_of(Object::ALL.map(Object::as_str))
}

/// Options of most verbs that read or change the mirror.
#[derive(Args, Clone, Debug)]
pub struct MirrorArgs {
    /// The mirror [default: `database.path` of the configuration].
    #[arg(long, value_name = "FILE", global = true)]
    pub database: Option<PathBuf>,
    /// Print the result as one JSON document.
    #[arg(long, global = true)]
    pub json: bool,
}

/// Options that may precede or follow the verb.
#[derive(Args, Clone, Debug, Default)]
pub struct Global {
    /// The configuration file [default: ./crm-mirror.toml, else /etc/crm-mirror/config.toml].
    #[arg(short, long, global = true, value_name = "FILE", help_heading = "Global options")]
    pub config: Option<PathBuf>,
    /// How much is logged: error, warn, info, debug, trace, or a filter.
    #[arg(long, global = true, value_name = "LEVEL", help_heading = "Global options")]
    pub log_level: Option<String>,
    /// The form of the log's lines: auto, text or json.
    #[arg(long, global = true, value_name = "FORMAT", help_heading = "Global options")]
    pub log_format: Option<String>,
}

impl Global {
    /// Reads the configuration, overridden by these options, perhaps with another mirror, and takes the identity of the
    /// mirror's owner.
    pub fn load(&self, database: Option<&Path>) -> Result<Config, Failure> {
        self.as_owner(Config::load(&self.sources(database))?)
    }

    /// Like [`Global::load`]; while the configuration is invalid, only where the mirror and its daemon are.
    pub fn load_or_place(&self, database: Option<&Path>) -> Result<Config, Failure> {
        self.as_owner(Config::load_or_place(&self.sources(database))?)
    }

    /// Like [`Global::load_or_place`], to read the mirror: one that does not exist may be elsewhere.
    pub fn load_to_read(&self, database: Option<&Path>) -> Result<Config, Failure> {
        let config = self.load_or_place(database)?;
        match config.invalid().filter(|_| !config.database.exists()) {
            Some(invalid) => Err(invalid.into()),
            None => {
                note_invalid(&config);
                Ok(config)
            }
        }
    }

    fn as_owner(&self, mut config: Config) -> Result<Config, Failure> {
        if let Some(owner) = identity::needed_for(&config.database) {
            // Their files may be readable for root only.
            config.hold_secrets();
            owner.take(&config.database)?;
        }
        Ok(config)
    }

    /// The mirror that a verb reads: the given one, or that of the configuration. Takes the identity of its owner.
    pub fn database(&self, given: Option<&Path>) -> Result<PathBuf, Failure> {
        match given {
            None => Ok(self.load_to_read(None)?.database),
            Some(path) => identity::take(path).map(|()| path.to_path_buf()),
        }
    }

    /// The sources of the configuration, for callers that read it more than once.
    pub fn sources(&self, database: Option<&Path>) -> Sources {
        let mut flags = self.flags();
        flags.extend(database.map(|path| ("database.path", path.to_string_lossy().into_owned())));
        static REPORTED: Once = Once::new();
        let sources = Sources::of_process(self.config.clone(), flags);
        if sources.is_local() {
            REPORTED.call_once(|| output::note(&format!("configuration: ./{LOCAL_FILE}")));
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
