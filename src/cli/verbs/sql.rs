//! `crm-mirror sql`: one read-only statement on the mirror with the built-in SQLite.

use std::io::{self, BufWriter};
use std::time::Duration;

use rusqlite::ErrorCode;

use crate::cli::ui::rows::{self, RowFormat};
use crate::cli::{Failure, Global, logging, output};
use crate::exit::Exit;
use crate::store::{Reader, StoreError, Watchdog, WithheldColumns};

#[derive(clap::Args, Clone, Debug)]
#[command(
    after_help = "Example:\n  crm-mirror sql 'SELECT hq_country, count(*) FROM companies GROUP BY 1 ORDER BY 2 DESC'\n  \
                        crm-mirror sql --format csv - < report.sql > report.csv"
)]
pub struct SqlArgs {
    /// The statement; - reads it from stdin.
    #[arg(allow_hyphen_values = true)]
    statement: String,
    /// How rows are printed.
    #[arg(long, value_enum, default_value_t)]
    format: RowFormat,
    /// For a statement that is not trusted: it may only read, its memory is bounded, and it ends after this time: 500ms, 10s, 1m.
    #[arg(long, value_name = "DURATION", value_parser = crate::config::duration)]
    timeout: Option<Duration>,
}

pub fn run(global: &Global, args: &SqlArgs) -> Result<Exit, Failure> {
    // Not by clap, which does not see a `--json` before the verb.
    if global.json && matches!(args.format, RowFormat::Csv) {
        return Err(Failure::new(Exit::Usage, "`--json` and `--format csv` exclude each other"));
    }
    let database = global.mirror()?;
    let statement = match args.statement.as_str() {
        "-" => io::read_to_string(io::stdin())?,
        statement => statement.to_string(),
    };
    let conn = match args.timeout {
        None => Reader::open_for_queries(&database)?,
        Some(_) => Reader::open_for_strangers(&database, &WithheldColumns::default())?,
    };
    let _watchdog = args.timeout.map(|limit| {
        let watchdog = Watchdog::start(limit, || {
            output::error(&logging::as_error(Failure::new(Exit::Usage, TOO_SLOW).text()));
            std::process::exit(i32::from(Exit::Usage.code()))
        });
        watchdog.watch(&conn);
        watchdog
    });
    if statement.trim().is_empty() {
        return Err(Failure::new(Exit::Usage, "the statement is empty"));
    }
    let mut stmt = conn.prepare(&statement)?;
    if stmt.column_count() == 0 {
        let message = "the statement returns no rows, and the mirror is read-only";
        return Err(Failure::new(Exit::Usage, message).hint("`crm-mirror edit` changes a field at the service"));
    }
    let mut out = BufWriter::new(output::data());
    let format = if global.json { RowFormat::Json } else { args.format };
    let written = rows::write(&mut out, &mut stmt, format);
    if written.is_err() {
        // The buffer contains an incomplete document; dropping the writer would still write it.
        let _ = out.into_parts();
    }
    written?;
    conn.unchanged()?;
    Ok(Exit::Done)
}

const TOO_SLOW: &str = "the statement took longer than `--timeout`";

/// Of a statement that a person wrote: the message of SQLite alone. What is wrong with the file is no matter of it.
impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Failure {
        use ErrorCode::{DatabaseBusy, DatabaseCorrupt, DiskFull, NotADatabase, OperationInterrupted, SystemIoFailure};
        let message = match error.sqlite_error_code() {
            Some(DatabaseBusy | DatabaseCorrupt | DiskFull | NotADatabase | SystemIoFailure) => {
                return StoreError::from(error).into();
            }
            Some(OperationInterrupted) => TOO_SLOW.into(),
            _ => match error {
                rusqlite::Error::SqliteFailure(code, message) => message.unwrap_or_else(|| code.to_string()),
                rusqlite::Error::SqlInputError { msg, .. } => msg,
                rusqlite::Error::MultipleStatement => "there is more than one statement".into(),
                other => other.to_string(),
            },
        };
        Failure::new(Exit::Usage, message)
    }
}
