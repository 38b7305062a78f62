//! `crm-mirror backup`: a verified copy of the mirror in one file, even while it is written.

use std::path::PathBuf;

use serde::Serialize;

use crate::cli::ui::output;
use crate::cli::ui::progress::ProgressView;
use crate::cli::{Failure, Global, logging};
use crate::exit::Exit;
use crate::format;
use crate::model::Instant;
use crate::store::backup::{self, BackupError, BackupReport};

/// Copy the mirror into one file, even while it is written.
///
/// The copy contains everything that was committed before it began, and is verified before it gets its name. It is a
/// mirror of its own: followers of the change feed start again with it, and its open edits are held until a person
/// releases them.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror backup /backup/mirror-$(date +%F).db")]
pub struct BackupArgs {
    /// The file to write.
    #[arg(value_name = "FILE")]
    target: PathBuf,
    /// Replace the file if it exists.
    #[arg(long)]
    force: bool,
    /// The mirror [default: `database.path` of the configuration].
    #[arg(long, value_name = "FILE")]
    database: Option<PathBuf>,
    /// Print the result as one JSON document.
    #[arg(long)]
    json: bool,
}

/// The JSON document.
#[derive(Serialize)]
struct BackupSummary {
    file: String,
    #[serde(flatten)]
    report: BackupReport,
}

/// Runs the verb.
///
/// # Errors
/// [`Exit::Storage`] if there is no mirror, or the copy cannot be written; [`Exit::Usage`] if it would replace a file.
pub fn run(global: &Global, args: &BackupArgs) -> Result<Exit, Failure> {
    let config = global.load_with(args.database.as_deref())?;
    logging::start(&config.log, &ProgressView::nothing());
    let report = backup::backup(&config.database, &args.target, args.force, Instant::system_now())?;
    let file = args.target.display().to_string();
    if args.json {
        output::json(&BackupSummary { file, report })?;
        return Ok(Exit::Done);
    }
    let mut text =
        format!("copied {} to {file}, {}; integrity check ok", config.database.display(), format::bytes(report.bytes));
    if report.held_edits > 0 {
        text.push_str(&format!(
            "\nin the copy, {} held",
            format::counted(report.held_edits, "open edit is", "open edits are")
        ));
    }
    output::text(&text)?;
    Ok(Exit::Done)
}

impl From<BackupError> for Failure {
    fn from(error: BackupError) -> Failure {
        match error {
            BackupError::Store(error) => error.into(),
            BackupError::IsTheMirror { .. } => {
                Failure::new(Exit::Usage, error).hint("choose another file for the copy")
            }
            BackupError::Exists { .. } => {
                Failure::new(Exit::Usage, error).hint("choose another file, or pass `--force` to replace it")
            }
            BackupError::Io { .. } => Failure::new(Exit::Storage, error),
            BackupError::Damaged { .. } => Failure::new(Exit::Storage, error)
                .hint("move the mirror away with its -wal and -shm; `crm-mirror sync` creates a new one"),
        }
    }
}
