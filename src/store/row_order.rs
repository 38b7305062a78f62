//! The request that last wrote each row, kept as long as an older answer may still arrive.

use std::collections::HashMap;

use crate::model::catalogue::Object;
use crate::model::request_order::RequestRegister;

/// Rows of each object, with the number of the request that wrote, confirmed or removed them.
pub(in crate::store) type WrittenRows = [HashMap<String, u64>; 2];

/// The number of entries kept before those of settled requests are dropped.
const MAX_ROWS: usize = 2_000;

/// The last request of each row that an open request could still overtake.
#[derive(Debug)]
pub(in crate::store) struct RowOrder {
    requests: RequestRegister,
    rows: WrittenRows,
    /// Entries are dropped when there are more than this.
    most: usize,
}

impl RowOrder {
    pub(in crate::store) fn new(requests: RequestRegister) -> RowOrder {
        RowOrder { requests, rows: WrittenRows::default(), most: MAX_ROWS }
    }

    /// The request that last wrote a row; `None` if no open request is older.
    pub(in crate::store) fn of(&self, object: Object, id: &str) -> Option<u64> {
        self.rows[object as usize].get(id).copied()
    }

    /// Whether a request before this one is still open.
    pub(in crate::store) fn may_be_overtaken(&self, number: u64) -> bool {
        self.requests.oldest_open() < number
    }

    /// Adds the entries of a committed transaction.
    pub(in crate::store) fn note(&mut self, written: WrittenRows) {
        for (rows, written) in self.rows.iter_mut().zip(written) {
            for (id, number) in written {
                let last = rows.entry(id).or_default();
                *last = number.max(*last);
            }
        }
        if self.rows.iter().map(HashMap::len).sum::<usize>() > self.most {
            // An entry whose request is older than all open requests is no longer needed.
            let oldest = self.requests.oldest_open();
            for rows in &mut self.rows {
                rows.retain(|_, number| *number > oldest);
            }
            self.most = MAX_ROWS.max(2 * self.rows.iter().map(HashMap::len).sum::<usize>());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rows_that_an_open_request_may_overtake_are_kept() {
        let requests = RequestRegister::default();
        let mut rows = RowOrder::new(requests.clone());
        let open = requests.begin();
        let page = |number: u64| -> WrittenRows {
            [(0..100).map(|row| (format!("{number}-{row}"), number)).collect(), HashMap::new()]
        };
        for _ in 0..50 {
            let request = requests.begin();
            rows.note(page(request.number()));
        }
        assert_eq!(rows.rows[0].len(), 5_000, "one request is still open that is older than all of them");
        assert_eq!(rows.of(Object::Contact, "2-0"), Some(2));
        drop(open);
        for _ in 0..60 {
            let request = requests.begin();
            rows.note(page(request.number()));
        }
        assert!(rows.rows[0].len() <= 2 * MAX_ROWS, "{}", rows.rows[0].len());
    }
}
