//! Why publishing failed. No message shows the URL: it holds a password.

use std::path::PathBuf;

use tokio_postgres::error::SqlState;

use crate::store::StoreError;

/// A failure to publish.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The URL cannot be used.
    #[error("the URL of the database cannot be used: {reason}")]
    Url {
        /// Why, without the URL.
        reason: String,
    },
    /// The certificates that a server is checked against cannot be used.
    #[error("the certificates in {path} cannot be used: {reason}", path = path.display())]
    Certificates {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The database is away, full, read-only or busy; trying again later may help.
    #[error("could not {doing} at {place}")]
    Unavailable {
        /// What was being done.
        doing: &'static str,
        /// Host, port and database.
        place: String,
        /// Why.
        source: Box<tokio_postgres::Error>,
    },
    /// The database refuses this user.
    #[error("could not {doing} at {place}")]
    Denied {
        /// What was being done.
        doing: &'static str,
        /// Host, port and database.
        place: String,
        /// Why.
        source: Box<tokio_postgres::Error>,
    },
    /// The database refuses a statement for another reason.
    #[error("could not {doing} at {place}")]
    Statement {
        /// What was being done.
        doing: &'static str,
        /// Host, port and database.
        place: String,
        /// Why.
        source: Box<tokio_postgres::Error>,
    },
    /// The schema has a table of that name that this program did not make.
    #[error("the schema `{schema}` has a table `{table}` that crm-mirror did not make")]
    ForeignTable {
        /// The schema.
        schema: String,
        /// The table.
        table: String,
    },
    /// The database does not store UTF-8.
    #[error("the database at {place} stores {encoding}, not UTF-8")]
    Encoding {
        /// Host, port and database.
        place: String,
        /// Its encoding.
        encoding: String,
    },
    /// A column of `publish.exclude` is not there: a typing mistake would publish what must not leave.
    #[error("`publish.exclude` names `{column}`, {reason}")]
    Exclude {
        /// The entry.
        column: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Another process publishes this mirror, or to this schema.
    #[error("another process is publishing to the schema `{schema}`")]
    Busy {
        /// The schema.
        schema: String,
    },
    /// The columns changed again and again while they were published.
    #[error("the custom fields changed while they were published")]
    Unsettled,
    /// Nothing was copied yet.
    #[error("the mirror is empty: nothing was copied yet")]
    Empty,
    /// The mirror could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The lock beside the mirror cannot be used.
    #[error("could not use {path}", path = path.display())]
    Lock {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl PublishError {
    /// Says what was being done when the database refused.
    pub(super) fn of(doing: &'static str, place: &str, error: tokio_postgres::Error) -> PublishError {
        let (place, source) = (place.to_string(), Box::new(error));
        match source.code() {
            None => PublishError::Unavailable { doing, place, source },
            Some(code) => match &code.code()[..2] {
                // Connections, transactions, resources, locks, operators, the system; and a standby is read-only.
                "08" | "25" | "40" | "53" | "55" | "57" | "58" | "XX" => {
                    PublishError::Unavailable { doing, place, source }
                }
                "28" | "3D" => PublishError::Denied { doing, place, source },
                _ if *code == SqlState::INSUFFICIENT_PRIVILEGE => PublishError::Denied { doing, place, source },
                _ => PublishError::Statement { doing, place, source },
            },
        }
    }

    /// What a person can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            PublishError::Url { .. } => {
                Some("it is postgres://user:password@host:port/database, with `?sslmode=…` where it is needed")
            }
            PublishError::Certificates { .. } => Some("`sslrootcert` names a PEM file that this user may read"),
            PublishError::Unavailable { .. } => {
                Some("nothing was lost: the next publish goes on where this one stopped")
            }
            PublishError::Denied { .. } => {
                Some("check user, password and database, and that the role may create the schema and its tables")
            }
            PublishError::ForeignTable { .. } => Some("name another schema with `publish.schema`"),
            PublishError::Encoding { .. } => Some("create the database with ENCODING 'UTF8'"),
            PublishError::Exclude { .. } => Some("`crm-mirror describe contacts_full` lists the columns"),
            PublishError::Busy { .. } => Some("the daemon publishes by itself; wait until it is done"),
            PublishError::Unsettled => Some("run it again"),
            PublishError::Empty => Some("`crm-mirror sync` makes the first copy"),
            PublishError::Store(error) => error.hint(),
            PublishError::Statement { .. } | PublishError::Lock { .. } => None,
        }
    }
}
