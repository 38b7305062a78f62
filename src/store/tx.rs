//! One transaction on the mirror: a page's rows, its checkpoint and the ledger, all or nothing.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::Arc;

use rusqlite::{Transaction, params};

use super::error::{Doing, StoreError};
use super::pending::Pending;
use super::reader::ReadTx;
use super::shapes::Shapes;
use crate::model::catalogue::Resource;
use crate::model::custom::Layout;
use crate::model::instant::Instant;

/// An open transaction. Dropped without being committed, it never happened.
#[derive(Debug)]
pub struct MirrorTx<'a> {
    read: ReadTx<'a>,
    pub(in crate::store) shapes: Shapes,
    changes_before: u64,
    /// Whether this transaction writes versions that are older than the rows.
    pub(in crate::store) accepts_older: Cell<bool>,
    /// What is settled at its end.
    pub(in crate::store) pending: Pending,
}

impl<'a> Deref for MirrorTx<'a> {
    type Target = ReadTx<'a>;

    fn deref(&self) -> &ReadTx<'a> {
        &self.read
    }
}

impl<'a> MirrorTx<'a> {
    pub(in crate::store) fn new(conn: Transaction<'a>, shapes: Shapes) -> MirrorTx<'a> {
        MirrorTx {
            changes_before: conn.total_changes(),
            accepts_older: Cell::default(),
            pending: Pending::default(),
            read: ReadTx::new(conn),
            shapes,
        }
    }

    pub(in crate::store) fn commit(self) -> Result<Shapes, StoreError> {
        self.settle_search()?;
        self.settle_counts()?;
        self.settle_changed()?;
        self.drop_unreadable()?;
        self.read.conn.commit().doing("commit a page")?;
        Ok(self.shapes)
    }

    /// Lets this transaction write versions that are older than the rows: they came so twice, and are the truth.
    pub fn accept_older_versions(&self) {
        self.accepts_older.set(true);
    }

    /// Whether this transaction has written anything.
    pub fn has_written(&self) -> bool {
        self.conn.total_changes() != self.changes_before
    }

    /// The layout inside this transaction.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.shapes.layout
    }

    /// Refuses a page that was decoded with other columns than the tables have now.
    ///
    /// # Errors
    /// [`StoreError::StaleLayout`]: decode the page again.
    pub fn expect_layout(&self, version: u64) -> Result<(), StoreError> {
        if self.shapes.layout.version == version { Ok(()) } else { Err(StoreError::StaleLayout) }
    }

    /// Notes what the service did against its own document.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn note_oddity(&self, kind: &str, resource: Resource, what: &str, now: Instant) -> Result<(), StoreError> {
        self.conn
            .prepare_cached(
                "INSERT INTO service_oddities (kind, resource, what, first_seen_at, last_seen_at, times)
                 VALUES (?1, ?2, ?3, ?4, ?4, 1)
                 ON CONFLICT (kind, resource, what)
                 DO UPDATE SET times = times + 1, last_seen_at = excluded.last_seen_at",
            )
            .and_then(|mut stmt| stmt.execute(params![kind, resource.as_str(), what, now.to_string()]))
            .doing("note an oddity of the service")?;
        Ok(())
    }
}
