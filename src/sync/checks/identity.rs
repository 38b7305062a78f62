//! Whose mirror is this? Before anything is written, a new key or address is held against records that are known.

use std::collections::HashSet;

use crate::api::{ErrorClass, ListQuery, decode};
use crate::model::{Object, Purpose, RecordId};
use crate::sync::engine::Engine;
use crate::sync::error::{Asking, SyncError};
use crate::sync::run::Run;
use crate::sync::state::Identity;
use crate::sync::tally::instant;
use crate::sync::walks::progress::ListProgress;

/// Known records that are asked for: as many as fit one list.
const SAMPLE: usize = 50;

impl Run<'_> {
    /// Makes sure that the key sees the workspace that is mirrored here, for 1 RU where key or address are new.
    pub(in crate::sync) async fn check_identity(&self) -> Result<(), SyncError> {
        let now = Identity {
            base_url: self.engine.client.base_url().as_str().to_string(),
            key: self.engine.client.key_fingerprint().to_string(),
        };
        let known: Option<Identity> = self.engine.store.read(|tx| tx.state(&Identity::ENTRY)).await?;
        if known.as_ref() == Some(&now) {
            return Ok(());
        }
        if known.is_some() && !self.job.accept().workspace {
            self.engine.recognise().await?;
        }
        self.engine.store.write(move |tx| tx.set_state(&Identity::ENTRY, &now)).await?;
        Ok(())
    }
}

impl Engine {
    /// Asks for known records by id, and compares what never changes: ids may be alike in two workspaces, the moments
    /// of creation are not.
    ///
    /// # Errors
    /// [`SyncError::OtherWorkspace`] if they are not there, [`SyncError::NoScope`] if the key sees none of them.
    pub async fn recognise(&self) -> Result<(), SyncError> {
        let mut unseen = Vec::new();
        for object in Object::ALL {
            let sample = self.store.read(move |tx| tx.sample_created(object, SAMPLE)).await?;
            let fit = {
                let ids: Vec<RecordId> = sample.iter().map(|(id, _)| id.clone()).collect();
                ListQuery::ids_that_fit(&ids)
            };
            let sample = &sample[..fit];
            if sample.is_empty() {
                continue;
            }
            let resource = object.resource();
            let doing = "recognise the workspace by";
            let ids: Vec<RecordId> = sample.iter().map(|(id, _)| id.clone()).collect();
            let query = ListQuery::new(resource).ids(&ids).asking(doing, resource)?;
            let (mut met, mut others) = (HashSet::new(), HashSet::new());
            let (mut at, mut progress) = (query.clone(), ListProgress::default());
            loop {
                let answer = match self.client.list(&at, Purpose::Changes).await {
                    Err(error) if error.class() == ErrorClass::SkipObject => break,
                    other => other.asking(doing, resource)?,
                };
                let page = decode::page(resource, &answer.body, &self.store.layout()).asking(doing, resource)?;
                for record in &page.records {
                    let created = instant(resource, record, "createdAt").map(|created| created.to_string());
                    match sample.iter().find(|(id, _)| *id == record.id) {
                        Some((_, known)) if created.as_ref() == Some(known) => met.insert(record.id.clone()),
                        Some(_) => others.insert(record.id.clone()),
                        None => false,
                    };
                }
                // One page, unless the service makes its pages smaller than they may be.
                if let Some(next) = page.next {
                    progress.take(&next, page.records.len());
                    at = query.clone().after(next);
                    if !progress.is_stuck() {
                        continue;
                    }
                }
                return judged(sample.len(), met.len(), others.len());
            }
            unseen.push(resource.read_scope());
        }
        if unseen.is_empty() {
            // Nothing is known that could be overwritten.
            return Ok(());
        }
        // There are records, and the key sees none of them: whose it is cannot be told.
        Err(SyncError::NoScope { scopes: unseen.join(", ") })
    }
}

/// Concludes another workspace only from records that say so: more of them were created at another moment than at the
/// known one, or not one of the sample is there. However many were removed since, those that are left tell.
fn judged(asked: usize, met: usize, others: usize) -> Result<(), SyncError> {
    if met == 0 || others > met { Err(SyncError::OtherWorkspace { asked, met }) } else { Ok(()) }
}
