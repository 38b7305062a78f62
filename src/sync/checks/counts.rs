//! Makes the counts that walks of more than one page owe, and repairs what they find.

use super::compare::Audit;
use crate::model::Object;
use crate::model::{TimeBounds, TimeField, TimeRange};
use crate::sync::error::SyncError;
use crate::sync::run::Run;
use crate::sync::walks::closing_counts::OwedCounts;
use crate::sync::walks::sweep::end_sweep;

impl Run<'_> {
    /// Finishes a sweep that was read completely: decides on the records that it missed, and counts what it read. While
    /// removals are refused, it is not finished.
    pub(in crate::sync) async fn settle_sweep(&self, object: Object) -> Result<(), SyncError> {
        let open = self.accept_older(object).await?;
        if !self.settle_nominations(object).await? {
            return Ok(());
        }
        let finished = self.engine.clock.now();
        self.engine.store.write(move |tx| end_sweep(tx, object, finished, open)).await?;
        self.carry_out_counts(object).await?;
        self.settle_nominations(object).await?;
        Ok(())
    }

    /// Decides on an object's nominations outside of a verification. Returns whether none is left.
    pub(in crate::sync) async fn settle_nominations(&self, object: Object) -> Result<bool, SyncError> {
        let mut audit = Audit::new(object, true, None);
        let settled = self.settle_removals(&mut audit).await?;
        self.accept_older(object).await?;
        Ok(settled.is_settled())
    }

    /// Makes the owed counts, those of changes first.
    pub(in crate::sync) async fn carry_out_counts(&self, object: Object) -> Result<(), SyncError> {
        self.carry_out_count(object, TimeField::UpdatedAt).await?;
        self.carry_out_count(object, TimeField::CreatedAt).await
    }

    /// Makes the owed count by one timestamp.
    pub(in crate::sync) async fn carry_out_count(&self, object: Object, by: TimeField) -> Result<(), SyncError> {
        let entry = OwedCounts::entry(object, by);
        let name = entry.clone();
        let Some(check) = self.engine.store.read(move |tx| tx.state::<OwedCounts>(&name)).await? else {
            return Ok(());
        };
        let window = TimeRange::dated(check.by, check.from, check.to);

        let edges = self.engine.store.read(move |tx| tx.edges(object, window, check.parts, 0.0)).await?;
        let mut ranges = Vec::new();
        let mut rest = window;
        for edge in edges {
            if let Some((low, high)) = rest.cut(edge) {
                ranges.push(low);
                rest = high;
            }
        }
        ranges.push(rest);
        if check.by == TimeField::CreatedAt && !check.without_dateless {
            ranges.push(TimeRange::of(check.by, TimeBounds::Dateless));
        }
        let mut audit = Audit::new(object, true, None);
        self.compare(&mut audit, ranges).await?;
        let unseen: Vec<_> = std::mem::take(&mut audit.unseen).into_iter().collect();
        self.nominate(object, unseen).await?;
        self.accept_older(object).await?;
        if !audit.findings.is_clean() {
            let found = audit.findings.count();
            tracing::warn!(%object, found, "A count after a walk of {object} records found {found} that the walk had missed");
        }
        self.engine.store.write(move |tx| tx.clear_state(&entry)).await?;
        Ok(())
    }
}
