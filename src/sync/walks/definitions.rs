//! Custom field definitions and team members: short lists without a filter on change, read whole on an interval, at a
//! sweep, and definitions at once when a record has a key that none explains.

use std::time::Duration;

use super::progress::ListProgress;
use super::unknown_keys;
use crate::api::decode::{self, ListPage};
use crate::api::{ListQuery, SortBy};
use crate::model::{Instant, Object, Purpose, Record, Resource, Ru};
use crate::store::{Redefined, StoreError, Tally};
use crate::sync::error::{Asking, SyncError};
use crate::sync::run::Run;
use crate::sync::state::Fresh;

/// How old these lists may be before a run reads them again: 6 hours, so that an idle day costs a few RU.
pub const INTERVAL: Duration = Duration::from_secs(6 * 3600);

/// What reading the definitions costs: active and archived, of both objects, as long as each fits a page.
pub const LISTS: Ru = Ru::new(4);

/// Whether a list that was last read then is to be read again.
pub(in crate::sync) fn is_due(fresh: Option<Fresh>, now: Instant) -> bool {
    // A reading dated in the future is a clock that was set back since: read again rather than wait for it.
    fresh.is_none_or(|fresh| fresh.began > now || now.since(fresh.began) >= INTERVAL)
}

impl Run<'_> {
    async fn whole_list(&self, query: ListQuery) -> Result<(Vec<Record>, Instant), SyncError> {
        let resource = query.resource();
        let doing = "list";
        let query = query.sort(SortBy::CreatedAsc).asking(doing, resource)?;
        let asked_at = self.engine.clock.now();
        let mut records = Vec::new();
        let mut at = query.clone();
        let mut progress = ListProgress::default();
        loop {
            let answer = self.engine.client.list(&at, Purpose::Definitions).await.asking(doing, resource)?;
            let page: ListPage =
                decode::page(resource, &answer.body, &self.engine.store.layout()).asking(doing, resource)?;
            let rows = page.records.len();
            records.extend(page.records);
            if page.unusable > 0 {
                let what = "an item that is no record with an `id` cannot be mirrored";
                self.note("unusable_item", resource, what).await?;
            }
            let Some(next) = answer.next else {
                return Ok((records, asked_at));
            };
            if let Some(odd) = progress.take(&next, rows) {
                self.note(odd.as_str(), resource, odd.sentence()).await?;
            }
            if progress.is_stuck() {
                return Err(SyncError::NotAdvancing { resource });
            }
            at = query.clone().after(next);
        }
    }

    /// Notes an oddity of the service outside a page's own transaction, and counts it.
    pub(in crate::sync) async fn note(
        &self,
        kind: &'static str,
        resource: Resource,
        what: &'static str,
    ) -> Result<(), SyncError> {
        let now = self.engine.clock.now();
        self.engine.store.write(move |tx| tx.note_oddity(kind, resource, what, now)).await?;
        self.count(&Tally { warnings: 1, ..Tally::default() });
        Ok(())
    }

    /// Reads the definitions of both objects, active and archived, and brings the columns in line with them.
    pub(in crate::sync) async fn refresh_definitions(&self) -> Result<(), SyncError> {
        let began = self.engine.clock.now();
        for object in Object::ALL {
            self.refresh_definitions_of(object).await?;
        }
        let fresh = Fresh { began, finished: self.engine.clock.now() };
        self.engine
            .store
            .write(move |tx| {
                unknown_keys::definitions_were_read(tx)?;
                tx.set_state(&Fresh::DEFINITIONS, &fresh)
            })
            .await?;
        Ok(())
    }

    async fn refresh_definitions_of(&self, object: Object) -> Result<(), SyncError> {
        let (mut records, asked_at) = self.whole_list(ListQuery::definitions_of(object, true)).await?;
        let (archived, _) = self.whole_list(ListQuery::definitions_of(object, false)).await?;
        // Both lists are asked one after the other: what moved in between is on both, and the later answer counts.
        records.retain(|record| !archived.iter().any(|later| later.id == record.id));
        records.extend(archived);
        let known = self.engine.store.read(move |tx| tx.definitions(object)).await?;
        if known.iter().any(|known| !records.iter().any(|record| record.id == known.id)) {
            // Or it moved the other way and is on neither: one more look at the first list tells.
            let (again, _) = self.whole_list(ListQuery::definitions_of(object, true)).await?;
            records.retain(|record| !again.iter().any(|later| later.id == record.id));
            records.extend(again);
            if records.is_empty() {
                // An empty answer is no proof that every field is gone.
                self.warn(format!(
                    "the service lists no custom fields of {object} any more: the columns stay as they are"
                ));
                return Ok(());
            }
        }
        let rows = records.len() as u64;
        let redefined: Redefined = self
            .engine
            .store
            .write(move |tx| {
                let redefined = tx.apply_definitions(object, &records, asked_at)?;
                // In the same transaction: a column that is new must not be forgotten before it is filled.
                super::fill::want(tx, &redefined.to_fill)?;
                Ok(redefined)
            })
            .await?;
        self.count(&Tally { rows, ..Tally::default() });
        for key in &redefined.without_column {
            let key: String = key.as_str().chars().take(40).collect();
            self.warn(format!("the values of the custom field `{key}` of {object} are kept in `extra`"));
        }
        Ok(())
    }

    /// Reads the definitions once more in a run where a record had a key that none explains.
    pub(in crate::sync) async fn refresh_definitions_for_unknown_keys(&self) -> Result<(), SyncError> {
        let mut refreshed = self.definitions_read.lock().await;
        if *refreshed || self.is_skipped(Resource::CustomFields) {
            return Ok(());
        }
        *refreshed = true;
        match self.refresh_definitions().await {
            Err(error) if self.skip(Resource::CustomFields, &error) => Ok(()),
            other => other,
        }
    }

    /// Reads the team members; those that are no longer listed go.
    pub(in crate::sync) async fn refresh_team(&self) -> Result<(), SyncError> {
        let began = self.engine.clock.now();
        let (records, asked_at) = self.whole_list(ListQuery::new(Resource::TeamMembers)).await?;
        let finished = self.engine.clock.now();
        let tally = self
            .engine
            .store
            .write(move |tx| -> Result<Tally, StoreError> {
                let tally = tx.apply_team(&records, asked_at)?;
                tx.set_state(&Fresh::TEAM, &Fresh { began, finished })?;
                Ok(tally)
            })
            .await?;
        self.count(&tally);
        Ok(())
    }
}
