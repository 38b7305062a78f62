//! Local edits in a run: they are sent before anything is read.

use super::error::{Suspension, SyncError};
use crate::model::{Object, RecordId};
use crate::outbox::{OutboxError, Pushed, Pusher};
use crate::sync::checks::lookup_by_id;
use crate::sync::run::Run;
use crate::sync::walks::definitions;

impl From<OutboxError> for SyncError {
    fn from(error: OutboxError) -> SyncError {
        match error {
            OutboxError::Api { doing, object, source } => SyncError::Api { doing, resource: object.resource(), source },
            OutboxError::Store(source) => SyncError::Store(source),
        }
    }
}

impl Run<'_> {
    /// Sends the waiting edits, and reserves RU for those that are still waiting.
    pub(super) async fn push_edits(&self) -> Result<(), SyncError> {
        let (meter, steady) = (self.engine.meter.clone(), self.engine.meter.clone());
        let pusher = Pusher {
            client: self.engine.client.clone(),
            store: self.store().clone(),
            clock: self.engine.clock.clone(),
            steady: std::sync::Arc::new(move || {
                let ledger = steady.ledger();
                (ledger.steady_time(), ledger.hold_left().unwrap_or_default())
            }),
            enter: std::sync::Arc::new(move |tx| meter.enter(tx)),
            workers: self.engine.workers(),
            max_edits: self.engine.settings.max_edits,
        };
        let (pushed, result) = pusher.push().await;
        let Pushed { push, mirror, unwritable, written, read, not_found, unknown_keys, warnings, .. } = pushed;
        {
            let pushed = &mut self.results().report.push;
            *pushed = push.after(*pushed);
        }
        self.count(&mirror);
        let scope = |object: Object| Some((object.resource(), object.resource().write_scope()?));
        self.results().unwritable.extend(unwritable.into_iter().filter_map(scope));
        self.results().writable.extend(written.into_iter().filter_map(|object| Some(scope(object)?.1)));
        read.into_iter().for_each(|object| self.is_readable(object.resource()));
        for warning in warnings {
            self.warn(warning);
        }
        self.engine.meter.keep_for_edits(push.will_cost());
        match result.map_err(SyncError::from) {
            // Changes and audits have RU of their own, which edits do not use, and wait for a hold themselves.
            Err(error)
                if !self.job.is_push()
                    && matches!(error.suspension(), Some(Suspension::Budget(_) | Suspension::Hold(_))) =>
            {
                self.results().left = Some(error);
            }
            other => other?,
        }
        for object in Object::ALL {
            let of_object = not_found.iter().filter(|(of, _)| *of == object);
            let ids: Vec<RecordId> = of_object.map(|(_, id)| id.clone()).collect();
            // A 404 does not prove a removal: it only nominates.
            lookup_by_id::nominate(self, object, ids).await?;
        }
        if unknown_keys {
            definitions::refresh_definitions_for_unknown_keys(self).await?;
        }
        Ok(())
    }

    /// Counts and logs the edits that ended because the removal of their record was confirmed.
    pub(in crate::sync) fn edits_ended_by_removal(&self, object: Object, edits: &[i64]) {
        for edit in edits {
            tracing::warn!(
                edit,
                "Edit {edit} of a {object} was rejected: the service no longer has the record; `crm-mirror outbox show {edit}`"
            );
        }
        let pushed = &mut self.results().report.push;
        pushed.rejected += edits.len() as u64;
        pushed.waiting = pushed.waiting.saturating_sub(edits.len() as u64);
    }
}
