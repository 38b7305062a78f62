//! Everything that sending edits needs, and the transaction that each step of it is.

use std::sync::Arc;

use super::edit_tx::{EditTx, PushRules};
use super::error::OutboxError;
use super::key::IdempotencyKeys;
use super::pass::{PushPass, lock};
use crate::api::meter::AdmissionError;
use crate::api::{ApiError, Client, ErrorClass};
use crate::model::{Clock, DelayScope, Object, RecordId};
use crate::store::{MirrorTx, Store, StoreError};

/// Enters the ledger in a transaction.
pub type EnterLedger = Arc<dyn Fn(&MirrorTx<'_>) -> Result<(), StoreError> + Send + Sync>;

/// Everything that sending needs.
pub struct Pusher {
    /// The service.
    pub client: Client,
    /// The mirror's file.
    pub store: Store,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where idempotency keys come from.
    pub keys: IdempotencyKeys,
    /// Enters what was spent with whatever is written.
    pub enter: EnterLedger,
    /// How many requests may be under way at once.
    pub workers: usize,
    /// The most new edits within an hour that are sent without a person's word.
    pub max_edits: u64,
}

impl std::fmt::Debug for Pusher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pusher").finish_non_exhaustive()
    }
}

impl Pusher {
    pub(super) fn rules(&self) -> PushRules {
        PushRules { max_edits: self.max_edits, api_key: self.client.key_fingerprint().to_string() }
    }

    /// Works on a record's edits in one transaction, beyond a power cut once it returns.
    pub(super) async fn edit<T: Send + 'static>(
        &self,
        pass: &PushPass,
        object: Object,
        id: &RecordId,
        work: impl FnOnce(&mut EditTx<'_, '_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (rules, now, record, enter) = (self.rules(), self.clock.now(), id.clone(), self.enter.clone());
        let max_edits = self.max_edits;
        let (done, ended, held) = self
            .store
            .write_durably(move |tx| {
                let mut edits = EditTx::open(tx, object, &record, &rules, now)?;
                let done = work(&mut edits)?;
                enter(tx)?;
                Ok((done, edits.ended, edits.held))
            })
            .await?;
        pass.ended(ended);
        pass.held(held, max_edits);
        Ok(done)
    }

    /// After a failure that says nothing about the edit: whether the record's next request may follow, or the run ends.
    pub(super) async fn failing(
        &self,
        pass: &PushPass,
        doing: &'static str,
        object: Object,
        id: &RecordId,
        source: ApiError,
    ) -> Result<bool, OutboxError> {
        let ends = match &source {
            ApiError::NotAdmitted(AdmissionError::Ledger) | ApiError::Redirected { .. } | ApiError::Setup { .. } => {
                true
            }
            other => matches!(other.class(), ErrorClass::StopAll | ErrorClass::Pause),
        };
        if ends {
            return Err(OutboxError::Api { doing, object, source });
        }
        if pass.failed(object, id) {
            self.edit(pass, object, id, |edits| edits.lengthen(DelayScope::Object)).await?;
            lock(&pass.records).retain(|(other, _)| *other != object);
            pass.answered(object);
            pass.warn(format!("edits of {} wait: {source}", object.resource()));
        }
        Ok(false)
    }
}
