//! Sends a stored request, and stores the effect of its answer and the resulting changes of the mirror in one
//! transaction.

use super::edit_outcome::RefusedAnswer;
use super::edit_tx::StoredRequest;
use super::patch_answer::{self, AfterAnswer, PatchOutcome, SentRequest};
use super::push::{OutboxError, RecordPush};
use super::push_progress::lock;
use super::read_back::decoded;
use super::trail;
use crate::api::client::{PatchAnswer, PatchError};
use crate::api::{ApiError, ErrorClass};
use crate::model::Layout;
use crate::store::Applied;

impl RecordPush<'_> {
    /// Sends a request and processes its answer. Returns whether the record's next request may follow.
    pub(super) async fn send(&self, request: StoredRequest) -> Result<bool, OutboxError> {
        let RecordPush { pusher, pass, object, id } = *self;
        pusher.store.store_step(request.step)?;
        match pusher.client.patch(object, id, &request.body, &request.if_match, &request.key).await {
            Ok(answer) => {
                lock(&pass.pushed).push.sent += 1;
                self.confirm(request, answer).await
            }
            Err(failed) => self.refuse(request, failed).await,
        }
    }

    /// Processes a missing answer, or one that is not a confirmation.
    async fn refuse(&self, mut request: StoredRequest, failed: PatchError) -> Result<bool, OutboxError> {
        let RecordPush { pass, object, .. } = *self;
        let PatchError { why, unanswered } = failed;
        let outcome = outcome(&why, unanswered);
        let status = match outcome {
            PatchOutcome::Refused(status) => Some(status),
            _ => None,
        };
        let sent = outcome != PatchOutcome::NotSent;
        lock(&pass.pushed).push.sent += u64::from(sent);
        request.doubt |= unanswered;
        let facts = SentRequest { doubt: request.doubt, edits: request.edits, last_status: request.last_status };
        let next = patch_answer::classify(outcome, facts);
        let (custom, answer_json) = (request.custom, trail::of_error(&why));
        let admitted = !matches!(why, ApiError::NotAdmitted(_));
        let follows = self
            .edit(move |edits| {
                edits.refused(&request, next, RefusedAnswer { status, answer_json: &answer_json, sent, admitted })
            })
            .await?;
        match next {
            AfterAnswer::SendAgain | AfterAnswer::Requeue => {
                return match why.class() {
                    ErrorClass::SkipObject => {
                        pass.forbidden(object, custom);
                        Ok(follows)
                    }
                    // The meter keeps the hold.
                    ErrorClass::Hold if follows => Ok(true),
                    _ => self.failing("update", why).await,
                };
            }
            _ => {}
        }
        pass.answered(object);
        Ok(follows)
    }

    /// Finishes the edits of an applied request, and stores the answer in the mirror. An answer that does not show the
    /// update finishes nothing. Returns whether the record's next request may follow.
    async fn confirm(&self, request: StoredRequest, answer: PatchAnswer) -> Result<bool, OutboxError> {
        let RecordPush { pusher, pass, object, id } = *self;
        let layout = pusher.store.layout();
        let PatchAnswer { status, confirmation, replayed } = answer;
        let record = decoded(object, id, &confirmation, &layout);
        let (its_id, version) = (id.clone(), layout.version);
        let done = self.edit(move |edits| {
            let decode = |layout: &Layout| Some(decoded(object, &its_id, &confirmation, layout));
            let record = edits.tx.with_current_layout(record, version, decode)?;
            if !edits.shows(&request, record.as_ref(), status)? {
                let facts = SentRequest { doubt: true, edits: request.edits, last_status: None };
                let next = patch_answer::classify(PatchOutcome::Unconfirmed, facts);
                let answer_json = trail::of_text(&format!("status {status}, without the updated record"));
                let answer =
                    RefusedAnswer { status: Some(status), answer_json: &answer_json, sent: true, admitted: true };
                edits.refused(&request, next, answer)?;
                return Ok(None);
            }
            let unknown_keys = record.as_ref().is_some_and(|record| !record.unknown_keys.is_empty());
            let applied = edits.confirmed(&request, record.as_ref(), replayed, &confirmation.asked)?;
            Ok(Some((applied, unknown_keys)))
        });
        let Some((applied, unknown_keys)) = done.await? else {
            pass.warn(format!(
                "the answer to an update of a {object} did not show the update: the record is read back"
            ));
            let why = "the answer to the update does not show it".into();
            self.failing("update", ApiError::Broken { tries: 1, why }).await?;
            return Ok(true);
        };
        pass.answered(object);
        let mut pushed = lock(&pass.pushed);
        pushed.written.insert(object);
        pushed.unknown_keys |= unknown_keys;
        pushed.mirror.updated += u64::from(applied == Some(Applied::Updated));
        Ok(true)
    }
}

fn outcome(error: &ApiError, unanswered: bool) -> PatchOutcome {
    match (error, error.status()) {
        // A gateway's answer says nothing about the edit, nor about the record.
        (ApiError::Status(rejection), _) if unanswered && !rejection.envelope => PatchOutcome::Silence,
        (_, Some(status)) => PatchOutcome::Refused(status),
        (ApiError::NotAdmitted(_), _) => PatchOutcome::NotSent,
        _ if unanswered => PatchOutcome::Silence,
        _ => PatchOutcome::NotSent,
    }
}

#[cfg(test)]
#[path = "send_tests.rs"]
mod tests;
