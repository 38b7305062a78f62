//! The records of one resource, with the orders that long lists need.
//!
//! A value is its JSON source, as answers show it, so a test controls an answer byte for byte. A missing value is null.
//!
//! # Invariants
//! - Both orders contain every record exactly once: a list over a hundred thousand records by either of
//!   them starts at its cursor and reads one page, whatever the length of the table.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::{DataType, Field, FieldKind, Instant, Resource, decimal};

/// A record's identifier, shared between a table and its orders.
pub(crate) type Id = Arc<str>;

/// The JSON source of a value that is not null.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct JsonSource(Box<str>);

impl JsonSource {
    /// `None` for null.
    pub(crate) fn of_json(source: &str) -> Option<JsonSource> {
        (source != "null").then(|| JsonSource(source.into()))
    }

    pub(crate) fn of_text(text: &str) -> JsonSource {
        JsonSource(Value::from(text).to_string().into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
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

    pub(crate) fn time(&self) -> Option<Instant> {
        self.text()?.parse().ok()
    }

    /// The texts of an array of strings.
    pub(crate) fn items(&self) -> Vec<String> {
        serde_json::from_str(&self.0).unwrap_or_default()
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
        FieldKind::Id | FieldKind::Text | FieldKind::Etag | FieldKind::Value { .. } | FieldKind::Json => {
            DataType::ShortText
        }
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
        self.get(name)?.time()
    }

    pub(crate) fn set(&mut self, name: impl Into<ValueName>, value: Option<JsonSource>) {
        match value {
            Some(value) => self.values.insert(name.into(), value),
            None => self.values.remove(&name.into()),
        };
    }
}

/// The records by one timestamp. Records without the time come last in both directions, and ties are by ascending id.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order(BTreeMap<Option<Instant>, BTreeSet<Id>>);

/// The place after one record of an [`Order`].
pub(crate) type After<'a> = (Option<Instant>, &'a str);

/// The timestamps outside of which a filter rejects every record.
pub(crate) type TimeLimits = (Option<Instant>, Option<Instant>);

impl Order {
    fn remove(&mut self, time: Option<Instant>, id: &Id) {
        let ids = self.0.entry(time).or_default();
        ids.remove(id);
        if ids.is_empty() {
            self.0.remove(&time);
        }
    }

    /// The records of each time within limits.
    pub(crate) fn times(
        &self,
        (low, high): TimeLimits,
    ) -> impl DoubleEndedIterator<Item = (&Option<Instant>, &BTreeSet<Id>)> {
        let (low, high) = (low.or(Some(Instant::MIN)), high.or(Some(Instant::MAX)));
        // A range that ends before it begins is empty.
        self.0.range(low.min(high)..=high).filter(move |(at, _)| **at >= low)
    }

    /// Walks the order within limits, from a place on.
    pub(crate) fn walk<'a>(
        &'a self,
        is_descending: bool,
        limits: TimeLimits,
        after: Option<After<'a>>,
    ) -> impl Iterator<Item = &'a Id> {
        let (mut low, mut high) = limits;
        match after {
            Some((Some(time), _)) if is_descending => high = Some(high.map_or(time, |high| high.min(time))),
            Some((Some(time), _)) => low = low.max(Some(time)),
            // Only records without the time are behind one.
            Some((None, _)) => (low, high) = (Some(Instant::MAX), Some(Instant::MIN)),
            None => {}
        }
        let mut times = self.times((low, high));
        let timed = std::iter::from_fn(move || if is_descending { times.next_back() } else { times.next() });
        // Within limits, a record without the time is rejected too.
        let undated = self.0.get_key_value(&None).filter(|_| limits == (None, None));
        timed.chain(undated).flat_map(move |(time, ids)| {
            let from = match after {
                Some((of, id)) if of == *time => Bound::Excluded(id),
                _ => Bound::Unbounded,
            };
            ids.range::<str, _>((from, Bound::Unbounded))
        })
    }
}

#[derive(Clone, Debug)]
pub(crate) struct WorldTable {
    records: BTreeMap<Id, Arc<WorldRecord>>,
    /// Each with the name of its timestamp.
    orders: [(&'static str, Order); 2],
}

impl WorldTable {
    pub(crate) fn new() -> WorldTable {
        WorldTable { records: BTreeMap::new(), orders: ["updatedAt", "createdAt"].map(|wire| (wire, Order::default())) }
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    pub(crate) fn get(&self, id: &str) -> Option<&WorldRecord> {
        self.records.get(id).map(|record| &**record)
    }

    /// The record as it is now, whatever becomes of it.
    pub(crate) fn snapshot(&self, id: &str) -> Option<Arc<WorldRecord>> {
        self.records.get(id).cloned()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &WorldRecord> {
        self.records.values().map(|record| &**record)
    }

    pub(crate) fn order(&self, wire: &str) -> Option<&Order> {
        self.orders.iter().find(|(of, _)| *of == wire).map(|(_, order)| order)
    }

    pub(crate) fn put(&mut self, record: Arc<WorldRecord>) {
        self.remove(&record.id);
        for (wire, order) in &mut self.orders {
            order.0.entry(record.time(wire)).or_default().insert(record.id.clone());
        }
        self.records.insert(record.id.clone(), record);
    }

    pub(crate) fn remove(&mut self, id: &str) -> Option<Arc<WorldRecord>> {
        let record = self.records.remove(id)?;
        for (wire, order) in &mut self.orders {
            order.remove(record.time(wire), &record.id);
        }
        Some(record)
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
