//! What can end a run early, and what the caller does about it.

use crate::api::error::ApiError;
use crate::api::error_class::ErrorClass;
use crate::api::meter::AdmissionError;
use crate::model::{Instant, Resource};
use crate::store::StoreError;

/// Why a run ended before its work was done.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    /// The service did not give what was asked for.
    #[error("could not {doing} {resource}")]
    Api {
        /// What was being done: "list", "count", "read a detail of".
        doing: &'static str,
        /// Of what.
        resource: Resource,
        /// Why.
        source: ApiError,
    },
    /// The mirror's file refused.
    #[error("could not write the mirror")]
    Store(#[from] StoreError),
    /// The cursors of a list lead nowhere.
    #[error("the service's list of {resource} does not advance")]
    NotAdvancing {
        /// The list.
        resource: Resource,
    },
    /// The key is of another workspace than the mirror.
    #[error(
        "this key sees {met} of the {asked} records of the mirror that it was asked for: it is another workspace's"
    )]
    OtherWorkspace {
        /// Known records that were asked for.
        asked: usize,
        /// Those that the service has, unchanged in what does not change.
        met: usize,
    },
    /// The key has no scope for anything that was asked for.
    #[error("the key may read none of what was asked for; it lacks {scopes}")]
    NoScope {
        /// The scopes.
        scopes: String,
    },
}

/// Why a run was suspended, and when it can be resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspension {
    /// The budget of the window is spent; it refills then.
    Budget(Instant),
    /// The service set a rate limit until then.
    Hold(Instant),
    /// The program ends, or something urgent goes first.
    Shutdown,
}

impl SyncError {
    /// The suspension that this error is, if it is one.
    pub fn suspension(&self) -> Option<Suspension> {
        let SyncError::Api { source: ApiError::NotAdmitted(refused), .. } = self else {
            return None;
        };
        match refused {
            AdmissionError::Budget { refills_at } => Some(Suspension::Budget(*refills_at)),
            AdmissionError::Hold { until } => Some(Suspension::Hold(*until)),
            AdmissionError::Stopping => Some(Suspension::Shutdown),
            AdmissionError::Ledger => None,
        }
    }

    /// What the service's answer means for the run, where it was the service.
    pub fn class(&self) -> Option<ErrorClass> {
        match self {
            SyncError::Api { source, .. } => Some(source.class()),
            _ => None,
        }
    }

    /// Whether an answer was larger than allowed: with fewer rows it may not be.
    pub fn is_too_large(&self) -> bool {
        matches!(self, SyncError::Api { source: ApiError::TooLarge { .. }, .. })
    }

    /// A next move for a person.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            SyncError::Api { source, .. } => source.hint(),
            SyncError::Store(source) => source.hint(),
            SyncError::NotAdvancing { .. } => Some("what was stored stays; the next run tries again from there"),
            SyncError::OtherWorkspace { .. } => {
                Some("use the workspace's own key, or another `database.path` for the other workspace")
            }
            SyncError::NoScope { .. } => Some("make a key with these scopes in the workspace console"),
        }
    }
}

/// Names what was being done when the service refused.
pub(crate) trait Asking<T> {
    /// Adds the step and the resource.
    fn asking(self, doing: &'static str, resource: Resource) -> Result<T, SyncError>;
}

impl<T, E: Into<ApiError>> Asking<T> for Result<T, E> {
    fn asking(self, doing: &'static str, resource: Resource) -> Result<T, SyncError> {
        self.map_err(|source| SyncError::Api { doing, resource, source: source.into() })
    }
}
