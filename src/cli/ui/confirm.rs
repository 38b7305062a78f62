//! Asks for confirmation before anything is sent, or cannot be undone.

use std::io::{self, BufRead, IsTerminal, Write};

use crate::cli::Failure;
use crate::exit::Exit;

/// Asks a question on the terminal, after what there is to know; only `y` and `yes` agree. `what` says what it is about
/// where nobody can be asked.
pub fn confirm(what: &str, question: &str) -> Result<bool, Failure> {
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        let message = format!("{what}, and stdin is not a terminal");
        return Err(Failure::new(Exit::Usage, message).hint("pass `--yes` to confirm"));
    }
    let mut stderr = io::stderr().lock();
    write!(stderr, "{question} [y/N] ")?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
