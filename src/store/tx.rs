//! One transaction on the mirror: a page's rows, its checkpoint and the ledger, all or nothing.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rusqlite::{OptionalExtension, Transaction, params};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::model::catalogue::{Object, Resource};
use crate::model::custom::Layout;
use crate::model::instant::Instant;
use crate::store::derived::document::Document;
use crate::store::error::{Doing, StoreError};
use crate::store::records::counts::Stands;
use crate::store::records::shape::Shape;

/// The shapes of the record tables under one layout.
#[derive(Debug, Clone)]
pub struct Shapes {
    /// The layout that these follow from.
    pub layout: Arc<Layout>,
    list: [Arc<Shape>; 2],
    detail: [Arc<Shape>; 2],
    team: Arc<Shape>,
    definitions: Arc<Shape>,
    documents: [Arc<Document>; 2],
}

impl Shapes {
    /// The shapes that follow from a layout.
    pub fn new(layout: Arc<Layout>) -> Shapes {
        Shapes {
            list: Object::ALL.map(|object| Arc::new(Shape::list(object, layout.of(object)))),
            detail: Object::ALL.map(|object| Arc::new(Shape::detail(object, layout.of(object)))),
            team: Arc::new(Shape::plain(Resource::TeamMembers)),
            definitions: Arc::new(Shape::plain(Resource::CustomFields)),
            documents: Object::ALL.map(|object| Arc::new(Document::new(object, layout.of(object)))),
            layout,
        }
    }

    /// The table of an object's list items.
    pub fn list(&self, object: Object) -> Arc<Shape> {
        self.list[object as usize].clone()
    }

    /// The table of an object's details.
    pub fn detail(&self, object: Object) -> Arc<Shape> {
        self.detail[object as usize].clone()
    }

    /// The table of team members.
    pub fn team(&self) -> Arc<Shape> {
        self.team.clone()
    }

    /// The table of definitions.
    pub fn definitions(&self) -> Arc<Shape> {
        self.definitions.clone()
    }

    /// What full-text search holds of an object's records.
    pub fn document(&self, object: Object) -> Arc<Document> {
        self.documents[object as usize].clone()
    }
}

/// An open transaction. Dropped without being committed, it never happened.
#[derive(Debug)]
pub struct MirrorTx<'a> {
    pub(in crate::store) conn: Transaction<'a>,
    pub(in crate::store) shapes: Shapes,
    changes_before: u64,
    /// Objects whose details may be due since this transaction wrote a row.
    pub(in crate::store) unsettled: [Cell<bool>; 2],
    /// Records whose texts this transaction changed: their documents are written at its end.
    pub(in crate::store) stale: RefCell<BTreeSet<(Object, String)>>,
    /// How the records stood that this transaction wrote.
    pub(in crate::store) stood: RefCell<[BTreeMap<String, Stands>; 2]>,
    /// Records that this transaction changed: entered into `unpublished` at its end.
    pub(in crate::store) unpublished: RefCell<BTreeSet<(Object, String)>>,
    /// New records that are counted without having been looked up.
    pub(in crate::store) new: [Cell<u64>; 2],
}

impl<'a> MirrorTx<'a> {
    pub(in crate::store) fn new(conn: Transaction<'a>, shapes: Shapes) -> MirrorTx<'a> {
        MirrorTx {
            changes_before: conn.total_changes(),
            unsettled: Default::default(),
            stale: RefCell::default(),
            stood: RefCell::default(),
            unpublished: RefCell::default(),
            new: Default::default(),
            conn,
            shapes,
        }
    }

    pub(in crate::store) fn commit(self) -> Result<Shapes, StoreError> {
        self.settle_search()?;
        self.settle_held()?;
        self.settle_unpublished()?;
        self.conn.commit().doing("commit a page")?;
        Ok(self.shapes)
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

    /// Reads an entry of the program's own state.
    ///
    /// # Errors
    /// [`StoreError::State`] if it is there and cannot be understood.
    pub fn state<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, StoreError> {
        read_state(&self.conn, name)
    }

    /// Writes an entry of the program's own state, if it changed.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn set_state<T: Serialize>(&self, name: &str, value: &T) -> Result<(), StoreError> {
        let text = serde_json::to_string(value).map_err(|source| StoreError::State { name: name.into(), source })?;
        self.conn
            .prepare_cached(
                "INSERT INTO state (name, value) VALUES (?1, ?2)
                 ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE value IS NOT excluded.value",
            )
            .and_then(|mut stmt| stmt.execute(params![name, text]))
            .doing("write the program's state")?;
        Ok(())
    }

    /// Reads the entries whose names begin with `prefix`, in order of their names.
    ///
    /// # Errors
    /// [`StoreError::State`] if one cannot be understood.
    pub fn states<T: DeserializeOwned>(&self, prefix: &str) -> Result<Vec<(String, T)>, StoreError> {
        let doing = "read the program's state";
        let mut stmt = self
            .conn
            .prepare_cached("SELECT name, value FROM state WHERE substr(name, 1, length(?1)) = ?1 ORDER BY name")
            .doing(doing)?;
        let entries: Vec<(String, String)> =
            stmt.query_map([prefix], |row| Ok((row.get(0)?, row.get(1)?))).and_then(Iterator::collect).doing(doing)?;
        entries
            .into_iter()
            .map(|(name, text)| match serde_json::from_str(&text) {
                Ok(value) => Ok((name, value)),
                Err(source) => Err(StoreError::State { name, source }),
            })
            .collect()
    }

    /// Removes an entry of the program's own state.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn clear_state(&self, name: &str) -> Result<(), StoreError> {
        self.conn
            .prepare_cached("DELETE FROM state WHERE name = ?1")
            .and_then(|mut stmt| stmt.execute([name]))
            .doing("write the program's state")?;
        Ok(())
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

/// Reads an entry of the program's own state.
pub(in crate::store) fn read_state<T: DeserializeOwned>(
    conn: &rusqlite::Connection,
    name: &str,
) -> Result<Option<T>, StoreError> {
    let text: Option<String> = conn
        .prepare_cached("SELECT value FROM state WHERE name = ?1")
        .and_then(|mut stmt| stmt.query_row([name], |row| row.get(0)).optional())
        .doing("read the program's state")?;
    text.map(|text| serde_json::from_str(&text).map_err(|source| StoreError::State { name: name.into(), source }))
        .transpose()
}
