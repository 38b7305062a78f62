//! The records of one resource, with sorted orders for long lists.
//!
//! # Invariants
//! - `created` and `updated` contain every record exactly once: a list over a hundred thousand records by either of
//!   them starts at its cursor and reads one page, whatever the length of the table.
//! - Cells are sorted by slot; a slot is a field's index in the catalogue's table.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use crate::model::{Field, Instant};

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

/// The records by one timestamp, in both directions; ties by ascending id, nulls last in both directions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    rising: BTreeSet<(Instant, Id)>,
    falling: BTreeSet<(Reverse<Instant>, Id)>,
    nulls: BTreeSet<Id>,
}

/// A position in an [`Order`], after one record.
pub(crate) type After<'a> = (Option<Instant>, &'a str);

impl Order {
    fn insert(&mut self, time: Option<Instant>, id: &Id) {
        match time {
            Some(time) => {
                self.rising.insert((time, id.clone()));
                self.falling.insert((Reverse(time), id.clone()));
            }
            None => {
                self.nulls.insert(id.clone());
            }
        }
    }

    fn remove(&mut self, time: Option<Instant>, id: &Id) {
        match time {
            Some(time) => {
                self.rising.remove(&(time, id.clone()));
                self.falling.remove(&(Reverse(time), id.clone()));
            }
            None => {
                self.nulls.remove(id);
            }
        }
    }

    /// The timestamps between two, both included, ascending.
    pub(crate) fn times(&self, low: Option<Instant>, high: Option<Instant>) -> impl Iterator<Item = Instant> {
        let from = low.map_or(Bound::Unbounded, |low| Bound::Included((low, Arc::from(""))));
        self.rising
            .range((from, Bound::Unbounded))
            .map(|(time, _)| *time)
            .take_while(move |time| high.is_none_or(|high| *time <= high))
    }

    /// Walks the order from a position on. `low` and `high` can end the walk early if a filter rejects the rest.
    pub(crate) fn walk<'a>(
        &'a self,
        descending: bool,
        after: Option<After<'_>>,
        low: Option<Instant>,
        high: Option<Instant>,
    ) -> Box<dyn Iterator<Item = &'a Id> + 'a> {
        let bounded = low.is_some() || high.is_some();
        let nulls_from = match after {
            Some((None, id)) => Bound::Excluded(id),
            _ => Bound::Unbounded,
        };
        let nulls = self.nulls.range::<str, _>((nulls_from, Bound::Unbounded)).take_while(move |_| !bounded);
        let start: Id = Arc::from("");
        match after {
            Some((None, _)) => Box::new(nulls),
            _ if descending => {
                let from = match (after, high) {
                    (Some((Some(time), id)), _) => Bound::Excluded((Reverse(time), Arc::from(id))),
                    (_, Some(high)) => Bound::Included((Reverse(high), start)),
                    _ => Bound::Unbounded,
                };
                let times = self
                    .falling
                    .range((from, Bound::Unbounded))
                    .take_while(move |(time, _)| low.is_none_or(|low| time.0 >= low));
                Box::new(times.map(|(_, id)| id).chain(nulls))
            }
            _ => {
                let from = match (after, low) {
                    (Some((Some(time), id)), _) => Bound::Excluded((time, Arc::from(id))),
                    (_, Some(low)) => Bound::Included((low, start)),
                    _ => Bound::Unbounded,
                };
                let times = self
                    .rising
                    .range((from, Bound::Unbounded))
                    .take_while(move |(time, _)| high.is_none_or(|high| *time <= high));
                Box::new(times.map(|(_, id)| id).chain(nulls))
            }
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct WorldTable {
    pub(crate) fields: &'static [Field],
    records: BTreeMap<Id, WorldRecord>,
    pub(crate) created_slot: usize,
    pub(crate) updated_slot: usize,
    pub(crate) created: Order,
    pub(crate) updated: Order,
}

impl WorldTable {
    pub(crate) fn new(fields: &'static [Field]) -> WorldTable {
        // Without the field, every record counts as null in a slot that no record has.
        let place = |wire: &str| slot(fields, wire).unwrap_or(usize::from(u8::MAX));
        WorldTable {
            fields,
            records: BTreeMap::new(),
            created_slot: place("createdAt"),
            updated_slot: place("updatedAt"),
            created: Order::default(),
            updated: Order::default(),
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
        let (created, updated) = self.times(&record);
        self.created.insert(created, &record.id);
        self.updated.insert(updated, &record.id);
        self.records.insert(record.id.clone(), record);
    }

    pub(crate) fn remove(&mut self, id: &str) -> Option<WorldRecord> {
        let record = self.records.remove(id)?;
        let (created, updated) = self.times(&record);
        self.created.remove(created, &record.id);
        self.updated.remove(updated, &record.id);
        Some(record)
    }

    fn times(&self, record: &WorldRecord) -> (Option<Instant>, Option<Instant>) {
        let time = |slot| record.cell(slot).and_then(Cell::time);
        (time(self.created_slot), time(self.updated_slot))
    }
}

/// A field's index in its table.
pub(crate) fn slot(fields: &[Field], wire: &str) -> Option<usize> {
    fields.iter().position(|field| field.wire == wire)
}
