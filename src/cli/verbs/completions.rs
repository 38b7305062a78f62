//! `crm-mirror completions`: the completion script of a shell.

use clap::CommandFactory;
use clap_complete::Shell;

use super::Cli;
use crate::cli::Failure;
use crate::cli::ui::output;
use crate::exit::Exit;

/// Print the completion script of a shell.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror completions bash > /etc/bash_completion.d/crm-mirror")]
pub struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

pub fn run(args: &CompletionsArgs) -> Result<Exit, Failure> {
    // The generator panics if its writer fails, so it writes to memory first.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "crm-mirror", &mut script);
    output::raw(&script)?;
    Ok(Exit::Done)
}
