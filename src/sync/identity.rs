//! Whose mirror is this? Before anything is written, a new key or address is held against records that are known.

use super::engine::Engine;
use super::error::{Asking, SyncError};
use super::pages::instant;
use super::state::Identity;
use crate::api::{Fate, ListQuery, decode};
use crate::model::{Object, Purpose, RecordId};

/// Known records that are asked for: as many as fit one list.
const SAMPLE: usize = 50;

impl Engine {
    /// Makes sure that the key sees the workspace that is mirrored here, for 1 RU where key or address are new.
    pub(super) async fn check_identity(&self) -> Result<(), SyncError> {
        let now = Identity {
            base_url: self.client.base_url().as_str().to_string(),
            key: self.client.key_fingerprint().to_string(),
        };
        let known: Option<Identity> = self.store.write(|batch| batch.state(Identity::ENTRY)).await?;
        if known.as_ref() == Some(&now) {
            return Ok(());
        }
        if known.is_some() && !self.settings.accept_workspace {
            self.recognise().await?;
        }
        self.store
            .write(move |batch| batch.set_state(Identity::ENTRY, &now))
            .await?;
        Ok(())
    }

    /// Asks for known records by id, and compares what never changes: ids may be alike in two workspaces, the moments
    /// of creation are not.
    async fn recognise(&self) -> Result<(), SyncError> {
        for object in Object::ALL {
            let sample = self
                .store
                .write(move |batch| batch.sample_created(object, SAMPLE))
                .await?;
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
            let answer = match self.client.list(&query, Purpose::Changes).await {
                Err(error) if error.fate() == Fate::SkipObject => continue,
                other => other.asking(doing, resource)?,
            };
            let page = decode::page(resource, &answer.body, &self.store.layout()).asking(doing, resource)?;
            let met = page
                .records
                .iter()
                .filter(|record| {
                    let created = instant(resource, record, "createdAt").map(|at| at.to_string());
                    created.is_some()
                        && sample
                            .iter()
                            .any(|(id, known)| *id == record.id && created.as_ref() == Some(known))
                })
                .count();
            // Records may have been removed since; that most of a sample are gone or others is another workspace.
            if met * 2 < sample.len() {
                return Err(SyncError::OtherWorkspace {
                    asked: sample.len(),
                    met,
                });
            }
            return Ok(());
        }
        // Nothing is known that could be overwritten.
        Ok(())
    }
}
