//! Asks for records by id: which the service has, and which not.

use std::collections::HashSet;

use crate::api::{ErrorClass, ListQuery, decode};
use crate::model::{Instant, Object, Purpose, Record, RecordId};
use crate::sync::error::{Asking, SyncError};
use crate::sync::run::Run;
use crate::sync::tally::Noted;

/// What the service said about records that were asked for by id.
pub(in crate::sync) struct LookedUp {
    /// It does not have these.
    pub(in crate::sync) gone: Vec<RecordId>,
    /// It has these.
    pub(in crate::sync) here: Vec<Record>,
    /// When it was asked.
    pub(in crate::sync) asked_at: Instant,
    /// The layout that the answer was decoded with.
    pub(in crate::sync) layout: u64,
}

impl Run<'_> {
    /// Those of the ids that the service does not have, for 1 RU a list of them; what it has is applied on the way.
    pub(in crate::sync) async fn absent(&self, object: Object, ids: &[RecordId]) -> Result<Vec<RecordId>, SyncError> {
        let looked = self.look_up(object, ids).await?;
        let noted = self
            .engine
            .store
            .write(move |tx| {
                let mut noted = Noted::default();
                // Only presence was asked for: with other columns than the answer was decoded with, the next walk
                // applies it.
                if tx.expect_layout(looked.layout).is_ok() {
                    let phase = tx.phase(object)?;
                    for record in &looked.here {
                        noted.record(record, tx.apply_list(object, record, looked.asked_at, phase)?);
                    }
                }
                Ok(noted)
            })
            .await?;
        self.count(&noted.tally);
        Ok(looked.gone)
    }

    /// Asks for records by id: which the service has, and which not.
    pub(in crate::sync) async fn look_up(&self, object: Object, ids: &[RecordId]) -> Result<LookedUp, SyncError> {
        let resource = object.resource();
        let doing = "confirm removals of";
        let layout = self.engine.store.layout();
        let mut looked =
            LookedUp { gone: Vec::new(), here: Vec::new(), asked_at: self.engine.clock.now(), layout: layout.version };
        let Some(first) = ids.first() else { return Ok(looked) };
        if !first.fits_a_list() {
            // A comma cannot be escaped in a list (rule 2): such a record is asked for on its own.
            match self.engine.client.detail(object, first, Purpose::Audit).await {
                Ok(_) => {}
                Err(error) if error.class() == ErrorClass::Gone => looked.gone.push(first.clone()),
                Err(error) if error.class() == ErrorClass::SkipRecord => {}
                Err(source) => return Err(source).asking(doing, resource),
            }
            return Ok(looked);
        }
        let query = ListQuery::new(resource).ids(ids).asking(doing, resource)?;
        let answer = self.engine.client.list(&query, Purpose::Audit).await.asking(doing, resource)?;
        let page = decode::page(resource, &answer.body, &layout).asking(doing, resource)?;
        looked.asked_at = answer.asked_at;
        let here: HashSet<&RecordId> = page.records.iter().map(|record| &record.id).collect();
        // An answer that is not whole, or that answers another question, proves no absence.
        if page.next.is_none() && page.unusable == 0 && here.iter().all(|id| ids.contains(id)) {
            looked.gone = ids.iter().filter(|id| !here.contains(id)).cloned().collect();
        }
        looked.here = page.records;
        Ok(looked)
    }
}
