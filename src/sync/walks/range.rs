//! Ranges of records, and the queries that list or count them. Pure.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::api::query::QueryError;
use crate::api::{Bound, ListQuery, PageSize, SortBy};
use crate::model::{Instant, Resource, TimeBounds, TimeField, TimeRange};

/// What a tie is cut to: the service may compare at another precision than it shows.
pub(super) const SECOND: Duration = Duration::from_secs(1);

/// The rows that a walk reads, and their order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WalkRange {
    /// By `updatedAt`, ascending: changes.
    Changes {
        /// Rows later than this; if it is `None`, all with an `updatedAt`.
        after: Option<Instant>,
        /// Whether rows at `after` are included.
        inclusive: bool,
    },
    /// By `createdAt`, ascending: changes that share a second, where the cursor does not lead through all of them.
    Tied {
        /// The second of their `updatedAt`.
        at: Instant,
        /// Rows created at or after this; if it is `None`, all.
        from: Option<Instant>,
    },
    /// By `createdAt`, ascending: everything; rows without `createdAt` come last.
    All {
        /// By value only those at or after this, which have a date; those without one are read afterwards.
        from: Option<Instant>,
    },
    /// By `createdAt`, ascending: `from` inclusive, `to` exclusive, open if `None`.
    Created {
        /// Rows at or after this.
        from: Option<Instant>,
        /// Rows before this.
        to: Option<Instant>,
    },
    WithoutCreated,
}

impl WalkRange {
    /// What a part of a list has, in the order in which it is read.
    pub(in crate::sync) const fn of(bounds: TimeBounds) -> WalkRange {
        match bounds {
            TimeBounds::Whole => WalkRange::All { from: None },
            TimeBounds::Dated { from, to } => WalkRange::Created { from, to },
            TimeBounds::Dateless => WalkRange::WithoutCreated,
        }
    }

    /// The query of the range's first page.
    pub fn query(&self, resource: Resource) -> Result<ListQuery, QueryError> {
        match self {
            WalkRange::Changes { after: Some(after), inclusive: false } => {
                ListQuery::new(resource).sort(SortBy::UpdatedAsc)?.bounded(TimeField::UpdatedAt, Bound::Gt(*after))
            }
            WalkRange::WithoutCreated => TimeRange::of(TimeField::CreatedAt, TimeBounds::Dateless).list(resource),
            _ => {
                let (from, to) = self.dates();
                self.between(from, to).list(resource)
            }
        }
    }

    /// The rows of its kind between these instants, in its order; without any, those without a date too.
    pub(super) fn between(&self, from: Option<Instant>, to: Option<Instant>) -> TimeRange {
        let is_whole = from.is_none() && to.is_none();
        let bounds = if is_whole { TimeBounds::Whole } else { TimeBounds::Dated { from, to } };
        match self {
            WalkRange::Changes { .. } => TimeRange::of(TimeField::UpdatedAt, bounds),
            WalkRange::Tied { at, .. } => {
                let second = TimeBounds::Dated { from: Some(*at), to: Some(at.plus(SECOND)) };
                TimeRange { within: Some(second), ..TimeRange::of(TimeField::CreatedAt, bounds) }
            }
            _ => TimeRange::of(TimeField::CreatedAt, bounds),
        }
    }

    /// Between which dates its rows are, by its order, as far as it says.
    pub(in crate::sync) const fn dates(&self) -> (Option<Instant>, Option<Instant>) {
        match self {
            WalkRange::Changes { after: from, .. } | WalkRange::Tied { from, .. } | WalkRange::All { from } => {
                (*from, None)
            }
            WalkRange::Created { from, to } => (*from, *to),
            WalkRange::WithoutCreated => (None, None),
        }
    }

    /// What is left of it by value: rows at or after this.
    #[must_use]
    pub(super) fn starting_at(&self, at: Instant) -> WalkRange {
        let from = Some(at);
        match self {
            WalkRange::Changes { .. } => WalkRange::Changes { after: from, inclusive: true },
            WalkRange::Tied { at: tied, .. } => WalkRange::Tied { at: *tied, from },
            WalkRange::All { .. } => WalkRange::All { from },
            WalkRange::Created { to, .. } => WalkRange::Created { from, to: *to },
            WalkRange::WithoutCreated => WalkRange::WithoutCreated,
        }
    }

    /// Whether a row with this sort key can be in the range, whose bounds are sent in milliseconds.
    pub(in crate::sync) fn holds(&self, key: Option<Instant>) -> bool {
        match (self, key) {
            (WalkRange::All { from: None } | WalkRange::Changes { after: None, .. }, _)
            | (WalkRange::WithoutCreated, None) => true,
            (WalkRange::Tied { from, .. }, key) => from.is_none_or(|from| key.is_some_and(|key| key >= from)),
            (WalkRange::Changes { after: Some(after), inclusive }, Some(key)) => {
                let sent = after.millisecond_before();
                key > sent || *inclusive && key == sent
            }
            (WalkRange::All { .. } | WalkRange::Created { .. }, Some(key)) => {
                let (from, to) = self.dates();
                from.is_none_or(|from| key >= from.millisecond_before())
                    && to.is_none_or(|to| key < to.millisecond_after())
            }
            _ => false,
        }
    }
}

impl TimeRange {
    /// The query that lists the range, oldest first.
    pub fn list(&self, resource: Resource) -> Result<ListQuery, QueryError> {
        let sort = match self.field {
            TimeField::CreatedAt => SortBy::CreatedAsc,
            TimeField::UpdatedAt => SortBy::UpdatedAsc,
        };
        let query = ListQuery::new(resource).sort(sort)?;
        let query = bounded(query, self.field, self.bounds)?;
        match self.within {
            Some(within) => bounded(query, self.field.other(), within),
            None => Ok(query),
        }
    }

    /// The query that counts the range, for 1 RU; it returns at most one row.
    pub fn count(&self, resource: Resource) -> Result<ListQuery, QueryError> {
        Ok(self.list(resource)?.limit(PageSize::ONE).count_exact())
    }
}

/// The query with these bounds of a timestamp.
fn bounded(query: ListQuery, field: TimeField, bounds: TimeBounds) -> Result<ListQuery, QueryError> {
    match bounds {
        TimeBounds::Whole => Ok(query),
        TimeBounds::Dateless => query.is_null(field.wire(), true),
        TimeBounds::Dated { from: None, to: None } => query.is_null(field.wire(), false),
        TimeBounds::Dated { from, to } => {
            let query = from.map_or(Ok(query.clone()), |from| query.bounded(field, Bound::Gte(from)))?;
            to.map_or(Ok(query.clone()), |to| query.bounded(field, Bound::Lt(to)))
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
        let params = range.count(Resource::Contacts).unwrap().to_params();
        for (key, value) in [
            ("limit", "1"),
            ("count", "exact"),
            ("filter[updatedAt][gte]", "1970-01-01T00:00:10.000Z"),
            ("filter[updatedAt][lt]", "1970-01-01T00:00:20.000Z"),
        ] {
            assert!(params.contains(&(key.into(), value.into())), "{key} {params:?}");
        }
        let open = TimeRange::dated(TimeField::CreatedAt, None, None).count(Resource::Contacts).unwrap().to_params();
        assert!(open.contains(&("filter[createdAt][isNull]".into(), "false".into())), "{open:?}");
    }
}
