//! Sends the waiting edits. Other modules decide what to send and what an answer means.
//!
//! Records are processed concurrently, as the client's pace allows; the edits of one record are sent in order. An answer
//! and the resulting changes of the mirror are one transaction.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;

use super::edit_tx::{EditTx, NextStep, PushRules};
use super::patch_answer::{AfterAnswer, PatchOutcome, StoredRequest};
use super::push_progress::{PushPass, Pushed, lock};
use super::{delay, trail};
use crate::api::admission::AdmissionError;
use crate::api::{ApiError, Client, ErrorClass, PatchError, ServiceAnswer};
use crate::model::{Clock, DelayScope, Instant, Object, Purpose, RecordId};
use crate::store::{Applied, MirrorTx, Store, StoreError, outbox_report};

pub(super) type EnterLedger = Arc<dyn Fn(&MirrorTx<'_>) -> Result<(), StoreError> + Send + Sync>;

pub struct Pusher {
    pub client: Client,
    pub store: Store,
    pub clock: Arc<dyn Clock>,
    /// The time by the steady clock, and how long no request is sent.
    pub steady: Arc<dyn Fn() -> (Instant, Duration) + Send + Sync>,
    /// Writes the ledger with every transaction.
    pub enter: EnterLedger,
    /// The maximum number of concurrent requests.
    pub workers: usize,
    pub max_edits: u64,
}

#[derive(Clone, Copy)]
pub(super) struct RecordPush<'a> {
    pub pusher: &'a Pusher,
    pub pass: &'a PushPass,
    pub object: Object,
    pub id: &'a RecordId,
    pub scope: DelayScope,
}

impl Pusher {
    /// Sends the waiting edits until an error ends it. The results so far are returned in any case.
    pub async fn push(&self) -> (Pushed, Result<(), OutboxError>) {
        let pass = PushPass::default();
        let result = self.work(&pass).await;
        let mut pushed = pass.pushed.into_inner().unwrap_or_else(PoisonError::into_inner);
        // A plan that does not allow custom values refuses them for every object.
        let refused = lock(&pass.no_custom).clone();
        pushed.unwritable.extend(refused.difference(&pushed.written));
        let result = match self.store.read(outbox_report::counts).await {
            Ok(counts) => {
                let push = &mut pushed.push;
                (push.waiting, push.in_doubt) = (counts.queued + counts.sending, counts.sending);
                (push.in_conflict, push.all_rejected, push.held) = (counts.conflict, counts.rejected, counts.held);
                result
            }
            Err(error) => result.and(Err(error.into())),
        };
        (pushed, result)
    }

    async fn work(&self, pass: &PushPass) -> Result<(), OutboxError> {
        let records = self.store.read(|tx| tx.edited_records()).await?;
        if records.is_empty() {
            return Ok(());
        }
        let api_key = self.client.key_fingerprint().to_string();
        self.store.write(move |tx| tx.edits().end_obsolete_delays(&api_key)).await?;
        let workers = self.workers.clamp(1, records.len());
        *lock(&pass.records) = records.into();
        let work = (0..workers).map(|_| async {
            while let Some((object, id, scope)) = pass.pop() {
                let record = RecordPush { pusher: self, pass, object, id: &id, scope };
                if let Err(error) = record.push().await {
                    pass.close();
                    return Err(error);
                }
            }
            Ok(())
        });
        // Each worker completes the request that it has sent, even if another one failed.
        join_all(work).await.into_iter().collect()
    }
}

impl RecordPush<'_> {
    /// Processes the record's edits in one transaction, which is durable when this returns.
    pub(super) async fn edit<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut EditTx<'_, '_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let RecordPush { pusher, pass, object, id, scope } = *self;
        let api_key = pusher.client.key_fingerprint().to_string();
        let (steady, hold) = (pusher.steady)();
        let rules = PushRules { max_edits: pusher.max_edits, api_key, steady, hold, scope };
        let (now, record, enter) = (pusher.clock.now(), id.clone(), pusher.enter.clone());
        let done = pusher.store.write_durably(move |tx| {
            let mut edits = EditTx::open(tx, object, &record, &rules, now)?;
            let done = work(&mut edits)?;
            enter(tx)?;
            Ok((done, edits.found))
        });
        let (done, found) = done.await?;
        pass.add(found);
        Ok(done)
    }

    /// Handles a failure that says nothing about the edit, which waits; one that concerns everything ends the run.
    async fn failing(&self, doing: &'static str, source: ApiError) -> Result<NextStep, OutboxError> {
        let RecordPush { pass, object, id, scope, .. } = *self;
        let is_redirected = matches!(source, ApiError::Redirected { .. });
        if is_redirected {
            // The run ends here; the next runs do their other work before this is tried again.
            self.edit(move |edits| edits.lengthen(scope)).await?;
        }
        let is_local = matches!(source, ApiError::NotAdmitted(AdmissionError::Ledger) | ApiError::Setup { .. });
        if is_redirected || is_local || matches!(source.class(), ErrorClass::StopAll | ErrorClass::Pause) {
            return Err(OutboxError::Api { doing, object, source });
        }
        if pass.failed((object, scope), id) {
            self.edit(move |edits| edits.lengthen(scope)).await?;
            lock(&pass.records).retain(|(other, _, of)| (*other, *of) != (object, scope));
            pass.warn(format!("edits of {} are waiting: {source}", object.resource()));
        }
        Ok(NextStep::Wait)
    }

    /// Sends the record's edits, one request after the other, as long as its delay allows.
    async fn push(&self) -> Result<(), OutboxError> {
        let (mut next, mut just_read, mut at_once) = (NextStep::Decide, false, false);
        loop {
            next = match next {
                NextStep::Wait | NextStep::Refuted => return Ok(()),
                NextStep::Decide => self.edit(move |edits| edits.next_request(just_read)).await?,
                NextStep::Read(carrier) => {
                    just_read = true;
                    self.read_back(carrier.map(|carrier| (carrier, at_once))).await?
                }
                NextStep::Send(request) => {
                    (just_read, at_once) = (false, true);
                    self.send(request).await?
                }
            };
        }
    }

    /// Reads a record into the mirror and, if a request is given, decides on its outcome, perhaps at once.
    async fn read_back(&self, carrier: Option<(i64, bool)>) -> Result<NextStep, OutboxError> {
        let RecordPush { pusher, pass, object, id, .. } = *self;
        match pusher.client.detail(object, id, Purpose::Outbox).await {
            Ok(answer) => self.take_detail(carrier, answer).await,
            Err(error) if error.class() == ErrorClass::Gone => {
                let (status, answer_json) = (error.status(), trail::of_error(&error));
                self.edit(move |edits| edits.not_found(status, &answer_json)).await?;
                Ok(NextStep::Wait)
            }
            Err(error) if error.class() == ErrorClass::SkipObject => {
                pass.warn(format!(
                    "an edit of a {object} is waiting: the record has to be read first, and the key lacks `{}`",
                    object.resource().read_scope()
                ));
                Ok(NextStep::Wait)
            }
            Err(error) => {
                if let ApiError::NotAdmitted(_) = error {
                    // That is not a failure.
                    self.edit(|edits| edits.amend(DelayScope::Record, delay::without_request)).await?;
                }
                self.failing("read", error).await
            }
        }
    }

    /// Stores a detail in the mirror, and decides on the request, in one transaction.
    async fn take_detail(&self, carrier: Option<(i64, bool)>, answer: ServiceAnswer) -> Result<NextStep, OutboxError> {
        let RecordPush { object, id, .. } = *self;
        let its_id = id.clone();
        let done = self.edit(move |edits| {
            let Ok(record) = answer.record(object, &its_id, &edits.tx.layout()) else {
                let why = format!("the detail of a {object} with an edit could not be decoded");
                edits.found.warnings.insert(why);
                return Ok(NextStep::Wait);
            };
            let (applied, _) = edits.tx.records().apply_detail(object, &record, &answer.asked, true)?;
            edits.found.unknown_keys |= !record.unknown_keys.is_empty();
            edits.found.mirror.details += 1;
            edits.found.read.insert(object);
            edits.found.mirror.updated += u64::from(applied == Applied::Updated);
            match carrier {
                // It decides nothing, nor does the row, which may be older than the request.
                _ if applied == Applied::Older => Ok(NextStep::Wait),
                Some((carrier, at_once)) => edits.was_read_back(carrier, at_once),
                // The same read again would show the same: the next one is subject to the delay.
                None if edits.needs_read()? => {
                    let why =
                        format!("an edit of a {object} is waiting: the detail of the record has no usable `etag`");
                    edits.found.warnings.insert(why);
                    Ok(NextStep::Wait)
                }
                None => {
                    edits.amend(DelayScope::Record, delay::after_read)?;
                    Ok(NextStep::Decide)
                }
            }
        });
        match done.await? {
            NextStep::Refuted => {
                let why = "the record is shown in the version that was refused".into();
                self.failing("read", ApiError::Broken { tries: 1, why }).await
            }
            next => Ok(next),
        }
    }

    async fn send(&self, request: StoredRequest) -> Result<NextStep, OutboxError> {
        let RecordPush { pusher, pass, object, id, .. } = *self;
        pusher.store.lock.note_request(request.number)?;
        match pusher.client.patch(object, id, &request.body, &request.if_match, &request.key).await {
            Ok(answer) => {
                lock(&pass.pushed).push.sent += 1;
                self.confirm(request, answer).await
            }
            Err(failed) => self.refuse(request, failed).await,
        }
    }

    async fn refuse(&self, mut request: StoredRequest, failed: PatchError) -> Result<NextStep, OutboxError> {
        let RecordPush { pass, object, .. } = *self;
        let PatchError { why, unanswered } = failed;
        let outcome = PatchOutcome::of(&why, unanswered);
        lock(&pass.pushed).push.sent += u64::from(outcome.was_sent());
        request.doubt |= unanswered;
        let (custom, last_status, answer_json) = (request.custom, request.last_status, trail::of_error(&why));
        let next = self.edit(move |edits| edits.refused(&request, outcome, &answer_json)).await?;
        match (next, why.class()) {
            (AfterAnswer::SendAgain | AfterAnswer::Requeue, ErrorClass::SkipObject) => pass.forbidden(object, custom),
            // Its object waits.
            (_, ErrorClass::Hold) => {}
            (AfterAnswer::SendAgain | AfterAnswer::Requeue | AfterAnswer::NotFound, _) => {
                return self.failing("update", why).await;
            }
            // One alone may be a conflict. Whether the service accepts updates, it does not say.
            _ if why.status() == Some(412) && last_status != Some(412) => {}
            _ if why.status() == Some(412) => _ = self.failing("update", why).await?,
            _ => pass.answered((object, self.scope)),
        }
        Ok(NextStep::Decide)
    }

    /// Stores the answer to an update, and finishes its edits; one that does not show the update finishes nothing.
    async fn confirm(&self, request: StoredRequest, answer: ServiceAnswer) -> Result<NextStep, OutboxError> {
        let RecordPush { pass, object, id, .. } = *self;
        let (status, replayed) = (answer.status, answer.replayed);
        let its_id = id.clone();
        let is_accepted = self.edit(move |edits| {
            let record = answer.record(object, &its_id, &edits.tx.layout()).ok();
            if edits.shows(&request, record.as_ref(), status) {
                edits.found.written.insert(object);
                edits.found.unknown_keys |= record.as_ref().is_some_and(|record| !record.unknown_keys.is_empty());
                let applied = edits.confirmed(&request, record.as_ref(), replayed, &answer.asked)?;
                edits.found.mirror.updated += u64::from(applied == Some(Applied::Updated));
                return Ok(true);
            }
            let why = format!("the answer to an update of a {object} did not show the update: the record is read back");
            edits.found.warnings.insert(why);
            let version = edits.new_version(&request, record.as_ref(), status);
            let answer_json = trail::of_success(status, version.as_ref());
            let is_accepted = version.is_some();
            edits.found.written.extend(is_accepted.then_some(object));
            let outcome = version.map_or(PatchOutcome::Unconfirmed(status), |_| PatchOutcome::StoredOtherwise);
            edits.refused(&request, outcome, &answer_json)?;
            Ok(is_accepted)
        });
        if is_accepted.await? {
            pass.answered((object, self.scope));
        } else {
            let why = "the answer to the update does not show it".into();
            self.failing("update", ApiError::Broken { tries: 1, why }).await?;
        }
        Ok(NextStep::Decide)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum OutboxError {
    #[error("could not {doing} a {object}")]
    Api { doing: &'static str, object: Object, source: ApiError },
    #[error("could not write the outbox")]
    Store(#[from] StoreError),
}

#[cfg(test)]
#[path = "send_tests.rs"]
mod send_tests;

#[cfg(test)]
mod tests {
    use crate::model::{FieldKind, FieldValue, SqlValue};
    use crate::outbox::edit_fixture::{CONTACT, answered, contact, on_mirror};

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
            let answer = answered(body, header);
            let record = on_mirror(move |tx| answer.record(CONTACT, &contact(), &tx.layout()).ok()).await;
            let found = record.map(|record| record.fields[place].clone());
            let expected = version.map(|version| FieldValue::Exact(SqlValue::from(version)));
            assert_eq!(found, expected, "{body}");
        }
    }
}
