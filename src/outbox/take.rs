//! What the service's answers bring, taken into the mirror with the step of the edits that it leads to: confirmations of
//! updates, and records that are read because of an edit.

use super::error::OutboxError;
use super::push::{Pusher, Shared, failing, lock};
use super::steps::{Desk, Sending};
use super::trail;
use crate::api::client::PatchAnswer;
use crate::api::{ErrorClass, decode};
use crate::model::field_value::{FieldValue, SqlValue};
use crate::model::{FieldKind, Object, Purpose, Record, RecordId};
use crate::store::{Applied, StoreError};

/// Why a record is read.
#[derive(Clone, Debug)]
pub(super) struct Look {
    /// The edit that carries the request.
    pub carrier: i64,
    /// Whether it may have been carried out.
    pub doubt: bool,
    /// The status and the words of the answer that led here.
    pub refusal: Option<(Option<u16>, String)>,
}

impl Pusher {
    /// Ends the edits of a request that was carried out, and gives the mirror what the answer says.
    pub(super) async fn confirm(
        &self,
        shared: &Shared,
        object: Object,
        id: &RecordId,
        sending: Sending,
        answer: PatchAnswer,
    ) -> Result<(), OutboxError> {
        loop {
            let layout = self.store.layout();
            let mut record =
                decode::detail(object.resource(), &answer.body, &layout).ok().filter(|record| record.id == *id);
            if let (Some(record), Some(etag)) = (&mut record, &answer.etag) {
                take_header_etag(object, record, etag.as_str());
            }
            if record.is_none() {
                // It was carried out all the same; what it did to the record, the next changes walk tells.
                shared.warn(format!("the answer to an update of a {object} could not be understood"));
            }
            let unknown_keys = record.as_ref().is_some_and(|record| record.unknown_keys);
            let (version, now, id, enter) = (layout.version, self.clock.now(), id.clone(), self.enter.clone());
            let (sending, replayed, asked_at) = (sending.clone(), answer.replayed, answer.asked_at);
            let done = self
                .store
                .write_durably(move |tx| {
                    tx.expect_layout(version)?;
                    let mut desk = Desk::open(tx, object, &id, now)?;
                    let applied = desk.confirmed(&sending, record.as_ref(), replayed, asked_at)?;
                    enter(tx)?;
                    Ok((desk.ended, applied))
                })
                .await;
            match done {
                Err(StoreError::StaleLayout) => {}
                Err(error) => return Err(error.into()),
                Ok((ended, applied)) => {
                    shared.ended(ended);
                    let mut pushed = lock(&shared.pushed);
                    pushed.unknown_keys |= unknown_keys;
                    pushed.mirror.updated += u64::from(applied == Some(Applied::Updated));
                    return Ok(());
                }
            }
        }
    }

    /// Reads a record into the mirror and, where a request is named, decides about it by what the record shows. Says
    /// whether the record's edits may go on.
    pub(super) async fn look(
        &self,
        shared: &Shared,
        object: Object,
        id: &RecordId,
        look: Option<Look>,
    ) -> Result<bool, OutboxError> {
        let answer = match self.client.detail(object, id, Purpose::Outbox).await {
            Ok(answer) => answer,
            Err(error) if error.class() == ErrorClass::Gone => {
                let (now, id, said, enter) =
                    (self.clock.now(), id.clone(), trail::of_error(&error), self.enter.clone());
                let record = id.clone();
                let ended = self
                    .store
                    .write_durably(move |tx| {
                        let mut desk = Desk::open(tx, object, &record, now)?;
                        desk.gone(error.status(), &said)?;
                        enter(tx)?;
                        Ok(desk.ended)
                    })
                    .await?;
                shared.answered();
                shared.ended(ended);
                lock(&shared.pushed).gone.push((object, id));
                return Ok(false);
            }
            Err(error) if error.class() == ErrorClass::SkipObject => {
                shared.answered();
                shared.warn(format!(
                    "an edit of a {object} waits: the record has to be read first, and the key lacks `{}`",
                    object.resource().read_scope()
                ));
                return Ok(false);
            }
            Err(error) => return failing(shared, "read", object, error),
        };
        shared.answered();
        loop {
            let layout = self.store.layout();
            let decoded = decode::detail(object.resource(), &answer.body, &layout);
            let Some(mut record) = decoded.ok().filter(|record| record.id == *id) else {
                shared.warn(format!("a {object} with an edit could not be understood"));
                return Ok(false);
            };
            if let Some(etag) = &answer.etag {
                take_header_etag(object, &mut record, etag.as_str());
            }
            let unknown_keys = record.unknown_keys;
            let (version, now, id, enter) = (layout.version, self.clock.now(), id.clone(), self.enter.clone());
            let (look, asked_at) = (look.clone(), answer.asked_at);
            let done = self
                .store
                .write_durably(move |tx| {
                    tx.expect_layout(version)?;
                    let phase = tx.phase(object)?;
                    let (applied, _) = tx.apply_detail(object, &record, asked_at, phase)?;
                    let mut desk = Desk::open(tx, object, &id, now)?;
                    let decided = match &look {
                        None => applied != Applied::Older,
                        Some(look) => {
                            let (status, said) = look.refusal.clone().unzip();
                            desk.looked(look.carrier, look.doubt, status.flatten(), said.as_deref())?
                        }
                    };
                    enter(tx)?;
                    Ok((desk.ended, applied, decided))
                })
                .await;
            match done {
                Err(StoreError::StaleLayout) => {}
                Err(error) => return Err(error.into()),
                Ok((ended, applied, decided)) => {
                    shared.ended(ended);
                    let mut pushed = lock(&shared.pushed);
                    pushed.unknown_keys |= unknown_keys;
                    pushed.mirror.details += 1;
                    pushed.mirror.updated += u64::from(applied == Applied::Updated);
                    return Ok(decided);
                }
            }
        }
    }
}

/// An answer whose body lacks the etag gets it from the header, which holds the same value.
fn take_header_etag(object: Object, record: &mut Record, etag: &str) {
    for (field, told) in object.fields().iter().zip(&mut record.fields) {
        if field.kind == FieldKind::Etag && *told == FieldValue::Absent {
            *told = FieldValue::Exact(SqlValue::from(etag));
        }
    }
}
