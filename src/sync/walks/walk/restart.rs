//! How a walk goes on by value: cut into slices, without a cursor that is of no use, or in a later run.

use std::collections::HashSet;

use super::{CURSOR_AGE, Frontier, LastPage, MOST_RESTARTS, Next, Walk, WalkRange};
use crate::model::Instant;

impl Walk {
    /// Cuts what is left of a dated range at these instants, in their order: the first part goes on where this walk is
    /// and ends at the first cut, the others have read nothing and ask for their totals. `None` where the walk's pages
    /// were not in order, or a cut is not inside what is left.
    pub fn cut(&self, from: Instant, cuts: &[Instant]) -> Option<Vec<Walk>> {
        let end = match &self.range {
            WalkRange::Created { to, .. } => self.until.or(*to),
            WalkRange::All => self.until,
            WalkRange::Changes { .. } | WalkRange::Tied { .. } | WalkRange::WithoutCreated => return None,
        };
        let inside = |cut: &Instant| *cut > from && end.is_none_or(|end| *cut < end);
        if !self.orderly || !cuts.is_sorted_by(|a, b| a < b) || !cuts.iter().all(inside) {
            return None;
        }
        let first = Walk { until: cuts.first().copied().or(self.until), ..self.clone() };
        let ends = cuts.iter().skip(1).copied().map(Some).chain([end]);
        let further = cuts.iter().zip(ends).map(|(from, to)| {
            let range = WalkRange::Created { from: Some(*from), to };
            Walk { page_size: self.page_size, ..Walk::new(range, &self.key) }.counted()
        });
        Some(std::iter::once(first).chain(further).collect())
    }

    /// This walk, going on with a range that it has read nothing of.
    pub(super) fn with_range(&self, range: WalkRange) -> Walk {
        Walk {
            high: self.high,
            served_at: self.served_at,
            rows: self.rows,
            pages: self.pages,
            origin: self.origin,
            page_size: self.page_size,
            present_at: self.present_at,
            passed: self.passed,
            ..Walk::new(range, &self.key)
        }
    }

    /// What to do if the cursor is unusable: refused, of another key, or going in circles.
    pub fn restart(&self) -> Next {
        if self.restarts >= MOST_RESTARTS {
            return Next::Stuck;
        }
        if let (WalkRange::Changes { .. }, Frontier::At(at), 1..) = (&self.range, self.frontier, self.restarts) {
            // By value as well, it does not get through the rows that share this timestamp: they are told apart by the
            // other one.
            return Next::Restart(vec![self.with_range(WalkRange::Tied { at: at.whole_second(), from: None })]);
        }
        let ranges = match (&self.range, self.frontier) {
            (range, _) if !self.orderly => vec![range.clone()],
            (range, Frontier::Start) => vec![range.clone()],
            (WalkRange::Changes { .. }, Frontier::At(at)) => {
                vec![WalkRange::Changes { after: Some(at), inclusive: true }]
            }
            (WalkRange::Tied { at, .. }, Frontier::At(from)) => vec![WalkRange::Tied { at: *at, from: Some(from) }],
            (WalkRange::All, Frontier::At(at)) if self.until.is_some() => {
                vec![WalkRange::Created { from: Some(at), to: self.until }]
            }
            (WalkRange::All, Frontier::At(at)) => {
                vec![WalkRange::Created { from: Some(at), to: None }, WalkRange::WithoutCreated]
            }
            (WalkRange::Created { to, .. }, Frontier::At(at)) => vec![WalkRange::Created { from: Some(at), to: *to }],
            (WalkRange::All, Frontier::Nulls) => vec![WalkRange::WithoutCreated],
            (range, _) => vec![range.clone()],
        };
        Next::Restart(
            ranges
                .into_iter()
                .map(|range| Walk {
                    high: self.high,
                    served_at: self.served_at,
                    pages: self.pages,
                    origin: self.origin,
                    reached: self.reached,
                    restarts: self.restarts + 1,
                    orderly: self.orderly,
                    page_size: self.page_size,
                    until: self.until,
                    present_at: self.present_at,
                    passed: self.passed,
                    ..Walk::new(range, &self.key)
                })
                .collect(),
        )
    }

    /// This walk in a run that continues it now, with that run's key: cursors are bound to the key's scopes, so with a
    /// different key the walk continues without the cursor. After a pause it continues from its last row, or reads its
    /// last page again if that would read more. Restarts of earlier runs no longer count; otherwise a walk that was
    /// given up once would be given up forever.
    #[must_use]
    pub fn resumed(self, key: &str, now: Instant) -> Vec<Walk> {
        let is_recent = |at: Instant| now.since(at).max(at.since(now)) < CURSOR_AGE;
        let is_usable = self.key == key || self.cursor.is_none();
        let is_stale = self.cursor.is_some() && !self.cursor_at.is_some_and(is_recent);
        let can_narrow = self.orderly && !self.tied && matches!(self.frontier, Frontier::At(_));
        let (followed, ended_with) = (HashSet::new(), HashSet::new());
        let renamed = Walk { key: key.to_string(), restarts: 0, beyond: 0, empty: 0, followed, ended_with, ..self };
        if is_usable && !is_stale {
            return vec![renamed];
        }
        if is_usable && !can_narrow {
            return vec![match renamed.last_page.clone() {
                Some(LastPage { cursor, record }) => Walk { cursor, expected: Some(record), ..renamed },
                None => renamed,
            }];
        }
        match renamed.restart() {
            Next::Restart(walks) => walks,
            _ => vec![Walk::new(renamed.range, key)],
        }
    }
}
