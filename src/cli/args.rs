//! The options that every verb takes, and the configuration that they lead to.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::config::{Config, ConfigError, Environment, LogConfig, Sources};

/// Arguments that may stand before or after the verb.
#[derive(Args, Clone, Debug, Default)]
pub struct Global {
    /// The configuration file [default: /etc/crm-mirror/config.toml, if it exists].
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    pub config: Option<PathBuf>,
    /// How much is logged: error, warn, info, debug, trace, or a filter.
    #[arg(long, global = true, value_name = "LEVEL", help_heading = "Global options")]
    pub log_level: Option<String>,
    /// The form of the log's lines: auto, text or json.
    #[arg(long, global = true, value_name = "FORMAT", help_heading = "Global options")]
    pub log_format: Option<String>,
}

impl Global {
    /// Reads the configuration, with these flags over it.
    ///
    /// # Errors
    /// [`ConfigError`] names the key, and the file or the variable it is in.
    pub fn load(&self) -> Result<Config, ConfigError> {
        self.load_with(None)
    }

    /// As [`Global::load`], with another mirror than the configured one.
    ///
    /// # Errors
    /// [`ConfigError`] names the key, and the file or the variable it is in.
    pub fn load_with(&self, database: Option<&Path>) -> Result<Config, ConfigError> {
        let mut flags = self.flags();
        if let Some(path) = database {
            flags.push(("database.path", path.to_string_lossy().into_owned()));
        }
        Config::load(&Sources::of_process(self.config.clone(), flags))
    }

    /// Where the configuration comes from, for callers that read it more than once.
    pub fn sources(&self) -> Sources {
        Sources::of_process(self.config.clone(), self.flags())
    }

    /// The log for verbs that need no configuration: only these flags count.
    ///
    /// # Errors
    /// [`ConfigError`] if a flag cannot be used.
    pub fn log_alone(&self) -> Result<LogConfig, ConfigError> {
        let sources = Sources {
            file: None,
            default_file: PathBuf::new(),
            environment: Environment::default(),
            flags: self.flags(),
        };
        Ok(Config::load(&sources)?.log)
    }

    pub(super) fn flags(&self) -> Vec<(&'static str, String)> {
        let given = [("log.level", &self.log_level), ("log.format", &self.log_format)];
        given.into_iter().filter_map(|(key, text)| Some((key, text.clone()?))).collect()
    }
}
