//! Applies decoded records to the mirror and counts the results.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use super::walks::anomaly::Anomaly;
use crate::api::decode::ListPage;
use crate::model::{Instant, Object, Record, RecordId, RequestStamp};
use crate::store::{Applied, MirrorTx, StoreError, Tally};

#[derive(Clone, Debug, Default)]
pub(super) struct ApplyReport {
    pub tally: Tally,
    /// Whether a record has a custom key for which the definitions have to be read.
    pub unknown_keys: bool,
    /// Whether a list omitted values that must be read by id.
    pub omitted: bool,
    /// Records that were received in an older version than the mirror has.
    pub older: BTreeSet<RecordId>,
}

impl ApplyReport {
    pub(super) fn record(&mut self, record: &Record, applied: Applied) {
        self.tally.rows += 1;
        self.tally.count(record, applied);
    }
}

pub(super) fn apply_page(
    tx: &MirrorTx<'_>,
    object: Object,
    page: &ListPage,
    asked: &RequestStamp,
    now: Instant,
) -> Result<ApplyReport, StoreError> {
    let mut noted = ApplyReport::default();
    let mut new_rows = (!tx.is_copied(object)?).then(|| tx.records().new_rows(object, asked));
    let mut ids = HashSet::with_capacity(page.records.len());
    for record in &page.records {
        if !ids.insert(&record.id) {
            noted.tally.warnings += 1;
            Anomaly::DuplicateId.enter(tx, object.resource(), now)?;
            // The answer that shows the newer copy is as new as that: it must not decide for the older one.
            if page.records.iter().any(|other| other.id == record.id && other.updated_at > record.updated_at) {
                continue;
            }
        }
        let inserted = new_rows.as_mut().map_or(Ok(false), |rows| rows.insert(record))?;
        let applied = match inserted {
            true => Applied::Inserted,
            false => tx.records().apply_list(object, record, asked)?,
        };
        noted.record(record, applied);
        if applied == Applied::Older {
            noted.older.insert(record.id.clone());
        }
    }
    if page.unusable > 0 {
        noted.tally.warnings += u64::from(page.unusable);
        Anomaly::UnusableItem.enter(tx, object.resource(), now)?;
    }
    let unknown = page.records.iter().flat_map(|record| &record.unknown_keys);
    noted.unknown_keys = tx.unread().mark_unknown_keys(object, unknown)?;
    Ok(noted)
}

/// Ends the transaction that applied an answer: notes the values that it omitted, and has the next changes walk begin where
/// an earlier version was accepted, so that what was accepted wrongly comes forward again. An answer that was as new as the
/// record can only be wrong by as much as clocks of app servers differ. Returns whether omitted values must be read by id.
pub(super) fn after_answer(
    tx: &MirrorTx<'_>,
    object: Object,
    (details, overlap): (bool, Duration),
) -> Result<bool, StoreError> {
    if let Some((accepted, was_as_new)) = tx.knowledge().take_accepted_older(object) {
        let watermark = tx.known_changes(object)?.watermark.filter(|_| was_as_new);
        let lowest = watermark.map_or(Instant::MIN, |watermark| watermark.minus(overlap));
        // A walk may pass over a second that many records share.
        tx.claims().doubt_changes(object, accepted.max(lowest).minus(Duration::from_secs(1)))?;
    }
    tx.knowledge().forget_old_doubts(object)?;
    let omitted = tx.unread().take_omitted(object);
    tx.unread().mark_unread(object, &omitted)?;
    if details {
        // The detail of another version is due anyway. One of the version that the list shows says nothing of the value: it
        // changed without a new etag, or a version in between has written it. So it is read once more.
        tx.knowledge().make_current_details_due(object, &omitted)?;
    }
    Ok(!details && !omitted.is_empty())
}
