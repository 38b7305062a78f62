//! Reads a record: to determine the outcome of a request, or because its version changed, or to have the values that an
//! edit is compared with.

use super::edit_outcome::AfterReadBack;
use super::push::{OutboxError, RecordPush};
use super::push_progress::lock;
use super::trail;
use crate::api::client::DetailAnswer;
use crate::api::{ApiError, ErrorClass, decode};
use crate::model::{AnswerTime, Layout, Object, Purpose, Record, RecordId};
use crate::store::Applied;

impl RecordPush<'_> {
    /// Reads a record into the mirror and, if a request is given, decides on its outcome.
    pub(super) async fn read_back(&self, carrier: Option<i64>) -> Result<AfterReadBack, OutboxError> {
        let RecordPush { pusher, pass, object, id } = *self;
        match pusher.client.detail(object, id, Purpose::Outbox).await {
            Ok(answer) => self.take_detail(carrier, answer).await,
            Err(error) if error.class() == ErrorClass::Gone => {
                let (status, answer_json) = (error.status(), trail::of_error(&error));
                self.edit(move |edits| edits.not_found(status, &answer_json)).await?;
                Ok(AfterReadBack::Wait)
            }
            Err(error) if error.class() == ErrorClass::SkipObject => {
                pass.warn(format!(
                    "an edit of a {object} is waiting: the record has to be read first, and the key lacks `{}`",
                    object.resource().read_scope()
                ));
                Ok(AfterReadBack::Wait)
            }
            Err(error) => {
                if let ApiError::NotAdmitted(_) = error {
                    self.edit(|edits| edits.was_not_sent()).await?;
                }
                self.failing("read", error).await?;
                Ok(AfterReadBack::Wait)
            }
        }
    }

    /// Stores a detail in the mirror, and decides on the request, in one transaction.
    async fn take_detail(&self, carrier: Option<i64>, answer: DetailAnswer) -> Result<AfterReadBack, OutboxError> {
        let RecordPush { pusher, pass, object, id } = *self;
        let layout = pusher.store.layout();
        let Some(record) = decoded(object, id, &answer, &layout) else {
            pass.warn(format!("the detail of a {object} with an edit could not be decoded"));
            return Ok(AfterReadBack::Wait);
        };
        let (its_id, version) = (id.clone(), layout.version);
        let done = self.edit(move |edits| {
            let decode = |layout: &Layout| decoded(object, &its_id, &answer, layout);
            let record = edits.tx.with_current_layout(record, version, decode)?;
            let phase = edits.tx.phase(object)?;
            edits.tx.knowledge().answered(AnswerTime { shows: None, steady: edits.rules.steady });
            let (applied, _) = edits.tx.records().apply_detail(object, &record, &answer.asked, phase)?;
            let after = match carrier {
                Some(carrier) => edits.was_read_back(carrier)?,
                None if applied == Applied::Older => AfterReadBack::Wait,
                // The same read again would show the same: the next one is subject to the delay.
                None if edits.needs_read()? => AfterReadBack::Wait,
                None => {
                    edits.was_read()?;
                    AfterReadBack::Continue
                }
            };
            let unversioned = carrier.is_none() && applied != Applied::Older && after == AfterReadBack::Wait;
            Ok((after, applied, unversioned, !record.unknown_keys.is_empty()))
        });
        let (after, applied, unversioned, unknown_keys) = done.await?;
        if unversioned {
            pass.warn(format!("an edit of a {object} is waiting: the detail of the record has no usable `etag`"));
        }
        let mut pushed = lock(&pass.pushed);
        pushed.unknown_keys |= unknown_keys;
        pushed.mirror.details += 1;
        pushed.mirror.updated += u64::from(applied == Applied::Updated);
        Ok(after)
    }
}

/// The record of an answer about one; `None` if it is not this record.
pub(super) fn decoded(object: Object, id: &RecordId, answer: &DetailAnswer, layout: &Layout) -> Option<Record> {
    let record = decode::detail(object.resource(), &answer.body, layout).ok();
    let mut record = record.filter(|record| record.id == *id)?;
    if let Some(etag) = &answer.etag {
        record.take_header_etag(object, etag.as_str());
    }
    Some(record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Etag, FieldKind, FieldValue, SqlValue};
    use crate::outbox::edit_bench::{CONTACT, contact, on_mirror, stamp};

    #[tokio::test]
    async fn answer_has_the_version_of_its_header_unless_its_body_has_one() {
        let place = CONTACT.fields().iter().position(|field| field.kind == FieldKind::Etag).unwrap();
        for (body, header, version) in [
            (r#"{"data":{"id":"c"}}"#, Some("v2"), Some("v2")),
            (r#"{"data":{"id":"c","etag":"v1"}}"#, Some("v2"), Some("v1")),
            (r#"{"data":{"id":"c","etag":"v1"}}"#, None, Some("v1")),
            (r#"{"data":{"id":"d","etag":"v1"}}"#, Some("v2"), None),
            ("{}", Some("v2"), None),
        ] {
            let answer = DetailAnswer { body: body.into(), etag: header.map(Etag::new), asked: stamp() };
            let record = on_mirror(move |tx| decoded(CONTACT, &contact(), &answer, &tx.layout())).await;
            let found = record.map(|record| record.fields[place].clone());
            let expected = version.map(|version| FieldValue::Exact(SqlValue::from(version)));
            assert_eq!(found, expected, "{body}");
        }
    }
}
