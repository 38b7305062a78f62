//! How a walk goes on by value: cut into slices, without a cursor that is of no use, in a later run, or with larger pages.
//!
//! Pages that were made smaller, because one could not be read, grow again: what was too much for one answer is seldom too
//! much for the others, and a long list in pages of one row would cost a hundred times as much.
//!
//! The stored size is one that was read, so that a run that pays for a single page makes progress. A larger one is tried after
//! a page, and after twice as many pages each time that it cannot be read: where the rows are large for ever, the attempts are
//! few.

use super::{Frontier, MAX_RESTARTS, Next, NextPage, RangeSize, Seen, Turn, Walk, second_of_changes};
use crate::api::PageSize;
use crate::model::{Instant, TimeBounds, TimeField, TimeRange};

impl Walk {
    /// This walk by value, ending at this instant; `None` where its pages were not in order.
    pub fn ending_at(&self, end: Instant) -> Option<Walk> {
        let range = TimeRange::dated(TimeField::CreatedAt, self.range.bounds.dates().0, Some(end));
        let next = self.next.clone().map(|page| NextPage { cursor: None, behind: None, ..page });
        let size = RangeSize { counted: false, dateless: false, ..self.size };
        (self.is_by_creation() && self.orderly).then(|| Walk { range, next, size, ..self.clone() })
    }

    /// This walk in pages that another one could read.
    #[must_use]
    pub fn with_pages_of(self, other: &Walk) -> Walk {
        Walk { page_size: other.page_size, ..self }
    }

    /// This walk, going on with a range that it has read nothing of.
    pub(super) fn with_range(&self, range: TimeRange) -> Walk {
        let (origin, page_size, seen) = (self.origin, self.page_size, self.seen.clone());
        let size = RangeSize { dateless: self.size.dateless, ..RangeSize::default() };
        Walk { origin, page_size, seen, size, ..Walk::new(range) }
    }

    /// What to do if the cursor is unusable: refused, of an earlier run, or going in circles.
    pub fn restart(&self) -> Next {
        if self.turn.restarts >= MAX_RESTARTS {
            return Next::Stuck;
        }
        let Turn { reached, restarts, patience, .. } = self.turn;
        let turn = Turn { reached, restarts: restarts + 1, patience, ..Turn::default() };
        let may_be_dateless = self.range.bounds == TimeBounds::Whole || self.size.dateless;
        let walk = match self.frontier {
            // By value as well, it does not get through the rows that share this timestamp, or not in one run: they are told
            // apart by the other one.
            Frontier::At(at) if self.is_of_changes() && (self.turn.restarts > 0 || self.goes_on_in_tie()) => {
                return Next::Restart(Box::new(self.with_range(second_of_changes(at))));
            }
            Frontier::At(_) if self.orderly && self.is_by_creation() => {
                let next = self.next.clone().map(|page| NextPage { cursor: None, behind: None, ..page });
                let turn = Turn { shown: self.turn.shown.clone(), ..turn };
                return Next::Restart(Box::new(Walk { next, turn, ..self.clone() }));
            }
            Frontier::At(at) if self.orderly => self.with_range(self.range.starting_at(at)),
            Frontier::Nulls if self.orderly && self.is_by_creation() && may_be_dateless => {
                self.with_range(TimeRange::of(TimeField::CreatedAt, TimeBounds::Dateless))
            }
            // Disorder is of a moment: what is read again from its beginning is in order until a page shows otherwise.
            _ => self.with_range(self.range),
        };
        // Its pages count once.
        let seen = Seen { rows: 0, ..walk.seen };
        Next::Restart(Box::new(Walk { seen, turn, ..walk }))
    }

    /// This walk as a run goes on with it: with a cursor of its own, or by value. Where that leads nowhere, it reads the last
    /// page again, which shows whether the cursor behind it is still of use. Restarts of earlier runs do not count; otherwise
    /// a walk that was given up once would be given up forever.
    #[must_use]
    pub fn resumed(self, run: i64) -> Walk {
        let mut walk = Walk { turn: Turn::default(), ..self };
        let is_foreign = |page: &NextPage| page.cursor.is_some() && page.run != run;
        let Some(page) = walk.next.clone().filter(is_foreign) else { return walk };
        if walk.orderly && !page.tied && matches!(walk.frontier, Frontier::At(_)) {
            return match walk.restart() {
                Next::Restart(walk) => *walk,
                _ => walk,
            };
        }
        if page.last.is_some() {
            let again = |cursor| NextPage { cursor: Some(cursor), run, behind: None, last: None, ..page };
            walk.next = page.behind.clone().map(again);
            walk.turn.expected = page.last;
        }
        walk
    }

    /// Whether it reads a page again that an earlier run has read of a tie.
    fn goes_on_in_tie(&self) -> bool {
        self.orderly && self.turn.expected.is_some() && self.next.as_ref().is_some_and(|page| page.tied)
    }

    /// What follows a page where another one follows: with twice as many rows, if it is time to try that. A cursor keeps the
    /// size that it came with, so the list goes on by value; not inside a tie, which would be read again.
    pub(super) fn try_larger_pages(&mut self, rows: u64, before: Frontier) -> Next {
        let Some(size) = self.page_size.filter(|_| self.turn.unchanged >= self.turn.patience) else {
            return Next::Page;
        };
        let larger = Some(size.saturating_mul(2).min(PageSize::MAX.get()));
        let Some(page) = self.next.as_ref().filter(|page| page.cursor.is_some()) else {
            self.turn.larger = larger;
            return Next::Page;
        };
        let is_dated = self.orderly && matches!(self.frontier, Frontier::At(_));
        let leads_on = is_dated && self.frontier > before && (!page.tied || rows == 1);
        let is_tie = self.is_of_changes() && self.turn.restarts > 0;
        match self.restart() {
            Next::Restart(walk) if leads_on && !is_tie => {
                let turn = Turn { larger, restarts: self.turn.restarts, ..walk.turn };
                Next::Restart(Box::new(Walk { turn, ..*walk }))
            }
            _ => Next::Page,
        }
    }
}
