//! `crm-mirror mcp`: the mirror for assistants, over the Model Context Protocol on stdin and stdout.
//!
//! # Invariants
//! - Each call opens the mirror read-only. Only held edits can be written, and they are sent only after a person has
//!   released them.
//! - Every answer has bounds: rows, bytes of a value, bytes in all, memory and time, whatever its statement does.
//! - Values in records were written by other people. Every tool's description says that they are data, not
//!   instructions.

mod protocol;
mod tools;

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::cli::{Failure, Global};
use crate::exit::Exit;
use crate::store::{Reader, guide};
use tools::MirrorTools;

#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror mcp --database /var/lib/crm-mirror/mirror.db")]
pub struct McpArgs {
    /// The mirror [default: `database.path` of the configuration].
    #[arg(long, value_name = "FILE")]
    database: Option<PathBuf>,
    /// The longest time that a call may take: 500ms, 10s, 1m.
    #[arg(long, value_name = "DURATION", value_parser = crate::config::duration, default_value = "10s")]
    timeout: Duration,
}

pub fn run(global: &Global, args: &McpArgs) -> Result<Exit, Failure> {
    let config = global.load(args.database.as_deref())?;
    // An unreadable mirror is reported at once, not at the first call. So is a column that does not exist: a spelling
    // mistake would show a column that was meant to be withheld.
    let unknown = guide::unknown_column(&Reader::open(&config.database)?.begin()?, &config.mcp.exclude)?;
    if let Some(column) = unknown {
        let text = format!("`mcp.exclude` contains `{column}`, which is not a column of the mirror");
        return Err(Failure::new(Exit::Config, text).hint("`crm-mirror describe` lists tables and columns"));
    }
    let tools = MirrorTools::new(&config, args.timeout);
    // Without the buffers of the standard library, which would be lost when a statement has to be ended by force.
    let [input, output] =
        [io::stdin().as_fd().try_clone_to_owned()?, io::stdout().as_fd().try_clone_to_owned()?].map(File::from);
    protocol::serve(input, &Arc::new(output), &tools)?;
    Ok(Exit::Done)
}
