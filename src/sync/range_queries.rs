//! Builds queries for ranges of time, which list or count their records. Pure.

use crate::api::query::QueryError;
use crate::api::{Bound, ListQuery, PageSize, SortBy};
use crate::model::Resource;
use crate::model::{TimeBounds, TimeField, TimeRange};

impl TimeRange {
    /// The query that lists the range, oldest first.
    ///
    /// # Errors
    /// Returns a [`QueryError`] if the resource does not support the query.
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
    ///
    /// # Errors
    /// Returns a [`QueryError`] if the resource does not support the query.
    pub fn count(&self, resource: Resource) -> Result<ListQuery, QueryError> {
        Ok(self.list(resource)?.limit(PageSize::ONE).count_exact())
    }
}

/// The query with these bounds of a timestamp.
fn bounded(query: ListQuery, field: TimeField, bounds: TimeBounds) -> Result<ListQuery, QueryError> {
    let bound = |query: ListQuery, bound| match field {
        TimeField::CreatedAt => query.created(bound),
        TimeField::UpdatedAt => query.updated(bound),
    };
    match bounds {
        TimeBounds::Whole => Ok(query),
        TimeBounds::Dateless => query.is_null(field.wire(), true),
        TimeBounds::Dated { from: None, to: None } => query.is_null(field.wire(), false),
        TimeBounds::Dated { from, to } => {
            let query = from.map_or(Ok(query.clone()), |from| bound(query, Bound::Gte(from)))?;
            to.map_or(Ok(query.clone()), |to| bound(query, Bound::Lt(to)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Instant;

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
