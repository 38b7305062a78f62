//! One page of a list: the rows that meet the conditions, in order, from a position on.
//!
//! Lists sorted by `createdAt` or `updatedAt` alone walk the table's own order from the cursor; all others collect the
//! matching rows and sort them.
//!
//! Page tokens are opaque, and bound to the tenant, the conditions and the key's scopes (*List query conventions*,
//! rule 9). The reference does not specify whether they contain the last row's sort values or count rows. Tokens begin
//! with `+`, `/` and `=`, so a client that does not percent-encode them fails.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::exchange::ErrorAnswer;
use super::fault::Fault;
use super::rules::{self, Condition, ListRequest, Test};
use super::table::{Cell, Order, WorldRecord, WorldTable, compare, sort_key};
use super::world::World;
use crate::model::{FieldKind, Instant, Op, Resource};

#[derive(Debug)]
pub(crate) struct ServedPage<'a> {
    pub(crate) rows: Vec<&'a WorldRecord>,
    pub(crate) next: Option<PagePosition>,
    pub(crate) total: Option<usize>,
}

/// With `counts_rows` the next position is a row count instead of sort values.
pub(crate) fn page<'a>(
    world: &'a World,
    query: &ListRequest,
    place: &PagePosition,
    counts_rows: bool,
) -> ServedPage<'a> {
    let table = world.table(query.resource);
    let skip = match place {
        PagePosition::Offset(rows) => *rows,
        PagePosition::Start | PagePosition::After(..) => 0,
    };
    let rows: Box<dyn Iterator<Item = &'a WorldRecord>> = match indexed(table, query) {
        Some((order, slot, descending)) => {
            let after = match place {
                PagePosition::After(keys, id) => Some((keys.first().and_then(|key| key.as_ref()?.time()), id.as_str())),
                _ => None,
            };
            let (low, high) = bounds(query, slot);
            let records = order.walk(descending, after, low, high).filter_map(|(_, id)| table.get(id));
            Box::new(records.filter(|record| matches(table, query, record)))
        }
        None => {
            let mut all: Vec<(Vec<Option<Cell>>, &WorldRecord)> = candidates(table, query)
                .filter(|record| matches(table, query, record))
                .map(|record| (keys(table, query, record), record))
                .collect();
            let compare = |a: &[Option<Cell>], a_id: &str, b: &[Option<Cell>], b_id: &str| {
                let by_keys = query.sort.iter().zip(a.iter().zip(b));
                by_keys
                    .map(|((slot, descending), (a, b))| {
                        compare(a.as_ref(), b.as_ref(), table.fields[*slot].kind, *descending)
                    })
                    .find(|order| order.is_ne())
                    .unwrap_or_else(|| a_id.cmp(b_id))
            };
            all.sort_by(|a, b| compare(&a.0, &a.1.id, &b.0, &b.1.id));
            let is_next = move |(keys, record): &(Vec<Option<Cell>>, &WorldRecord)| match place {
                PagePosition::After(after, id) => compare(keys, &record.id, after, id).is_gt(),
                _ => true,
            };
            Box::new(all.into_iter().filter(is_next).map(|(_, record)| record))
        }
    };
    let mut rows: Vec<&WorldRecord> = rows.skip(skip).take(query.limit + 1).collect();
    let more = rows.len() > query.limit;
    rows.truncate(query.limit);
    let next = rows.last().filter(|_| more).map(|last| {
        if counts_rows {
            PagePosition::Offset(skip + query.limit)
        } else {
            PagePosition::After(keys(table, query, last), last.id.to_string())
        }
    });
    let total = query.count.then(|| count(table, query));
    ServedPage { rows, next, total }
}

/// A row that does not meet the conditions, for a service that violates its own rules.
pub(crate) fn outsider<'a>(world: &'a World, query: &ListRequest) -> Option<&'a WorldRecord> {
    let table = world.table(query.resource);
    table.iter().find(|record| !matches(table, query, record))
}

fn count(table: &WorldTable, query: &ListRequest) -> usize {
    if query.predicates.is_empty() && query.search.is_none() {
        return table.len();
    }
    for (slot, order) in &table.orders {
        // A range of one timestamp, as audits count it: the order alone gives the result.
        let timed = |p: &Condition| p.slot == *slot && matches!(p.test, Test::Time(..));
        if query.search.is_none() && query.predicates.iter().all(timed) {
            let (low, high) = bounds(query, *slot);
            let tests = |time: &Instant| query.predicates.iter().all(|p| p.test.holds_at(*time));
            return order.times(low, high).filter(tests).count();
        }
    }
    candidates(table, query).filter(|record| matches(table, query, record)).count()
}

/// The order that serves the query without sorting, unless it filters by ids: those are looked up.
fn indexed<'a>(table: &'a WorldTable, query: &ListRequest) -> Option<(&'a Order, usize, bool)> {
    match query.sort.as_slice() {
        _ if query.is_coarse || ids(query).is_some() => None,
        [(slot, descending)] => {
            let found = table.orders.iter().find(|(of, _)| of == slot);
            found.map(|(slot, order)| (order, *slot, *descending))
        }
        _ => None,
    }
}

/// The rows that can meet the conditions, from the narrowest source.
fn candidates<'a: 'q, 'q>(
    table: &'a WorldTable,
    query: &'q ListRequest,
) -> Box<dyn Iterator<Item = &'a WorldRecord> + 'q> {
    if let Some(ids) = ids(query) {
        let mut ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        ids.sort_unstable();
        ids.dedup();
        return Box::new(ids.into_iter().filter_map(|id| table.get(id)));
    }
    for (slot, order) in &table.orders {
        let (low, high) = bounds(query, *slot);
        if low.is_some() || high.is_some() {
            return Box::new(order.walk(false, None, low, high).filter_map(|(_, id)| table.get(id)));
        }
    }
    Box::new(table.iter())
}

fn ids(query: &ListRequest) -> Option<&[String]> {
    query.predicates.iter().find_map(|p| match &p.test {
        Test::OneOf(ids) if query.resource.fields().get(p.slot)?.kind == FieldKind::Id => Some(ids.as_slice()),
        _ => None,
    })
}

/// The timestamp range outside of which some predicate rejects every row.
fn bounds(query: &ListRequest, slot: usize) -> (Option<Instant>, Option<Instant>) {
    let (mut low, mut high) = (None::<Instant>, None::<Instant>);
    for predicate in query.predicates.iter().filter(|p| p.slot == slot) {
        if let Test::Time(op, time) = predicate.test {
            if matches!(op, Op::Gt | Op::Gte | Op::Eq) {
                low = Some(low.map_or(time, |low| low.max(time)));
            }
            if matches!(op, Op::Lt | Op::Lte | Op::Eq) {
                high = Some(high.map_or(time, |high| high.min(time)));
            }
        }
    }
    (low, high)
}

fn keys(table: &WorldTable, query: &ListRequest, record: &WorldRecord) -> Vec<Option<Cell>> {
    let key = |(slot, _): &(usize, bool)| match sort_key(record.cell(*slot), table.fields[*slot].kind) {
        Some(Cell::Time(time)) if query.is_coarse => Some(Cell::Time(time.whole_second())),
        key => key,
    };
    query.sort.iter().map(key).collect()
}

fn matches(table: &WorldTable, query: &ListRequest, record: &WorldRecord) -> bool {
    let meets = |p: &Condition| p.holds(table, record);
    query.predicates.iter().all(meets) && query.search.as_ref().is_none_or(|q| found(table, query, record, q))
}

/// The fields that `q` searches (reference, *Search fields for q*).
fn found(table: &WorldTable, query: &ListRequest, record: &WorldRecord, q: &str) -> bool {
    let fields: &[&str] = match query.resource {
        Resource::Contacts => &["name", "firstName", "lastName", "email", "mobile", "position", "company"],
        Resource::Companies => &["name", "registeredName", "websiteUrl"],
        Resource::TeamMembers => &["firstName", "lastName", "username", "email"],
        Resource::CustomFields => &[],
    };
    let holds = |wire: &&str| {
        let cell = table.slot(wire).and_then(|slot| record.cell(slot));
        cell.and_then(Cell::text).is_some_and(|text| text.to_lowercase().contains(q))
    };
    fields.iter().any(holds)
        || query.resource == Resource::Companies && rules::host(table, record).is_some_and(|host| host.contains(q))
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum PagePosition {
    #[serde(rename = "s")]
    Start,
    #[serde(rename = "k")]
    After(Vec<Option<Cell>>, String),
    #[serde(rename = "o")]
    Offset(usize),
}

const MARK: &str = "+/=";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Binding(String);

#[derive(Serialize, Deserialize)]
struct Token {
    b: String,
    p: PagePosition,
    /// Distinguishes tokens of the same position: the next token of an empty page differs from the token of the
    /// request.
    n: u64,
}

impl Binding {
    /// Every parameter except the cursor is a condition, including the page size, as "the same conditions" implies.
    pub(crate) fn new(tenant: &str, path: &str, scopes: &[String], query: &[(String, String)]) -> Binding {
        let mut conditions: Vec<&(String, String)> = query.iter().filter(|(name, _)| name != "cursor").collect();
        conditions.sort_unstable();
        let mut hash = Sha256::new();
        for part in [tenant, path]
            .into_iter()
            .chain(scopes.iter().map(String::as_str))
            .chain(conditions.into_iter().flat_map(|(name, value)| [name.as_str(), value]))
        {
            hash.update(part.len().to_le_bytes());
            hash.update(part.as_bytes());
        }
        Binding(hash.finalize()[..9].iter().map(|byte| format!("{byte:02x}")).collect())
    }

    pub(crate) fn token(&self, place: &PagePosition, nonce: u64) -> String {
        let token = Token { b: self.0.clone(), p: place.clone(), n: nonce };
        let json = serde_json::to_vec(&token).unwrap_or_default();
        let digits = json.iter().map(|byte| format!("{byte:02x}"));
        std::iter::once(MARK.to_string()).chain(digits).collect()
    }

    /// The position of a token. With [`Fault::PageWindow`], the service refuses cursors behind its window of rows.
    pub(crate) fn read(&self, token: &str, fault: Option<&Fault>) -> Result<(PagePosition, u64), ErrorAnswer> {
        let byte = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
        let bytes: Option<Vec<u8>> =
            token.strip_prefix(MARK).and_then(|hex| hex.as_bytes().chunks(2).map(byte).collect());
        let read = bytes.and_then(|bytes| serde_json::from_slice::<Token>(&bytes).ok());
        let wrong = match read {
            Some(token) if token.b == self.0 => match (&token.p, fault) {
                (PagePosition::Offset(rows), Some(Fault::PageWindow(most))) if rows >= most => {
                    "is behind the last row that can be listed"
                }
                _ => return Ok((token.p, token.n)),
            },
            Some(_) => "belongs to other conditions or to another key",
            None => "is not a cursor of this list",
        };
        Err(ErrorAnswer::invalid("cursor", wrong))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_back_only_with_their_conditions() {
        let params = |limit: &str| [("limit".to_string(), limit.to_string())];
        let scopes = ["contacts:read".to_string()];
        let ten = Binding::new("t", "/contacts", &scopes, &params("10"));
        for id in ["a", "ab", "abc", "Zoë 東京"] {
            let place = PagePosition::After(vec![None, Some(Cell::Text("x".into()))], id.into());
            assert_eq!(ten.read(&ten.token(&place, 7), None).unwrap(), (place.clone(), 7));
            for other in [
                Binding::new("t", "/contacts", &scopes, &params("11")),
                Binding::new("t", "/companies", &scopes, &params("10")),
                Binding::new("u", "/contacts", &scopes, &params("10")),
                Binding::new("t", "/contacts", &[], &params("10")),
            ] {
                assert_eq!(other.read(&ten.token(&place, 7), None).unwrap_err().status, 400);
            }
        }
        for garbage in ["", "x", "====", "AAAA", "é"] {
            assert!(ten.read(garbage, None).is_err(), "{garbage}");
        }
    }
}
