//! What ends the sending of edits early.

use crate::api::{ApiError, ErrorClass};
use crate::model::Object;
use crate::store::StoreError;

/// Why edits could not be sent on.
#[derive(Debug, thiserror::Error)]
pub enum OutboxError {
    /// The service did not do what was asked for.
    #[error("could not {doing} a {object}")]
    Api {
        /// What was being done: "update", "read".
        doing: &'static str,
        /// Of what kind of record.
        object: Object,
        /// Why.
        source: ApiError,
    },
    /// The mirror's file refused.
    #[error("could not keep the outbox")]
    Store(#[from] StoreError),
}

impl OutboxError {
    /// What the service's answer means for what comes next, where it was the service.
    pub fn class(&self) -> Option<ErrorClass> {
        match self {
            OutboxError::Api { source, .. } => Some(source.class()),
            OutboxError::Store(_) => None,
        }
    }
}
