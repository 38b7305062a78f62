//! `verify`: the mirror compared with the service now, by counts or record by record.

use super::audit::{Audit, Mode};
use super::findings::Findings;
use super::removals::Removals;
use crate::model::Object;
use crate::store::Phase;
use crate::sync::error::SyncError;
use crate::sync::job::Job;
use crate::sync::run::Run;
use crate::sync::span::{Dimension, Span};
use crate::sync::state::{Changes, Evidence};

/// Records that a full verification lists at once: their ids are kept meanwhile, and the last page is part empty.
const STRIDE: u64 = 10_000;

impl Run<'_> {
    /// Compares an object with the service, and repairs what differs where the job says so.
    pub(in crate::sync) async fn verify_object(&self, object: Object) -> Result<(), SyncError> {
        let Job::Verify { full, repair, accept, .. } = *self.job else { return Ok(()) };
        if self.engine.store.read(move |tx| tx.phase(object)).await? == Phase::FirstCopy {
            self.warn(format!("{} have not been copied yet: `crm-mirror sync` goes on", object.resource()));
            return Ok(());
        }
        let as_of = self.engine.clock.now();
        let since = self.engine.store.read(move |tx| Changes::load(tx, object)).await?.served_at;
        let removals = Removals { most: self.engine.settings.most_removals, accepted: accept.removals };
        let mode = if repair { Mode::Mend(removals) } else { Mode::Report };
        let mut audit = Audit { object, mode, since, findings: Findings::default() };
        if full {
            let rows = self.engine.store.read(move |tx| tx.count_rows(object)).await?;
            let parts = rows / STRIDE;
            let spans = if parts < 2 {
                vec![Span::WHOLE]
            } else {
                self.spans(object, Dimension::CreatedAt, parts, 0.0).await?
            };
            self.compare_listed(&mut audit, spans).await?;
        } else {
            self.audit(&mut audit).await?;
        }
        let open = if repair { 0 } else { audit.findings.count() };
        let by_record = audit.findings.compared >= audit.findings.ranges && full;
        let evidence = Evidence { as_of, by_record, open };
        self.engine
            .store
            .write(move |tx| {
                // Somebody may have edited the mirror by hand, which is what a verification is for.
                tx.recount(object)?;
                tx.set_state(&Evidence::entry(object), &evidence)
            })
            .await?;
        self.results().findings.push((object, audit.findings));
        Ok(())
    }
}
