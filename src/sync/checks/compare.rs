//! Compares records with their rows, records differences, and repairs them if requested.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::findings::{Difference, DifferenceKind, Findings};
use crate::api::decode;
use crate::model::{Instant, Layout, Object, Record, RecordId, TimeRange};
use crate::store::{Applied, Compared, StoreError};
use crate::sync::apply::{Noted, instant};
use crate::sync::checkpoints::Sweep;
use crate::sync::error::SyncError;
use crate::sync::run::Run;
use crate::sync::walks::lookup::{Confirmation, FoundRecords};
use crate::sync::walks::omitted_values;

/// A comparison in progress.
pub(in crate::sync) struct Audit {
    pub(in crate::sync) object: Object,
    /// Whether differences are repaired, or only reported.
    pub(in crate::sync) repair: bool,
    /// The service's clock at the beginning: what the service changed after that does not count as a difference.
    pub(in crate::sync) since: Option<Instant>,
    pub(in crate::sync) findings: Findings,
    /// Records that differed. A list that is read again finds them again.
    found: BTreeSet<RecordId>,
    /// Records of the mirror that were not in the service's lists.
    pub(in crate::sync) unseen: BTreeSet<RecordId>,
    /// Ranges of records that share both timestamps and that it has met.
    pub(in crate::sync) ties: Vec<TimeRange>,
    /// By how many records the counts of ranges differ that are not listed again today.
    pub(in crate::sync) unlisted: u64,
}

impl Audit {
    /// A comparison without findings.
    pub(in crate::sync) fn new(object: Object, repair: bool, since: Option<Instant>) -> Audit {
        Audit {
            object,
            repair,
            since,
            findings: Findings::default(),
            found: BTreeSet::new(),
            unseen: BTreeSet::new(),
            ties: Vec::new(),
            unlisted: 0,
        }
    }
}

impl Run<'_> {
    /// Compares records with their rows, and applies them if requested.
    pub(in crate::sync) async fn compare_records(
        &self,
        audit: &mut Audit,
        found: FoundRecords,
        body: Option<Bytes>,
    ) -> Result<(), SyncError> {
        let (object, repair, details) = (audit.object, audit.repair, self.engine.settings.details);
        let FoundRecords { records, asked, layout, .. } = found;
        let rows = records.len() as u64;
        let compared = self.engine.store.write(move |tx| {
            let decode = |layout: &Layout| Some(decode::page(object.resource(), &body?, layout).ok()?.records);
            let records = tx.with_current_layout(records, layout, decode)?;
            let phase = tx.phase(object)?;
            let mut noted = Noted::default();
            let mut compared = Vec::with_capacity(records.len());
            for record in records {
                let how = tx.compare_list(object, &record)?;
                let mut older = false;
                if repair && how != Compared::Same {
                    let applied = tx.apply_list(object, &record, &asked, phase)?;
                    older = applied == Applied::Older;
                    noted.record(&record, applied);
                }
                compared.push((instant(object.resource(), &record, "updatedAt"), record.id, how, older));
            }
            // The next changes walk reads the omitted values.
            omitted_values::note(tx, object, details)?;
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
            if !news && audit.found.insert(id.clone()) {
                audit.findings.add(Difference { object, id, kind, fields });
            }
        }
        Ok(())
    }

    /// Like [`Run::compare_records`], for records that were looked up by id. If the columns have changed since they
    /// were decoded, the next run compares them; here it matters only that they exist.
    pub(in crate::sync) async fn compare_found(&self, audit: &mut Audit, found: FoundRecords) -> Result<(), SyncError> {
        match self.compare_records(audit, found, None).await {
            Err(SyncError::Store(StoreError::StaleLayout)) => Ok(()),
            other => other,
        }
    }

    /// Accepts versions that are older than the rows, if a second lookup by id returns them too: then the service was
    /// restored from a backup, and it is not a lagging replica. Returns how many were not confirmed. What a sweep in
    /// progress has received is stored with it, and so is the result.
    pub(in crate::sync) async fn accept_older(&self, object: Object) -> Result<u64, SyncError> {
        let mut older = std::mem::take(&mut self.results().older[object as usize]);
        let of_sweep =
            self.engine.store.read(move |tx| Ok(Sweep::load(tx, object)?.map(|sweep| sweep.older).unwrap_or_default()));
        older.extend(of_sweep.await?);
        if older.is_empty() {
            return Ok(0);
        }
        let ids: Vec<RecordId> = older.keys().cloned().collect();
        let mut confirmation = Confirmation::of(object);
        self.confirm(object, &ids, &mut confirmation).await;
        for found in confirmation.found {
            let again: Vec<Record> = found
                .records
                .into_iter()
                .filter(|record| older.get(&record.id) == Some(&instant(object.resource(), record, "updatedAt")))
                .collect();
            let (asked, layout, details) = (found.asked, found.layout, self.engine.settings.details);
            let applied = self.engine.store.write(move |tx| {
                tx.expect_layout(layout)?;
                tx.accept_older_versions();
                let phase = tx.phase(object)?;
                let mut noted = Noted::default();
                for record in &again {
                    noted.record(record, tx.apply_list(object, record, &asked, phase)?);
                }
                omitted_values::note(tx, object, details)?;
                let accepted: Vec<RecordId> = again.into_iter().map(|record| record.id).collect();
                Sweep::change(tx, object, |sweep| accepted.iter().for_each(|id| _ = sweep.older.remove(id)))?;
                Ok((noted.tally, accepted))
            });
            match applied.await {
                Ok((tally, accepted)) => {
                    self.count(&tally);
                    // The witness, which is in each answer, may be one of them.
                    accepted.iter().for_each(|id| _ = older.remove(id));
                }
                Err(StoreError::StaleLayout) => {}
                Err(error) => return Err(error.into()),
            }
        }
        confirmation.ended?;
        let unconfirmed = older.len() as u64;
        let looked_up = self.engine.store.write(move |tx| {
            Sweep::change(tx, object, |sweep| {
                let all = sweep.older.len();
                // Meanwhile, other slices of the sweep may have received more.
                sweep.older.retain(|id, _| !older.contains_key(id));
                sweep.unconfirmed += (all - sweep.older.len()) as u64;
            })
        });
        looked_up.await?;
        Ok(unconfirmed)
    }
}
