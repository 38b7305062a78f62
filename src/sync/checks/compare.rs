//! Compares records with their rows, records differences, and repairs them if requested. A record that is shown in an
//! earlier version, by an answer that does not decide about it, is no difference yet.

use std::collections::BTreeSet;

use hyper::body::Bytes;

use super::findings::{Difference, DifferenceKind, Findings};
use crate::api::decode;
use crate::model::{Instant, Layout, Object, RecordId, TimeRange};
use crate::store::{Applied, Compared};
use crate::sync::apply::{self, ApplyReport};
use crate::sync::checks::decide_missing::FoundRecords;
use crate::sync::error::SyncError;
use crate::sync::run_parts::Audits;

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
    /// Records that were shown in an earlier version, which nothing decided yet.
    pub(in crate::sync) older: BTreeSet<RecordId>,
    /// Ranges of records that share both timestamps and that it has met.
    pub(in crate::sync) ties: Vec<TimeRange>,
    /// By how many records the counts of ranges differ that are not listed again today.
    pub(in crate::sync) unlisted: u64,
}

impl Audit {
    pub(in crate::sync) fn new(object: Object, repair: bool, since: Option<Instant>) -> Audit {
        Audit {
            object,
            repair,
            since,
            findings: Findings::default(),
            found: BTreeSet::new(),
            unseen: BTreeSet::new(),
            older: BTreeSet::new(),
            ties: Vec::new(),
            unlisted: 0,
        }
    }
}

impl Audits<'_> {
    /// Compares records with their rows, and applies them if requested.
    pub(in crate::sync) async fn compare_records(
        &self,
        audit: &mut Audit,
        found: FoundRecords,
        body: Option<Bytes>,
    ) -> Result<(), SyncError> {
        let (object, repair, settings) = (audit.object, audit.repair, self.run.engine.settings);
        let details = self.run.engine.reads_details(object);
        let FoundRecords { records, asked, layout, answer, .. } = found;
        let rows = records.len() as u64;
        let compared = self.run.write(move |tx| {
            let decode = |layout: &Layout| Some(decode::page(object.resource(), &body?, layout).ok()?.records);
            let records = tx.with_current_layout(records, layout, decode)?;
            let phase = tx.phase(object)?;
            let mut noted = ApplyReport::default();
            let mut compared = Vec::with_capacity(records.len());
            if repair {
                tx.knowledge().answered(answer);
            }
            for record in records {
                let how = tx.records().compare_list(object, &record)?;
                let mut older = how.shows_older(answer);
                if repair && how == Compared::Same {
                    tx.knowledge().was_shown(object, record.id.as_str(), true)?;
                } else if repair {
                    let applied = tx.records().apply_list(object, &record, &asked, phase)?;
                    older = applied == Applied::Older;
                    noted.record(&record, applied);
                }
                compared.push((record.updated_at, record.id, how, older));
            }
            // The next changes walk reads the omitted values.
            apply::after_answer(tx, object, (details, settings.overlap))?;
            Ok((compared, noted.tally))
        });
        let (compared, tally) = compared.await?;
        self.run.count(&tally);
        audit.findings.compared += rows;
        for (updated_at, id, how, older) in compared {
            if older {
                audit.older.insert(id);
                continue;
            }
            audit.older.remove(&id);
            let news = matches!((updated_at, audit.since), (Some(updated), Some(since)) if updated >= since);
            let (kind, fields) = match how {
                Compared::Missing => (DifferenceKind::Missing, Vec::new()),
                Compared::Differs(fields) => (DifferenceKind::Different, fields),
                Compared::Same => continue,
            };
            if !news && audit.found.insert(id.clone()) {
                audit.findings.add(Difference { object, id, kind, fields });
            }
        }
        Ok(())
    }
}
