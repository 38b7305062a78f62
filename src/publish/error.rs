//! Errors of publishing. No message shows the URL, because it contains a password.

use tokio_postgres::error::SqlState;

use crate::error_chain::error_chain;
use crate::format::{self, HIDDEN};
use crate::store::StoreError;

const MAX_TEXT: usize = 500;

/// What went wrong at the database. Its texts are cut, and cleaned of what could control a terminal.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct DatabaseError {
    text: String,
    message: Option<String>,
    code: Option<SqlState>,
    table: Option<&'static str>,
}

impl DatabaseError {
    fn of(error: &tokio_postgres::Error) -> DatabaseError {
        let answer = error.as_db_error();
        DatabaseError {
            text: shown(&error_chain(error)),
            message: answer.map(|answer| shown(answer.message())),
            code: error.code().cloned(),
            table: None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseFailure {
    /// The database is unavailable, full, read-only or busy; a retry may succeed.
    Unavailable,
    Denied,
    /// The values of rows: too large, out of range, or against a constraint or trigger of the table's owner. Repeating the
    /// statement does not help, but the other rows can be written.
    Rows,
    Statement,
}

impl DatabaseFailure {
    fn of(code: Option<&SqlState>) -> DatabaseFailure {
        match code.map(|code| (code, &code.code()[..2])) {
            // Connections, transactions, resources, locks, operators, the system; and a standby is read-only.
            None | Some((_, "08" | "25" | "40" | "53" | "55" | "57" | "58" | "XX")) => DatabaseFailure::Unavailable,
            Some((_, "28" | "3D")) => DatabaseFailure::Denied,
            Some((_, "09" | "21" | "22" | "23" | "27" | "38" | "39" | "44" | "54" | "P0")) => DatabaseFailure::Rows,
            Some((code, _)) if *code == SqlState::INSUFFICIENT_PRIVILEGE => DatabaseFailure::Denied,
            Some(_) => DatabaseFailure::Statement,
        }
    }
}

fn shown(text: &str) -> String {
    let mut shown = format::plain(text);
    if let Some((at, _)) = shown.char_indices().nth(MAX_TEXT) {
        shown.truncate(at);
        shown.push('…');
    }
    shown
}

#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    #[error("the URL of the database cannot be used: {reason}")]
    Url { reason: String },
    /// `place` is host, port and database.
    #[error("could not {doing} at {place}")]
    Database { failure: DatabaseFailure, doing: &'static str, place: String, source: Box<DatabaseError> },
    #[error("the schema `{schema}` has a table `{table}` that crm-mirror did not create")]
    ForeignTable { schema: String, table: String },
    #[error("the table `{table}` of the schema `{schema}` has row-level security and cannot be replaced by a new one")]
    RowSecurity { schema: String, table: &'static str },
    #[error("the database at {place} stores {encoding}, not UTF-8")]
    Encoding { place: String, encoding: String },
    /// A column of `publish.exclude` does not exist: a misspelt one would publish what was meant to be excluded.
    #[error("`publish.exclude` contains `{column}`, {reason}")]
    Exclude { column: String, reason: &'static str },
    #[error("another process is publishing to the schema `{schema}`, or has `publish_state` there locked")]
    Busy { schema: String },
    #[error("the mirror changed while it was published")]
    Unsettled,
    #[error("the mirror is empty: nothing was copied yet")]
    Empty,
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the stream cannot be continued from this cursor: {0}")]
    Cursor(&'static str),
    #[error("could not write the stream")]
    Output(#[from] std::io::Error),
}

impl PublishError {
    /// Whether it was only too early: another publisher is at work, the mirror is locked, or its columns just changed.
    pub(super) fn is_busy(&self) -> bool {
        match self {
            PublishError::Busy { .. } | PublishError::Unsettled => true,
            PublishError::Store(error) => error.is_busy(),
            _ => false,
        }
    }

    pub(super) fn of(doing: &'static str, place: &str, error: &tokio_postgres::Error) -> PublishError {
        let failure = DatabaseFailure::of(error.code());
        PublishError::Database { failure, doing, place: place.into(), source: Box::new(DatabaseError::of(error)) }
    }

    pub(super) fn no_answer(doing: &'static str, place: &str, reason: &str) -> PublishError {
        let source = Box::new(DatabaseError { text: shown(reason), message: None, code: None, table: None });
        PublishError::Database { failure: DatabaseFailure::Unavailable, doing, place: place.into(), source }
    }

    pub(super) fn is_of_rows(&self) -> bool {
        matches!(self, PublishError::Database { failure: DatabaseFailure::Rows, .. })
    }

    /// The error of a statement of a session that has answered since. What looked unavailable is a matter of the statement,
    /// but for locks, conflicts, resources, operators and a standby.
    pub(super) fn of_statement(mut self) -> PublishError {
        let passes = |code: &SqlState| {
            [SqlState::LOCK_NOT_AVAILABLE, SqlState::READ_ONLY_SQL_TRANSACTION].contains(code)
                || ["40", "53", "57"].contains(&&code.code()[..2])
        };
        if let PublishError::Database { failure: failure @ DatabaseFailure::Unavailable, source, .. } = &mut self
            && source.code.as_ref().is_some_and(|code| !passes(code))
        {
            *failure = DatabaseFailure::Statement;
        }
        self
    }

    /// Whether the database refuses what was wanted of one table. The others can be published.
    pub(super) fn is_refusal(&self) -> bool {
        match self {
            PublishError::Database { failure, .. } => *failure != DatabaseFailure::Unavailable,
            PublishError::ForeignTable { .. } | PublishError::RowSecurity { .. } => true,
            _ => false,
        }
    }

    fn of_database(&self) -> Option<&DatabaseError> {
        match self {
            PublishError::Database { source, .. } => Some(source),
            _ => None,
        }
    }

    pub(super) fn code(&self) -> Option<&SqlState> {
        self.of_database()?.code.as_ref()
    }

    /// The published table that the error is about, if it is about one.
    pub(super) fn table(&self) -> Option<&'static str> {
        match self {
            PublishError::RowSecurity { table, .. } => Some(table),
            _ => self.of_database()?.table,
        }
    }

    pub(super) fn of_table(mut self, table: &'static str) -> PublishError {
        if let PublishError::Database { source, .. } = &mut self {
            source.table = Some(table);
        }
        self
    }

    pub(super) fn server_message(&self) -> String {
        let message = self.of_database().and_then(|error| error.message.clone());
        message.unwrap_or_else(|| self.to_string())
    }

    /// For the log: a code in the place of what the server says, which may quote a value of a row.
    pub(super) fn without_server_text(&self) -> String {
        match self.code() {
            Some(code) => format!("{self}: SQLSTATE {}; {HIDDEN}", code.code()),
            None => error_chain(self),
        }
    }

    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            PublishError::Url { .. } => {
                "the form is postgres://user:password@host:port/database, optionally with `?sslmode=…&sslrootcert=FILE`"
            }
            PublishError::Database { .. } if self.code() == Some(&SqlState::TOO_MANY_COLUMNS) => {
                "name columns that are not needed in `publish.exclude`"
            }
            PublishError::Database { failure, .. } => match failure {
                DatabaseFailure::Unavailable => "nothing was lost: the next publish continues where this one stopped",
                DatabaseFailure::Denied => {
                    "check user, password and database, and that the role may create the schema and its tables"
                }
                DatabaseFailure::Rows | DatabaseFailure::Statement => {
                    "undo what was changed in the schema: the next publish loads the table again"
                }
            },
            PublishError::ForeignTable { .. } => "set `publish.schema` to a different schema",
            PublishError::Encoding { .. } => "create the database with ENCODING 'UTF8'",
            PublishError::Exclude { .. } => "`crm-mirror describe contacts_full` lists the columns",
            PublishError::Busy { .. } => {
                "the daemon publishes automatically; if this lasts, look for an open transaction in `pg_stat_activity`"
            }
            PublishError::Unsettled => "run the command again",
            PublishError::Empty => "run `crm-mirror sync` to make the first copy",
            PublishError::RowSecurity { .. } => "drop its policies, and protect a view of your own instead",
            PublishError::Store(error) => return error.hint(),
            PublishError::Cursor(_) => "take a new copy: `crm-mirror export --snapshot` begins with one",
            PublishError::Output(_) => return None,
        })
    }
}
