//! How many requests are under way at once: more as long as the service answers, and half as many when it says 429
//! or lets one time out.
//!
//! `Pace` is the arithmetic; [`Gate`] makes callers wait for it. Answers to requests that were sent before the last
//! step down do not step down again: four refusals of one moment are one refusal.
//!
//! It begins with two requests and one more for each good answer. After the first step down it grows by one for each
//! round of good answers, which finds the pace that the service bears and stays there.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Pace {
    limit: u32,
    max: u32,
    /// Good answers since the limit last moved.
    good: u32,
    /// Incremented by every reduction.
    era: u64,
    under_way: u32,
}

impl Pace {
    /// Starts with two requests in flight, or with `max` if that is fewer. At least one is always allowed.
    fn new(max: u32) -> Pace {
        let max = max.max(1);
        Pace { limit: max.min(2), max, good: 0, era: 0, under_way: 0 }
    }

    fn on_ok(&mut self) {
        self.good += 1;
        if self.era == 0 || self.good >= self.limit {
            self.good = 0;
            self.limit = self.max.min(self.limit + 1);
        }
    }

    /// Records a 429 or a timeout of a request that was sent in `era`.
    fn on_held(&mut self, era: u64) {
        self.good = 0;
        if era == self.era {
            self.era += 1;
            self.limit = (self.limit / 2).max(1);
        }
    }
}

#[derive(Debug)]
pub struct Gate {
    pace: Mutex<Pace>,
    freed: Notify,
}

/// Permits one request in flight, until it is dropped.
#[derive(Debug)]
pub struct Permit<'a> {
    gate: &'a Gate,
    era: u64,
}

impl Gate {
    pub fn new(max: u32) -> Gate {
        Gate { pace: Mutex::new(Pace::new(max)), freed: Notify::new() }
    }

    pub fn limit(&self) -> u32 {
        self.pace().limit
    }

    /// Waits for a permit. Dropping the future leaves the queue.
    pub async fn permit(&self) -> Permit<'_> {
        loop {
            // Registers before it checks, so that a permit that is freed in between is not missed.
            let freed = self.freed.notified();
            {
                let mut pace = self.pace();
                if pace.under_way < pace.limit {
                    pace.under_way += 1;
                    return Permit { gate: self, era: pace.era };
                }
            }
            freed.await;
        }
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit<'_> {
    pub fn ok(&self) {
        self.gate.pace().on_ok();
        // The limit may have grown by one.
        self.gate.freed.notify_one();
    }

    pub fn held(&self) {
        self.gate.pace().on_held(self.era);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.gate.pace().under_way -= 1;
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
    fn the_limit_follows_answers_and_refusals() {
        let answered = |pace: &mut Pace, answers: u32| (0..answers).for_each(|_| pace.on_ok());
        let mut pace = Pace::new(16);
        for (name, answers, limit) in
            [("begins with two", 0, 2), ("one more for each good answer", 3, 5), ("up to the maximum", 40, 16)]
        {
            answered(&mut pace, answers);
            assert_eq!(pace.limit, limit, "{name}");
        }
        let era = pace.era;
        pace.on_held(era);
        pace.on_held(era);
        assert_eq!(pace.limit, 8, "refusals of one moment are one refusal");
        answered(&mut pace, 8 + 9);
        assert_eq!(pace.limit, 10, "one more for each round of good answers");
        (0..10).for_each(|n| pace.on_held(era + 1 + n));
        assert_eq!(pace.limit, 1, "never below one");
        assert_eq!(Pace::new(0).limit, 1);
    }

    #[tokio::test]
    async fn permit_waits_until_another_is_dropped() {
        let gate = Gate::new(1);
        let first = gate.permit().await;
        let waiting = async { drop(gate.permit().await) };
        tokio::pin!(waiting);
        assert!(is_pending(&mut waiting).await);
        drop(first);
        waiting.await;
    }

    #[tokio::test]
    async fn growth_admits_a_waiter_and_a_dropped_waiter_blocks_no_other() {
        let gate = Gate::new(3);
        let held = (gate.permit().await, gate.permit().await);
        let mut dropped = Box::pin(gate.permit());
        assert!(is_pending(&mut dropped).await);
        let waiting = gate.permit();
        tokio::pin!(waiting);
        assert!(is_pending(&mut waiting).await);
        held.0.ok();
        drop(dropped);
        waiting.await;
    }
}
