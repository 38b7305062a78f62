//! Errors that end the sending of edits.

use crate::api::{ApiError, ErrorClass};
use crate::model::Object;
use crate::store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum OutboxError {
    #[error("could not {doing} a {object}")]
    Api {
        /// The operation: "update" or "read".
        doing: &'static str,
        object: Object,
        source: ApiError,
    },
    #[error("could not write the outbox")]
    Store(#[from] StoreError),
}

impl OutboxError {
    /// The class of the service's error, if it was one.
    pub fn class(&self) -> Option<ErrorClass> {
        match self {
            OutboxError::Api { source, .. } => Some(source.class()),
            OutboxError::Store(_) => None,
        }
    }
}
