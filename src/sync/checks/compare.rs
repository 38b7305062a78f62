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
use crate::sync::run::Run;

/// The comparison of an object in a run.
pub(in crate::sync) struct Audit<'r> {
    pub(super) run: &'r Run<'r>,
    pub(super) object: Object,
    /// Whether differences are repaired, or only reported.
    pub(super) repair: bool,
    /// The service's clock at the beginning: what the service changed after that does not count as a difference.
    pub(super) since: Option<Instant>,
    pub(in crate::sync) findings: Findings,
    /// Records that differed. A list that is read again finds them again.
    pub(super) found: BTreeSet<RecordId>,
    /// Records of the mirror that were not in the service's lists.
    pub(super) unseen: BTreeSet<RecordId>,
    /// Records that were shown in an earlier version, which nothing decided yet.
    pub(super) older: BTreeSet<RecordId>,
    /// Ranges of records that share both timestamps and that it has met.
    pub(super) ties: Vec<TimeRange>,
    /// By how many records the counts of ranges differ that are not listed again today.
    pub(super) unlisted: u64,
}

impl<'r> Audit<'r> {
    /// One that repairs what differs.
    pub(in crate::sync) fn new(run: &'r Run<'r>, object: Object) -> Audit<'r> {
        Audit {
            run,
            object,
            repair: true,
            since: None,
            findings: Findings::default(),
            found: BTreeSet::new(),
            unseen: BTreeSet::new(),
            older: BTreeSet::new(),
            ties: Vec::new(),
            unlisted: 0,
        }
    }

    /// Compares records with their rows, and applies them if requested.
    pub(in crate::sync) async fn compare_records(
        &mut self,
        found: FoundRecords,
        body: Option<Bytes>,
    ) -> Result<(), SyncError> {
        let (object, repair, settings) = (self.object, self.repair, self.run.engine.settings);
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
        self.findings.compared += rows;
        for (updated_at, id, how, older) in compared {
            if older {
                self.older.insert(id);
                continue;
            }
            self.older.remove(&id);
            let news = matches!((updated_at, self.since), (Some(updated), Some(since)) if updated >= since);
            let (kind, fields) = match how {
                Compared::Missing => (DifferenceKind::Missing, Vec::new()),
                Compared::Differs(fields) => (DifferenceKind::Different, fields),
                Compared::Same => continue,
            };
            if !news && self.found.insert(id.clone()) {
                self.findings.add(Difference { object, id, kind, fields });
            }
        }
        Ok(())
    }
}
