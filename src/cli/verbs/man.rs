//! `crm-mirror man` and `crm-mirror completions`: the manual page, or all of them, and the completion script of a shell.

use std::fs;
use std::io;
use std::path::PathBuf;

use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;

use super::Cli;
use crate::cli::{Failure, identity, output};
use crate::exit::Exit;

#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror man | man -l -\n  crm-mirror man --dir man1")]
pub struct ManArgs {
    /// Write the pages of the program and of every command into this new directory instead.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub fn run(args: &ManArgs) -> Result<Exit, Failure> {
    let Some(dir) = &args.dir else { return Ok(output::raw(&page()?)?) };
    identity::take(dir)?;
    // In a new directory nobody can have put a link in the place of a page.
    let written = fs::create_dir(dir).and_then(|()| clap_mangen::generate_to(Cli::command(), dir));
    let failed = |error| format!("could not write into {}: {error}", dir.display());
    written.map_err(|error| Failure::new(Exit::Storage, failed(error)))?;
    Ok(Exit::Done)
}

fn page() -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(Cli::command()).render(&mut page)?;
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
    Ok(output::raw(&script)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_has_the_commands_and_the_exit_codes() {
        let page = String::from_utf8(page().unwrap()).unwrap();
        for part in [".SH NAME", "completions", "Exit codes: ", "75 suspended"] {
            assert!(page.contains(part), "{part}");
        }
    }

    #[test]
    fn every_command_has_a_page() {
        let dir = tempfile::tempdir().unwrap();
        let pages = dir.path().join("man1");
        run(&ManArgs { dir: Some(pages.clone()) }).unwrap();
        for name in ["crm-mirror.1", "crm-mirror-init.1", "crm-mirror-man.1"] {
            assert!(pages.join(name).exists(), "{name}");
        }
    }
}
