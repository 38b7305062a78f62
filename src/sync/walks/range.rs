//! The rows that a walk reads, and the query for them. Pure.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::api::query::QueryError;
use crate::api::{Bound, ListQuery, SortBy};
use crate::model::{Instant, Resource};

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
    All,
    /// By `createdAt`, ascending: `from` inclusive, `to` exclusive, open if `None`.
    Created {
        /// Rows at or after this.
        from: Option<Instant>,
        /// Rows before this.
        to: Option<Instant>,
    },
    /// Rows without `createdAt`.
    WithoutCreated,
}

impl WalkRange {
    /// The query of the range's first page.
    ///
    /// # Errors
    /// Returns a [`QueryError`] if the resource does not support the query.
    pub fn query(&self, resource: Resource) -> Result<ListQuery, QueryError> {
        let query = ListQuery::new(resource);
        match self {
            WalkRange::Changes { after, inclusive } => {
                let query = query.sort(SortBy::UpdatedAsc)?;
                match after {
                    Some(after) if *inclusive => query.updated(Bound::Gte(*after)),
                    Some(after) => query.updated(Bound::Gt(*after)),
                    None => Ok(query),
                }
            }
            WalkRange::Tied { at, from } => {
                let query =
                    query.sort(SortBy::CreatedAsc)?.updated(Bound::Gte(*at))?.updated(Bound::Lt(at.plus(SECOND)))?;
                from.map_or(Ok(query.clone()), |from| query.created(Bound::Gte(from)))
            }
            WalkRange::All => query.sort(SortBy::CreatedAsc),
            WalkRange::Created { from, to } => {
                let mut query = query.sort(SortBy::CreatedAsc)?;
                if let Some(from) = from {
                    query = query.created(Bound::Gte(*from))?;
                }
                if let Some(to) = to {
                    query = query.created(Bound::Lt(*to))?;
                }
                Ok(query)
            }
            WalkRange::WithoutCreated => query.sort(SortBy::CreatedAsc)?.is_null("createdAt", true),
        }
    }

    /// Whether a row with this sort key can be in the range, whose bounds are sent in milliseconds.
    pub(in crate::sync) fn holds(&self, key: Option<Instant>) -> bool {
        match (self, key) {
            (WalkRange::All, _) | (WalkRange::Changes { after: None, .. }, _) | (WalkRange::WithoutCreated, None) => {
                true
            }
            (WalkRange::Tied { from, .. }, key) => from.is_none_or(|from| key.is_some_and(|key| key >= from)),
            (WalkRange::Changes { after: Some(after), inclusive }, Some(key)) => {
                let sent = after.millisecond_before();
                key > sent || *inclusive && key == sent
            }
            (WalkRange::Created { from, to }, Some(key)) => {
                from.is_none_or(|from| key >= from.millisecond_before())
                    && to.is_none_or(|to| key < to.millisecond_after())
            }
            _ => false,
        }
    }
}
