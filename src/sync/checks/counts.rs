//! Carries out the counts that walks of more than one page owe, and repairs what they find.

use super::audit::{Audit, Mode};
use super::findings::Findings;
use super::removals::Removals;
use crate::model::Object;
use crate::sync::error::SyncError;
use crate::sync::run::Run;
use crate::sync::span::{Dimension, Extent, Span};
use crate::sync::walks::owed::OwedCounts;

impl Run<'_> {
    /// Carries out the counts that are owed, of what changed first.
    pub(in crate::sync) async fn carry_out_counts(&self, object: Object) -> Result<(), SyncError> {
        self.carry_out_count(object, Dimension::UpdatedAt).await?;
        self.carry_out_count(object, Dimension::CreatedAt).await
    }

    /// Carries out the count that is owed by one timestamp.
    pub(in crate::sync) async fn carry_out_count(&self, object: Object, by: Dimension) -> Result<(), SyncError> {
        let entry = OwedCounts::entry(object, by);
        let name = entry.clone();
        let Some(check) = self.engine.store.read(move |tx| tx.state::<OwedCounts>(&name)).await? else {
            return Ok(());
        };
        let window = Span::dated(check.by, check.from, check.to);
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
        if check.by == Dimension::CreatedAt {
            spans.push(Span { by: check.by, extent: Extent::Dateless });
        }
        let removals = Removals { most: self.engine.settings.most_removals, accepted: false };
        let mut audit = Audit { object, mode: Mode::Mend(removals), since: None, findings: Findings::default() };
        self.compare(&mut audit, spans).await?;
        if !audit.findings.is_clean() {
            let found = audit.findings.count();
            tracing::warn!(%object, found, "A count after a walk of {object} records found {found} that had slipped");
        }
        self.engine.store.write(move |tx| tx.clear_state(&entry)).await?;
        Ok(())
    }
}
