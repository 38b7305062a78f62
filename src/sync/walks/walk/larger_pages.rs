//! Pages that were made smaller, because one could not be read, grow again: what was too much for one answer is seldom too
//! much for the others, and a long list in pages of one row would cost a hundred times as much.
//!
//! The stored size is one that was read, so that a run that pays for a single page makes progress. A larger one is tried after
//! a page, and after twice as many pages each time that it cannot be read: where the rows are large for ever, the attempts are
//! few.

use super::{Frontier, Next, Turn, Walk, WalkRange};
use crate::api::PageSize;

impl Walk {
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
        let is_tie = matches!(self.range, WalkRange::Changes { .. }) && self.turn.restarts > 0;
        match self.restart() {
            Next::Restart(walk) if leads_on && !is_tie => {
                let turn = Turn { larger, restarts: self.turn.restarts, ..walk.turn };
                Next::Restart(Box::new(Walk { turn, ..*walk }))
            }
            _ => Next::Page,
        }
    }
}
