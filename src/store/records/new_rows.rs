//! Writes the records of a page in a first copy, where nearly every row is new: with one statement, which keeps its
//! buffers from row to row.

use std::sync::Arc;

use rusqlite::CachedStatement;
use rusqlite::types::{ToSqlOutput, ValueRef};

use crate::model::{Object, Record, RequestStamp};
use crate::store::records::shape::{Shape, value_of};
use crate::store::records::unread::Shows;
use crate::store::{MirrorTx, RecordsTx, Result};

pub struct NewRows<'t> {
    tx: &'t MirrorTx<'t>,
    object: Object,
    shape: Arc<Shape>,
    asked: &'t RequestStamp,
    asked_at: String,
    insert: Option<CachedStatement<'t>>,
}

impl<'t> RecordsTx<'t> {
    pub fn new_rows(&self, object: Object, asked: &'t RequestStamp) -> NewRows<'t> {
        let shape = self.tx.shapes().list(object);
        NewRows { tx: self.tx, object, shape, asked, asked_at: asked.at.to_string(), insert: None }
    }
}

impl NewRows<'_> {
    /// Inserts a record, unless it has a row, or a later answer showed that it was removed. Returns whether it did.
    pub fn insert(&mut self, record: &Record) -> Result<bool> {
        let (object, id) = (self.object, record.id.as_str());
        if self.tx.is_overtaken(object, id, self.asked) {
            return Ok(false);
        }
        let extra = record.extra.to_json();
        let values = self.shape.columns.iter().map(|column| value_of(column.source, record, extra.as_deref()));
        let insert = match &mut self.insert {
            Some(insert) => insert,
            none => none.insert(self.tx.conn.prepare_cached(&self.shape.insert)?),
        };
        bind(insert, id, values, &self.asked_at)?;
        if insert.raw_execute()? == 0 {
            // Whoever compares the row may need the statement.
            self.insert = None;
            return Ok(false);
        }
        self.tx.remember_order(object, id, self.asked.order.number());
        self.tx.records().count_new(object, id);
        self.tx.unread().mark_unshown(object, record, Shows::List)?;
        Ok(true)
    }
}

pub(super) fn bind<'v>(
    stmt: &mut CachedStatement<'_>,
    id: &str,
    values: impl IntoIterator<Item = Option<ValueRef<'v>>>,
    asked_at: &str,
) -> rusqlite::Result<()> {
    stmt.raw_bind_parameter(1, id)?;
    let mut place = 2;
    for value in values {
        stmt.raw_bind_parameter(place, ToSqlOutput::Borrowed(value.unwrap_or(ValueRef::Null)))?;
        place += 1;
    }
    stmt.raw_bind_parameter(place, asked_at)
}
