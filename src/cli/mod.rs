//! The command line: parses the arguments, runs the verb, and reports what failed.
//!
//! # Invariants
//! - stdout contains the output of the verb and nothing else; progress, logs and errors go to stderr.
//! - A closed stdout is no failure: the exit code says what the verb did.

pub mod args;
pub mod check;
pub mod failure;
mod identity;
pub mod logging;
pub mod mcp;
pub mod session;
pub mod ui;
pub mod verbs;

use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};

use clap::Parser as _;
use clap::error::ErrorKind;

use crate::app::person;
use crate::exit::Exit;

pub use args::Global;
pub(in crate::cli) use args::{objects, one_of};
pub use failure::Failure;
pub use session::DaemonState;
pub use ui::output;
pub use verbs::Cli;

/// Runs the program with these arguments, the program's name first.
pub fn main(args: impl IntoIterator<Item = OsString>) -> Exit {
    // Before a verb takes the identity of the mirror's owner.
    person();
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(e) => {
            // Help and version go to stdout and are not errors. A closed stdout is ignored.
            let _ = e.print();
            return match e.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Exit::Done,
                _ => Exit::Usage,
            };
        }
    };
    output::repeat_config(cli.global.config.as_deref());
    // The panic hook has reported the panic; the exit code must still be the documented one.
    let done = catch_unwind(AssertUnwindSafe(|| cli.verb.run(&cli.global)));
    match done.unwrap_or_else(|_| Err(Failure::new(Exit::Internal, "internal error; please report it as a bug"))) {
        Ok(exit) => exit,
        Err(failure) => {
            output::error(&logging::as_error(output::complete(&failure.text())));
            failure.exit()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_command_line_is_a_usage_error() {
        let main = |line: &str| main(line.split(' ').map(OsString::from));
        assert_eq!(main("crm-mirror frobnicate"), Exit::Usage);
        assert_eq!(main("crm-mirror init --base-url http://example.com/v1"), Exit::Usage);
    }
}
