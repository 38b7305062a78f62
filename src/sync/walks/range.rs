//! Ranges of records, and the queries that list or count them. Pure.

use std::time::Duration;

use crate::api::{ListQuery, PageSize, SortBy};
use crate::model::{Instant, Op, Record, Resource, Ru, TimeBounds, TimeField, TimeRange};

/// What a tie is cut to: the service may compare at another precision than it shows.
pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const MILLISECOND: Duration = Duration::from_millis(1);

/// What a sweep of so many rows costs: each page but the first repeats a row of the page before, and the rows without a date
/// have one of their own.
pub fn price(rows: u64) -> Ru {
    Ru::new(if rows > 100 { (rows - 1).div_ceil(99) + 1 } else { 1 })
}

impl TimeRange {
    /// What is left of it by value: rows at or after this.
    #[must_use]
    pub(super) const fn starting_at(self, at: Instant) -> TimeRange {
        let bounds = match self.bounds {
            TimeBounds::Dateless => TimeBounds::Dateless,
            bounds => TimeBounds::Dated { from: Some(at), to: bounds.dates().1 },
        };
        TimeRange { bounds, ..self }
    }

    /// Whether a row with this sort key can be in the range, whose bounds are sent in milliseconds.
    pub(super) fn holds(&self, key: Option<Instant>) -> bool {
        match (self.bounds, key) {
            (TimeBounds::Whole, _) | (TimeBounds::Dateless, None) => true,
            (TimeBounds::Dated { from, to }, Some(key)) => {
                from.is_none_or(|from| key >= from.millisecond_before())
                    && to.is_none_or(|to| key < to.millisecond_after())
            }
            _ => false,
        }
    }

    /// Whether a record can be in the range, by both its times.
    pub(in crate::sync) fn has(&self, record: &Record) -> bool {
        let within = self.within.map(|bounds| TimeRange::of(self.field.other(), bounds));
        self.holds(record.time(self.field)) && within.is_none_or(|range| range.holds(record.time(range.field)))
    }

    /// The query that lists the range, oldest first.
    pub fn list(&self, resource: Resource) -> ListQuery {
        let sort = match self.field {
            TimeField::CreatedAt => SortBy::CreatedAsc,
            TimeField::UpdatedAt => SortBy::UpdatedAsc,
        };
        self.sorted(resource, sort)
    }

    /// The query that lists the range in this order.
    pub fn sorted(&self, resource: Resource, sort: SortBy) -> ListQuery {
        let query = bounded(ListQuery::new(resource).sort(sort), self.field, self.bounds);
        match self.within {
            Some(within) => bounded(query, self.field.other(), within),
            None => query,
        }
    }

    /// The query that counts the range, for 1 RU; it returns at most one row.
    pub fn count(&self, resource: Resource) -> ListQuery {
        self.list(resource).limit(PageSize::ONE).count_exact()
    }
}

fn bounded(query: ListQuery, field: TimeField, bounds: TimeBounds) -> ListQuery {
    match bounds {
        TimeBounds::Whole => query,
        TimeBounds::Dateless => query.is_null(field.wire(), true),
        TimeBounds::Dated { from: None, to: None } => query.is_null(field.wire(), false),
        TimeBounds::Dated { from, to } => {
            let edges = [from.map(|from| (Op::Gte, from)), to.map(|to| (Op::Lt, to))];
            edges.into_iter().flatten().fold(query, |query, (op, edge)| query.bounded(field, op, edge))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Instant {
        Instant::from_secs(second).unwrap()
    }

    #[test]
    fn count_query_has_one_row_and_the_exact_total() {
        let range = TimeRange::dated(TimeField::UpdatedAt, Some(at(10)), Some(at(20)));
        let params = range.count(Resource::Contacts).to_params();
        for (key, value) in [
            ("limit", "1"),
            ("count", "exact"),
            ("filter[updatedAt][gte]", "1970-01-01T00:00:10.000Z"),
            ("filter[updatedAt][lt]", "1970-01-01T00:00:20.000Z"),
        ] {
            assert!(params.contains(&(key.into(), value.into())), "{key} {params:?}");
        }
        let open = TimeRange::dated(TimeField::CreatedAt, None, None).count(Resource::Contacts).to_params();
        assert!(open.contains(&("filter[createdAt][isNull]".into(), "false".into())), "{open:?}");
    }
}
