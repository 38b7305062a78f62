//! What is read from the mirror to be sent, to the database or as a stream: pages of whole tables, and what changed after a
//! position, each in one snapshot.

use std::collections::BTreeMap;

use super::error::PublishError;
use super::state::TargetState;
use super::tables::{Publication, PublishedTable};
use super::value;
use crate::model::Object;
use crate::model::field_value::SqlValue;
use crate::store::StoreError;
use crate::store::publishing::source::{ChangedRecord, Moment, SourceRow};

/// The number of rows of one page, and the maximum number of records and of feed entries in one batch.
pub(super) const PAGE: usize = 1_000;

/// The rows of small tables, each with a digest.
pub(super) type SmallTables = BTreeMap<&'static str, (Vec<SourceRow>, String)>;

pub(super) struct Unsent {
    pub(super) records: Vec<ChangedRecord>,
    /// The rows of those records that are published.
    rows: BTreeMap<(&'static str, Object), Vec<SourceRow>>,
    pub(super) entries: Vec<SourceRow>,
    /// The entries up to the position of records whose history was erased once: it began anew when they returned.
    pub(super) after_erasure: Vec<SourceRow>,
    /// The number of the last entry that was read; `None` if there was none, or the feed is not published.
    pub(super) last: Option<i64>,
    pub(super) is_end: bool,
    pub(super) small: SmallTables,
}

impl Unsent {
    pub(super) fn read(
        moment: &Moment<'_>,
        publication: &Publication,
        state: &TargetState,
        (changed, seq): (i64, i64),
    ) -> Result<Unsent, PublishError> {
        expect_layout(moment, publication.layout)?;
        let records = moment.changed_records(changed, PAGE as u32)?;
        let mut rows = BTreeMap::new();
        for object in &publication.objects {
            let ids: Vec<&str> =
                records.iter().filter(|record| record.object == *object).map(|record| record.id.as_str()).collect();
            for (name, key, of_object) in tables_of_record(*object) {
                if let Some(table) = publication.table(name).filter(|_| !ids.is_empty()) {
                    let found = moment.of_records(&table.query(), key, of_object.then_some(*object), &ids)?;
                    let filter = RowFilter::new(table, publication, state);
                    let found = found.into_iter().filter(|row| filter.is_chosen(row));
                    rows.insert((table.name, *object), found.collect());
                }
            }
        }
        let (mut entries, mut after_erasure, mut last, mut is_end) = (Vec::new(), Vec::new(), None, true);
        if let Some(table) = publication.table("changes") {
            let page = moment.page(&table.query(), Some(&[SqlValue::Int(seq)]), PAGE as u32)?;
            is_end = page.len() < PAGE;
            last = page.last().and_then(|row| match row.get(table.place("seq")?) {
                Some(SqlValue::Int(last)) => Some(*last),
                _ => None,
            });
            let filter = RowFilter::new(table, publication, state);
            entries = page.into_iter().filter(|row| filter.is_chosen(row)).collect();
            for object in &publication.objects {
                let erased = records.iter().filter(|record| record.object == *object && record.erase > 0);
                let ids: Vec<&str> = erased.map(|record| record.id.as_str()).collect();
                if ids.is_empty() {
                    continue;
                }
                let is_known = |row: &SourceRow| {
                    table.place("seq").is_some_and(|place| matches!(row[place], SqlValue::Int(of) if of <= seq))
                };
                let known = moment.of_records(&table.query(), "record_id", Some(*object), &ids)?;
                after_erasure.extend(known.into_iter().filter(|row| filter.is_chosen(row) && is_known(row)));
            }
        }
        Ok(Unsent { records, rows, entries, after_erasure, last, is_end, small: small(moment, publication)? })
    }

    pub(super) fn rows_of(&self, table: &PublishedTable, object: Object) -> &[SourceRow] {
        self.rows.get(&(table.name, object)).map_or(&[], Vec::as_slice)
    }
}

/// Fails if the columns of the mirror have changed since `layout`.
pub(super) fn expect_layout(moment: &Moment<'_>, layout: u64) -> Result<(), PublishError> {
    if moment.layout()? == layout { Ok(()) } else { Err(PublishError::Unsettled) }
}

pub(super) fn small(moment: &Moment<'_>, publication: &Publication) -> Result<SmallTables, StoreError> {
    let mut out = BTreeMap::new();
    for table in publication.open_tables().filter(|table| table.is_small()) {
        let query = table.query();
        let rows = moment.page(&query, None, u32::MAX)?;
        let digest = value::digest(format!("{:?} {rows:?}", query.columns).as_bytes());
        out.insert(table.name, (rows, digest));
    }
    Ok(out)
}

/// The tables with rows of a record, the column with its id, and whether they contain both objects.
pub(super) const fn tables_of_record(object: Object) -> [(&'static str, &'static str, bool); 3] {
    [(object.table(), "id", false), ("custom_multi_values", "record_id", true), ("removed_records", "id", true)]
}

pub(super) struct RowFilter<'a> {
    object_type: Option<usize>,
    field_key: Option<usize>,
    seq: Option<usize>,
    newest: i64,
    loaded: &'a [Object],
    publication: &'a Publication,
}

impl<'a> RowFilter<'a> {
    pub(super) fn new(table: &PublishedTable, publication: &'a Publication, state: &'a TargetState) -> RowFilter<'a> {
        RowFilter {
            object_type: table.place("object_type").filter(|_| !table.is_small()),
            field_key: table.place("field_key"),
            seq: table.place("seq"),
            newest: state.seq(),
            loaded: &state.details.loaded,
            publication,
        }
    }

    /// Whether a row of the feed is after the cursor.
    pub(super) fn is_beyond(&self, row: &SourceRow) -> bool {
        matches!(self.seq.map(|place| &row[place]), Some(SqlValue::Int(seq)) if *seq > self.newest)
    }

    pub(super) fn keeps(&self, row: &SourceRow) -> bool {
        !self.is_beyond(row) && self.is_chosen(row)
    }

    /// Whether a row belongs to an object, and to a field, that is published.
    pub(super) fn is_chosen(&self, row: &SourceRow) -> bool {
        let Some(place) = self.object_type else { return true };
        let Some(object) = row[place].as_text().and_then(|object| object.parse::<Object>().ok()) else { return false };
        let multi_selects = &self.publication.multi_selects;
        let of_field = self.field_key.is_none_or(|place| {
            multi_selects.iter().any(|(of, key)| *of == object && Some(key.as_str()) == row[place].as_text())
        });
        self.loaded.contains(&object) && of_field
    }

    /// The key after which the next page begins; `None` after the last one.
    pub(super) fn next(&self, table: &PublishedTable, page: &[SourceRow]) -> Option<Vec<SqlValue>> {
        let last = page.last().filter(|last| page.len() == PAGE && !self.is_beyond(last))?;
        Some(table.key_of(last))
    }
}
