//! The two sides of a publish, and access to the mirror on blocking threads.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::database::Database;
use super::error::PublishError;
use super::reading::{PAGE, expect_layout};
use super::row::{Converter, PgRow};
use super::state::TargetState;
use super::tables::{Publication, PublishedTable};
use crate::model::catalogue::Object;
use crate::model::field_value::SqlValue;
use crate::store::publishing::queue::Requeue;
use crate::store::publishing::source::{Moment, PageQuery, SourceRow};
use crate::store::{MirrorTx, Reader, StoreError, write_beside};

/// The maximum number of records that are entered again in one transaction; it bounds how long the mirror's writer
/// waits.
const REQUEUED: usize = 2_000;

pub(super) struct Sides<'a> {
    pub(super) database: &'a Database,
    pub(super) mirror: &'a PublishedMirror,
    pub(super) publication: Arc<Publication>,
    pub(super) state: TargetState,
}

impl Sides<'_> {
    /// Leaves out the tables that the database refuses to bring to shape; they are owed.
    pub(super) fn block(&mut self, refused: &[(&'static str, PublishError)]) {
        let blocked = &mut Arc::make_mut(&mut self.publication).blocked;
        blocked.extend(refused.iter().map(|(table, _)| *table));
        self.state.details.owed.extend(blocked.iter().map(ToString::to_string));
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
            moment.page(&query, after.as_deref(), PAGE as u32).map_err(PublishError::from)
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
