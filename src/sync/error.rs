//! Errors that end a run, and their class for the caller.

use serde::{Deserialize, Serialize};

use crate::api::admission::AdmissionError;
use crate::api::error::ApiError;
use crate::api::error_class::ErrorClass;
use crate::model::{Instant, Resource};
use crate::store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    #[error("could not {doing} {resource}")]
    Api { doing: &'static str, resource: Resource, source: ApiError },
    #[error("could not write the mirror")]
    Store(#[from] StoreError),
    #[error("the service's list of {resource} does not advance")]
    NotAdvancing { resource: Resource },
    #[error("{resource} change faster than they are read; the next run reads the rest")]
    ConstantChanges { resource: Resource },
    #[error("{met} of {asked} known records are visible with this API key: it belongs to a different workspace")]
    OtherWorkspace {
        /// The number of known records that were looked up.
        asked: usize,
        /// The number of those that exist with unchanged creation times.
        met: usize,
    },
    /// Too few of the known records exist with a new key or address, which may be temporary.
    #[error(
        "{met} of {asked} known records are visible with this new key or address{}{}",
        if .unread.is_empty() { "" } else { "; the others cannot be read without " },
        .unread.join(", ")
    )]
    NotRecognised {
        asked: usize,
        met: usize,
        /// The scopes that the key lacks for the other known records.
        unread: Vec<&'static str>,
    },
    /// A step that failed recently, whose next attempt is not due yet.
    #[error("{error}; the next attempt is due at {due_at}")]
    NotDue { error: String, due_at: Instant },
    #[error("the API key cannot read any of the requested objects; it lacks {scopes}")]
    NoScope { scopes: String },
}

/// Why a run was suspended, and when it can be resumed. Its JSON form is documented in `docs/interfaces.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason", content = "until", rename_all = "lowercase")]
pub enum Suspension {
    /// The budget of the window is exhausted; it refills at this time.
    Budget(Instant),
    /// A rate limit holds requests until this time.
    Hold(Instant),
    /// The program is stopping, or an urgent job preempts the run.
    #[serde(rename = "stopped")]
    Shutdown,
    /// Another program has the mirror locked.
    Locked,
    /// Records change faster than they are read.
    Changes,
}

impl SyncError {
    pub fn suspension(&self) -> Option<Suspension> {
        let refused = match self {
            SyncError::Api { source: ApiError::NotAdmitted(refused), .. } => refused,
            SyncError::Store(error) => return error.is_busy().then_some(Suspension::Locked),
            SyncError::ConstantChanges { .. } => return Some(Suspension::Changes),
            _ => return None,
        };
        match refused {
            AdmissionError::Budget { refills_at, .. } => Some(Suspension::Budget(*refills_at)),
            AdmissionError::Hold { until, .. } => Some(Suspension::Hold(*until)),
            AdmissionError::Stopping => Some(Suspension::Shutdown),
            AdmissionError::Ledger => None,
        }
    }

    pub fn class(&self) -> Option<ErrorClass> {
        match self {
            SyncError::Api { source, .. } => Some(source.class()),
            _ => None,
        }
    }

    pub fn refusals(&self) -> u32 {
        if let SyncError::Api { source, .. } = self { source.refusals() } else { 0 }
    }

    pub const fn is_not_due(&self) -> bool {
        matches!(self, SyncError::NotDue { .. })
    }

    /// Whether the request itself failed, so that another one may take its place; a hold says nothing about what was asked.
    pub fn allows_another(&self) -> bool {
        self.concerns_one_resource() && self.suspension().is_none()
    }

    /// Whether the error concerns only the requested object, so that other objects may still be read.
    pub fn concerns_one_resource(&self) -> bool {
        match self {
            SyncError::NotAdvancing { .. } | SyncError::NotDue { .. } => true,
            // Whether it refuses others for a while as well, their own requests show.
            SyncError::Api { source, .. } if source.refusals() > 0 => true,
            // Without a connection there is no other object either.
            SyncError::Api { source: ApiError::Unreachable { .. }, .. } => false,
            SyncError::Api { source, .. } => matches!(
                source.class(),
                ErrorClass::Retry
                    | ErrorClass::Gone
                    | ErrorClass::SkipRecord
                    | ErrorClass::BadRequest
                    | ErrorClass::Failed
            ),
            _ => false,
        }
    }

    /// Whether the service may answer nothing: it has said nothing about what was asked for.
    pub fn is_no_answer(&self) -> bool {
        self.class() == Some(ErrorClass::Retry)
    }

    /// Whether it may be one record that keeps a page from being answered: with fewer rows it may be.
    pub fn may_be_of_a_record(&self) -> bool {
        let SyncError::Api { source, .. } = self else { return false };
        let fails = source.status().is_some_and(|status| status >= 500) || matches!(source, ApiError::Timeout { .. });
        self.is_unreadable() || fails && self.is_no_answer() && source.refusals() == 0
    }

    /// Whether the answer cannot be read: it is too large, no JSON, or no list. With fewer rows it may be.
    pub fn is_unreadable(&self) -> bool {
        let SyncError::Api { source, .. } = self else { return false };
        matches!(source, ApiError::TooLarge { .. } | ApiError::Broken { .. } | ApiError::NotUnderstood(_))
    }

    pub fn is_too_large(&self) -> bool {
        matches!(self, SyncError::Api { source: ApiError::TooLarge { .. }, .. })
    }

    /// Whether the service refuses the request itself, not the key or the moment: a cursor in it is of no use any more.
    pub fn is_refused(&self) -> bool {
        let SyncError::Api { source, .. } = self else { return false };
        let refuses = [ErrorClass::BadRequest, ErrorClass::Gone, ErrorClass::Failed].contains(&source.class());
        refuses && source.status().is_some_and(|status| (400..500).contains(&status))
    }

    /// Whether a smaller range may be listed all the same: it needs no cursor, or does not show a record that is in the way.
    pub fn is_of_a_range(&self) -> bool {
        self.is_refused() || self.may_be_of_a_record() && !self.is_too_large()
    }

    pub fn hint(&self) -> Option<&'static str> {
        match self {
            SyncError::Api { source, .. } => source.hint(),
            SyncError::Store(source) => source.hint(),
            SyncError::NotDue { .. } => Some("a manual run attempts it at once"),
            SyncError::NotAdvancing { .. } | SyncError::ConstantChanges { .. } => {
                Some("stored data is kept; the next run continues from there")
            }
            SyncError::OtherWorkspace { .. } => {
                Some("use the key of the mirrored workspace, or a different `database.path` for the other workspace")
            }
            SyncError::NotRecognised { .. } => Some(
                "nothing was written; if the key is of the mirrored workspace, the next run finds out, or it needs these \
                 scopes. If it is another workspace's, use its own key, or another `database.path`",
            ),
            SyncError::NoScope { .. } => Some("create a key with these scopes in the workspace console"),
        }
    }
}

/// Adds the operation to an error of the service.
pub(crate) trait Asking<T> {
    fn asking(self, doing: &'static str, resource: Resource) -> Result<T, SyncError>;
}

impl<T, E: Into<ApiError>> Asking<T> for Result<T, E> {
    fn asking(self, doing: &'static str, resource: Resource) -> Result<T, SyncError> {
        self.map_err(|source| SyncError::Api { doing, resource, source: source.into() })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_a_failure_to_connect_concerns_every_object() {
        let why = || "no".to_string();
        for (source, is_of_one) in [
            (ApiError::Unreachable { tries: 5, why: why() }, false),
            (ApiError::NotConnectable { class: ErrorClass::Unavailable, hint: "", why: why() }, false),
            (ApiError::NoAnswer { tries: 5, why: why() }, true),
            (ApiError::Timeout { tries: 5, after: Duration::from_secs(30) }, true),
            (ApiError::Broken { tries: 5, why: why() }, true),
            (ApiError::TooLarge { limit: 1 }, true),
            (ApiError::Redirected { status: 301 }, false),
        ] {
            let error = SyncError::Api { doing: "list", resource: Resource::Contacts, source };
            assert_eq!(error.concerns_one_resource(), is_of_one, "{error}");
        }
    }
}
