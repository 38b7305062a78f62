//! `crm-mirror mcp`: serves the mirror to an assistant.

use std::io;
use std::path::PathBuf;

use crate::cli::mcp::{self, MirrorTools};
use crate::cli::{Failure, Global};
use crate::exit::Exit;
use crate::store::Reader;

/// Serve the mirror to an assistant, over the Model Context Protocol on stdin and stdout.
///
/// An assistant can run read-only SQL, search, show records, and propose edits, which are held until a person releases
/// them.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror mcp --database /var/lib/crm-mirror/mirror.db")]
pub struct McpArgs {
    /// The mirror [default: `database.path` of the configuration].
    #[arg(long, value_name = "FILE")]
    database: Option<PathBuf>,
}

/// Runs the verb.
///
/// # Errors
/// [`Exit::Storage`] if there is no mirror.
pub fn run(global: &Global, args: &McpArgs) -> Result<Exit, Failure> {
    let config = global.load_with(args.database.as_deref())?;
    // An unreadable mirror is reported at once, not at the first call.
    Reader::open(&config.database)?;
    let tools = MirrorTools::new(&config.database, config.write_back);
    mcp::serve(io::stdin().lock(), io::stdout().lock(), &tools)?;
    Ok(Exit::Done)
}
