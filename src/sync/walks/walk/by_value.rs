//! Paging by value: a page proves the range that it shows.
//!
//! A walk by `createdAt` requests the next page by value: from the last row's time on, that row included. A page that shows
//! a row of the page before it follows it without a gap, whatever the service's cursors are and whatever was removed
//! meanwhile: every row behind that one was in the same answer. Where that would repeat more than a few rows (a tie, tiny
//! pages), among rows without a date, and in disorder, the walk follows the cursor. What lies at the edge of such a page, or
//! of one by value that shows no row of the page before, is *paged*: it is counted after the walk.

use super::{Facts, Frontier, Next, RangeSize, SECOND, Walk, hash_of};
use crate::model::{Instant, TimeBounds, TimeField, TimeRange};
use crate::sync::walks::range::MILLISECOND;

/// Pages of fewer rows are not followed by value: the row that both have would make them much dearer.
const MIN_PAGE: usize = 5;

/// How many rows a walk by value may repeat beside one a page, and how many more for each row that it has read, as a divisor:
/// with that one of a full page, less than 2 %.
const MAX_REPEATED: u64 = 10;
const REPEATED_SHARE: u64 = 128;

/// Stretches that are counted by themselves; beyond that they are counted together.
pub(in crate::sync) const MAX_STRETCHES: usize = 15;

impl Walk {
    /// The instant from which the next page is requested by value, if it is.
    pub(super) fn value(&self) -> Option<Instant> {
        match self.frontier {
            Frontier::At(at) if self.is_by_creation() && self.cursor().is_none() => Some(at),
            _ => None,
        }
    }

    /// How many rows of the page before are on this one, if it was requested by value. Notes what nothing joins.
    pub(super) fn join(&mut self, facts: &Facts) -> u64 {
        if facts.unusable > 0 {
            // An item without an id may be any of the page's, or later than all of them.
            let last = facts.keys.iter().copied().flatten().max();
            self.note_unproven_changes(last, facts.next.is_none());
        }
        let Some(value) = self.value() else {
            if self.cursor().is_some() {
                let next = facts.keys.first().copied().flatten();
                self.note_paged(self.frontier, next);
                self.note_unproven_changes(next, false);
            }
            return 0;
        };
        let repeated = if self.turn.shown.is_empty() {
            // The page before was another run's.
            let last = self.next.as_ref().and_then(|page| page.last.as_ref());
            last.and_then(|last| facts.ids.iter().position(|id| id == last)).map_or(0, |at| at + 1)
        } else {
            facts.ids.iter().filter(|id| self.turn.shown.contains(&hash_of(id))).count()
        } as u64;
        self.size.dateless |= self.range.bounds == TimeBounds::Whole;
        self.range = self.range.starting_at(value);
        self.seen.repeated += repeated.saturating_sub(1);
        if repeated == 0 {
            self.note_paged(self.frontier, facts.keys.first().copied().flatten());
        }
        repeated
    }

    /// Notes that rows may be missing behind the frontier and up to the next row, if that has a date.
    pub(super) fn note_paged(&mut self, before: Frontier, next: Option<Instant>) {
        let (by, bounds) = (TimeField::CreatedAt, self.range.bounds);
        if self.is_of_changes() || self.range.within.is_some() {
            return;
        }
        // A second more: the service may compare at another precision than it shows.
        let (from, to) = match before {
            Frontier::At(at) if self.orderly => {
                (Some(at.whole_second().minus(SECOND)), next.map(|next| next.whole_second().plus(SECOND)))
            }
            _ => (None, None),
        };
        if bounds != TimeBounds::Dateless && before != Frontier::Nulls {
            TimeRange::dated(by, from, to.or(bounds.dates().1)).join(&mut self.seen.paged, MAX_STRETCHES);
        }
        if !matches!(bounds, TimeBounds::Dated { .. }) && next.is_none() {
            TimeRange::of(by, TimeBounds::Dateless).join(&mut self.seen.paged, MAX_STRETCHES);
        }
    }

    /// Notes changes up to here that no page proves: behind a cursor, as what lies before the first one a page shows by itself,
    /// and around an item without an id; or all that follow.
    fn note_unproven_changes(&mut self, next: Option<Instant>, with_rest: bool) {
        let (from, to) = match (self.range.within, self.frontier) {
            (Some(second), _) => second.dates(),
            // Pages without a row show nothing of what lies before their cursor.
            (None, before) if self.is_of_changes() => {
                let from = if let Frontier::At(at) = before { Some(at) } else { self.origin };
                (from, next.or(from).filter(|_| !with_rest).map(|to| to.plus(MILLISECOND)))
            }
            _ => return,
        };
        TimeRange::dated(TimeField::UpdatedAt, from.map(Instant::whole_second), to).join(&mut self.seen.paged, 1);
    }

    /// Whether the page behind this one is requested by value. It has to make progress, and to repeat few rows.
    pub(super) fn goes_by_value(&mut self, facts: &Facts, before: Frontier) -> bool {
        let Frontier::At(at) = self.frontier else { return false };
        let from = at.millisecond_before();
        let tail = facts.keys.iter().filter(|key| key.is_none_or(|key| key >= from)).count();
        let rows = facts.keys.len();
        let affordable =
            self.seen.repeated + tail.saturating_sub(1) as u64 <= MAX_REPEATED + self.seen.rows / REPEATED_SHARE;
        self.is_by_creation() && self.orderly && self.frontier > before && rows >= MIN_PAGE && tail < rows && affordable
    }

    /// What follows once the range was read to its end.
    pub fn ended(&mut self) -> Next {
        self.next = None;
        let rest = match (self.range.within, self.range.bounds) {
            (Some(second), _) => TimeRange::dated(TimeField::UpdatedAt, second.dates().1, None),
            // The totals of two moments do not show that there are none.
            (None, TimeBounds::Dated { .. }) if self.size.dateless => {
                TimeRange::of(TimeField::CreatedAt, TimeBounds::Dateless)
            }
            _ => return Next::End,
        };
        let size = RangeSize { total: self.size.total, ..RangeSize::default() };
        Next::Restart(Box::new(Walk { size, ..self.with_range(rest) }))
    }
}
