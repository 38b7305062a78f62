//! `verify`: compares the mirror with the service, by counts or record by record.

use super::compare::Audit;
use super::findings::{Difference, DifferenceKind, Findings};
use crate::model::{Object, RecordId};
use crate::model::{TimeField, TimeRange};
use crate::store::{Completeness, Goal, Phase};
use crate::sync::checks::decide_missing::Confirmation;
use crate::sync::error::SyncError;
use crate::sync::job::Job;
use crate::sync::run::Run;

/// The number of records that a full verification lists at once: their ids are kept in memory, and the last page is
/// partly empty.
const STRIDE: u64 = 10_000;

impl Run<'_> {
    /// Compares an object with the service, and repairs differences if the job requests it.
    pub(in crate::sync) async fn verify_object(&self, object: Object) -> Result<(), SyncError> {
        let Job::Verify { full, repair, .. } = *self.job else { return Ok(()) };
        self.compare_object(object, full, repair).await
    }

    /// Compares an object with the service, by counts or record by record.
    pub(super) async fn compare_object(&self, object: Object, full: bool, repair: bool) -> Result<(), SyncError> {
        if self.read(move |tx| tx.phase(object)).await? == Phase::FirstCopy {
            self.warn(format!("{} have not been copied yet: run `crm-mirror sync`", object.resource()));
            let here = self.count_here(object, TimeRange::WHOLE).await?;
            let missing = self.count_there(object, TimeRange::WHOLE).await?.saturating_sub(here);
            let findings = Findings { missing, open: missing, ranges: 1, ..Findings::default() };
            self.results().findings.push((object, findings));
            return Ok(());
        }
        let as_of = self.now();
        let since = self.read(move |tx| tx.known_changes(object)).await?.served_at;
        let mut audit = Audit { repair, since, ..Audit::new(self, object) };
        if full {
            let rows = self.read(move |tx| tx.count_rows(object)).await?;
            let parts = rows / STRIDE;
            let ranges =
                if parts < 2 { vec![TimeRange::WHOLE] } else { audit.ranges(TimeField::CreatedAt, parts, 0.0).await? };
            audit.compare_listed(ranges).await?;
        } else {
            audit.audit().await?;
        }
        audit.decide_about_unseen().await?;
        // What was paid for is stored first.
        let read = if repair { self.read_omitted(object).await } else { Ok(()) };
        if repair {
            audit.findings.open += self.unread(object).await?;
        }
        let by_record = audit.findings.compared >= audit.findings.ranges && full;
        let open = audit.findings.open;
        let writing = self.write(move |tx| {
            // The mirror may have been edited, which a verification should detect.
            tx.records().recount(object)?;
            if tx.goals().is_set(Goal::FormerRows(object))? {
                return Ok(());
            }
            tx.claims().compared(object, Completeness { as_of, by_record }, open)
        });
        writing.await?;
        self.results().findings.push((object, audit.findings));
        read
    }

    async fn refused_removals(&self, object: Object) -> Result<u64, SyncError> {
        let outage = self.read(move |tx| tx.refused_removals(object)).await?;
        Ok(outage.map_or(0, |outage| outage.going))
    }
}

impl Audit<'_> {
    /// Looks up the records of the mirror that were not listed: they may have moved out of the range, or have been
    /// removed. Then the number of remaining differences is known.
    async fn decide_about_unseen(&mut self) -> Result<(), SyncError> {
        let object = self.object;
        let mut unseen: Vec<RecordId> = std::mem::take(&mut self.unseen).into_iter().collect();
        unseen.sort_unstable_by_key(|id| (!id.fits_a_list(), id.clone()));
        let (gone, refused, unproven) = if self.repair {
            self.run.nominate(object, unseen).await?;
            let settled = self.decide_doubts().await?;
            let refused = if settled.refused { self.run.refused_removals(object).await? } else { 0 };
            (settled.gone, refused, settled.unproven)
        } else {
            let mut confirmation = Confirmation::of(object);
            self.run.confirm(object, &unseen, &mut confirmation).await;
            confirmation.ended?;
            self.keep_found(confirmation.found).await?;
            (confirmation.gone.ids().to_vec(), 0, confirmation.unproven.len() as u64)
        };
        for id in gone {
            let kind = DifferenceKind::Extra;
            self.findings.add(Difference { object, id, kind, fields: Vec::new() });
        }
        self.findings.undecided = unproven + self.older.len() as u64 + self.unlisted;
        let found = if self.repair { refused } else { self.findings.count() };
        self.findings.open = found + self.findings.undecided;
        Ok(())
    }
}
