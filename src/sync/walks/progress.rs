//! Whether a list that is read whole in one go still advances: a cursor that comes again, and pages without rows that
//! name a next one, are followed a few times and not for ever.

use std::collections::HashSet;

use super::walk::Oddity;
use crate::model::Cursor;

/// How often a list may fail to advance before it is given up.
const PATIENCE: u32 = 5;

/// The cursors of one list so far.
#[derive(Debug, Default)]
pub(in crate::sync) struct ListProgress {
    followed: HashSet<Cursor>,
    idle: u32,
}

impl ListProgress {
    /// Takes a page's next cursor and how many rows it had. Says what was odd about them.
    pub(in crate::sync) fn take(&mut self, next: &Cursor, rows: usize) -> Option<Oddity> {
        let odd = if !self.followed.insert(next.clone()) {
            Oddity::RepeatedCursor
        } else if rows == 0 {
            Oddity::EmptyPage
        } else {
            return None;
        };
        self.idle += 1;
        Some(odd)
    }

    /// Whether it is time to give the list up.
    pub(in crate::sync) fn is_stuck(&self) -> bool {
        self.idle > PATIENCE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_advance_is_given_up() {
        let mut progress = ListProgress::default();
        assert_eq!(progress.take(&Cursor::from("a"), 9), None);
        assert_eq!(progress.take(&Cursor::from("a"), 9), Some(Oddity::RepeatedCursor));
        assert_eq!(progress.take(&Cursor::from("b"), 9), None);
        for n in 0..4 {
            assert!(!progress.is_stuck());
            let odd = progress.take(&Cursor::from(format!("c{n}").as_str()), 0);
            assert_eq!(odd, Some(Oddity::EmptyPage));
        }
        assert!(!progress.is_stuck());
        progress.take(&Cursor::from("d"), 0);
        assert!(progress.is_stuck());
    }
}
