//! The command line: one file per verb, each with its arguments and a `run` that makes one library call.
//!
//! A verb returns an [`Exit`] or a [`Failure`]; this page parses, dispatches, and says what went wrong. To add a verb:
//! a file with `…Args` and `run`, a line in [`Verb`], a line in `dispatch`.
//!
//! # Always true
//! - stdout carries the answer and nothing else; progress, logs and errors go to stderr.
//! - A reader of stdout that goes away ends the program silently.

pub mod check;
pub mod completions;
pub mod cost;
pub mod daemon;
pub mod datasette;
pub mod demo;
pub mod demo_questions;
pub mod describe;
pub mod edit;
pub mod export;
pub mod failure;
pub mod init;
pub mod logging;
pub mod man;
pub mod outbox;
pub mod output;
pub mod progress;
pub mod push;
pub mod recipes;
pub mod remote;
pub mod rows;
pub mod sandbox;
pub mod schedule;
pub mod session;
pub mod signals;
pub mod sql;
pub mod status;
pub mod status_text;
pub mod sync;
pub mod verify;

use std::ffi::OsString;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand};

pub use failure::Failure;

pub use crate::exit::Exit;
pub(crate) use crate::{exit, format};

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

/// What to do.
#[derive(Subcommand, Clone, Debug)]
pub enum Verb {
    /// Write a commented configuration file.
    Init(init::InitArgs),
    /// Say what is wrong, and how to mend it.
    Check(check::CheckArgs),
    /// Bring the mirror up to date.
    Sync(sync::SyncArgs),
    /// Read every record again, and find removed ones.
    Resync(sync::ResyncArgs),
    /// Keep the mirror up to date by the schedule, until asked to end.
    Daemon(daemon::DaemonArgs),
    /// Let the daemon's schedule rest.
    Pause(schedule::PauseArgs),
    /// Let the daemon's schedule go on.
    Resume(schedule::ResumeArgs),
    /// Show what the mirror holds, how fresh it is and what it cost.
    Status(status::StatusArgs),
    /// Hold the mirror against the service, and say what differs.
    Verify(verify::VerifyArgs),
    /// Run SQL on the mirror with the built-in SQLite.
    Sql(sql::SqlArgs),
    /// Change fields of one contact or company at the service.
    Edit(edit::EditArgs),
    /// Send the edits that wait, now.
    Push(push::PushArgs),
    /// Show the edits that wait, and decide about those that cannot go on.
    Outbox(outbox::OutboxArgs),
    /// Show what the tables and columns of the mirror mean.
    Describe(describe::DescribeArgs),
    /// Print what changed after a place in the feed of changes.
    Export(export::ExportArgs),
    /// Print what Datasette needs to show the mirror well.
    Datasette(datasette::DatasetteArgs),
    /// Show everything at once on a local sandbox: no key, no configuration.
    Demo(demo::DemoArgs),
    /// Serve the API locally with generated data.
    Sandbox(sandbox::SandboxArgs),
    /// Print the completion script of a shell.
    Completions(completions::CompletionsArgs),
    /// Print the manual page.
    Man(man::ManArgs),
}

/// Runs the program with these arguments, the program's own name first.
pub fn main(args: impl IntoIterator<Item = OsString>) -> Exit {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(e) => {
            // Help and version go to stdout and are no error. A reader that went away is none either.
            let _ = e.print();
            return match e.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Exit::Done,
                _ => Exit::Usage,
            };
        }
    };
    // The hook has told what happened; a panic must still end with the contract's code.
    let done = catch_unwind(AssertUnwindSafe(|| dispatch(&cli)));
    match done.unwrap_or_else(|_| Err(Failure::new(Exit::Internal, "this is a mistake of crm-mirror"))) {
        Ok(exit) => exit,
        Err(failure) => {
            // Where stderr is gone, there is nobody to tell that it is.
            let _ = std::io::stderr().write_all(logging::as_error(failure.text()).as_bytes());
            failure.exit()
        }
    }
}

fn dispatch(cli: &Cli) -> Result<Exit, Failure> {
    match &cli.verb {
        Verb::Init(args) => init::run(args),
        Verb::Check(args) => check::run(&cli.global, args),
        Verb::Sync(args) => sync::run(&cli.global, args),
        Verb::Resync(args) => sync::rerun(&cli.global, args),
        Verb::Daemon(args) => daemon::run(&cli.global, args),
        Verb::Pause(args) => schedule::pause(&cli.global, args),
        Verb::Resume(args) => schedule::resume(&cli.global, args),
        Verb::Status(args) => status::run(&cli.global, args),
        Verb::Verify(args) => verify::run(&cli.global, args),
        Verb::Sql(args) => sql::run(&cli.global, args),
        Verb::Edit(args) => edit::run(&cli.global, args),
        Verb::Push(args) => push::run(&cli.global, args),
        Verb::Outbox(args) => outbox::run(&cli.global, args),
        Verb::Describe(args) => describe::run(&cli.global, args),
        Verb::Export(args) => export::run(&cli.global, args),
        Verb::Datasette(args) => datasette::run(&cli.global, args),
        Verb::Demo(args) => demo::run(&cli.global, args),
        Verb::Sandbox(args) => sandbox::run(&cli.global, args),
        Verb::Completions(args) => completions::run(args),
        Verb::Man(args) => man::run(args),
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

    #[test]
    fn a_line_that_is_not_understood_is_a_usage_error() {
        let main = |line: &str| main(line.split(' ').map(OsString::from));
        assert_eq!(main("crm-mirror frobnicate"), Exit::Usage);
        assert_eq!(main("crm-mirror init --base-url http://example.com/v1"), Exit::Usage);
    }
}
