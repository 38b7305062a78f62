//! Sends the waiting edits: the dependencies, the transaction of each step, and the workers. Other modules decide what to send and
//! what an answer means.
//!
//! Records are processed concurrently, as the client's pace allows; the edits of one record are sent in order. A
//! request is durably stored before its first byte is sent; its answer and the resulting changes of the mirror are one
//! transaction.

use std::sync::{Arc, PoisonError};

use futures_util::future::join_all;

use super::edit_outcome::AfterReadBack;
use super::edit_tx::{EditTx, IdempotencyKeys, NextRequest, PushRules};
use super::push_progress::{PushPass, Pushed, lock};
use crate::api::admission::AdmissionError;
use crate::api::{ApiError, Client, ErrorClass};
use crate::model::{Clock, DelayScope, Instant, Object, RecordId};
use crate::store::{MirrorTx, Store, StoreError, outbox_report};

pub(super) type EnterLedger = Arc<dyn Fn(&MirrorTx<'_>) -> Result<(), StoreError> + Send + Sync>;

pub struct Pusher {
    pub client: Client,
    pub store: Store,
    pub clock: Arc<dyn Clock>,
    /// The time by the steady clock.
    pub steady: Arc<dyn Fn() -> Instant + Send + Sync>,
    pub keys: IdempotencyKeys,
    /// Writes the ledger with every transaction.
    pub enter: EnterLedger,
    /// The maximum number of concurrent requests.
    pub workers: usize,
    /// The maximum number of new edits within an hour that are sent without confirmation.
    pub max_edits: u64,
}

#[derive(Clone, Copy)]
pub(super) struct RecordPush<'a> {
    pub pusher: &'a Pusher,
    pub pass: &'a PushPass,
    pub object: Object,
    pub id: &'a RecordId,
}

impl RecordPush<'_> {
    /// Processes the record's edits in one transaction, which is durable when this returns.
    pub(super) async fn edit<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut EditTx<'_, '_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let RecordPush { pusher, pass, object, id } = *self;
        let api_key = pusher.client.key_fingerprint().to_string();
        let rules = PushRules { max_edits: pusher.max_edits, api_key, steady: (pusher.steady)() };
        let (now, record, enter) = (pusher.clock.now(), id.clone(), pusher.enter.clone());
        let done = pusher.store.write_durably(move |tx| {
            let mut edits = EditTx::open(tx, object, &record, &rules, now)?;
            let done = work(&mut edits)?;
            enter(tx)?;
            Ok((done, edits.ended, edits.held, edits.former, edits.to_confirm))
        });
        let (done, ended, held, former, to_confirm) = done.await?;
        pass.ended(ended);
        pass.held(held, pusher.max_edits);
        pass.held_of_former_rows(object, former);
        if to_confirm {
            lock(&pass.pushed).not_found.push((object, id.clone()));
        }
        Ok(done)
    }

    /// Handles a failure that says nothing about the edit: returns whether the record's next request may follow, or
    /// ends the run.
    pub(super) async fn failing(&self, doing: &'static str, source: ApiError) -> Result<bool, OutboxError> {
        let RecordPush { pass, object, id, .. } = *self;
        let ends = match &source {
            ApiError::NotAdmitted(AdmissionError::Ledger) | ApiError::Redirected { .. } | ApiError::Setup { .. } => {
                true
            }
            other => matches!(other.class(), ErrorClass::StopAll | ErrorClass::Pause),
        };
        if ends {
            if let ApiError::Redirected { .. } = source {
                // The run ends here; the next runs do their other work before this is tried again.
                self.edit(|edits| edits.lengthen(DelayScope::Object)).await?;
            }
            return Err(OutboxError::Api { doing, object, source });
        }
        if pass.failed(object, id) {
            self.edit(|edits| edits.lengthen(DelayScope::Object)).await?;
            lock(&pass.records).retain(|(other, _)| *other != object);
            pass.warn(format!("edits of {} are waiting: {source}", object.resource()));
        }
        Ok(false)
    }
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
                (push.in_conflict, push.held) = (counts.conflict, counts.held);
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
            while let Some((object, id)) = pass.pop() {
                let record = RecordPush { pusher: self, pass, object, id: &id };
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
    /// Sends the record's edits, one request after the other, as long as its delay allows.
    async fn push(&self) -> Result<(), OutboxError> {
        let mut just_read = false;
        loop {
            let keys = self.pusher.keys.clone();
            let next = self.edit(move |edits| edits.next_request(&keys, just_read)).await?;
            just_read = matches!(next, NextRequest::Read | NextRequest::ReadBack(_));
            let follows = match next {
                NextRequest::Nothing => false,
                NextRequest::Read => self.read_back(None).await? == AfterReadBack::Continue,
                NextRequest::ReadBack(carrier) => match self.read_back(Some(carrier)).await? {
                    AfterReadBack::Wait => false,
                    AfterReadBack::Continue => true,
                    AfterReadBack::Repeat(request) => {
                        just_read = false;
                        self.send(request).await?
                    }
                },
                NextRequest::Send(request) => self.send(request).await?,
            };
            if !follows {
                return Ok(());
            }
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum OutboxError {
    #[error("could not {doing} a {object}")]
    Api {
        /// The operation: "update" or "read".
        doing: &'static str,
        object: Object,
        source: ApiError,
    },
    #[error("could not write the outbox")]
    Store(#[from] StoreError),
}

impl OutboxError {
    /// The class of the service's error, if it was one.
    pub fn class(&self) -> Option<ErrorClass> {
        match self {
            OutboxError::Api { source, .. } => Some(source.class()),
            OutboxError::Store(_) => None,
        }
    }
}
