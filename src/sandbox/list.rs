//! One page of a list: the rows that meet the conditions, in order, from a position on.
//!
//! Lists sorted by `createdAt` or `updatedAt` alone walk the table's own order from the cursor; all others collect the
//! matching rows and sort them.
//!
//! Page tokens are opaque, and bound to the tenant, the conditions and the key's scopes (*List query conventions*,
//! rule 9). The reference does not specify whether they contain the last row's sort values or count rows. Tokens begin
//! with `+`, `/` and `=`, so a client that does not percent-encode them fails.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::exchange::Answer;
use super::fault::Fault;
use super::rules::ListRequest;
use super::table::{TimeLimits, WorldRecord, WorldTable, compare, type_of};
use super::world::World;
use crate::model::{Field, Op};

/// The values that a row is sorted by; one that is missing comes last in both directions.
type SortKeys = Vec<Option<String>>;

/// The rows, the next position, and the total. With `counts_rows` the position is a row count instead of sort values.
pub(crate) fn page<'a>(
    world: &'a World,
    query: &ListRequest,
    place: &PagePosition,
    counts_rows: bool,
) -> (Vec<&'a WorldRecord>, Option<PagePosition>, Option<usize>) {
    let table = world.table(query.resource);
    let (skip, after) = match place {
        PagePosition::Offset(rows) => (*rows, None),
        PagePosition::After(keys, id) => (0, Some((keys, id.as_str()))),
    };
    // An order serves the query without sorting, unless it filters by ids: those are looked up.
    let walked = match query.sort.as_slice() {
        [(field, is_descending)] if !query.is_coarse && ids(query).is_none() => {
            let after = after.map(|(keys, id)| (keys.first().and_then(|key| key.as_ref()?.parse().ok()), id));
            table.walk((field.wire, *is_descending), limits(query, field.wire), after)
        }
        _ => None,
    };
    let rows: Box<dyn Iterator<Item = &'a WorldRecord> + '_> = match walked {
        Some(records) => Box::new(records.filter(|record| query.matches(record))),
        None => {
            let matching = candidates(table, query).filter(|record| query.matches(record));
            let mut all: Vec<_> = matching.map(|record| (keys(query, record), record)).collect();
            all.sort_by(|a, b| in_order(query, (&a.0, &a.1.id), (&b.0, &b.1.id)));
            let is_next = move |(keys, record): &(SortKeys, &WorldRecord)| {
                after.is_none_or(|after| in_order(query, (keys, &record.id), after).is_gt())
            };
            Box::new(all.into_iter().filter(is_next).map(|(_, record)| record))
        }
    };
    let mut rows: Vec<&WorldRecord> = rows.skip(skip).take(query.limit + 1).collect();
    let more = rows.len() > query.limit;
    rows.truncate(query.limit);
    let next = rows.last().filter(|_| more).map(|last| match counts_rows {
        true => PagePosition::Offset(skip + query.limit),
        false => PagePosition::After(keys(query, last), last.id.to_string()),
    });
    let total = query.count.then(|| candidates(table, query).filter(|record| query.matches(record)).count());
    (rows, next, total)
}

/// The rows that can meet the conditions, from the narrowest source.
fn candidates<'a: 'q, 'q>(
    table: &'a WorldTable,
    query: &'q ListRequest,
) -> Box<dyn Iterator<Item = &'a WorldRecord> + 'q> {
    if let Some(ids) = ids(query) {
        let ids: BTreeSet<&str> = ids.iter().map(String::as_str).collect();
        return Box::new(ids.into_iter().filter_map(|id| table.get(id).map(|record| &**record)));
    }
    for condition in &query.conditions {
        let limits = limits(query, &condition.name);
        if let (Some(records), true) = (table.walk((&condition.name, false), limits, None), limits != (None, None)) {
            return Box::new(records);
        }
    }
    Box::new(table.iter())
}

fn ids(query: &ListRequest) -> Option<&[String]> {
    let by_id = |op| matches!(op, Op::Eq | Op::In);
    let condition = query.conditions.iter().find(|condition| condition.name == "id" && by_id(condition.op))?;
    Some(&condition.values)
}

/// The timestamps outside of which some condition rejects every row.
fn limits(query: &ListRequest, wire: &str) -> TimeLimits {
    let (mut low, mut high) = (None, None);
    for condition in query.conditions.iter().filter(|c| c.name == wire && !query.is_coarse) {
        let Some(time) = condition.times.first().copied() else { continue };
        if matches!(condition.op, Op::Gt | Op::Gte | Op::Eq) {
            low = low.max(Some(time));
        }
        if matches!(condition.op, Op::Lt | Op::Lte | Op::Eq) {
            high = Some(high.map_or(time, |high| time.min(high)));
        }
    }
    (low, high)
}

fn keys(query: &ListRequest, record: &WorldRecord) -> SortKeys {
    let key = |field: &Field| query.value(record, field.wire, type_of(field.kind)).map(String::from);
    query.sort.iter().map(|(field, _)| key(field)).collect()
}

/// The order of two rows, each by its keys and its id.
fn in_order(query: &ListRequest, a: (&SortKeys, &str), b: (&SortKeys, &str)) -> Ordering {
    for ((field, is_descending), keys) in query.sort.iter().zip(a.0.iter().zip(b.0)) {
        let order = match keys {
            (Some(a), Some(b)) if *is_descending => compare(type_of(field.kind), b, a),
            (Some(a), Some(b)) => compare(type_of(field.kind), a, b),
            (a, b) => Some(a.is_none().cmp(&b.is_none())),
        };
        if let Some(order) = order.filter(|order| order.is_ne()) {
            return order;
        }
    }
    a.1.cmp(b.1)
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum PagePosition {
    #[serde(rename = "k")]
    After(SortKeys, String),
    #[serde(rename = "o")]
    Offset(usize),
}

const MARK: &str = "+/=";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Binding(String);

impl Binding {
    /// Every parameter except the cursor is a condition, including the page size, as "the same conditions" implies.
    pub(crate) fn new(tenant: &str, path: &str, scopes: &BTreeSet<String>, query: &[(String, String)]) -> Binding {
        let mut conditions: Vec<&(String, String)> = query.iter().filter(|(name, _)| name != "cursor").collect();
        conditions.sort_unstable();
        let bound = serde_json::to_vec(&(tenant, path, scopes, conditions)).unwrap_or_default();
        Binding(Sha256::digest(bound)[..9].iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// The nonce tells apart tokens of one position: the next token of an empty page differs from that of the request.
    pub(crate) fn token(&self, place: &PagePosition, nonce: u64) -> String {
        let json = serde_json::to_vec(&(&self.0, place, nonce)).unwrap_or_default();
        let digits = json.iter().map(|byte| format!("{byte:02x}"));
        std::iter::once(MARK.to_string()).chain(digits).collect()
    }

    /// The position of a token. With [`Fault::PageWindow`], the service refuses cursors behind its window of rows.
    pub(crate) fn read(&self, token: &str, fault: Option<&Fault>) -> Result<(PagePosition, u64), Answer> {
        let byte = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
        let bytes: Option<Vec<u8>> =
            token.strip_prefix(MARK).and_then(|hex| hex.as_bytes().chunks(2).map(byte).collect());
        let read = bytes.and_then(|bytes| serde_json::from_slice::<(String, PagePosition, u64)>(&bytes).ok());
        let window = if let Some(Fault::PageWindow(most)) = fault { *most } else { usize::MAX };
        let is_behind = |place: &PagePosition| matches!(place, PagePosition::Offset(rows) if *rows >= window);
        let read = read.filter(|(binding, place, _)| *binding == self.0 && !is_behind(place));
        let wrong = || Answer::of_field(400, "cursor", "is no cursor of this list with these conditions and this key");
        read.map(|(_, place, nonce)| (place, nonce)).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_back_only_with_their_conditions() {
        let params = |limit: &str| [("limit".to_string(), limit.to_string())];
        let scopes = BTreeSet::from(["contacts:read".to_string()]);
        let ten = Binding::new("t", "/contacts", &scopes, &params("10"));
        for id in ["a", "ab", "abc", "Zoë 東京"] {
            let place = PagePosition::After(vec![None, Some("x".into())], id.into());
            assert_eq!(ten.read(&ten.token(&place, 7), None).unwrap(), (place.clone(), 7));
            for other in [
                Binding::new("t", "/contacts", &scopes, &params("11")),
                Binding::new("t", "/companies", &scopes, &params("10")),
                Binding::new("u", "/contacts", &scopes, &params("10")),
                Binding::new("t", "/contacts", &BTreeSet::new(), &params("10")),
            ] {
                assert_eq!(other.read(&ten.token(&place, 7), None).unwrap_err().status, 400);
            }
        }
        for garbage in ["", "x", "====", "AAAA", "é"] {
            assert!(ten.read(garbage, None).is_err(), "{garbage}");
        }
    }
}
