//! The records of one resource, with the orders that long lists need.
//!
//! # Invariants
//! - Every order contains every record exactly once, so a list by one of them starts at its cursor and reads one page.

use std::borrow::Cow;
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::model::{DataType, Field, FieldKind, Instant, Resource, decimal};

/// A record's identifier, shared between a table and its orders.
pub(crate) type Id = Arc<str>;

/// The JSON source of a value; null has none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct JsonSource(pub(crate) Box<str>);

impl JsonSource {
    /// `None` for null.
    pub(crate) fn of_json(source: &str) -> Option<JsonSource> {
        (source != "null").then(|| JsonSource(source.into()))
    }

    pub(crate) fn of_text(text: &str) -> JsonSource {
        JsonSource(Value::from(text).to_string().into())
    }

    /// A string's text, or the source of a number or a boolean: what filters and orders compare.
    pub(crate) fn text(&self) -> Option<Cow<'_, str>> {
        match self.0.as_bytes() {
            [b'"', ..] if self.0.contains('\\') => serde_json::from_str::<String>(&self.0).ok().map(Cow::Owned),
            [b'"', ..] => Some(Cow::Borrowed(self.0.trim_matches('"'))),
            [b'[' | b'{', ..] => None,
            _ => Some(Cow::Borrowed(&self.0)),
        }
    }
}

/// The order of two texts as values of a type; `None` if one of them is not of the type.
pub(crate) fn compare(data_type: DataType, a: &str, b: &str) -> Option<Ordering> {
    match data_type {
        DataType::DateTime => Some(a.parse::<Instant>().ok()?.cmp(&b.parse().ok()?)),
        DataType::Integer | DataType::Decimal => decimal::compare(a, b),
        _ => Some(a.cmp(b)),
    }
}

/// The type of custom values that a standard field is compared as.
pub(crate) fn type_of(kind: FieldKind) -> DataType {
    match kind {
        FieldKind::Boolean => DataType::Boolean,
        FieldKind::Integer => DataType::Integer,
        FieldKind::Number => DataType::Decimal,
        FieldKind::Instant => DataType::DateTime,
        _ => DataType::ShortText,
    }
}

pub(crate) fn field(of: impl Into<Resource>, wire: &str) -> Option<&'static Field> {
    of.into().fields().iter().find(|field| field.wire == wire)
}

/// The name of a value: the wire name of a standard field, or that of a custom field's definition.
pub(crate) type ValueName = Cow<'static, str>;

/// The name of a custom value: two definitions may have the same key, one after the other.
pub(crate) fn custom_name(definition: &str) -> ValueName {
    ValueName::Owned(format!("#{definition}"))
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WorldRecord {
    #[serde(skip)]
    pub(crate) id: Id,
    values: BTreeMap<ValueName, JsonSource>,
    /// Overrides for answers: source text by wire name, `None` if a field is omitted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) raw: BTreeMap<String, Option<String>>,
}

impl WorldRecord {
    pub(crate) fn new(id: Id) -> WorldRecord {
        WorldRecord { id, values: BTreeMap::new(), raw: BTreeMap::new() }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&JsonSource> {
        self.values.get(name)
    }

    pub(crate) fn text(&self, name: &str) -> Option<Cow<'_, str>> {
        self.get(name)?.text()
    }

    pub(crate) fn time(&self, name: &str) -> Option<Instant> {
        self.text(name)?.parse().ok()
    }

    pub(crate) fn set(&mut self, name: impl Into<ValueName>, value: Option<JsonSource>) {
        match value {
            Some(value) => self.values.insert(name.into(), value),
            None => self.values.remove(&name.into()),
        };
    }
}

/// Where an order has a record: by its time in either direction, and last without one.
type Rank = (bool, Option<Instant>, Reverse<Option<Instant>>);

fn rank(time: Option<Instant>, is_descending: bool) -> Rank {
    (time.is_none(), time.filter(|_| !is_descending), Reverse(time.filter(|_| is_descending)))
}

/// A record's place in each order. Its times are parsed once for both directions.
fn places(record: &WorldRecord) -> [(Rank, Id); 4] {
    let (updated, created) = (record.time("updatedAt"), record.time("createdAt"));
    [rank(updated, false), rank(updated, true), rank(created, false), rank(created, true)]
        .map(|rank| (rank, record.id.clone()))
}

/// The name of a timestamp, and whether the latest comes first.
pub(crate) type OrderName<'n> = (&'n str, bool);

/// The timestamps outside of which a filter rejects every record.
pub(crate) type TimeLimits = (Option<Instant>, Option<Instant>);

const ORDERS: [OrderName<'_>; 4] =
    [("updatedAt", false), ("updatedAt", true), ("createdAt", false), ("createdAt", true)];

#[derive(Clone, Debug, Default)]
pub(crate) struct WorldTable {
    pub(crate) records: BTreeMap<Id, Arc<WorldRecord>>,
    /// As in [`ORDERS`]. Ties are by ascending id.
    orders: [BTreeSet<(Rank, Id)>; 4],
}

impl WorldTable {
    pub(crate) fn get(&self, id: &str) -> Option<&Arc<WorldRecord>> {
        self.records.get(id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &WorldRecord> {
        self.records.values().map(|record| &**record)
    }

    /// The records in an order, within limits and after a place in it; `None` if there is no such order.
    pub(crate) fn walk(
        &self,
        name: OrderName<'_>,
        (low, high): TimeLimits,
        after: Option<(Option<Instant>, &str)>,
    ) -> Option<impl Iterator<Item = &WorldRecord>> {
        let order = &self.orders[ORDERS.iter().position(|known| *known == name)?];
        let rank = |time| rank(time, name.1);
        let (first, last) =
            if name.1 { (high, low.or(Some(Instant::MIN))) } else { (low, high.or(Some(Instant::MAX))) };
        // Within limits, a record without the time is rejected too.
        let last = rank(last.filter(|_| (low, high) != (None, None)));
        let first = first.map(|time| (rank(Some(time)), Id::from("")));
        let after = after.map(|(time, id)| (rank(time), Id::from(id)));
        let from = after.max(first).map_or(Bound::Unbounded, Bound::Excluded);
        let within = order.range((from, Bound::Unbounded)).take_while(move |(rank, _)| *rank <= last);
        Some(within.filter_map(|(_, id)| self.get(id).map(|record| &**record)))
    }

    pub(crate) fn put(&mut self, record: Arc<WorldRecord>) {
        self.remove(&record.id);
        for (order, place) in self.orders.iter_mut().zip(places(&record)) {
            order.insert(place);
        }
        self.records.insert(record.id.clone(), record);
    }

    pub(crate) fn remove(&mut self, id: &str) -> Option<Arc<WorldRecord>> {
        let record = self.records.remove(id)?;
        for (order, place) in self.orders.iter_mut().zip(places(&record)) {
            order.remove(&place);
        }
        Some(record)
    }
}

impl Serialize for WorldTable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|record| (&*record.id, record)))
    }
}

impl<'de> Deserialize<'de> for WorldTable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<WorldTable, D::Error> {
        let mut table = WorldTable::default();
        for (id, record) in BTreeMap::<String, WorldRecord>::deserialize(deserializer)? {
            table.put(Arc::new(WorldRecord { id: id.into(), ..record }));
        }
        Ok(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_of_thirty_digits_are_numbers_whatever_holds_them() {
        let text = "99999999999999999999.9999999999";
        for source in [JsonSource::of_json(text).unwrap(), JsonSource::of_text(text)] {
            assert_eq!(source.text().as_deref(), Some(text));
            let order = compare(DataType::Decimal, &source.text().unwrap(), "99999999999999999999.9999999998");
            assert_eq!(order, Some(Ordering::Greater));
        }
        assert_eq!(compare(DataType::Decimal, "no number", "0"), None);
    }
}
