//! How a walk goes on by value: cut into slices, without a cursor that is of no use, or in a later run.

use super::{CursorOwner, Frontier, MAX_RESTARTS, Next, NextPage, Seen, Turn, Walk, WalkRange};
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
            Walk { page_size: self.page_size, ..Walk::new(range) }.counted()
        });
        Some(std::iter::once(first).chain(further).collect())
    }

    /// This walk, going on with a range that it has read nothing of.
    pub(super) fn with_range(&self, range: WalkRange) -> Walk {
        let (origin, page_size, present, seen) = (self.origin, self.page_size, self.present, self.seen);
        Walk { origin, page_size, present, seen, ..Walk::new(range) }
    }

    /// What to do if the cursor is unusable: refused, of an earlier run, or going in circles.
    pub fn restart(&self) -> Next {
        if self.turn.restarts >= MAX_RESTARTS {
            return Next::Stuck;
        }
        if let (WalkRange::Changes { .. }, Frontier::At(at), 1..) = (&self.range, self.frontier, self.turn.restarts) {
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
        let turn = Turn { reached: self.turn.reached, restarts: self.turn.restarts + 1, ..Turn::default() };
        // Its pages count once.
        let pages = |n: usize| if n == 0 { self.seen.pages } else { 0 };
        let again = |(n, range)| Walk {
            until: self.until,
            orderly: self.orderly,
            seen: Seen { rows: 0, pages: pages(n), ..self.seen },
            turn: turn.clone(),
            ..self.with_range(range)
        };
        Next::Restart(ranges.into_iter().enumerate().map(again).collect())
    }

    /// This walk as `reader` goes on with it: with a cursor of its own, or by value. Where that leads nowhere, it reads the
    /// last page again, which shows whether the cursor behind it is still of use, with the same key. Restarts of earlier
    /// runs do not count; otherwise a walk that was given up once would be given up forever.
    #[must_use]
    pub fn resumed(self, reader: &CursorOwner) -> Vec<Walk> {
        let mut walk = Walk { turn: Turn::default(), ..self };
        let Some(page) = walk.next.clone().filter(|page| page.reader != *reader) else { return vec![walk] };
        let leads_on = walk.orderly && !page.tied && matches!(walk.frontier, Frontier::At(_));
        if !leads_on && page.reader.key == reader.key {
            if page.last.is_some() {
                let again = |cursor| NextPage { cursor, reader: reader.clone(), behind: None, last: None, ..page };
                walk.next = page.behind.clone().map(again);
                walk.turn.expected = page.last;
            }
            return vec![walk];
        }
        match walk.restart() {
            Next::Restart(walks) => walks,
            _ => vec![walk],
        }
    }
}
