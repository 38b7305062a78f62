//! Edits that a program proposes: queued like any other, and held until a person releases them.

use super::queue::{EditRequest, Prepared, QueueError, queue_as};
use crate::model::{EditState, Instant, Object, RecordId};
use crate::store::{EditStep, MirrorTx, StoreError};

/// Why a proposal was not taken.
#[derive(Debug, thiserror::Error)]
pub enum ProposeError {
    /// Edits of the record wait already. A proposal must neither replace nor cancel what a person queued.
    #[error("edits of the {object} `{record}` wait already: a person sends, releases or drops them first")]
    Waiting {
        /// Whose record.
        object: Object,
        /// Its id.
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

/// Judges an edit and queues it as held, in the caller's transaction: it is never sent before a person releases it. Gives
/// its number; `None` where it changes nothing.
///
/// # Errors
/// [`ProposeError`] says what is wrong with it; nothing is queued.
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
