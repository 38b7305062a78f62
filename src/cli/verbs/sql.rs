//! `crm-mirror sql`: one statement on the mirror with the SQLite that is built in, for reading only.

use std::io::{self, BufWriter, IsTerminal, Read};
use std::path::{Path, PathBuf};

use crate::cli::Failure;
use crate::cli::Global;
use crate::cli::ui::rows::{self, RowFormat, Stopped};
use crate::exit::Exit;
use crate::store::{Reader, StoreError};

/// Run SQL on the mirror with the built-in SQLite, for reading only.
///
/// Beside SQLite's own functions there are decimal_sum(text), an exact sum, and decimal_cmp(a, b), which is -1, 0 or 1.
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
}

/// Carries the verb out.
///
/// # Errors
/// [`Exit::Usage`] for SQL that SQLite refuses, [`Exit::Storage`] where there is no mirror.
pub fn run(global: &Global, args: &SqlArgs) -> Result<Exit, Failure> {
    let database = match &args.database {
        Some(path) => path.clone(),
        None => global.load()?.database,
    };
    let statement = if args.statement == "-" {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text)?;
        text
    } else {
        args.statement.clone()
    };
    let conn = connect(&database)?;
    if statement.trim().is_empty() {
        return Err(Failure::new(Exit::Usage, "there is no statement"));
    }
    let mut stmt = conn.prepare(&statement).map_err(|error| refused(error, &statement))?;
    if stmt.column_count() == 0 {
        let told = if stmt.readonly() {
            "this statement asks for nothing"
        } else {
            "the mirror is read-only here: only the service changes it"
        };
        let failure = Failure::new(Exit::Usage, told);
        return Err(match stmt.readonly() {
            true => failure,
            false => failure.hint("`crm-mirror edit` changes a field at the service"),
        });
    }
    let stdout = io::stdout();
    let terminal = stdout.is_terminal();
    let mut out = BufWriter::new(stdout.lock());
    let written = rows::write(&mut out, &mut stmt, args.format, terminal);
    if written.is_err() {
        // What is buffered is half a document; dropping the writer would still send it.
        let _ = out.into_parts();
    }
    match written {
        Ok(()) => Ok(Exit::Done),
        Err(Stopped::Sql(error)) => Err(refused(error, &statement)),
        Err(Stopped::Out(error)) => Err(error.into()),
    }
}

/// A connection that reads only, with the exact functions.
///
/// # Errors
/// [`StoreError`] where there is no mirror or it cannot be read.
pub fn connect(database: &Path) -> Result<Reader, StoreError> {
    Reader::open_for_queries(database)
}

/// How to search for a text as it stands.
const QUOTING: &str = "in MATCH, quote words with punctuation twice over: MATCH '\"ada@example.com\"'; a double quote inside \
                       is doubled";

/// Whether SQLite refused the text of a full-text search: only quotes make a text of words with punctuation.
fn is_of_match(message: &str, statement: &str) -> bool {
    let searches = statement.to_ascii_uppercase().contains("MATCH");
    searches && ["fts5: ", "unterminated string", "no such column: "].iter().any(|part| message.starts_with(part))
}

/// What SQLite said, without the words around it: whoever wrote the statement knows the rest.
fn refused(error: rusqlite::Error, statement: &str) -> Failure {
    match error {
        rusqlite::Error::SqliteFailure(code, message) => {
            let text = message.unwrap_or_else(|| code.to_string());
            match is_of_match(&text, statement) {
                true => Failure::new(Exit::Usage, text).hint(QUOTING),
                false => Failure::new(Exit::Usage, text),
            }
        }
        rusqlite::Error::SqlInputError { msg, .. } => Failure::new(Exit::Usage, msg),
        rusqlite::Error::MultipleStatement => Failure::new(Exit::Usage, "there is more than one statement"),
        other => Failure::new(Exit::Usage, other),
    }
}
