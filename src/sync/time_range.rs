//! Ranges of time that are counted here and there, and how they are cut. Pure.

use serde::{Deserialize, Serialize};

use crate::api::query::QueryError;
use crate::api::{Bound, ListQuery, PageSize, SortBy};
use crate::model::{Instant, Resource};
use crate::store::{Part, Stretch};

/// The timestamp that a range is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeField {
    /// `createdAt`: finds records lost and records lingering.
    CreatedAt,
    /// `updatedAt`: finds stale ones.
    UpdatedAt,
}

impl TimeField {
    /// The column, and the word in `audits`.
    pub const fn column(self) -> &'static str {
        match self {
            TimeField::CreatedAt => "created_at",
            TimeField::UpdatedAt => "updated_at",
        }
    }

    const fn wire(self) -> &'static str {
        match self {
            TimeField::CreatedAt => "createdAt",
            TimeField::UpdatedAt => "updatedAt",
        }
    }
}

/// Which records of a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeBounds {
    /// `from` inclusive, `to` exclusive, open where there is none; edges stand on whole seconds, since the service may
    /// compare at another precision than it shows.
    Dated {
        /// Records at or after this.
        from: Option<Instant>,
        /// Records before this.
        to: Option<Instant>,
    },
    /// Records without the timestamp.
    Dateless,
    /// Every record.
    Whole,
}

/// A range to be counted or listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeRange {
    /// The timestamp.
    pub field: TimeField,
    /// Which records.
    pub bounds: TimeBounds,
}

impl TimeRange {
    /// Every record.
    pub const WHOLE: TimeRange = TimeRange { field: TimeField::CreatedAt, bounds: TimeBounds::Whole };

    /// A dated range.
    pub const fn dated(field: TimeField, from: Option<Instant>, to: Option<Instant>) -> TimeRange {
        TimeRange { field, bounds: TimeBounds::Dated { from, to } }
    }

    /// The ranges between these edges, open at both ends, and the one of records without the timestamp.
    pub fn between(field: TimeField, edges: &[Instant]) -> Vec<TimeRange> {
        let mut spans = Vec::with_capacity(edges.len() + 2);
        let mut from = None;
        for edge in edges {
            spans.push(TimeRange::dated(field, from, Some(*edge)));
            from = Some(*edge);
        }
        spans.push(TimeRange::dated(field, from, None));
        spans.push(TimeRange { field, bounds: TimeBounds::Dateless });
        spans
    }

    /// The query that lists the range, oldest first.
    ///
    /// # Errors
    /// [`QueryError`] if the resource cannot be asked so.
    pub fn list(&self, resource: Resource) -> Result<ListQuery, QueryError> {
        let sort = match self.field {
            TimeField::CreatedAt => SortBy::CreatedAsc,
            TimeField::UpdatedAt => SortBy::UpdatedAsc,
        };
        let mut query = ListQuery::new(resource).sort(sort)?;
        let bound = |query: ListQuery, bound| match self.field {
            TimeField::CreatedAt => query.created(bound),
            TimeField::UpdatedAt => query.updated(bound),
        };
        match self.bounds {
            TimeBounds::Whole => {}
            TimeBounds::Dateless => query = query.is_null(self.field.wire(), true)?,
            TimeBounds::Dated { from, to } => {
                if let Some(from) = from {
                    query = bound(query, Bound::Gte(from))?;
                }
                if let Some(to) = to {
                    query = bound(query, Bound::Lt(to))?;
                }
                if from.is_none() && to.is_none() {
                    query = query.is_null(self.field.wire(), false)?;
                }
            }
        }
        Ok(query)
    }

    /// The query that counts the range, for 1 RU: one row at most comes with the count.
    ///
    /// # Errors
    /// [`QueryError`] if the resource cannot be asked so.
    pub fn count(&self, resource: Resource) -> Result<ListQuery, QueryError> {
        Ok(self.list(resource)?.limit(PageSize::ONE).count_exact())
    }

    /// The same range here.
    pub const fn stretch(&self) -> Stretch {
        let part = match self.bounds {
            TimeBounds::Dated { from, to } => Part::Dated(from, to),
            TimeBounds::Dateless => Part::Dateless,
            TimeBounds::Whole => Part::Whole,
        };
        Stretch { column: self.field.column(), part }
    }

    /// Both halves of a dated range cut at an instant inside it; `None` where that cuts nothing off.
    pub fn cut(&self, at: Instant) -> Option<(TimeRange, TimeRange)> {
        let TimeBounds::Dated { from, to } = self.bounds else {
            return None;
        };
        let inside = from.is_none_or(|from| at > from) && to.is_none_or(|to| at < to);
        inside.then(|| (TimeRange::dated(self.field, from, Some(at)), TimeRange::dated(self.field, Some(at), to)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Instant {
        Instant::from_secs(second).unwrap()
    }

    #[test]
    fn ranges_between_edges_leave_nothing_out_and_nothing_twice() {
        let spans = TimeRange::between(TimeField::CreatedAt, &[at(10), at(20)]);
        let extents: Vec<_> = spans.iter().map(|span| span.bounds).collect();
        assert_eq!(
            extents,
            [
                TimeBounds::Dated { from: None, to: Some(at(10)) },
                TimeBounds::Dated { from: Some(at(10)), to: Some(at(20)) },
                TimeBounds::Dated { from: Some(at(20)), to: None },
                TimeBounds::Dateless,
            ]
        );
    }

    #[test]
    fn a_count_asks_for_one_row_and_the_exact_total() {
        let span = TimeRange::dated(TimeField::UpdatedAt, Some(at(10)), Some(at(20)));
        let params = span.count(Resource::Contacts).unwrap().to_params();
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

    #[test]
    fn a_cut_outside_the_range_cuts_nothing() {
        let span = TimeRange::dated(TimeField::CreatedAt, Some(at(10)), Some(at(20)));
        assert_eq!(span.cut(at(10)), None);
        assert_eq!(span.cut(at(20)), None);
        let (low, high) = span.cut(at(15)).unwrap();
        assert_eq!(
            (low.bounds, high.bounds),
            (
                TimeBounds::Dated { from: Some(at(10)), to: Some(at(15)) },
                TimeBounds::Dated { from: Some(at(15)), to: Some(at(20)) },
            )
        );
    }
}
