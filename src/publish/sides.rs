//! The two sides of a publish, and what is read from the mirror to be sent, to the database or as a stream: what changed
//! after a position, in one snapshot on a blocking thread.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::database::Database;
use super::row::{PgRow, PublishedRows};
use super::state::TargetState;
use super::tables::{Publication, PublishedTable};
use super::{PublishError, value};
use crate::model::{Object, SqlValue};
use crate::store::publishing::source::{PAGE, PAGE_BYTES, text_bytes};
use crate::store::{ChangedRecord, MirrorTx, Moment, Reader, SourceRow, StoreError, is_last_page, write_beside};

pub(super) struct Sides<'a> {
    pub(super) database: &'a Database,
    pub(super) mirror: &'a PublishedMirror,
    pub(super) publication: Arc<Publication>,
    pub(super) state: TargetState,
    /// What the database refuses, by table.
    pub(super) refused: Vec<(&'static str, PublishError)>,
    /// What could not follow, and what is kept only because something of a person needs it, one sentence each.
    pub(super) left_behind: Vec<String>,
}

impl Sides<'_> {
    /// Leaves out a table that the database refuses to bring to shape, or to have written; it is owed.
    pub(super) fn refuse(&mut self, table: &'static str, error: PublishError) {
        if Arc::make_mut(&mut self.publication).blocked.insert(table) {
            self.refused.push((table, error));
        }
        self.state.owed.insert(table.into());
    }

    /// Ends a transaction that failed. If the database refused to have rows of a table written, the others go on without it.
    pub(super) async fn go_on_without(&mut self, error: PublishError) -> Result<(), PublishError> {
        let error = self.database.give_up(error).await;
        match error.table() {
            Some(table) if error.is_refusal() => self.refuse(table, error),
            // A deferred constraint or trigger failed the commit.
            None if error.is_refusal() && self.database.check_at_once() => {}
            _ => return Err(error),
        }
        Ok(())
    }

    pub(super) fn converted(&self, table: &PublishedTable, rows: &[SourceRow]) -> Vec<PgRow> {
        let published = PublishedRows { table, publication: &self.publication, state: &self.state };
        rows.iter().map(|row| published.convert(row)).collect()
    }

    /// Reads the mirror in one snapshot, while its columns are those that are published.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Moment<'_>, &Publication, &TargetState) -> Result<T, PublishError> + Send + 'static,
    ) -> Result<T, PublishError> {
        let (publication, state) = (self.publication.clone(), self.state.clone());
        let read = move |moment: &Moment<'_>| {
            expect_layout(moment, publication.layout.version)?;
            read(moment, &publication, &state)
        };
        self.mirror.moment(read).await
    }
}

#[derive(Clone, Debug)]
pub(super) struct PublishedMirror {
    source: Arc<Mutex<Reader>>,
    path: PathBuf,
}

impl PublishedMirror {
    pub(super) async fn open(path: &Path) -> Result<PublishedMirror, PublishError> {
        let (path, opened) = (path.to_path_buf(), path.to_path_buf());
        let source = blocking(move || Reader::open(&opened)).await??;
        Ok(PublishedMirror { source: Arc::new(Mutex::new(source)), path })
    }

    pub(super) async fn moment<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Moment<'_>) -> Result<T, PublishError> + Send + 'static,
    ) -> Result<T, PublishError> {
        let source = self.source.clone();
        blocking(move || source.lock().unwrap_or_else(PoisonError::into_inner).moment(read)).await?
    }

    /// Writes to the mirror, concurrently with its writer.
    pub(super) async fn note<T: Send + 'static>(
        &self,
        write: impl FnOnce(&MirrorTx<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, PublishError> {
        let path = self.path.clone();
        Ok(blocking(move || write_beside(&path, write)).await??)
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| StoreError::Closed)
}

/// What changed after the position of a state.
pub(super) struct Unsent {
    pub(super) records: Vec<ChangedRecord>,
    pub(super) changes: BTreeMap<(Object, usize), ChangedRows>,
    pub(super) entries: Vec<SourceRow>,
    /// The number of the last entry that was read; `None` if there was none, or the feed is not published.
    pub(super) last: Option<i64>,
    /// Whether nothing is left to be read.
    pub(super) is_end: bool,
}

impl Unsent {
    pub(super) fn read(
        moment: &Moment<'_>,
        publication: &Publication,
        state: &TargetState,
    ) -> Result<Unsent, StoreError> {
        let (mut records, mut changes, mut bytes) = (Vec::new(), BTreeMap::new(), 0);
        let waiting = moment.changed_records(state.changed)?;
        let mut is_end = waiting.len() < PAGE;
        for record in waiting {
            if bytes >= PAGE_BYTES {
                is_end = false;
                break;
            }
            let (object, has_erased) = (record.object, record.erase > 0);
            let of_record = tables_of_record(object).into_iter().chain(has_erased.then_some(HISTORY_OF_RECORD));
            for (place, (name, key, of_both)) in of_record.enumerate() {
                // Records of a first copy are sent once it is finished: part of a table is not published as the table.
                let Some(table) = publication.table(name).filter(|_| state.loaded.contains(&object)) else { continue };
                let found = moment.of_records(&table.query(), key, of_both.then_some(object), &[&record.id])?;
                bytes += text_bytes(&found);
                let published = PublishedRows { table, publication, state };
                let change = changes.entry((object, place)).or_insert_with(|| ChangedRows {
                    table: table.name,
                    key,
                    object: of_both.then_some(object),
                    gone: Vec::new(),
                    rows: Vec::new(),
                });
                let before = change.rows.len();
                change.rows.extend(found.into_iter().filter(|row| published.keeps(row)));
                if of_both || change.rows.len() == before {
                    change.gone.push(record.id.clone());
                }
            }
            records.push(record);
        }
        let (mut entries, mut last) = (Vec::new(), None);
        if let Some(table) = publication.table("changes") {
            let page = moment.page(&table.query(), Some(&[SqlValue::Int(state.seq())]))?;
            is_end &= is_last_page(&page);
            last = page.last().and_then(|row| match row.get(table.place("seq")?) {
                Some(SqlValue::Int(last)) => Some(*last),
                _ => None,
            });
            let published = PublishedRows { table, publication, state };
            entries = page.into_iter().filter(|row| published.is_chosen(row)).collect();
        }
        Ok(Unsent { records, changes, entries, last, is_end })
    }
}

/// What changed of the records of an object in a table.
pub(super) struct ChangedRows {
    pub(super) table: &'static str,
    /// The column with the id of a record.
    pub(super) key: &'static str,
    /// The object, in a table with rows of both.
    pub(super) object: Option<Object>,
    /// The records whose rows are removed before `rows` are written: a record can have several, of which none may stay.
    pub(super) gone: Vec<String>,
    pub(super) rows: Vec<SourceRow>,
}

/// Fails if the columns of the mirror have changed since `layout`.
pub(super) fn expect_layout(moment: &Moment<'_>, layout: u64) -> Result<(), PublishError> {
    if moment.layout()? == layout { Ok(()) } else { Err(PublishError::Unsettled) }
}

/// The rows of a small table, with their digest.
pub(super) fn whole(moment: &Moment<'_>, table: &PublishedTable) -> Result<(Vec<SourceRow>, String), StoreError> {
    let query = table.query();
    let rows = moment.whole(&query)?;
    let digest = value::digest(format!("{:?} {rows:?}", query.columns).as_bytes());
    Ok((rows, digest))
}

/// The digest of what a table shows and changed records do not tell: the rows of a small table, the names of owners, or which
/// fields are multi-selects; `None` if there is nothing. The table is owed if it was loaded with another one.
pub(super) fn digest(
    moment: &Moment<'_>,
    publication: &Publication,
    table: &PublishedTable,
) -> Result<Option<String>, StoreError> {
    let shown = match table.name {
        _ if table.is_small() => return Ok(Some(whole(moment, table)?.1)),
        "custom_multi_values" => format!("{:?}", publication.multi_selects),
        _ if table.place("owner_name").is_some() => format!("{:?}", moment.owner_names()?),
        _ => return Ok(None),
    };
    Ok(Some(value::digest(shown.as_bytes())))
}

/// The tables with rows of a record, the column with its id, and whether they contain both objects.
const fn tables_of_record(object: Object) -> [(&'static str, &'static str, bool); 3] {
    [(object.table(), "id", false), ("custom_multi_values", "record_id", true), ("removed_records", "id", true)]
}

/// Of records whose history was erased once: it started again when they returned.
const HISTORY_OF_RECORD: (&str, &str, bool) = ("changes", "record_id", true);
