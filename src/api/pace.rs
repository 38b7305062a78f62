//! How many requests are under way at once: up slowly while the service answers, down at once when it says 429.
//!
//! [`Pace`] is the arithmetic; [`Gate`] makes callers wait for it. Answers to requests that were sent before the last
//! step down do not step down again: four refusals of one moment are one refusal.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Good answers in a row before one more request may be under way.
const GOOD_PER_STEP: u32 = 4;

/// The pure part: the limit, and what moves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    limit: u32,
    max: u32,
    good: u32,
    /// Grows with every step down.
    era: u64,
}

impl Pace {
    /// Begins with two under way, or with `max` if that is fewer. At least one is always allowed.
    pub fn new(max: u32) -> Pace {
        let max = max.max(1);
        Pace { limit: max.min(2), max, good: 0, era: 0 }
    }

    /// How many requests may be under way now.
    pub fn limit(self) -> u32 {
        self.limit
    }

    /// The service answered well.
    pub fn on_ok(&mut self) {
        self.good += 1;
        if self.good >= GOOD_PER_STEP {
            self.good = 0;
            self.limit = self.max.min(self.limit + 1);
        }
    }

    /// The service refused a request sent in `era` with 429.
    pub fn on_held(&mut self, era: u64) {
        self.good = 0;
        if era == self.era {
            self.era += 1;
            self.limit = (self.limit / 2).max(1);
        }
    }
}

#[derive(Debug)]
struct GateState {
    pace: Pace,
    under_way: u32,
}

/// The async part: a permit per request under way.
#[derive(Debug)]
pub struct Gate {
    state: Mutex<GateState>,
    freed: Notify,
}

/// The right to have one request under way, until it is dropped.
#[derive(Debug)]
pub struct Permit<'a> {
    gate: &'a Gate,
    era: u64,
}

impl Gate {
    /// A gate for at most `max` requests at once.
    pub fn new(max: u32) -> Gate {
        Gate { state: Mutex::new(GateState { pace: Pace::new(max), under_way: 0 }), freed: Notify::new() }
    }

    /// How many requests may be under way now.
    pub fn limit(&self) -> u32 {
        self.state().pace.limit()
    }

    /// Waits for room. Dropping the future gives up the place in the queue.
    pub async fn permit(&self) -> Permit<'_> {
        loop {
            // Listening begins before looking, so that a place freed in between is not missed.
            let freed = self.freed.notified();
            if let Some(permit) = self.try_permit() {
                return permit;
            }
            freed.await;
        }
    }

    fn try_permit(&self) -> Option<Permit<'_>> {
        let mut state = self.state();
        (state.under_way < state.pace.limit()).then(|| {
            state.under_way += 1;
            Permit { gate: self, era: state.pace.era }
        })
    }

    fn state(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit<'_> {
    /// Tells that the service answered well.
    pub fn ok(&self) {
        self.gate.state().pace.on_ok();
        self.gate.freed.notify_one();
    }

    /// Tells that the service said 429.
    pub fn held(&self) {
        self.gate.state().pace.on_held(self.era);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.gate.state().under_way -= 1;
        self.gate.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::Pin;
    use std::task::Poll;

    async fn is_pending<F: Future + Unpin>(future: &mut F) -> bool {
        std::future::poll_fn(|cx| Poll::Ready(Pin::new(&mut *future).poll(cx).is_pending())).await
    }

    #[test]
    fn the_limit_grows_slowly_and_halves_at_once() {
        let mut pace = Pace::new(4);
        assert_eq!(pace.limit(), 2);
        (0..3).for_each(|_| pace.on_ok());
        assert_eq!(pace.limit(), 2);
        pace.on_ok();
        assert_eq!(pace.limit(), 3);
        (0..40).for_each(|_| pace.on_ok());
        assert_eq!(pace.limit(), 4, "never beyond the maximum");
        pace.on_held(0);
        pace.on_held(0);
        assert_eq!(pace.limit(), 2, "refusals of one moment are one refusal");
        pace.on_held(1);
        pace.on_held(2);
        assert_eq!(pace.limit(), 1, "never below one");
        assert_eq!(Pace::new(0).limit(), 1);
    }

    #[tokio::test]
    async fn a_permit_waits_until_one_is_given_back() {
        let gate = Gate::new(1);
        let first = gate.permit().await;
        let waiting = async { drop(gate.permit().await) };
        tokio::pin!(waiting);
        assert!(is_pending(&mut waiting).await);
        drop(first);
        waiting.await;
    }

    #[tokio::test]
    async fn growth_lets_a_waiter_in_and_a_dropped_waiter_blocks_nobody() {
        let gate = Gate::new(3);
        let held = (gate.permit().await, gate.permit().await);
        let mut dropped = Box::pin(gate.permit());
        assert!(is_pending(&mut dropped).await);
        let waiting = gate.permit();
        tokio::pin!(waiting);
        assert!(is_pending(&mut waiting).await);
        (0..GOOD_PER_STEP).for_each(|_| held.0.ok());
        drop(dropped);
        waiting.await;
    }
}
