//! What can go wrong with the mirror's file.

use std::path::PathBuf;

/// A failure of the mirror's file.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file could not be opened or created.
    #[error("could not open the mirror {path}", path = path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        source: rusqlite::Error,
    },
    /// The folder or the lock beside the file could not be used.
    #[error("could not use {path}", path = path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is there but is something else.
    #[error("{path} is not a mirror: {why}", path = path.display())]
    NotAMirror {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        why: &'static str,
    },
    /// There is no file to read.
    #[error("there is no mirror at {path} yet", path = path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// A newer program wrote the file.
    #[error("the mirror has schema {found}, and this program knows schemas up to {known}")]
    NewerSchema {
        /// The file's `user_version`.
        found: u32,
        /// The newest that this program knows.
        known: u32,
    },
    /// An older program wrote the file, and nobody has brought its tables up to date yet.
    #[error("the mirror has schema {found}, which has no place for this yet")]
    OlderSchema {
        /// The file's `user_version`.
        found: u32,
    },
    /// Another process writes the file.
    #[error("another crm-mirror{} is writing {path}", pid.map(|pid| format!(" (process {pid})")).unwrap_or_default(), path = path.display())]
    Locked {
        /// The file.
        path: PathBuf,
        /// The other process, as far as it said.
        pid: Option<u32>,
    },
    /// SQLite refused something.
    #[error("could not {doing}")]
    Sqlite {
        /// What was being done.
        doing: &'static str,
        /// Why.
        source: rusqlite::Error,
    },
    /// The program's own state in the file cannot be understood.
    #[error("the mirror's state `{name}` cannot be understood")]
    State {
        /// The entry.
        name: String,
        /// Why.
        source: serde_json::Error,
    },
    /// The system has no random numbers.
    #[error("the system gives no random numbers: {0}")]
    Random(String),
    /// A page was decoded with columns that have changed since: decode it again.
    #[error("the custom columns changed while a page was on its way")]
    StaleLayout,
    /// The writing thread has ended.
    #[error("the mirror's writer has ended")]
    Closed,
    /// A test ended the writer here, as a kill would.
    #[error("the writer was interrupted")]
    Interrupted,
}

impl StoreError {
    /// What a person can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            StoreError::NotAMirror { .. } => Some("name another file with `database.path`; this one was left as it is"),
            StoreError::NewerSchema { .. } => Some("install the newer crm-mirror again; the file was left as it is"),
            StoreError::OlderSchema { .. } => Some("run `crm-mirror sync` once: it brings the mirror up to date"),
            StoreError::Locked { .. } => Some("stop the other process, or ask it: `crm-mirror status`"),
            StoreError::Missing { .. } => Some("`crm-mirror sync` makes the first copy"),
            StoreError::Open { .. } | StoreError::Io { .. } => {
                Some("check that the folder exists and that this user may write there (`database.path`)")
            }
            _ => None,
        }
    }
}

/// Says what was being done when SQLite refused.
pub(crate) trait Doing<T> {
    /// Names the step for the error.
    fn doing(self, doing: &'static str) -> Result<T, StoreError>;
}

impl<T> Doing<T> for rusqlite::Result<T> {
    fn doing(self, doing: &'static str) -> Result<T, StoreError> {
        self.map_err(|source| StoreError::Sqlite { doing, source })
    }
}
