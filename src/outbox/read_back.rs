//! Reads a record back: to learn what became of a request whose outcome is unknown, or that met another version, and to
//! have the values that an edit is compared with.

use super::error::OutboxError;
use super::outcome::AfterReadBack;
use super::pass::{PushPass, lock};
use super::pusher::Pusher;
use super::trail;
use crate::api::client::DetailAnswer;
use crate::api::{ApiError, ErrorClass, decode};
use crate::model::field_value::{FieldValue, SqlValue};
use crate::model::{FieldKind, Object, Purpose, Record, RecordId};
use crate::store::{Applied, StoreError};

impl Pusher {
    /// Reads a record into the mirror and, where a request is named, decides about it by what the record shows.
    pub(super) async fn read_back(
        &self,
        pass: &PushPass,
        object: Object,
        id: &RecordId,
        carrier: Option<i64>,
    ) -> Result<AfterReadBack, OutboxError> {
        match self.client.detail(object, id, Purpose::Outbox).await {
            Ok(answer) => self.take_detail(pass, object, id, carrier, answer).await,
            Err(error) if error.class() == ErrorClass::Gone => {
                let (status, said) = (error.status(), trail::of_error(&error));
                self.edit(pass, object, id, move |edits| edits.gone(status, &said)).await?;
                lock(&pass.pushed).gone.push((object, id.clone()));
                Ok(AfterReadBack::Wait)
            }
            Err(error) if error.class() == ErrorClass::SkipObject => {
                pass.warn(format!(
                    "an edit of a {object} waits: the record has to be read first, and the key lacks `{}`",
                    object.resource().read_scope()
                ));
                Ok(AfterReadBack::Wait)
            }
            Err(error) => {
                if let ApiError::NotAdmitted(_) = error {
                    self.edit(pass, object, id, |edits| edits.was_not_asked()).await?;
                }
                self.failing(pass, "read", object, id, error).await?;
                Ok(AfterReadBack::Wait)
            }
        }
    }

    /// Takes a detail into the mirror, and decides by it, in one transaction.
    async fn take_detail(
        &self,
        pass: &PushPass,
        object: Object,
        id: &RecordId,
        carrier: Option<i64>,
        answer: DetailAnswer,
    ) -> Result<AfterReadBack, OutboxError> {
        loop {
            let layout = self.store.layout();
            let decoded = decode::detail(object.resource(), &answer.body, &layout);
            let Some(mut record) = decoded.ok().filter(|record| record.id == *id) else {
                pass.warn(format!("a {object} with an edit could not be understood"));
                return Ok(AfterReadBack::Wait);
            };
            if let Some(etag) = &answer.etag {
                take_header_etag(object, &mut record, etag.as_str());
            }
            let (unknown_keys, version, asked_at) = (!record.unknown_keys.is_empty(), layout.version, answer.asked_at);
            let done = self
                .edit(pass, object, id, move |edits| {
                    edits.tx.expect_layout(version)?;
                    let phase = edits.tx.phase(object)?;
                    let (applied, _) = edits.tx.apply_detail(object, &record, asked_at, phase)?;
                    let after = match carrier {
                        Some(carrier) => edits.was_read_back(carrier)?,
                        None if applied == Applied::Older => AfterReadBack::Wait,
                        None => {
                            edits.was_read()?;
                            AfterReadBack::Continue
                        }
                    };
                    Ok((after, applied))
                })
                .await;
            match done {
                Err(StoreError::StaleLayout) => {}
                Err(error) => return Err(error.into()),
                Ok((after, applied)) => {
                    let mut pushed = lock(&pass.pushed);
                    pushed.unknown_keys |= unknown_keys;
                    pushed.mirror.details += 1;
                    pushed.mirror.updated += u64::from(applied == Applied::Updated);
                    return Ok(after);
                }
            }
        }
    }
}

/// An answer whose body lacks the etag gets it from the header, which holds the same value.
pub(super) fn take_header_etag(object: Object, record: &mut Record, etag: &str) {
    for (field, value) in object.fields().iter().zip(&mut record.fields) {
        if field.kind == FieldKind::Etag && *value == FieldValue::Absent {
            *value = FieldValue::Exact(SqlValue::from(etag));
        }
    }
}
