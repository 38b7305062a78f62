//! The records of one resource, with sorted orders for long lists.
//!
//! # Invariants
//! - Both orders contain every record exactly once: a list over a hundred thousand records by either of
//!   them starts at its cursor and reads one page, whatever the length of the table.
//! - Cells are sorted by slot; a slot is a field's index in the catalogue's table.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use crate::model::{Field, Instant, Resource};

use super::cell::Cell;

/// A record's identifier, shared between a table and its orders.
pub(crate) type Id = Arc<str>;

#[derive(Clone, Debug)]
pub(crate) struct WorldRecord {
    pub(crate) id: Id,
    /// Standard values by slot.
    pub(crate) cells: Vec<(u8, Cell)>,
    /// Custom values by the definition's index in the world.
    pub(crate) custom: Vec<(u32, Cell)>,
    /// Overrides for answers: source text by wire name, `None` if a field is omitted.
    pub(crate) raw: BTreeMap<String, Option<String>>,
}

impl WorldRecord {
    pub(crate) fn new(id: Id) -> WorldRecord {
        WorldRecord { id, cells: Vec::new(), custom: Vec::new(), raw: BTreeMap::new() }
    }

    pub(crate) fn cell(&self, slot: usize) -> Option<&Cell> {
        let at = self.cells.binary_search_by_key(&slot, |(s, _)| usize::from(*s)).ok()?;
        Some(&self.cells[at].1)
    }

    pub(crate) fn set(&mut self, slot: usize, cell: Option<Cell>) {
        put(&mut self.cells, slot as u8, cell);
    }

    pub(crate) fn custom(&self, place: u32) -> Option<&Cell> {
        let at = self.custom.binary_search_by_key(&place, |(p, _)| *p).ok()?;
        Some(&self.custom[at].1)
    }

    pub(crate) fn set_custom(&mut self, place: u32, cell: Option<Cell>) {
        put(&mut self.custom, place, cell);
    }

    pub(crate) fn raw(&self, wire: &str) -> Option<Option<&str>> {
        self.raw.get(wire).map(Option::as_deref)
    }
}

fn put<K: Ord + Copy>(cells: &mut Vec<(K, Cell)>, key: K, cell: Option<Cell>) {
    match (cells.binary_search_by_key(&key, |(k, _)| *k), cell) {
        (Ok(at), Some(cell)) => cells[at].1 = cell,
        (Ok(at), None) => {
            cells.remove(at);
        }
        (Err(at), Some(cell)) => cells.insert(at, (key, cell)),
        (Err(_), None) => {}
    }
}

/// A position in an order: records without the time come last in both directions, and ties are by ascending id.
type Key<T> = (bool, Option<T>, Id);

/// The records by one timestamp, in both directions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    rising: BTreeSet<Key<Instant>>,
    falling: BTreeSet<Key<Reverse<Instant>>>,
}

/// A position in an [`Order`], after one record.
pub(crate) type After<'a> = (Option<Instant>, &'a str);

impl Order {
    fn insert(&mut self, time: Option<Instant>, id: &Id) {
        self.rising.insert((time.is_none(), time, id.clone()));
        self.falling.insert((time.is_none(), time.map(Reverse), id.clone()));
    }

    fn remove(&mut self, time: Option<Instant>, id: &Id) {
        self.rising.remove(&(time.is_none(), time, id.clone()));
        self.falling.remove(&(time.is_none(), time.map(Reverse), id.clone()));
    }

    /// The timestamps between two, both included, ascending.
    pub(crate) fn times(&self, low: Option<Instant>, high: Option<Instant>) -> impl Iterator<Item = Instant> {
        range(&self.rising, None, low, high).filter_map(|(_, time, _)| *time)
    }

    /// Walks the order from a position on. `low` and `high` can end the walk early if a filter rejects the rest.
    pub(crate) fn walk<'a>(
        &'a self,
        descending: bool,
        after: Option<After<'_>>,
        low: Option<Instant>,
        high: Option<Instant>,
    ) -> Box<dyn Iterator<Item = &'a Id> + 'a> {
        if descending {
            let after = after.map(|(time, id)| (time.map(Reverse), id));
            Box::new(range(&self.falling, after, high.map(Reverse), low.map(Reverse)).map(|(_, _, id)| id))
        } else {
            Box::new(range(&self.rising, after, low, high).map(|(_, _, id)| id))
        }
    }
}

/// The part of an order after a position, else from `first` on, up to and including `last`.
fn range<'a, T: Ord + Copy + 'a>(
    order: &'a BTreeSet<Key<T>>,
    after: Option<(Option<T>, &str)>,
    first: Option<T>,
    last: Option<T>,
) -> impl Iterator<Item = &'a Key<T>> + use<'a, T> {
    let from = match (after, first) {
        (Some((time, id)), _) => Bound::Excluded((time.is_none(), time, Id::from(id))),
        (None, Some(_)) => Bound::Included((false, first, Id::from(""))),
        (None, None) => Bound::Unbounded,
    };
    let is_bounded = first.is_some() || last.is_some();
    order.range((from, Bound::Unbounded)).take_while(move |(_, time, _)| match time {
        Some(time) => last.is_none_or(|last| *time <= last),
        None => !is_bounded,
    })
}

#[derive(Clone, Debug)]
pub(crate) struct WorldTable {
    pub(crate) resource: Resource,
    pub(crate) fields: &'static [Field],
    records: BTreeMap<Id, WorldRecord>,
    /// The orders by `updatedAt` and `createdAt`, each with the slot of its timestamp.
    pub(crate) orders: [(usize, Order); 2],
}

impl WorldTable {
    pub(crate) fn new(resource: Resource) -> WorldTable {
        let fields = resource.fields();
        // Without the field, every record counts as null in a slot that no record has.
        let place = |wire: &str| slot(fields, wire).unwrap_or(usize::from(u8::MAX));
        WorldTable {
            resource,
            fields,
            records: BTreeMap::new(),
            orders: ["updatedAt", "createdAt"].map(|wire| (place(wire), Order::default())),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    pub(crate) fn get(&self, id: &str) -> Option<&WorldRecord> {
        self.records.get(id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &WorldRecord> {
        self.records.values()
    }

    pub(crate) fn slot(&self, wire: &str) -> Option<usize> {
        slot(self.fields, wire)
    }

    /// Inserts a record, or replaces the one with the same id.
    pub(crate) fn put(&mut self, mut record: WorldRecord) {
        record.cells.shrink_to_fit();
        self.remove(&record.id.clone());
        for (slot, order) in &mut self.orders {
            order.insert(record.cell(*slot).and_then(Cell::time), &record.id);
        }
        self.records.insert(record.id.clone(), record);
    }

    pub(crate) fn remove(&mut self, id: &str) -> Option<WorldRecord> {
        let record = self.records.remove(id)?;
        for (slot, order) in &mut self.orders {
            order.remove(record.cell(*slot).and_then(Cell::time), &record.id);
        }
        Some(record)
    }
}

/// A field's index in its table.
pub(crate) fn slot(fields: &[Field], wire: &str) -> Option<usize> {
    fields.iter().position(|field| field.wire == wire)
}
