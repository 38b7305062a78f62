//! One page of a list: the rows that meet the conditions, in order, from a position on.
//!
//! Lists sorted by `createdAt` or `updatedAt` alone walk the table's own order from the cursor; all others collect the
//! matching rows and sort them.

use crate::model::{FieldKind, Instant, Op, Resource};

use super::cursor::PagePosition;
use super::predicate::{self, Condition, ConditionTarget, Test};
use super::rules::ListRequest;
use super::table::{Cell, Order, WorldRecord, WorldTable, compare, sort_key};
use super::world::World;

/// The rows of a page, and where the next one begins.
#[derive(Debug)]
pub(crate) struct ServedPage<'a> {
    pub(crate) rows: Vec<&'a WorldRecord>,
    pub(crate) next: Option<PagePosition>,
    pub(crate) total: Option<usize>,
}

/// Serves the page at `place`. With `offsets` the next position is a row count instead of sort values.
pub(crate) fn page<'a>(world: &'a World, query: &ListRequest, place: &PagePosition, offsets: bool) -> ServedPage<'a> {
    let table = world.table(query.resource);
    let wanted = query.limit + 1;
    let skip = match place {
        PagePosition::Offset(rows) => *rows,
        PagePosition::Start | PagePosition::After(..) => 0,
    };
    let mut rows: Vec<&WorldRecord> = match indexed(table, query) {
        Some((order, slot, descending)) => {
            let after = match place {
                PagePosition::After(keys, id) => Some((keys.first().and_then(|key| key.as_ref()?.time()), id.as_str())),
                _ => None,
            };
            let (low, high) = bounds(query, slot);
            order
                .walk(descending, after, low, high)
                .filter_map(|id| table.get(id))
                .filter(|record| matches(table, query, record))
                .skip(skip)
                .take(wanted)
                .collect()
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
            all.into_iter()
                .filter(|(keys, record)| match place {
                    PagePosition::After(after, id) => compare(keys, &record.id, after, id).is_gt(),
                    _ => true,
                })
                .map(|(_, record)| record)
                .skip(skip)
                .take(wanted)
                .collect()
        }
    };
    let more = rows.len() > query.limit;
    rows.truncate(query.limit);
    let next = rows.last().filter(|_| more).map(|last| {
        if offsets {
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
        let target = ConditionTarget::Standard(*slot);
        let timed = |p: &Condition| p.target == target && matches!(p.test, Test::Time(..));
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
            return Box::new(order.walk(false, None, low, high).filter_map(|id| table.get(id)));
        }
    }
    Box::new(table.iter())
}

fn ids(query: &ListRequest) -> Option<&[String]> {
    query.predicates.iter().find_map(|p| match (p.target, &p.test) {
        (ConditionTarget::Standard(slot), Test::OneOf(ids))
            if query.resource.fields().get(slot)?.kind == FieldKind::Id =>
        {
            Some(ids.as_slice())
        }
        _ => None,
    })
}

/// The timestamp range outside of which some predicate rejects every row.
fn bounds(query: &ListRequest, slot: usize) -> (Option<Instant>, Option<Instant>) {
    let (mut low, mut high) = (None::<Instant>, None::<Instant>);
    for predicate in query.predicates.iter().filter(|p| p.target == ConditionTarget::Standard(slot)) {
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
    let meets = |p: &Condition| p.holds(record, || host(table, record));
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
        || query.resource == Resource::Companies && host(table, record).is_some_and(|host| host.contains(q))
}

/// A company's host name: the given one, else that of its web site.
fn host(table: &WorldTable, record: &WorldRecord) -> Option<String> {
    let text = |wire| table.slot(wire).and_then(|slot| record.cell(slot)?.text());
    match text("domain") {
        Some(domain) => Some(predicate::normalized(&domain)),
        None => text("websiteUrl").and_then(|address| predicate::of_website(&address)),
    }
}
