//! Ranges of time that are counted here and there, and how they are cut. Pure.

use serde::{Deserialize, Serialize};

use crate::api::query::QueryError;
use crate::api::{Bound, ListQuery, PageSize, SortBy};
use crate::model::{Instant, Resource};
use crate::store::{Part, Stretch};

/// The timestamp that a range is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dimension {
    /// `createdAt`: finds records lost and records lingering.
    CreatedAt,
    /// `updatedAt`: finds stale ones.
    UpdatedAt,
}

impl Dimension {
    /// The column, and the word in `audits`.
    pub const fn column(self) -> &'static str {
        match self {
            Dimension::CreatedAt => "created_at",
            Dimension::UpdatedAt => "updated_at",
        }
    }

    const fn wire(self) -> &'static str {
        match self {
            Dimension::CreatedAt => "createdAt",
            Dimension::UpdatedAt => "updatedAt",
        }
    }
}

/// Which records of a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
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
pub struct Span {
    /// The timestamp.
    pub by: Dimension,
    /// Which records.
    pub extent: Extent,
}

impl Span {
    /// Every record.
    pub const WHOLE: Span = Span { by: Dimension::CreatedAt, extent: Extent::Whole };

    /// A dated range.
    pub const fn dated(by: Dimension, from: Option<Instant>, to: Option<Instant>) -> Span {
        Span { by, extent: Extent::Dated { from, to } }
    }

    /// The ranges between these edges, open at both ends, and the one of records without the timestamp.
    pub fn between(by: Dimension, edges: &[Instant]) -> Vec<Span> {
        let mut spans = Vec::with_capacity(edges.len() + 2);
        let mut from = None;
        for edge in edges {
            spans.push(Span::dated(by, from, Some(*edge)));
            from = Some(*edge);
        }
        spans.push(Span::dated(by, from, None));
        spans.push(Span { by, extent: Extent::Dateless });
        spans
    }

    /// The query that lists the range, oldest first.
    ///
    /// # Errors
    /// [`QueryError`] if the resource cannot be asked so.
    pub fn list(&self, resource: Resource) -> Result<ListQuery, QueryError> {
        let sort = match self.by {
            Dimension::CreatedAt => SortBy::CreatedAsc,
            Dimension::UpdatedAt => SortBy::UpdatedAsc,
        };
        let mut query = ListQuery::new(resource).sort(sort)?;
        let bound = |query: ListQuery, bound| match self.by {
            Dimension::CreatedAt => query.created(bound),
            Dimension::UpdatedAt => query.updated(bound),
        };
        match self.extent {
            Extent::Whole => {}
            Extent::Dateless => query = query.is_null(self.by.wire(), true)?,
            Extent::Dated { from, to } => {
                if let Some(from) = from {
                    query = bound(query, Bound::Gte(from))?;
                }
                if let Some(to) = to {
                    query = bound(query, Bound::Lt(to))?;
                }
                if from.is_none() && to.is_none() {
                    query = query.is_null(self.by.wire(), false)?;
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
        let part = match self.extent {
            Extent::Dated { from, to } => Part::Dated(from, to),
            Extent::Dateless => Part::Dateless,
            Extent::Whole => Part::Whole,
        };
        Stretch { column: self.by.column(), part }
    }

    /// Both halves of a dated range cut at an instant inside it; `None` where that cuts nothing off.
    pub fn cut(&self, at: Instant) -> Option<(Span, Span)> {
        let Extent::Dated { from, to } = self.extent else {
            return None;
        };
        let inside = from.is_none_or(|from| at > from) && to.is_none_or(|to| at < to);
        inside.then(|| (Span::dated(self.by, from, Some(at)), Span::dated(self.by, Some(at), to)))
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
        let spans = Span::between(Dimension::CreatedAt, &[at(10), at(20)]);
        let extents: Vec<_> = spans.iter().map(|span| span.extent).collect();
        assert_eq!(
            extents,
            [
                Extent::Dated { from: None, to: Some(at(10)) },
                Extent::Dated { from: Some(at(10)), to: Some(at(20)) },
                Extent::Dated { from: Some(at(20)), to: None },
                Extent::Dateless,
            ]
        );
    }

    #[test]
    fn a_count_asks_for_one_row_and_the_exact_total() {
        let span = Span::dated(Dimension::UpdatedAt, Some(at(10)), Some(at(20)));
        let params = span.count(Resource::Contacts).unwrap().to_params();
        for (key, value) in [
            ("limit", "1"),
            ("count", "exact"),
            ("filter[updatedAt][gte]", "1970-01-01T00:00:10.000Z"),
            ("filter[updatedAt][lt]", "1970-01-01T00:00:20.000Z"),
        ] {
            assert!(params.contains(&(key.into(), value.into())), "{key} {params:?}");
        }
        let open = Span::dated(Dimension::CreatedAt, None, None).count(Resource::Contacts).unwrap().to_params();
        assert!(open.contains(&("filter[createdAt][isNull]".into(), "false".into())), "{open:?}");
    }

    #[test]
    fn a_cut_outside_the_range_cuts_nothing() {
        let span = Span::dated(Dimension::CreatedAt, Some(at(10)), Some(at(20)));
        assert_eq!(span.cut(at(10)), None);
        assert_eq!(span.cut(at(20)), None);
        let (low, high) = span.cut(at(15)).unwrap();
        assert_eq!(
            (low.extent, high.extent),
            (
                Extent::Dated { from: Some(at(10)), to: Some(at(15)) },
                Extent::Dated { from: Some(at(15)), to: Some(at(20)) },
            )
        );
    }
}
