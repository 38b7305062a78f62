//! The records of one resource, with sorted orders for long lists.
//!
//! # Invariants
//! - Both orders contain every record exactly once: a list over a hundred thousand records by either of
//!   them starts at its cursor and reads one page, whatever the length of the table.
//! - Cells are sorted by slot: a field's index in the catalogue's table, or the place of a custom field behind all of them.
//!
//! A cell is one value, compact enough for hundreds of thousands of records. A missing value has no cell. A timestamp in the
//! service's usual form is stored as an instant and written back in that form; any other spelling is stored as text, so a
//! test controls an answer byte for byte.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::{Field, FieldKind, Instant, Resource, decimal};

/// A record's identifier, shared between a table and its orders.
pub(crate) type Id = Arc<str>;

const FIRST_CUSTOM: usize = 256;

pub(crate) const NO_SLOT: usize = FIRST_CUSTOM - 1;

pub(crate) const fn custom_slot(place: usize) -> usize {
    FIRST_CUSTOM + place
}

#[derive(Clone, Debug)]
pub(crate) struct WorldRecord {
    pub(crate) id: Id,
    pub(crate) cells: Vec<(u32, Cell)>,
    /// Overrides for answers: source text by wire name, `None` if a field is omitted.
    pub(crate) raw: BTreeMap<String, Option<String>>,
}

impl WorldRecord {
    pub(crate) fn new(id: Id) -> WorldRecord {
        WorldRecord { id, cells: Vec::new(), raw: BTreeMap::new() }
    }

    fn place(&self, slot: usize) -> Result<usize, usize> {
        self.cells.binary_search_by_key(&slot, |(slot, _)| *slot as usize)
    }

    pub(crate) fn cell(&self, slot: usize) -> Option<&Cell> {
        Some(&self.cells[self.place(slot).ok()?].1)
    }

    pub(crate) fn set(&mut self, slot: usize, cell: Option<Cell>) {
        match (self.place(slot), cell) {
            (Ok(at), Some(cell)) => self.cells[at].1 = cell,
            (Ok(at), None) => drop(self.cells.remove(at)),
            (Err(at), Some(cell)) => self.cells.insert(at, (slot as u32, cell)),
            (Err(_), None) => {}
        }
    }

    pub(crate) fn raw(&self, wire: &str) -> Option<Option<&str>> {
        self.raw.get(wire).map(Option::as_deref)
    }
}

/// A position in an order. Records without the time come last in both directions, and ties are by ascending id.
type Position = (Duration, Id);

fn position(time: Option<Instant>, descending: bool) -> Duration {
    match time {
        Some(time) if descending => Instant::MAX.since(time),
        Some(time) => time.since(Instant::MIN),
        None => Duration::MAX,
    }
}

/// The records by one timestamp, ascending and descending.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order([BTreeSet<Position>; 2]);

/// The place after one record of an [`Order`].
pub(crate) type After<'a> = (Option<Instant>, &'a str);

impl Order {
    fn insert(&mut self, time: Option<Instant>, id: &Id) {
        for descending in [false, true] {
            self.0[usize::from(descending)].insert((position(time, descending), id.clone()));
        }
    }

    fn remove(&mut self, time: Option<Instant>, id: &Id) {
        for descending in [false, true] {
            self.0[usize::from(descending)].remove(&(position(time, descending), id.clone()));
        }
    }

    /// The timestamps between two, both included, ascending.
    pub(crate) fn times(&self, low: Option<Instant>, high: Option<Instant>) -> impl Iterator<Item = Instant> {
        let timed = self.walk(false, None, low, high).filter(|(at, _)| *at < Duration::MAX);
        timed.map(|(at, _)| Instant::MIN.plus(*at))
    }

    /// Walks the order from a place on. `low` and `high` can end the walk early if a filter rejects the rest.
    pub(crate) fn walk(
        &self,
        descending: bool,
        after: Option<After<'_>>,
        low: Option<Instant>,
        high: Option<Instant>,
    ) -> impl Iterator<Item = &Position> + use<'_> {
        let (first, last) = if descending { (high, low) } else { (low, high) };
        let from = match (after, first) {
            (Some((time, id)), _) => Bound::Excluded((position(time, descending), Id::from(id))),
            (None, Some(_)) => Bound::Included((position(first, descending), Id::from(""))),
            (None, None) => Bound::Unbounded,
        };
        let is_bounded = first.is_some() || last.is_some();
        // Within bounds, a record without the time is rejected too.
        let behind = Duration::from_nanos(u64::from(is_bounded && last.is_none()));
        let last = position(last, descending).saturating_sub(behind);
        self.0[usize::from(descending)].range((from, Bound::Unbounded)).take_while(move |(at, _)| *at <= last)
    }
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
        let place = |wire: &str| slot(fields, wire).unwrap_or(NO_SLOT);
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

pub(crate) fn slot(fields: &[Field], wire: &str) -> Option<usize> {
    fields.iter().position(|field| field.wire == wire)
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Cell {
    Bool(bool),
    Int(i64),
    Text(Box<str>),
    Time(Instant),
    /// A version token: the text of an instant in double quotes, which are part of the value.
    Etag(Instant),
    List(Box<[Box<str>]>),
    /// Any other JSON, as its source text.
    Source(Box<str>),
}

impl Cell {
    /// Converts a JSON value; `None` for null. With `time`, a text in the usual form becomes an instant.
    pub(crate) fn from_json(value: &Value, time: bool) -> Option<Cell> {
        Some(match value {
            Value::Null => return None,
            Value::Bool(flag) => Cell::Bool(*flag),
            Value::Number(number) => match number.as_i64() {
                Some(integer) => Cell::Int(integer),
                None => Cell::Source(number.to_string().into()),
            },
            Value::String(text) => match text.parse::<Instant>() {
                Ok(instant) if time && instant.to_wire() == *text => Cell::Time(instant),
                _ => Cell::Text(text.clone().into()),
            },
            Value::Array(items) if items.iter().all(Value::is_string) => {
                Cell::List(items.iter().filter_map(Value::as_str).map(Box::from).collect())
            }
            other => Cell::Source(other.to_string().into()),
        })
    }

    pub(crate) fn text(&self) -> Option<Cow<'_, str>> {
        match self {
            Cell::Text(text) => Some(Cow::Borrowed(text)),
            Cell::Time(instant) => Some(Cow::Owned(instant.to_wire())),
            Cell::Etag(instant) => Some(Cow::Owned(format!("\"{}\"", instant.to_wire()))),
            _ => None,
        }
    }

    /// The instant, if the value is the text of one.
    pub(crate) fn time(&self) -> Option<Instant> {
        match self {
            Cell::Time(instant) => Some(*instant),
            Cell::Text(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// The text of a number; decimals are strings on the wire, so it may be a text.
    pub(crate) fn number(&self) -> Option<Cow<'_, str>> {
        let text = match self {
            Cell::Int(integer) => Cow::Owned(integer.to_string()),
            Cell::Text(text) | Cell::Source(text) => Cow::Borrowed(&**text),
            _ => return None,
        };
        decimal::compare(&text, "0").map(|_| text)
    }

    pub(crate) fn write(&self, out: &mut String) {
        match self {
            Cell::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
            Cell::Int(integer) => out.push_str(&integer.to_string()),
            Cell::Source(source) => out.push_str(source),
            Cell::List(items) => out.push_str(&serde_json::to_string(items).unwrap_or_default()),
            Cell::Text(_) | Cell::Time(_) | Cell::Etag(_) => write_text(&self.text().unwrap_or_default(), out),
        }
    }
}

pub(crate) fn write_text(text: &str, out: &mut String) {
    out.push_str(&serde_json::to_string(text).unwrap_or_default());
}

/// The value by which a row is sorted by a field of this kind; `None`, which comes last in both directions, if it has none
/// of that kind.
pub(crate) fn sort_key(cell: Option<&Cell>, kind: FieldKind) -> Option<Cell> {
    let is_sorted = |cell: &&Cell| match kind {
        FieldKind::Instant => cell.time().is_some(),
        FieldKind::Integer | FieldKind::Number => cell.number().is_some(),
        _ => cell.text().is_some(),
    };
    cell.filter(is_sorted).cloned()
}

pub(crate) fn compare(a: Option<&Cell>, b: Option<&Cell>, kind: FieldKind, descending: bool) -> Ordering {
    let (Some(a), Some(b)) = (a, b) else { return a.is_none().cmp(&b.is_none()) };
    let order = match kind {
        FieldKind::Instant => a.time().cmp(&b.time()),
        FieldKind::Integer | FieldKind::Number => {
            let order = a.number().zip(b.number()).and_then(|(a, b)| decimal::compare(&a, &b));
            order.unwrap_or(Ordering::Equal)
        }
        _ => a.text().cmp(&b.text()),
    };
    if descending { order.reverse() } else { order }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_of_thirty_digits_are_numbers_whatever_holds_them() {
        let text = "99999999999999999999.9999999999";
        let below = Cell::Text("99999999999999999999.9999999998".into());
        for cell in [Cell::Source(text.into()), Cell::Text(text.into())] {
            assert_eq!(cell.number().as_deref(), Some(text));
            let key = sort_key(Some(&cell), FieldKind::Number);
            assert_eq!(compare(key.as_ref(), Some(&below), FieldKind::Number, false), Ordering::Greater);
        }
        assert_eq!(Cell::Text("no number".into()).number(), None);
    }
}
