//! Passes over a record whose page cannot be read, however few rows it has: one bad record affects only itself.
//!
//! Nothing shows the next record's place, so it is searched for by value: a page from an instant on is readable once the
//! instant is behind the bad record. What lies between is left out and reported.

use std::time::Duration;

use super::pages::WalkPurpose;
use super::walk::{Frontier, Walk, WalkRange};
use crate::api::PageSize;
use crate::model::Instant;
use crate::sync::error::SyncError;
use crate::sync::run_parts::Walks;

/// The step with which the search begins, and the precision with which it ends: the service may compare at another
/// precision than it shows.
const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);

impl Walks<'_> {
    /// The walk behind the record that follows the frontier and cannot be read.
    pub(super) async fn pass_over_record(
        &self,
        job: &WalkPurpose,
        walk: &Walk,
        error: SyncError,
    ) -> Result<Walk, SyncError> {
        let ours = self.run.now();
        let now = self.run.results().service_time.at_least().map_or(ours, |at_least| at_least.max(ours));
        let Some((mut low, mut high)) = unread(walk, now) else { return Err(error) };
        // A service that answers nothing readable at all is no matter of one record.
        if !self.is_readable_from(job, walk, high).await? {
            return Err(error);
        }
        let mut step = SECOND;
        while high.since(low) > SECOND {
            let half = low.plus(high.since(low) / 2).whole_second();
            let at = half.min(low.plus(step)).max(low.plus(SECOND));
            if self.is_readable_from(job, walk, at).await? {
                high = at;
            } else {
                (low, step) = (at, step.saturating_mul(2));
            }
        }
        if let Some(tied) = walk.tied_with_next(high) {
            return self.go_on(job, tied, None).await;
        }
        let (object, resource) = (job.object(), job.object().resource());
        let what = "a record could not be read, whatever the page size";
        self.run.whole_lists().note("unreadable_record", resource, what).await?;
        self.run.warn(format!("records of {resource} before {high} could not be read and are left out: {error}"));
        if matches!(job, WalkPurpose::Slice(..)) {
            self.run.store().write(move |tx| tx.claims().leave_record_out(object)).await?;
        }
        self.restart(job, &walk.clone().passing_to(high), None).await
    }

    async fn is_readable_from(&self, job: &WalkPurpose, walk: &Walk, at: Instant) -> Result<bool, SyncError> {
        let query = self.page_query(job, &Walk::new(walk.range.starting_at(at)))?.limit(PageSize::ONE).once();
        match self.run.engine.page(&query, job.purpose(), job.doing()).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_unreadable() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The instants between which the record is: at the frontier or after it, and before the end of the range. Where that is
/// open, it is searched for far behind all clocks, which may be late: the steps of the search begin small.
fn unread(walk: &Walk, now: Instant) -> Option<(Instant, Instant)> {
    let (from, to) = match &walk.range {
        WalkRange::Changes { after, .. } => (*after, None),
        WalkRange::All { .. } | WalkRange::Created { .. } => walk.range.dates(),
        WalkRange::Tied { from, .. } => (*from, None),
        WalkRange::WithoutCreated => return None,
    };
    let low = match walk.frontier {
        Frontier::Start => from.unwrap_or(Instant::EPOCH),
        Frontier::At(at) => at,
        Frontier::Nulls => return None,
    };
    let (low, high) = (low.whole_second(), to.unwrap_or(now.max(low).plus(DAY)).whole_second());
    (high > low).then_some((low, high))
}
