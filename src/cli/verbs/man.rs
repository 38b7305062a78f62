//! `crm-mirror man` and `crm-mirror completions`: the manual page, or all of them, and the completion script of a shell.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use super::Cli;
use crate::cli::{Failure, identity, output};
use crate::exit::Exit;

#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror man | man -l -\n  crm-mirror man --dir /usr/share/man/man1")]
pub struct ManArgs {
    /// Write the pages of the program and of every command into this directory instead.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub fn run(args: &ManArgs) -> Result<Exit, Failure> {
    match &args.dir {
        None => output::raw(&page(Cli::command())?)?,
        Some(dir) => {
            identity::take(dir)?;
            let mut command = Cli::command().disable_help_subcommand(true);
            command.build();
            let failed = |error| format!("could not write into {}: {error}", dir.display());
            write_pages(command, dir).map_err(|error| Failure::new(Exit::Storage, failed(error)))?;
        }
    }
    Ok(Exit::Done)
}

/// Writes the pages of a command and of those below it. Another user may have put a link in the place of one.
fn write_pages(command: Command, dir: &Path) -> io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write_pages(below.clone(), dir)?;
    }
    let path = dir.join(Man::new(command.clone()).get_filename());
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => File::create_new(&path)?.write_all(&page(command)?),
    }
}

/// The page of a command; that of the program has the exit codes.
fn page(command: Command) -> io::Result<Vec<u8>> {
    let is_program = command.get_name() == Cli::command().get_name();
    let mut page = Vec::new();
    Man::new(command).render(&mut page)?;
    if is_program {
        page.extend_from_slice(b".SH \"EXIT STATUS\"\n");
        for (exit, meaning) in Exit::TABLE {
            write!(page, ".TP\n.B {}\n{meaning}\n", exit.code())?;
        }
    }
    Ok(page)
}

#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror completions bash > /etc/bash_completion.d/crm-mirror")]
pub struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

pub fn completions(args: &CompletionsArgs) -> Result<Exit, Failure> {
    // The generator panics if its writer fails, so it writes to memory first.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "crm-mirror", &mut script);
    output::raw(&script)?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_has_the_commands_and_the_exit_codes() {
        let page = String::from_utf8(page(Cli::command()).unwrap()).unwrap();
        for part in [".SH NAME", "completions", ".SH \"EXIT STATUS\"", ".B 75"] {
            assert!(page.contains(part), "{part}");
        }
    }

    #[test]
    fn every_command_has_a_page() {
        let dir = tempfile::tempdir().unwrap();
        let args = ManArgs { dir: Some(dir.path().into()) };
        run(&args).unwrap();
        for name in ["crm-mirror.1", "crm-mirror-init.1", "crm-mirror-man.1"] {
            assert!(dir.path().join(name).exists(), "{name}");
        }
    }
}
