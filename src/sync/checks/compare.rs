//! Compares records with their rows, notes what differs, and repairs it where that is asked for.

use std::collections::BTreeSet;

use super::findings::{Difference, DifferenceKind, Findings};
use crate::model::{Instant, Object, Record, RecordId};
use crate::store::{Applied, Compared, StoreError};
use crate::sync::error::SyncError;
use crate::sync::run::Run;
use crate::sync::tally::{Noted, instant};
use crate::sync::walks::lookup::{Confirmation, FoundRecords};

/// A comparison under way.
pub(in crate::sync) struct Audit {
    pub(in crate::sync) object: Object,
    /// Whether what differs is repaired, or only reported.
    pub(in crate::sync) repair: bool,
    /// The service's clock when it began: what the service changed after that is news, not a difference.
    pub(in crate::sync) since: Option<Instant>,
    pub(in crate::sync) findings: Findings,
    /// Records that the lists of the service did not have where the mirror has them.
    pub(in crate::sync) unseen: BTreeSet<RecordId>,
}

impl Audit {
    /// A comparison that has found nothing yet.
    pub(in crate::sync) fn new(object: Object, repair: bool, since: Option<Instant>) -> Audit {
        Audit { object, repair, since, findings: Findings::default(), unseen: BTreeSet::new() }
    }
}

impl Run<'_> {
    /// Compares records with their rows, and applies them if that is asked for.
    pub(in crate::sync) async fn compare_records(
        &self,
        audit: &mut Audit,
        found: FoundRecords,
    ) -> Result<(), SyncError> {
        let (object, repair) = (audit.object, audit.repair);
        let FoundRecords { records, asked_at, layout, .. } = found;
        let rows = records.len() as u64;
        let compared = self.engine.store.write(move |tx| {
            tx.expect_layout(layout)?;
            let phase = tx.phase(object)?;
            let mut noted = Noted::default();
            let mut compared = Vec::with_capacity(records.len());
            for record in records {
                let how = tx.compare_list(object, &record)?;
                let mut older = false;
                if repair && how != Compared::Same {
                    let applied = tx.apply_list(object, &record, asked_at, phase)?;
                    older = applied == Applied::Older;
                    noted.record(&record, applied);
                }
                compared.push((instant(object.resource(), &record, "updatedAt"), record.id, how, older));
            }
            Ok((compared, noted.tally))
        });
        let (compared, tally) = compared.await?;
        self.count(&tally);
        audit.findings.compared += rows;
        for (updated_at, id, how, older) in compared {
            if older {
                self.results().older[object as usize].insert(id.clone(), updated_at);
            }
            let news = matches!((updated_at, audit.since), (Some(updated), Some(since)) if updated >= since);
            let (kind, fields) = match how {
                Compared::Missing => (DifferenceKind::Missing, Vec::new()),
                Compared::Differs(fields) => (DifferenceKind::Stale, fields),
                Compared::Same => continue,
            };
            if !news {
                audit.findings.add(Difference { object, id, kind, fields });
            }
        }
        Ok(())
    }

    /// As [`Run::compare_records`], for records that were asked for by id. With other columns than they were decoded with,
    /// the next run tells what they are like: they are there, which is what was asked.
    pub(in crate::sync) async fn compare_found(&self, audit: &mut Audit, found: FoundRecords) -> Result<(), SyncError> {
        match self.compare_records(audit, found).await {
            Err(SyncError::Store(StoreError::StaleLayout)) => Ok(()),
            other => other,
        }
    }

    /// Takes back versions that came older than the rows, for records that come so a second time, by id: a service that
    /// was restored from a backup, and not a replica that lags. Gives how many did not.
    pub(in crate::sync) async fn accept_older(&self, object: Object) -> Result<u64, SyncError> {
        let older = std::mem::take(&mut self.results().older[object as usize]);
        if older.is_empty() {
            return Ok(0);
        }
        let ids: Vec<RecordId> = older.keys().cloned().collect();
        let mut confirmation = Confirmation::of(object);
        self.confirm(object, &ids, &mut confirmation).await?;
        let mut left = older.len() as u64;
        for found in confirmation.found {
            let again: Vec<Record> = found
                .records
                .into_iter()
                .filter(|record| older.get(&record.id) == Some(&instant(object.resource(), record, "updatedAt")))
                .collect();
            let accepted = again.len() as u64;
            let (asked_at, layout) = (found.asked_at, found.layout);
            let applied = self.engine.store.write(move |tx| {
                tx.expect_layout(layout)?;
                tx.accept_older_versions();
                let phase = tx.phase(object)?;
                let mut noted = Noted::default();
                for record in &again {
                    noted.record(record, tx.apply_list(object, record, asked_at, phase)?);
                }
                Ok(noted.tally)
            });
            match applied.await {
                Ok(tally) => {
                    self.count(&tally);
                    left -= accepted;
                }
                Err(StoreError::StaleLayout) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(left)
    }
}
