//! How many walks request their next page while the one before waits to be stored.
//!
//! A page in hand takes 0.3 MiB. Where storing is what takes the time, every walk would have two, one of which only waits;
//! where answers take the time, a walk without its turn loses no more than the time to store a page.

use std::pin::pin;

use futures_util::future::{Either, select};
use tokio::sync::Semaphore;

/// How many walks read ahead.
const WALKS: usize = 2;

/// The turns of the walks of a run.
#[derive(Debug)]
pub(in crate::sync) struct ReadAhead(Semaphore);

impl ReadAhead {
    pub(in crate::sync) fn new() -> ReadAhead {
        ReadAhead(Semaphore::new(WALKS))
    }

    /// Stores a page, and fetches the next one meanwhile if the walk gets a turn before the page is stored.
    pub(super) async fn beside<S: Future, F: Future>(&self, storing: S, fetching: F) -> (S::Output, Option<F::Output>) {
        match select(pin!(storing), pin!(self.0.acquire())).await {
            Either::Left((stored, _)) => (stored, None),
            Either::Right((turn, storing)) => {
                let (stored, fetched) = tokio::join!(storing, fetching);
                drop(turn);
                (stored, Some(fetched))
            }
        }
    }
}
