//! Applies decoded records to the mirror and counts the results.

use super::walks::unknown_keys;
use crate::api::decode::ListPage;
use crate::model::field_value::{FieldValue, SqlValue};
use crate::model::{Instant, Object, Record, RecordId, RequestStamp, Resource};
use crate::store::{Applied, MirrorTx, Phase, StoreError, Tally};

/// The results of applying records.
#[derive(Clone, Debug, Default)]
pub(super) struct Noted {
    /// Rows and changes.
    pub tally: Tally,
    /// The number of anomalies.
    pub anomalies: u64,
    /// Whether a record has a custom key for which the definitions have to be read.
    pub unknown_keys: bool,
    /// Whether a list omitted values that must be read by id.
    pub omitted: bool,
    /// Records that were received in an older version than the mirror has, with that version.
    pub older: Vec<(RecordId, Option<Instant>)>,
}

impl Noted {
    /// Counts a record that was applied.
    pub(super) fn record(&mut self, record: &Record, applied: Applied) {
        self.tally.rows += 1;
        match applied {
            Applied::Inserted => self.tally.inserted += 1,
            Applied::Updated => self.tally.updated += 1,
            Applied::Unchanged | Applied::Older => {}
        }
        // Reported once, when the record is written, and not each time it is read again.
        if matches!(applied, Applied::Inserted | Applied::Updated) {
            self.tally.warnings += u64::from(record.inexact);
        }
    }
}

/// Applies a page of a list.
pub(super) fn apply_page(
    tx: &MirrorTx<'_>,
    object: Object,
    page: &ListPage,
    asked: &RequestStamp,
    phase: Phase,
    now: Instant,
) -> Result<Noted, StoreError> {
    let mut noted = Noted::default();
    let mut ids = std::collections::HashSet::with_capacity(page.records.len());
    for record in &page.records {
        if !ids.insert(&record.id) {
            noted.anomalies += 1;
            tx.note_anomaly("duplicate_id", object.resource(), "a page contained the same record twice", now)?;
        }
        let applied = tx.apply_list(object, record, asked, phase)?;
        noted.record(record, applied);
        if applied == Applied::Older {
            noted.older.push((record.id.clone(), instant(object.resource(), record, "updatedAt")));
        }
    }
    if page.unusable > 0 {
        noted.anomalies += u64::from(page.unusable);
        let what = "an item without an `id` cannot be mirrored";
        tx.note_anomaly("unusable_item", object.resource(), what, now)?;
    }
    noted.unknown_keys = unknown_keys::note(tx, object, &page.records)?;
    Ok(noted)
}

/// A record's timestamp in full precision: if the column holds it truncated, `extra` has it verbatim.
pub(super) fn instant(resource: Resource, record: &Record, wire: &str) -> Option<Instant> {
    let index = resource.fields().iter().position(|field| field.wire == wire)?;
    match &record.fields[index] {
        FieldValue::Truncated(_) => {
            let source = record.extra.fields.get(wire)?;
            serde_json::from_str::<String>(source).ok()?.parse().ok()
        }
        FieldValue::Exact(SqlValue::Text(text)) => text.parse().ok(),
        _ => None,
    }
}
