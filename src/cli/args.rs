//! The command line as clap reads it: the verb, and the options that every verb takes.

use std::path::{Path, PathBuf};

use clap::{Args, Parser};

use super::verbs::Verb;
use crate::config::{Config, ConfigError, Environment, LogConfig, Sources};

/// Keeps an exact, queryable copy of a CRM workspace in one SQLite file.
#[derive(Parser, Clone, Debug)]
#[command(
    name = "crm-mirror",
    version,
    max_term_width = 100,
    after_help = "Example:\n  crm-mirror init --base-url https://api.example.com/v1\n\n\
                  Exit codes: 0 done, 1 differences, 2 usage, 65 looks like an outage, 69 service unavailable, \
                  70 internal, 74 database or disk, 75 stopped for budget or hold, 77 key refused, 78 configuration."
)]
pub struct Cli {
    /// What every verb takes.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

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
    /// [`ConfigError`] names the key and where it stands.
    pub fn load(&self) -> Result<Config, ConfigError> {
        self.load_with(None)
    }

    /// As [`Global::load`], with another mirror than the configured one.
    ///
    /// # Errors
    /// [`ConfigError`] names the key and where it stands.
    pub fn load_with(&self, database: Option<&Path>) -> Result<Config, ConfigError> {
        let mut flags = self.flags();
        if let Some(path) = database {
            flags.push(("database.path", path.to_string_lossy().into_owned()));
        }
        Config::load(&Sources::of_process(self.config.clone(), flags))
    }

    /// Where the configuration comes from, for whoever reads it more than once.
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

    fn flags(&self) -> Vec<(&'static str, String)> {
        let given = [("log.level", &self.log_level), ("log.format", &self.log_format)];
        given.into_iter().filter_map(|(key, text)| Some((key, text.clone()?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed_and_every_help_has_an_example() {
        Cli::command().debug_assert();
        for command in Cli::command().get_subcommands().chain([&Cli::command()]) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Example:\n  crm-mirror"), "{}", command.get_name());
        }
    }

    #[test]
    fn global_options_stand_before_or_after_the_verb() {
        for line in
            ["crm-mirror --config c.toml --log-level debug man", "crm-mirror man --config c.toml --log-level debug"]
        {
            let cli = Cli::try_parse_from(line.split(' ')).unwrap();
            assert_eq!(cli.global.config, Some(PathBuf::from("c.toml")));
            assert_eq!(cli.global.flags(), [("log.level", "debug".to_string())]);
        }
    }
}
