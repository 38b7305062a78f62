//! `crm-mirror man`: the manual page, or all of them.

use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;

use clap::CommandFactory;
use clap_mangen::Man;

use super::Cli;
use crate::cli::ui::output;
use crate::cli::{Failure, identity};
use crate::exit::Exit;

/// Print the manual page.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror man | man -l -\n  crm-mirror man --dir /usr/share/man/man1")]
pub struct ManArgs {
    /// Write the pages of the program and of every command into this directory instead.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Runs the verb.
///
/// # Errors
/// Returns the error of stdout or of the directory.
pub fn run(args: &ManArgs) -> Result<Exit, Failure> {
    match &args.dir {
        None => output::raw(&page()?)?,
        Some(dir) => {
            identity::take(dir)?;
            let written = clap_mangen::generate_to(Cli::command(), dir)
                .and_then(|()| std::fs::write(dir.join("crm-mirror.1"), page()?));
            let failed =
                |error| Failure::new(Exit::Storage, format!("could not write into {}: {error}", dir.display()));
            written.map_err(failed)?;
        }
    }
    Ok(Exit::Done)
}

/// The page of the program, with the exit codes.
fn page() -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(Cli::command()).render(&mut page)?;
    let mut codes = String::from(".SH \"EXIT STATUS\"\n");
    for (exit, meaning) in Exit::TABLE {
        let _ = writeln!(codes, ".TP\n.B {}\n{meaning}", exit.code());
    }
    page.extend_from_slice(codes.as_bytes());
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_has_the_commands_and_the_exit_codes() {
        let page = String::from_utf8(page().unwrap()).unwrap();
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
