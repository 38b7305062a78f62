//! `POST /edits`: an edit through the control socket, as `crm-mirror edit` makes it.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::model::{EditedFields, Etag, Instant, Object, RecordId};
use crate::outbox::typed::Given;
use crate::outbox::{EditRequest, EditSource, QueueError, queue};
use crate::store::write_beside;

/// The body of the request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EditBody {
    /// `contact` or `company`.
    object: Object,
    /// The record.
    id: RecordId,
    /// What columns of the `_full` view are to hold, as the service writes values.
    fields: Map<String, Value>,
    /// The version that the record must have here.
    if_match: Option<Etag>,
}

/// The answer: what was queued.
#[derive(Debug, Serialize)]
pub struct QueuedEdit {
    /// The edit's number in `outbox`; `None` where the record holds all of it already.
    pub edit: Option<i64>,
    /// What it changes: the value before and the value after, by column.
    pub fields: EditedFields,
}

/// Checks the edit and queues it, in a transaction that outlives a power cut.
///
/// # Errors
/// What is wrong with it; then nothing is queued.
pub fn queue_edit(mirror: &Path, body: EditBody, now: Instant) -> Result<QueuedEdit, QueueError> {
    let request = EditRequest {
        object: body.object,
        record: body.id,
        changes: body.fields.into_iter().map(|(column, value)| (column, Given::Json(value))).collect(),
        if_match: body.if_match,
    };
    let (edit, prepared) = write_beside(mirror, |tx| queue(tx, &request, EditSource::Socket, now))?;
    Ok(QueuedEdit { edit, fields: prepared.fields })
}
