//! The verbs: a file each, or one for those that share their work; `check` and `mcp` are beside this module.
//!
//! To add a verb, add a file with `…Args` and `run`, a variant of [`Verb`], and an arm in [`Verb::run`].

pub mod backup;
pub mod daemon;
pub mod demo;
pub mod describe;
pub mod edit;
pub mod export;
pub mod forget;
pub mod init;
pub mod man;
pub mod outbox;
pub mod publish;
pub mod sandbox;
pub mod show;
pub mod sql;
pub mod status;
pub mod sync;

use clap::{Command, Parser, Subcommand};

use crate::cli::{Failure, Global, check, mcp};
use crate::exit::Exit;
use crate::sync::Job;

/// The verbs in the order in which people need them.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Start", &["init", "check", "demo", "sandbox"]),
    ("Every day", &["sync", "resync", "status", "sql", "show", "describe", "verify", "backup"]),
    ("Service", &["daemon", "pause", "resume"]),
    ("Edits", &["edit", "push", "outbox"]),
    ("Connect", &["publish", "export", "mcp", "forget", "completions", "man"]),
];

/// The help of the program: clap lists all verbs under one heading.
fn grouped_help() -> String {
    let verbs = Verb::augment_subcommands(Command::new("crm-mirror"));
    let about = |name: &str| verbs.find_subcommand(name).and_then(Command::get_about).map(ToString::to_string);
    let mut text = "{about-with-newline}\n{usage-heading} {usage}\n".to_string();
    for (group, names) in GROUPS {
        text += &format!("\n{group}:\n");
        text.extend(names.iter().map(|name| format!("  {name:<12} {}\n", about(name).unwrap_or_default())));
    }
    text + "\nOptions:\n{options}{after-help}"
}

/// Keeps an exact, queryable copy of a CRM workspace in one SQLite file.
#[derive(Parser, Clone, Debug)]
#[command(
    name = "crm-mirror",
    version,
    max_term_width = 100,
    help_template = grouped_help(),
    after_help = "Example:\n  crm-mirror init --base-url https://api.example.com/v1\n\n\
                  Exit codes: 0 done, 1 differences, 2 usage, 65 looks like an outage, 69 service unavailable, \
                  70 internal, 74 database or disk, 75 suspended by budget or hold, 77 key refused, 78 configuration."
)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Subcommand, Clone, Debug)]
pub enum Verb {
    /// Write a configuration file.
    Init(init::InitArgs),
    /// Find problems, and show how to fix them.
    Check(check::CheckArgs),
    /// Bring the mirror up to date.
    #[command(after_help = "Example:\n  crm-mirror sync\n  crm-mirror sync contacts companies --json")]
    Sync(sync::RunArgs),
    /// Read every record again, and find removed ones.
    Resync(sync::ResyncArgs),
    /// Keep the mirror up to date on a schedule, until stopped.
    #[command(
        after_help = "Example:\n  crm-mirror daemon\n  curl --unix-socket mirror.db.sock http://localhost/status"
    )]
    Daemon,
    /// Suspend the daemon's schedule.
    #[command(after_help = "Example:\n  crm-mirror pause")]
    Pause,
    /// Resume the daemon's schedule.
    Resume(daemon::ResumeArgs),
    /// Copy the mirror into one file, even while it is written.
    Backup(backup::BackupArgs),
    /// Show one record, as it is or as it was.
    Show(show::ShowArgs),
    /// Erase a removed record from the mirror.
    Forget(forget::ForgetArgs),
    /// Show what the mirror holds, how fresh it is and what it cost.
    Status(status::StatusArgs),
    /// Compare the mirror with the service, and report differences.
    Verify(sync::VerifyArgs),
    /// Run SQL on the mirror with the built-in SQLite.
    Sql(sql::SqlArgs),
    /// Change fields of one contact or company at the service.
    Edit(edit::EditArgs),
    /// Send the waiting edits now.
    #[command(after_help = "Example:\n  crm-mirror push\n  crm-mirror push --json | jq .push")]
    Push,
    /// List the waiting edits, and resolve those that cannot continue.
    Outbox(outbox::OutboxArgs),
    /// Show what the tables and columns of the mirror mean.
    Describe(describe::DescribeArgs),
    /// Print the mirror as one stream of JSON lines, and follow it.
    Export(export::ExportArgs),
    /// Publish the changes to a PostgreSQL database.
    Publish(publish::PublishArgs),
    /// Serve the mirror to an assistant (Model Context Protocol).
    Mcp(mcp::McpArgs),
    /// Show all features on a local sandbox: no key, no configuration.
    Demo(demo::DemoArgs),
    /// Serve the API locally with generated data.
    Sandbox(sandbox::SandboxArgs),
    /// Print the completion script of a shell.
    Completions(man::CompletionsArgs),
    /// Print the manual page.
    Man(man::ManArgs),
}

impl Verb {
    pub fn run(&self, global: &Global) -> Result<Exit, Failure> {
        use Verb::{Completions, Daemon, Demo, Export, Init, Man, Mcp, Pause, Resume, Sandbox};
        let has_no_mirror = matches!(self, Init(_) | Demo(_) | Sandbox(_) | Completions(_) | Man(_));
        let has_no_report = has_no_mirror || matches!(self, Daemon | Pause | Resume(_) | Export(_) | Mcp(_));
        for (is_given, is_unfit, option) in
            [(global.database.is_some(), has_no_mirror, "--database"), (global.json, has_no_report, "--json")]
        {
            if is_given && is_unfit {
                return Err(Failure::new(Exit::Usage, format!("this command takes no `{option}`")));
            }
        }
        match self {
            Verb::Init(args) => init::run(args),
            Verb::Check(args) => check::run(global, args),
            Verb::Sync(args) => sync::run(global, args, Job::sync(), false),
            Verb::Resync(args) => sync::run(global, &args.common, Job::resync(), args.accept_removals),
            Verb::Daemon => daemon::run(global),
            Verb::Pause => daemon::pause(global),
            Verb::Resume(args) => daemon::resume(global, args),
            Verb::Backup(args) => backup::run(global, args),
            Verb::Show(args) => show::run(global, args),
            Verb::Forget(args) => forget::run(global, args),
            Verb::Status(args) => status::run(global, args),
            Verb::Verify(args) => sync::verify(global, args),
            Verb::Sql(args) => sql::run(global, args),
            Verb::Edit(args) => edit::run(global, args),
            Verb::Push => sync::push(global),
            Verb::Outbox(args) => outbox::run(global, args),
            Verb::Describe(args) => describe::run(global, args),
            Verb::Export(args) => export::run(global, args),
            Verb::Publish(args) => publish::run(global, args),
            Verb::Mcp(args) => mcp::run(global, args),
            Verb::Demo(args) => demo::run(global, args),
            Verb::Sandbox(args) => sandbox::run(global, args),
            Verb::Completions(args) => man::completions(args),
            Verb::Man(args) => man::run(args),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use clap::CommandFactory;

    #[test]
    fn command_line_is_well_formed_and_every_help_has_an_example() {
        Cli::command().debug_assert();
        for command in Cli::command().get_subcommands().chain([&Cli::command()]) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Example:\n  crm-mirror"), "{}", command.get_name());
        }
    }

    #[test]
    fn every_verb_is_in_one_group_of_the_help() {
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let command = Cli::command();
        let mut verbs: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        grouped.sort_unstable();
        verbs.sort_unstable();
        assert_eq!(grouped, verbs);
    }

    #[test]
    fn global_options_may_precede_or_follow_the_verb() {
        for line in
            ["crm-mirror --config c.toml --log-level debug man", "crm-mirror man --config c.toml --log-level debug"]
        {
            let cli = Cli::try_parse_from(line.split(' ')).unwrap();
            assert_eq!(cli.global.config, Some(PathBuf::from("c.toml")));
            assert_eq!(cli.global.flags(), [("log.level", "debug".to_string())]);
        }
    }
}
