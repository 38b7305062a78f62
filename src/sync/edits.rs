//! Local edits inside a run: they go first, before anything is read.

use super::error::SyncError;
use crate::model::{Object, RecordId};
use crate::outbox::error::OutboxError;
use crate::outbox::{Pushed, Pusher};
use crate::sync::run::Run;

impl From<OutboxError> for SyncError {
    fn from(error: OutboxError) -> SyncError {
        match error {
            OutboxError::Api { doing, object, source } => SyncError::Api { doing, resource: object.resource(), source },
            OutboxError::Store(source) => SyncError::Store(source),
        }
    }
}

impl Run<'_> {
    /// Sends the edits that wait, and keeps back what those will cost that still do.
    pub(super) async fn push_edits(&self) -> Result<(), SyncError> {
        let meter = self.engine.meter.clone();
        let pusher = Pusher {
            client: self.engine.client.clone(),
            store: self.engine.store.clone(),
            clock: self.engine.clock.clone(),
            keys: self.engine.keys.clone(),
            enter: std::sync::Arc::new(move |tx| meter.enter(tx)),
            workers: self.engine.workers(),
            max_edits: self.engine.settings.max_edits,
        };
        let (pushed, result) = pusher.push().await;
        let Pushed { push, mirror, unwritable, written, gone, unknown_keys, warnings } = pushed;
        self.results().pushed = push;
        self.count(&mirror);
        let scope = |object: Object| Some((object.resource(), object.resource().write_scope()?));
        self.results().unwritable.extend(unwritable.into_iter().filter_map(scope));
        self.results().writable.extend(written.into_iter().filter_map(|object| Some(scope(object)?.1)));
        for warning in warnings {
            self.warn(warning);
        }
        self.engine.meter.keep_for_edits(push.will_cost());
        result?;
        for object in Object::ALL {
            let of_object = gone.iter().filter(|(of, _)| *of == object);
            let ids: Vec<RecordId> = of_object.map(|(_, id)| id.clone()).collect();
            // An address that takes no updates is not a removal: this only nominates.
            self.nominate(object, ids).await?;
        }
        if unknown_keys {
            self.refresh_definitions_for_unknown_keys().await?;
        }
        Ok(())
    }
}
