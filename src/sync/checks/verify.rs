//! `verify`: compares the mirror with the service, by counts or record by record.

use super::compare::Audit;
use super::findings::{Difference, DifferenceKind, Findings};
use crate::model::{Object, RecordId};
use crate::model::{TimeField, TimeRange};
use crate::store::{Completeness, Goal, Phase};
use crate::sync::checks::decide_missing::Confirmation;
use crate::sync::error::SyncError;
use crate::sync::job::Job;
use crate::sync::run_parts::Audits;

/// The number of records that a full verification lists at once: their ids are kept in memory, and the last page is
/// partly empty.
const STRIDE: u64 = 10_000;

impl Audits<'_> {
    /// Compares an object with the service, and repairs differences if the job requests it.
    pub(in crate::sync) async fn verify_object(&self, object: Object) -> Result<(), SyncError> {
        let Job::Verify { full, repair, .. } = *self.run.job else { return Ok(()) };
        self.compare_object(object, full, repair).await
    }

    /// Compares an object with the service, by counts or record by record.
    pub(super) async fn compare_object(&self, object: Object, full: bool, repair: bool) -> Result<(), SyncError> {
        if self.run.read(move |tx| tx.phase(object)).await? == Phase::FirstCopy {
            self.run.warn(format!("{} have not been copied yet: run `crm-mirror sync`", object.resource()));
            let here = self.count_here(object, TimeRange::WHOLE).await?;
            let missing = self.count_there(object, TimeRange::WHOLE).await?.saturating_sub(here);
            let findings = Findings { missing, open: missing, ranges: 1, ..Findings::default() };
            self.run.results().findings.push((object, findings));
            return Ok(());
        }
        let as_of = self.run.now();
        let since = self.run.read(move |tx| tx.known_changes(object)).await?.served_at;
        let mut audit = Audit::new(object, repair, since);
        if full {
            let rows = self.run.read(move |tx| tx.count_rows(object)).await?;
            let parts = rows / STRIDE;
            let ranges = if parts < 2 {
                vec![TimeRange::WHOLE]
            } else {
                self.ranges(object, TimeField::CreatedAt, parts, 0.0).await?
            };
            self.compare_listed(&mut audit, ranges).await?;
        } else {
            self.audit(&mut audit).await?;
        }
        self.decide_about_unseen(&mut audit).await?;
        // What was paid for is stored first.
        let read = if repair { self.run.back_fills().read_omitted(object).await } else { Ok(()) };
        if repair {
            audit.findings.open += self.run.back_fills().unread(object).await?;
        }
        let by_record = audit.findings.compared >= audit.findings.ranges && full;
        let open = audit.findings.open;
        let writing = self.run.write(move |tx| {
            // The mirror may have been edited, which a verification should detect.
            tx.records().recount(object)?;
            if tx.goals().is_set(Goal::FormerRows(object))? {
                return Ok(());
            }
            tx.claims().compared(object, Completeness { as_of, by_record }, open)
        });
        writing.await?;
        self.run.results().findings.push((object, audit.findings));
        read
    }

    /// Looks up the records of the mirror that were not listed: they may have moved out of the range, or have been
    /// removed. Then the number of remaining differences is known.
    async fn decide_about_unseen(&self, audit: &mut Audit) -> Result<(), SyncError> {
        let object = audit.object;
        let mut unseen: Vec<RecordId> = std::mem::take(&mut audit.unseen).into_iter().collect();
        unseen.sort_unstable_by_key(|id| (!id.fits_a_list(), id.clone()));
        let (gone, refused, unproven) = if audit.repair {
            self.run.lookups().nominate(object, unseen).await?;
            let settled = self.run.gate().decide_doubts(audit).await?;
            let refused = if settled.refused { self.refused_removals(object).await? } else { 0 };
            (settled.gone, refused, settled.unproven)
        } else {
            let mut confirmation = Confirmation::of(object);
            self.run.lookups().confirm(object, &unseen, &mut confirmation).await;
            confirmation.ended?;
            self.run.gate().keep_found(audit, confirmation.found).await?;
            (confirmation.gone.ids().to_vec(), 0, confirmation.unproven.len() as u64)
        };
        for id in gone {
            let kind = DifferenceKind::Extra;
            audit.findings.add(Difference { object, id, kind, fields: Vec::new() });
        }
        audit.findings.undecided = unproven + audit.older.len() as u64 + audit.unlisted;
        let found = if audit.repair { refused } else { audit.findings.count() };
        audit.findings.open = found + audit.findings.undecided;
        Ok(())
    }

    async fn refused_removals(&self, object: Object) -> Result<u64, SyncError> {
        let outage = self.run.read(move |tx| tx.refused_removals(object)).await?;
        Ok(outage.map_or(0, |outage| outage.going))
    }
}
