//! How many requests are under way at once: more as long as the service answers, one after a 429 or a timeout.
//!
//! It begins with two requests, and grows by one for each round of good answers, which finds the pace that the service bears.
//! Answers to requests that were sent before a step down find it done: four refusals of one moment are one refusal.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

#[derive(Debug)]
struct Pace {
    limit: u32,
    max: u32,
    /// Good answers since the limit last moved.
    good: u32,
    under_way: u32,
}

/// Makes callers wait for the pace.
#[derive(Debug)]
pub struct Gate {
    pace: Mutex<Pace>,
    freed: Notify,
}

/// Permits one request in flight, until it is dropped.
#[derive(Debug)]
pub struct Permit<'a>(&'a Gate);

impl Gate {
    /// Begins with two requests in flight, or with `max` if that is fewer. At least one is always allowed.
    pub fn new(max: u32) -> Gate {
        let max = max.max(1);
        Gate { pace: Mutex::new(Pace { limit: max.min(2), max, good: 0, under_way: 0 }), freed: Notify::new() }
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
                    return Permit(self);
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
        let mut pace = self.0.pace();
        pace.good += 1;
        if pace.good >= pace.limit {
            (pace.good, pace.limit) = (0, pace.max.min(pace.limit + 1));
        }
        drop(pace);
        // The limit may have grown by one.
        self.0.freed.notify_one();
    }

    /// Records a 429 or a timeout.
    pub fn held(&self) {
        let mut pace = self.0.pace();
        (pace.good, pace.limit) = (0, 1);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.0.pace().under_way -= 1;
        self.0.freed.notify_one();
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

    #[tokio::test]
    async fn the_limit_follows_answers_and_refusals() {
        let gate = Gate::new(5);
        for (name, answers, limit) in [
            ("begins with two", 0, 2),
            ("one more for each round of good answers", 2, 3),
            ("not sooner", 2, 3),
            ("and again", 1, 4),
            ("up to the maximum", 40, 5),
        ] {
            for _ in 0..answers {
                gate.permit().await.ok();
            }
            assert_eq!(gate.limit(), limit, "{name}");
        }
        let refused = [gate.permit().await, gate.permit().await, gate.permit().await];
        refused.iter().for_each(Permit::held);
        assert_eq!(gate.limit(), 1, "never below one");
        drop(refused);
        gate.permit().await.ok();
        assert_eq!(gate.limit(), 2);
        assert_eq!(Gate::new(0).limit(), 1);
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
        held.1.ok();
        drop(dropped);
        waiting.await;
    }
}
