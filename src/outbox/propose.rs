//! Edits that a program proposes: queued like others, and held until a person releases them.

use super::queue::{EditRequest, QueueError, queue_as};
use crate::model::{EditState, Instant, Object, RecordId};
use crate::store::queue::QueuedValues;
use crate::store::{EditStep, MirrorTx, StoreError};

#[derive(Debug, thiserror::Error)]
pub enum ProposeError {
    /// The record has pending edits. A proposal must neither replace nor cancel an edit that a person queued.
    #[error("the {object} `{record}` has pending edits: a person must send, release or drop them first")]
    Waiting { object: Object, record: RecordId },
    #[error(transparent)]
    Queue(#[from] QueueError),
}

impl From<StoreError> for ProposeError {
    fn from(error: StoreError) -> ProposeError {
        ProposeError::Queue(error.into())
    }
}

/// Validates an edit and queues it as held, in the caller's transaction: it is never sent before a person releases it.
pub fn propose(tx: &MirrorTx<'_>, request: &EditRequest, now: Instant) -> Result<QueuedValues, ProposeError> {
    let (waiting, unreadable) = tx.edits_of(request.object, &request.record)?;
    if !waiting.is_empty() || !unreadable.is_empty() {
        return Err(ProposeError::Waiting { object: request.object, record: request.record.clone() });
    }
    let (queued, _) = queue_as(tx, request, ("assistant", "proposed by an assistant"), None, now)?;
    if let Some(id) = queued.edit {
        let why = "held until a person releases it: `crm-mirror outbox release`, or drops it: `crm-mirror outbox drop`";
        tx.edits().take_step(id, &EditStep::new(EditState::Queued, EditState::Held, why), now)?;
    }
    Ok(queued)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::edit_fixture::{
        CONTACT, contact, edit_of, ended, mirror, now, on_mirror, open, show, step, unguarded,
    };
    use crate::outbox::typed_values::Given;
    use serde_json::json;

    fn proposed(tx: &MirrorTx<'_>, column: &str, value: &str) -> Result<Option<i64>, ProposeError> {
        let changes = vec![(column.to_string(), Given::Text(value.into()))];
        let request = EditRequest { object: CONTACT, record: contact(), changes, if_match: None };
        propose(tx, &request, now()).map(|queued| queued.edit)
    }

    #[tokio::test]
    async fn proposal_is_held_and_the_next_one_waits_for_it() {
        on_mirror(|tx| {
            assert_eq!(proposed(tx, "position", "A").unwrap(), None, "it changes nothing");
            assert_eq!(proposed(tx, "position", "B").unwrap(), Some(1));
            let (state, why) = ended(tx, 1);
            assert_eq!(state, EditState::Held);
            assert!(why.contains("until a person releases it"), "{why}");
            let refused = proposed(tx, "language", "B").unwrap_err();
            assert!(matches!(&refused, ProposeError::Waiting { record, .. } if *record == contact()), "{refused:?}");
            assert_eq!(open(tx).len(), 1);
        })
        .await;
    }

    #[tokio::test]
    async fn finished_edits_and_those_of_other_records_do_not_prevent_a_proposal() {
        on_mirror(|tx| {
            show(tx, &json!({ "id": "d", "etag": "\"v1\"", "position": "A" }));
            step(tx, edit_of(tx, "position", "B"), EditState::Queued, EditState::Dropped);
            let other = EditRequest {
                object: CONTACT,
                record: RecordId::new("d"),
                changes: vec![("position".to_string(), Given::Text("B".into()))],
                if_match: None,
            };
            propose(tx, &other, now()).unwrap();
            assert_eq!(proposed(tx, "position", "B").unwrap(), Some(3));
        })
        .await;
    }

    #[tokio::test]
    async fn proposal_waits_for_a_row_that_is_no_edit() {
        let (dir, store) = mirror(json!({ "id": "c", "etag": "\"v1\"", "position": "A" })).await;
        unguarded(&dir.path().join("mirror.db"))
            .execute_batch(
                "INSERT INTO outbox (object_type, record_id, source, fields, queued_at)
                 VALUES ('contact', 'c', 'sql', '{}', '2026-03-01T12:00:00.000000Z')",
            )
            .unwrap();
        let refused = store.write(|tx| Ok(proposed(tx, "position", "B"))).await.unwrap();
        assert!(matches!(refused, Err(ProposeError::Waiting { .. })), "{refused:?}");
    }
}
