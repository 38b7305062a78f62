//! Edits that a program proposes: queued like others, and held until a person releases them.

use super::queue::{EditRequest, Prepared, QueueError, queue_as};
use crate::model::{EditState, Instant, Object, RecordId};
use crate::store::{EditStep, MirrorTx, StoreError};

/// Why a proposal was refused.
#[derive(Debug, thiserror::Error)]
pub enum ProposeError {
    /// The record has pending edits. A proposal must neither replace nor cancel an edit that a person queued.
    #[error("the {object} `{record}` has pending edits: a person must send, release or drop them first")]
    Waiting {
        /// The object of the record.
        object: Object,
        /// The id of the record.
        record: RecordId,
    },
    /// It could not be queued.
    #[error(transparent)]
    Queue(#[from] QueueError),
}

impl From<StoreError> for ProposeError {
    fn from(error: StoreError) -> ProposeError {
        ProposeError::Queue(error.into())
    }
}

/// Validates an edit and queues it as held, in the caller's transaction: it is never sent before a person releases it.
/// Returns its id; `None` if it changes nothing.
///
/// # Errors
/// Returns a [`ProposeError`] that says what is wrong; nothing is queued.
pub fn propose(
    tx: &MirrorTx<'_>,
    request: &EditRequest,
    now: Instant,
) -> Result<(Option<i64>, Prepared), ProposeError> {
    let (waiting, unreadable) = tx.edits_of(request.object, &request.record)?;
    if !waiting.is_empty() || !unreadable.is_empty() {
        return Err(ProposeError::Waiting { object: request.object, record: request.record.clone() });
    }
    let (id, prepared) = queue_as(tx, request, "assistant", "proposed by an assistant", now)?;
    if let Some(id) = id {
        let why = "held until a person releases it: `crm-mirror outbox release`";
        tx.take_step(id, &EditStep::new(EditState::Queued, EditState::Held, why), now)?;
    }
    Ok((id, prepared))
}
