//! Asks for confirmation before something that cannot be undone.

use std::io::{self, BufRead, IsTerminal, Write};

use crate::cli::Failure;
use crate::exit::Exit;

/// Asks a question on the terminal; only `y` and `yes` agree.
pub fn confirm(question: &str) -> Result<bool, Failure> {
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Err(Failure::new(Exit::Usage, "this cannot be undone, and stdin is not a terminal")
            .hint("pass `--yes` to confirm"));
    }
    let mut stderr = io::stderr();
    write!(stderr, "{question} [y/N] ")?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
