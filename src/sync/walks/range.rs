//! Which rows a walk reads, and the query that asks for them. Pure.

use serde::{Deserialize, Serialize};

use crate::api::query::QueryError;
use crate::api::{Bound, ListQuery, SortBy};
use crate::model::{Instant, Resource};

/// Which rows a walk reads, and in which order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Range {
    /// By `updatedAt`, ascending: changes.
    Changes {
        /// Rows later than this; all that have an `updatedAt` where there is none.
        after: Option<Instant>,
        /// Rows at `after` too.
        inclusive: bool,
    },
    /// By `createdAt`, ascending: everything; rows without one come last.
    All,
    /// By `createdAt`, ascending: `from` inclusive, `to` exclusive, open where there is none.
    Created {
        /// Rows at or after this.
        from: Option<Instant>,
        /// Rows before this.
        to: Option<Instant>,
    },
    /// Rows without `createdAt`.
    WithoutCreated,
}

impl Range {
    /// The query of the range's first page.
    ///
    /// # Errors
    /// [`QueryError`] if the resource cannot be asked so.
    pub fn query(&self, resource: Resource) -> Result<ListQuery, QueryError> {
        let query = ListQuery::new(resource);
        match self {
            Range::Changes { after, inclusive } => {
                let query = query.sort(SortBy::UpdatedAsc)?;
                match after {
                    Some(after) if *inclusive => query.updated(Bound::Gte(*after)),
                    Some(after) => query.updated(Bound::Gt(*after)),
                    None => Ok(query),
                }
            }
            Range::All => query.sort(SortBy::CreatedAsc),
            Range::Created { from, to } => {
                let mut query = query.sort(SortBy::CreatedAsc)?;
                if let Some(from) = from {
                    query = query.created(Bound::Gte(*from))?;
                }
                if let Some(to) = to {
                    query = query.created(Bound::Lt(*to))?;
                }
                Ok(query)
            }
            Range::WithoutCreated => query.sort(SortBy::CreatedAsc)?.is_null("createdAt", true),
        }
    }

    /// Whether a row with this sort key may be in the range.
    pub(in crate::sync) fn holds(&self, key: Option<Instant>) -> bool {
        match (self, key) {
            (Range::All, _) | (Range::Changes { after: None, .. }, _) | (Range::WithoutCreated, None) => true,
            (Range::Changes { after: Some(after), inclusive }, Some(key)) => {
                key > *after || *inclusive && key == *after
            }
            (Range::Created { from, to }, Some(key)) => {
                from.is_none_or(|from| key >= from) && to.is_none_or(|to| key < to)
            }
            _ => false,
        }
    }
}
