//! The two sides of a publish, and what is read from the mirror to be sent, to the database or as a stream: pages of whole
//! tables, and what changed after a position, each in one snapshot on a blocking thread.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::database::Database;
use super::row::{Converter, PgRow};
use super::state::TargetState;
use super::tables::{Publication, PublishedTable};
use super::{PublishError, sql, value};
use crate::model::{Object, SqlValue};
use crate::store::publishing::source::{PAGE, PAGE_BYTES, text_bytes};
use crate::store::{
    ChangedRecord, MirrorTx, Moment, PageQuery, Reader, Requeue, SourceRow, StoreError, is_last_page, write_beside,
};

/// The maximum number of records that are entered again in one transaction; it bounds how long the mirror's writer
/// waits.
const REQUEUED: usize = 2_000;

pub(super) struct Sides<'a> {
    pub(super) database: &'a Database,
    pub(super) mirror: &'a PublishedMirror,
    pub(super) publication: Arc<Publication>,
    pub(super) state: TargetState,
    /// What the database refused while rows were sent, by table.
    pub(super) refused: Vec<(&'static str, PublishError)>,
}

impl Sides<'_> {
    /// Leaves out the tables that the database refuses to bring to shape, or to have written; they are owed.
    pub(super) fn block<'t>(&mut self, refused: impl IntoIterator<Item = &'t &'static str>) {
        let blocked = &mut Arc::make_mut(&mut self.publication).blocked;
        blocked.extend(refused);
        self.state.details.owed.extend(blocked.iter().map(ToString::to_string));
    }

    /// After the database refused to have rows of a table written: the others go on without it. Returns any other error.
    pub(super) async fn go_on_without(&mut self, error: PublishError) -> Result<(), PublishError> {
        let Some(table) = error.table().filter(|_| error.is_refusal()) else { return Err(error) };
        self.database.roll_back().await?;
        if !self.publication.blocked.contains(table) {
            self.refused.push((table, error));
            self.block(&[table]);
        }
        Ok(())
    }

    /// Removes the rows of a table that is not published.
    pub(super) async fn empty(&self, table: &'static str) -> Result<(), PublishError> {
        self.database.forget_refused(table).await?;
        let statement = format!("DELETE FROM {}", sql::qualified(&self.database.schema, table));
        self.database.write_whole("empty a table", &statement, (table, "rows that are not published"), Vec::new()).await
    }

    pub(super) fn converter<'s>(&'s self, table: &'s PublishedTable) -> Converter<'s> {
        Converter::of(&self.publication, table)
    }

    pub(super) fn converted(&self, table: &PublishedTable, rows: &[SourceRow]) -> Vec<PgRow> {
        let converter = self.converter(table);
        rows.iter().map(|row| converter.convert(row)).collect()
    }
}

#[derive(Clone, Debug)]
pub(super) struct PublishedMirror {
    source: Arc<Mutex<Reader>>,
    path: PathBuf,
}

impl PublishedMirror {
    pub(super) async fn open(path: &Path) -> Result<PublishedMirror, PublishError> {
        let path = path.to_path_buf();
        let opened = path.clone();
        let source = blocking(move || Reader::open(&opened)).await??;
        Ok(PublishedMirror { source: Arc::new(Mutex::new(source)), path })
    }

    pub(super) async fn moment<T, E, F>(&self, read: F) -> Result<T, PublishError>
    where
        T: Send + 'static,
        E: From<StoreError> + Into<PublishError> + Send + 'static,
        F: FnOnce(&Moment<'_>) -> Result<T, E> + Send + 'static,
    {
        let source = self.source.clone();
        let found = blocking(move || source.lock().unwrap_or_else(PoisonError::into_inner).moment(read)).await?;
        found.map_err(Into::into)
    }

    /// A page of a table after a key, while the columns of the mirror are those of `layout`.
    pub(super) async fn page(
        &self,
        query: &PageQuery,
        layout: u64,
        after: Option<Vec<SqlValue>>,
    ) -> Result<Vec<SourceRow>, PublishError> {
        let query = query.clone();
        self.moment(move |moment| {
            expect_layout(moment, layout)?;
            moment.page(&query, &[], after.as_deref()).map_err(PublishError::from)
        })
        .await
    }

    /// Writes to the mirror, concurrently with its writer.
    pub(super) async fn note<T, F>(&self, write: F) -> Result<T, PublishError>
    where
        T: Send + 'static,
        F: FnOnce(&MirrorTx<'_>) -> Result<T, StoreError> + Send + 'static,
    {
        let path = self.path.clone();
        Ok(blocking(move || write_beside(&path, write)).await??)
    }

    pub(super) async fn requeue(&self, object: Object, which: &Requeue) -> Result<(), PublishError> {
        let mut after = Some(String::new());
        while let Some(from) = after.take() {
            let which = which.clone();
            after = self.note(move |tx| tx.feed().requeue(object, &which, &from, REQUEUED)).await?;
        }
        Ok(())
    }
}

pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| StoreError::Closed)
}

/// The rows of small tables, each with a digest.
pub(super) type SmallTables = BTreeMap<&'static str, (Vec<SourceRow>, String)>;

pub(super) struct Unsent {
    pub(super) records: Vec<ChangedRecord>,
    /// By table. Of the feed, the entries of records whose history was erased once: it started again when they returned.
    rows: BTreeMap<(&'static str, Object), Vec<SourceRow>>,
    pub(super) entries: Vec<SourceRow>,
    /// The number of the last entry that was read; `None` if there was none, or the feed is not published.
    pub(super) last: Option<i64>,
    /// Whether nothing is left to be read.
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
        let (mut records, mut rows, mut bytes) = (Vec::new(), BTreeMap::new(), 0);
        let waiting = moment.changed_records(changed)?;
        let mut is_end = waiting.len() < PAGE;
        for record in waiting {
            if bytes >= PAGE_BYTES {
                is_end = false;
                break;
            }
            let (object, has_erased) = (record.object, record.erase > 0);
            // Records of a first copy are sent once it is finished: part of a table is not published as the table.
            let is_loaded = state.details.loaded.contains(&object);
            let of_record = tables_of_record(object).into_iter().chain(has_erased.then_some(HISTORY_OF_RECORD));
            for (name, key, of_object) in of_record.filter(|_| is_loaded) {
                let Some(table) = publication.table(name) else { continue };
                let found = moment.of_records(&table.query(), key, of_object.then_some(object), &[&record.id])?;
                bytes += text_bytes(&found);
                let filter = RowFilter::new(table, publication, state);
                let kept = found.into_iter().filter(|row| filter.keeps(row));
                rows.entry((table.name, object)).or_insert_with(Vec::new).extend(kept);
            }
            records.push(record);
        }
        let (mut entries, mut last) = (Vec::new(), None);
        if let Some(table) = publication.table("changes") {
            let page = moment.page(&table.query(), &[], Some(&[SqlValue::Int(seq)]))?;
            is_end &= is_last_page(&page);
            last = page.last().and_then(|row| match row.get(table.place("seq")?) {
                Some(SqlValue::Int(last)) => Some(*last),
                _ => None,
            });
            let filter = RowFilter::new(table, publication, state);
            entries = page.into_iter().filter(|row| filter.is_chosen(row)).collect();
        }
        Ok(Unsent { records, rows, entries, last, is_end, small: small(moment, publication)? })
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
        let rows = moment.whole(&query)?;
        let digest = value::digest(format!("{:?} {rows:?}", query.columns).as_bytes());
        out.insert(table.name, (rows, digest));
    }
    Ok(out)
}

/// The tables with rows of a record, the column with its id, and whether they contain both objects.
pub(super) const fn tables_of_record(object: Object) -> [(&'static str, &'static str, bool); 3] {
    [(object.table(), "id", false), ("custom_multi_values", "record_id", true), ("removed_records", "id", true)]
}

const HISTORY_OF_RECORD: (&str, &str, bool) = ("changes", "record_id", true);

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
        let last = page.last().filter(|last| !is_last_page(page) && !self.is_beyond(last))?;
        Some(table.key_of(last))
    }
}
