//! `crm-mirror sql`: one read-only statement on the mirror with the built-in SQLite.

use std::io::{self, BufWriter, IsTerminal, Read};
use std::path::PathBuf;
use std::time::Duration;

use rusqlite::ErrorCode;

use crate::cli::ui::rows::{self, RowFormat, Stopped};
use crate::cli::{Failure, Global, logging, output};
use crate::exit::Exit;
use crate::format;
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
    /// The mirror [default: `database.path` of the configuration].
    #[arg(long, value_name = "FILE")]
    database: Option<PathBuf>,
    /// Trust the statement with nothing: allow only reading, bound its memory, and end it after this time: 500ms, 10s, 1m.
    #[arg(long, value_name = "DURATION", value_parser = crate::config::duration)]
    timeout: Option<Duration>,
}

pub fn run(global: &Global, args: &SqlArgs) -> Result<Exit, Failure> {
    let database = global.database(args.database.as_deref())?;
    let statement = if args.statement == "-" {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text)?;
        text
    } else {
        args.statement.clone()
    };
    let conn = match args.timeout {
        None => Reader::open_for_queries(&database)?,
        Some(_) => Reader::open_for_strangers(&database, &WithheldColumns::default())?,
    };
    let _watchdog = args.timeout.map(|limit| {
        let watchdog = Watchdog::start(limit, move || {
            output::error(&logging::as_error(too_slow(limit).text()));
            std::process::exit(i32::from(Exit::Usage.code()))
        });
        watchdog.watch(&conn);
        watchdog
    });
    let refused = |error: rusqlite::Error| match (error.sqlite_error_code(), args.timeout) {
        (Some(ErrorCode::OperationInterrupted), Some(limit)) => too_slow(limit),
        _ => refused(error),
    };
    if statement.trim().is_empty() {
        return Err(Failure::new(Exit::Usage, "the statement is empty"));
    }
    let mut stmt = conn.prepare(&statement).map_err(refused)?;
    if !stmt.readonly() && stmt.column_count() == 0 {
        return Err(Failure::new(Exit::Usage, "the mirror is read-only: only the service changes it")
            .hint("`crm-mirror edit` changes a field at the service"));
    }
    if stmt.column_count() == 0 {
        return Err(Failure::new(Exit::Usage, "the statement returns no rows"));
    }
    let terminal = io::stdout().is_terminal();
    let mut out = BufWriter::new(output::data());
    let written = rows::write(&mut out, &mut stmt, args.format, terminal);
    if written.is_err() {
        // The buffer contains an incomplete document; dropping the writer would still write it.
        let _ = out.into_parts();
    }
    match written {
        Ok(()) => Ok(conn.unchanged().map(|()| Exit::Done)?),
        Err(Stopped::Sql(error)) => Err(refused(error)),
        Err(Stopped::Out(error)) => Err(error.into()),
    }
}

fn too_slow(limit: Duration) -> Failure {
    Failure::new(Exit::Usage, format!("the statement took longer than {}", format::duration(limit)))
}

/// The message of SQLite alone: the user knows the statement. What is wrong with the file is no matter of the statement.
fn refused(error: rusqlite::Error) -> Failure {
    use ErrorCode::{DatabaseBusy, DatabaseCorrupt, DiskFull, NotADatabase, SystemIoFailure};
    let of_the_file = [DatabaseBusy, DatabaseCorrupt, DiskFull, NotADatabase, SystemIoFailure];
    if error.sqlite_error_code().is_some_and(|code| of_the_file.contains(&code)) {
        return StoreError::from(error).into();
    }
    match error {
        rusqlite::Error::SqliteFailure(code, message) => {
            Failure::new(Exit::Usage, message.unwrap_or_else(|| code.to_string()))
        }
        rusqlite::Error::SqlInputError { msg, .. } => Failure::new(Exit::Usage, msg),
        rusqlite::Error::MultipleStatement => Failure::new(Exit::Usage, "there is more than one statement"),
        other => Failure::new(Exit::Usage, other),
    }
}
