//! The rows that a walk reads, and the query for them. Pure.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::api::query::QueryError;
use crate::api::{Bound, ListQuery, SortBy};
use crate::model::{Instant, Resource, TimeBounds};

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
            WalkRange::All { .. } | WalkRange::Created { .. } => {
                let (from, to) = self.dates();
                let query = query.sort(SortBy::CreatedAsc)?;
                let query = from.map_or(Ok(query.clone()), |from| query.created(Bound::Gte(from)))?;
                to.map_or(Ok(query.clone()), |to| query.created(Bound::Lt(to)))
            }
            WalkRange::WithoutCreated => query.sort(SortBy::CreatedAsc)?.is_null("createdAt", true),
        }
    }

    /// The query for rows of its kind between these instants, in its order.
    ///
    /// # Errors
    /// Returns a [`QueryError`] if the resource does not support the query.
    pub(super) fn between(
        &self,
        from: Instant,
        to: Option<Instant>,
        resource: Resource,
    ) -> Result<ListQuery, QueryError> {
        match self {
            WalkRange::Changes { .. } | WalkRange::Tied { .. } => {
                let query = self.starting_at(from).query(resource)?;
                let by_update = matches!(self, WalkRange::Changes { .. });
                to.map_or(Ok(query.clone()), |to| {
                    if by_update { query.updated(Bound::Lt(to)) } else { query.created(Bound::Lt(to)) }
                })
            }
            _ => WalkRange::Created { from: Some(from), to }.query(resource),
        }
    }

    /// Between which dates its rows were created, as far as it says.
    pub(in crate::sync) const fn dates(&self) -> (Option<Instant>, Option<Instant>) {
        match self {
            WalkRange::All { from } => (*from, None),
            WalkRange::Created { from, to } => (*from, *to),
            WalkRange::Changes { .. } | WalkRange::Tied { .. } | WalkRange::WithoutCreated => (None, None),
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
