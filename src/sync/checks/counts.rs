//! Carries out the counts that walks of more than one page owe, and repairs what they find.

use super::compare::Audit;
use crate::model::Object;
use crate::sync::error::SyncError;
use crate::sync::run::Run;
use crate::sync::time_range::{TimeBounds, TimeField, TimeRange};
use crate::sync::walks::owed::OwedCounts;
use crate::sync::walks::sweep::end_sweep;

impl Run<'_> {
    /// Ends a sweep that is read to its end: decides what became of the records that it passed over, and counts what it
    /// read. While removals are refused, it does not end.
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

    /// Decides about an object's nominations outside a verification. Says whether none is left.
    pub(in crate::sync) async fn settle_nominations(&self, object: Object) -> Result<bool, SyncError> {
        let mut audit = Audit::new(object, true, None);
        let settled = self.settle_removals(&mut audit).await?;
        self.accept_older(object).await?;
        Ok(settled.is_settled())
    }

    /// Carries out the counts that are owed, of what changed first.
    pub(in crate::sync) async fn carry_out_counts(&self, object: Object) -> Result<(), SyncError> {
        self.carry_out_count(object, TimeField::UpdatedAt).await?;
        self.carry_out_count(object, TimeField::CreatedAt).await
    }

    /// Carries out the count that is owed by one timestamp.
    pub(in crate::sync) async fn carry_out_count(&self, object: Object, by: TimeField) -> Result<(), SyncError> {
        let entry = OwedCounts::entry(object, by);
        let name = entry.clone();
        let Some(check) = self.engine.store.read(move |tx| tx.state::<OwedCounts>(&name)).await? else {
            return Ok(());
        };
        let window = TimeRange::dated(check.by, check.from, check.to);
        let stretch = window.stretch();
        let edges = self.engine.store.read(move |tx| tx.edges(object, stretch, check.parts, 0.0)).await?;
        let mut spans = Vec::new();
        let mut rest = window;
        for edge in edges {
            if let Some((low, high)) = rest.cut(edge) {
                spans.push(low);
                rest = high;
            }
        }
        spans.push(rest);
        if check.by == TimeField::CreatedAt {
            spans.push(TimeRange { field: check.by, bounds: TimeBounds::Dateless });
        }
        let mut audit = Audit::new(object, true, None);
        self.compare(&mut audit, spans).await?;
        let unseen: Vec<_> = std::mem::take(&mut audit.unseen).into_iter().collect();
        self.nominate(object, unseen).await?;
        self.accept_older(object).await?;
        if !audit.findings.is_clean() {
            let found = audit.findings.count();
            tracing::warn!(%object, found, "A count after a walk of {object} records found {found} that had slipped");
        }
        self.engine.store.write(move |tx| tx.clear_state(&entry)).await?;
        Ok(())
    }
}
