//! Sends a fixed request and stores what its answer means, with what the mirror takes from it, in one transaction.

use super::answer::{self, AfterAnswer, PatchOutcome, SentRequest};
use super::edit_tx::StoredRequest;
use super::error::OutboxError;
use super::outcome::RefusedAnswer;
use super::pass::{PushPass, lock};
use super::pusher::Pusher;
use super::read_back::take_header_etag;
use super::trail;
use crate::api::client::{PatchAnswer, PatchError};
use crate::api::{ApiError, ErrorClass, decode};
use crate::model::{Object, RecordId};
use crate::store::{Applied, StoreError};

impl Pusher {
    /// Sends a request and takes what comes of it. Says whether the record's next request may follow.
    pub(super) async fn send(
        &self,
        pass: &PushPass,
        object: Object,
        id: &RecordId,
        request: StoredRequest,
    ) -> Result<bool, OutboxError> {
        match self.client.patch(object, id, &request.body, &request.if_match, &request.key).await {
            Ok(answer) => {
                {
                    let mut pushed = lock(&pass.pushed);
                    pushed.push.sent += 1;
                    pushed.written.insert(object);
                }
                pass.answered(object);
                self.confirm(pass, object, id, request, answer).await?;
                Ok(true)
            }
            Err(failed) => self.refuse(pass, object, id, request, failed).await,
        }
    }

    /// Takes an answer that is no confirmation, or none.
    async fn refuse(
        &self,
        pass: &PushPass,
        object: Object,
        id: &RecordId,
        mut request: StoredRequest,
        failed: PatchError,
    ) -> Result<bool, OutboxError> {
        let PatchError { why, unanswered } = failed;
        let outcome = outcome(&why, unanswered);
        let status = match outcome {
            PatchOutcome::Refused(status) => Some(status),
            _ => None,
        };
        let sent = outcome != PatchOutcome::NotSent;
        lock(&pass.pushed).push.sent += u64::from(sent);
        request.doubt |= unanswered || status.is_some_and(answer::may_be_carried_out);
        let facts = SentRequest { doubt: request.doubt, edits: request.edits, last_status: request.last_status };
        let next = answer::after(outcome, facts);
        let (custom, said) = (request.custom, trail::of_error(&why));
        let admitted = !matches!(why, ApiError::NotAdmitted(_));
        let follows = self
            .edit(pass, object, id, move |edits| {
                edits.refused(&request, next, RefusedAnswer { status, said: &said, sent, admitted })
            })
            .await?;
        match next {
            AfterAnswer::Gone => lock(&pass.pushed).gone.push((object, id.clone())),
            AfterAnswer::Again | AfterAnswer::Back => {
                return match why.class() {
                    ErrorClass::SkipObject => {
                        pass.forbidden(object, custom);
                        Ok(follows)
                    }
                    // The meter keeps the hold, and says how long.
                    ErrorClass::Hold if follows => Ok(true),
                    _ => self.failing(pass, "update", object, id, why).await,
                };
            }
            _ => {}
        }
        pass.answered(object);
        Ok(follows)
    }

    /// Ends the edits of a request that was carried out, and gives the mirror what the answer says.
    async fn confirm(
        &self,
        pass: &PushPass,
        object: Object,
        id: &RecordId,
        request: StoredRequest,
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
                // It was carried out all the same; the next changes walk shows what it did to the record.
                pass.warn(format!("the answer to an update of a {object} could not be understood"));
            }
            let unknown_keys = record.as_ref().is_some_and(|record| !record.unknown_keys.is_empty());
            let (version, request) = (layout.version, request.clone());
            let (replayed, asked_at) = (answer.replayed, answer.asked_at);
            let done = self
                .edit(pass, object, id, move |edits| {
                    edits.tx.expect_layout(version)?;
                    edits.confirmed(&request, record.as_ref(), replayed, asked_at)
                })
                .await;
            match done {
                Err(StoreError::StaleLayout) => {}
                Err(error) => return Err(error.into()),
                Ok(applied) => {
                    let mut pushed = lock(&pass.pushed);
                    pushed.unknown_keys |= unknown_keys;
                    pushed.mirror.updated += u64::from(applied == Some(Applied::Updated));
                    return Ok(());
                }
            }
        }
    }
}

fn outcome(error: &ApiError, unanswered: bool) -> PatchOutcome {
    match (error, error.status()) {
        // A gateway's answer says nothing about the edit.
        (ApiError::Status(rejection), _) if unanswered && !rejection.envelope => PatchOutcome::Silence,
        (_, Some(status)) => PatchOutcome::Refused(status),
        (ApiError::NotAdmitted(_), _) => PatchOutcome::NotSent,
        (ApiError::Unsendable { .. }, _) => PatchOutcome::Refused(400),
        _ if unanswered => PatchOutcome::Silence,
        _ => PatchOutcome::NotSent,
    }
}
