//! The dependencies of sending edits, and the transaction of each step.

use std::sync::Arc;

use super::edit_tx::{EditTx, PushRules};
use super::error::OutboxError;
use super::idempotency_key::IdempotencyKeys;
use super::push_progress::{PushPass, lock};
use crate::api::admission::AdmissionError;
use crate::api::{ApiError, Client, ErrorClass};
use crate::model::{Clock, DelayScope, Instant, Object, RecordId};
use crate::store::{MirrorTx, Store, StoreError};

pub type EnterLedger = Arc<dyn Fn(&MirrorTx<'_>) -> Result<(), StoreError> + Send + Sync>;

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
