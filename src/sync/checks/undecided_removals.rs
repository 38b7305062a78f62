//! Nominations that no answer decided: they are kept, and the lookup is repeated with increasing delay.
//!
//! A lookup by id decides nothing if one of its items could not be decoded, if it lacks every record, or if it is not as new
//! as the record. If the service lists no record of an object at all, an empty answer could be an outage. So a small table
//! that seems to have lost every record keeps them for a day; if the service shows none of them in that time, and
//! answers the detail of each with 404, they are removed. The time is the ledger's steady clock.

use std::collections::HashSet;
use std::time::Duration;

use crate::api::ErrorClass;
use crate::model::{Instant, Object, Purpose, Resource};
use crate::store::{ConfirmedRemovals, ReadTx, StoreError, WholeListKind};
use crate::sync::error::{Asking, SyncError};
use crate::sync::run_parts::RemovalGate;

/// Removals of a resource that are neither proven nor withdrawn: their number, and how long the next lookup or list waits
/// if that has a time of its own.
pub fn undecided(tx: &ReadTx<'_>, resource: Resource, steady: Instant) -> Result<(u64, Option<Duration>), StoreError> {
    let Some(object) = Object::ALL.into_iter().find(|object| object.resource() == resource) else {
        let lists = match resource {
            Resource::TeamMembers => vec![WholeListKind::Team],
            _ => Object::ALL.map(WholeListKind::Definitions).into(),
        };
        let counts: Result<u64, StoreError> = lists.into_iter().map(|list| tx.count_unlisted(list)).sum();
        return Ok((counts?, None));
    };
    Ok((tx.count_nominated(object)?, tx.wait_of_nominated(object, steady)?))
}

impl RemovalGate<'_> {
    /// If the service has listed no record for a day, reads the detail of each, and takes the answers into account.
    pub(in crate::sync) async fn check_details(
        &self,
        object: Object,
        gone: &mut ConfirmedRemovals,
    ) -> Result<(), SyncError> {
        let (steady, ids) = (self.run.steady_time(), gone.ids().to_vec());
        let since = self.run.read(move |tx| tx.nothing_listed_since(object, &ids)).await?;
        let Some(since) = since.filter(|since| gone.is_long_enough(*since, steady)) else {
            return Ok(());
        };
        let mut not_found = HashSet::new();
        for id in gone.ids() {
            match self.run.engine.client.detail(object, id, Purpose::Audit).await {
                Err(error) if error.class() == ErrorClass::Gone => not_found.insert(id.clone()),
                Err(error) if error.class() == ErrorClass::Pause => {
                    return Err(error).asking("read a detail of", object.resource());
                }
                // The record exists, or it is unknown: the lists cannot be trusted, and the day begins again.
                _ => {
                    let ids = gone.ids().to_vec();
                    let begun = self.run.write(move |tx| tx.knowledge().begin_not_found_again(object, &ids, steady));
                    return begun.await;
                }
            };
        }
        gone.long_empty(since, steady, &not_found);
        Ok(())
    }
}
