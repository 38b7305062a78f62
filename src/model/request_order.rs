//! The order of requests: which of two answers belongs to the later request.
//!
//! Two answers with the same version, or without a version, may differ; then the answer to the later request counts, in
//! whatever order they arrive. The order is a number that is assigned before a request is sent. A clock would not work:
//! it may be set back between the two requests, or be ahead when a record is removed.
//!
//! # Why the numbers are not stored
//! They only distinguish answers that are in flight at the same time, and no answer outlives the process that requested
//! it. So a [`RequestRegister`] belongs to an open mirror. It tracks the open requests: a note about a row is needed as
//! long as an older answer may still arrive, so memory is bounded by the requests in flight.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::clock::ClockReading;

/// The last number, and the open requests in their order.
#[derive(Clone, Debug, Default)]
pub struct RequestRegister(Arc<Mutex<(u64, Vec<Weak<u64>>)>>);

impl RequestRegister {
    pub fn begin(&self) -> RequestOrder {
        let mut requests = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        requests.0 += 1;
        let order = Arc::new(requests.0);
        requests.1.retain(|open| open.strong_count() > 0);
        requests.1.push(Arc::downgrade(&order));
        RequestOrder(order)
    }

    /// The number of the oldest request whose answer may still be written; all lower numbers are finished.
    pub fn oldest_open(&self) -> u64 {
        let requests = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        requests.1.iter().find_map(Weak::upgrade).map_or(requests.0 + 1, |oldest| *oldest)
    }
}

/// The request is open until the last clone is dropped.
#[derive(Clone, Debug)]
pub struct RequestOrder(Arc<u64>);

impl RequestOrder {
    pub fn number(&self) -> u64 {
        *self.0
    }
}

/// When a request was sent: the time, for display, and the order, which decides.
#[derive(Clone, Debug)]
pub struct RequestStamp {
    pub at: ClockReading,
    pub order: RequestOrder,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_is_open_until_its_last_stamp_is_dropped() {
        let register = RequestRegister::default();
        assert_eq!(register.oldest_open(), 1);
        let (first, second) = (register.begin(), register.begin());
        assert!(first.number() < second.number());
        let kept = first.clone();
        drop(first);
        assert_eq!(register.oldest_open(), kept.number());
        drop(kept);
        assert_eq!(register.oldest_open(), second.number());
        drop(second);
        assert_eq!(register.oldest_open(), 3);
    }
}
