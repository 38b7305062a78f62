//! Whether a list that is read in one go still advances: repeated cursors, and pages without rows that have a next
//! cursor, are followed a limited number of times.

use std::collections::HashSet;

use super::walk::Anomaly;
use crate::model::Cursor;

/// How often a list may fail to advance.
const PATIENCE: u32 = 5;

/// The cursors of one list so far.
#[derive(Debug, Default)]
pub(in crate::sync) struct ListProgress {
    followed: HashSet<Cursor>,
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

    /// Whether the list does not advance any more.
    pub(in crate::sync) fn is_stuck(&self) -> bool {
        self.idle > PATIENCE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
