//! `POST /edits`: queues an edit, like `crm-mirror edit`.

use std::path::Path;

use serde::Deserialize;

use crate::app::person;
use crate::model::{Etag, Instant, Object, RecordId};
use crate::outbox::{EditRequest, EditSource, Given, Members, QueueError, queue};
use crate::store::queue::QueuedValues;
use crate::store::write_beside;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EditBody {
    object: Object,
    id: RecordId,
    /// New values of columns of the `_full` view, as the service writes values.
    fields: Members,
    if_match: Option<Etag>,
}

impl From<EditBody> for EditRequest {
    fn from(body: EditBody) -> EditRequest {
        EditRequest {
            object: body.object,
            record: body.id,
            changes: body.fields.0.into_iter().map(|(column, value)| (column, Given::Json(value))).collect(),
            if_match: body.if_match,
        }
    }
}

pub(super) fn queue_edit(mirror: &Path, body: EditBody, now: Instant) -> Result<QueuedValues, QueueError> {
    let request = EditRequest::from(body);
    let (queued, _) = write_beside(mirror, |tx| {
        // The socket takes requests of this user only.
        tx.by(person());
        queue(tx, &request, EditSource::Socket, now)
    })?;
    Ok(queued)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_that_is_given_twice_is_refused() {
        let body =
            |fields| serde_json::from_str::<EditBody>(&format!(r#"{{"object":"contact","id":"a","fields":{fields}}}"#));
        body(r#"{"notes":"first"}"#).unwrap();
        let refused = body(r#"{"notes":"first","notes":"last"}"#).unwrap_err();
        assert!(refused.to_string().contains("`notes` is there twice"), "{refused}");
    }
}
