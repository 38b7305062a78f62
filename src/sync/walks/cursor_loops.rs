//! Whether a list that is read in one go still advances: repeated cursors, and pages without new rows that have a next
//! cursor, are followed a limited number of times.

use std::collections::HashSet;

use super::walk::Anomaly;
use crate::model::{Cursor, RecordId};

/// How often a list may fail to advance.
const MAX_IDLE_PAGES: u32 = 5;

/// The cursors of one list so far.
#[derive(Debug, Default)]
pub(in crate::sync) struct ListProgress {
    followed: HashSet<Cursor>,
    /// The first records of the pages so far: a page that begins like an earlier one has no new rows.
    first: HashSet<RecordId>,
    idle: u32,
}

impl ListProgress {
    /// Processes a page's next cursor and number of rows. Returns an anomaly, if there is one.
    pub(in crate::sync) fn take(&mut self, next: &Cursor, rows: usize) -> Option<Anomaly> {
        let anomaly = if !self.followed.insert(next.clone()) {
            Anomaly::RepeatedCursor
        } else if rows == 0 {
            Anomaly::EmptyPage
        } else {
            return None;
        };
        self.idle += 1;
        Some(anomaly)
    }

    /// The same for a page that begins with this record. A page that begins as an earlier one does not advance, whatever
    /// its cursor.
    pub(in crate::sync) fn take_from(&mut self, next: &Cursor, first: Option<&RecordId>) -> Option<Anomaly> {
        let has_new_rows = first.is_some_and(|first| self.first.insert(first.clone()));
        let anomaly = match self.take(next, usize::from(has_new_rows)) {
            Some(Anomaly::EmptyPage) if first.is_some() => Some(Anomaly::RepeatedPage),
            other => other,
        };
        if anomaly.is_none() {
            self.idle = 0;
        }
        anomaly
    }

    /// Whether the list does not advance any more.
    pub(in crate::sync) fn is_stuck(&self) -> bool {
        self.idle > MAX_IDLE_PAGES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_list_is_given_up_where_it_repeats_itself() {
        let mut progress = ListProgress::default();
        let page = |progress: &mut ListProgress, n: u32, first: Option<u32>| {
            let first = first.map(|first| RecordId::new(format!("r{first}")));
            progress.take_from(&Cursor::from(format!("c{n}").as_str()), first.as_ref());
        };
        for n in 0..1002 {
            page(&mut progress, n, (n % 6 == 5).then_some(n));
            assert!(!progress.is_stuck(), "five pages in a row without rows, every time");
        }
        for n in 1002..1008 {
            assert!(!progress.is_stuck());
            page(&mut progress, n, Some(5));
        }
        assert!(progress.is_stuck(), "the same page with other cursors");
    }

    #[test]
    fn list_that_does_not_advance_is_given_up() {
        let mut progress = ListProgress::default();
        assert_eq!(progress.take(&Cursor::from("a"), 9), None);
        assert_eq!(progress.take(&Cursor::from("a"), 9), Some(Anomaly::RepeatedCursor));
        assert_eq!(progress.take(&Cursor::from("b"), 9), None);
        for n in 0..4 {
            assert!(!progress.is_stuck());
            let anomaly = progress.take(&Cursor::from(format!("c{n}").as_str()), 0);
            assert_eq!(anomaly, Some(Anomaly::EmptyPage));
        }
        assert!(!progress.is_stuck());
        progress.take(&Cursor::from("d"), 0);
        assert!(progress.is_stuck());
    }
}
