//! Sends the waiting edits: the async part. Other modules decide what to send and what an answer means.
//!
//! Records are processed concurrently, as the client's pace allows; the edits of one record are sent in order. A
//! request is durably stored before its first byte is sent; its answer and the resulting changes of the mirror are one
//! transaction.

use std::sync::PoisonError;

use futures_util::future::join_all;

use super::edit_outcome::AfterReadBack;
use super::edit_tx::NextRequest;
use super::error::OutboxError;
use super::push_context::{Pusher, RecordPush};
use super::push_progress::{PushPass, Pushed, lock};
use crate::store::outbox_report;

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
