//! How many requests are under way at once: more as long as the service answers as quickly as before, fewer when answers
//! become slow, and half as many when it says 429.
//!
//! [`Pace`] is the arithmetic; [`Gate`] makes callers wait for it. Answers to requests that were sent before the last
//! step down do not step down again: four refusals of one moment are one refusal.
//!
//! It begins with two requests and one more for each good answer. After the first step down it grows by one for each
//! round of good answers, which finds the pace that the service bears and stays there. Answers of different kinds take
//! different times, so each [`Purpose`] is compared with itself.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::model::Purpose;

/// Answers of a kind before their times say something.
const ENOUGH: u32 = 8;

/// Answers are slow when they take so many times as long as the quickest ones of late.
const SLOW: f64 = 2.0;

/// Differences that say nothing, in seconds.
const NOISE: f64 = 0.02;

/// How much the last answer counts for the present time.
const WEIGHT: f64 = 0.2;

/// How fast the quickest time is forgotten, with each answer: a service that has become slower for good is no reason to
/// ask less for ever.
const FORGET: f64 = 0.0001;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct AnswerTimes {
    answers: u32,
    /// Seconds, smoothed.
    present: f64,
    /// The quickest of late.
    best: f64,
}

impl AnswerTimes {
    fn take(&mut self, took: f64) {
        self.answers = self.answers.saturating_add(1);
        self.present = if self.answers == 1 { took } else { self.present + WEIGHT * (took - self.present) };
        let best = if self.answers == 1 { took } else { self.best + FORGET * (self.present - self.best) };
        self.best = best.min(self.present);
    }

    fn is_slow(&self) -> bool {
        self.answers > ENOUGH && self.present > self.best * SLOW + NOISE
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    limit: u32,
    max: u32,
    /// Good answers since the limit last moved.
    good: u32,
    /// Incremented by every reduction.
    era: u64,
    times: [AnswerTimes; 7],
    under_way: u32,
}

impl Pace {
    /// Starts with two requests in flight, or with `max` if that is fewer. At least one is always allowed.
    pub fn new(max: u32) -> Pace {
        let max = max.max(1);
        Pace { limit: max.min(2), max, good: 0, era: 0, times: Default::default(), under_way: 0 }
    }

    pub fn limit(self) -> u32 {
        self.limit
    }

    pub fn on_ok(&mut self, purpose: Purpose, took: Duration) {
        self.good += 1;
        let times = &mut self.times[purpose as usize];
        times.take(took.as_secs_f64());
        if times.is_slow() {
            // Judged again after a round of answers, which the step has had its effect on.
            if self.good >= self.limit {
                self.step_down(self.limit - self.limit.div_ceil(4));
            }
        } else if self.era == 0 || self.good >= self.limit {
            self.good = 0;
            self.limit = self.max.min(self.limit + 1);
        }
    }

    /// Records a 429 for a request that was sent in `era`.
    pub fn on_held(&mut self, era: u64) {
        self.good = 0;
        if era == self.era {
            self.step_down(self.limit / 2);
        }
    }

    fn step_down(&mut self, limit: u32) {
        self.good = 0;
        self.era += 1;
        self.limit = limit.max(1);
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
        self.pace().limit()
    }

    /// Waits for a permit. Dropping the future leaves the queue.
    pub async fn permit(&self) -> Permit<'_> {
        loop {
            // Registers before it checks, so that a permit that is freed in between is not missed.
            let freed = self.freed.notified();
            if let Some(permit) = self.try_permit() {
                return permit;
            }
            freed.await;
        }
    }

    fn try_permit(&self) -> Option<Permit<'_>> {
        let mut pace = self.pace();
        (pace.under_way < pace.limit).then(|| {
            pace.under_way += 1;
            Permit { gate: self, era: pace.era }
        })
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit<'_> {
    pub fn ok(&self, purpose: Purpose, took: Duration) {
        let mut pace = self.gate.pace();
        let before = pace.limit;
        pace.on_ok(purpose, took);
        let grown = pace.limit.saturating_sub(before);
        drop(pace);
        (0..grown).for_each(|_| self.gate.freed.notify_one());
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

    const PAGE: Duration = Duration::from_millis(50);

    #[test]
    fn the_limit_follows_answers_and_refusals() {
        let details = |pace: &mut Pace, answers: u32, ms: u64| {
            (0..answers).for_each(|_| pace.on_ok(Purpose::Details, Duration::from_millis(ms)));
        };
        let mut pace = Pace::new(16);
        for (name, ms, answers, limit) in [
            ("begins with two", 50, 0, 2),
            ("one more for each good answer", 50, 3, 5),
            ("up to the maximum", 50, 40, 16),
            ("a little slower is nothing", 80, 20, 16),
            ("twice as slow is too many", 400, 18, 12),
            ("and still", 400, 12, 9),
        ] {
            details(&mut pace, answers, ms);
            assert_eq!(pace.limit(), limit, "{name}");
        }
        details(&mut pace, 30, 50);
        let recovered = pace.limit();
        assert!((9..=16).contains(&recovered), "{recovered}");
        let era = pace.era;
        pace.on_held(era);
        pace.on_held(era);
        assert_eq!(pace.limit(), recovered / 2, "refusals of one moment are one refusal");
        (0..10).for_each(|n| pace.on_held(era + 1 + n));
        assert_eq!(pace.limit(), 1, "never below one");
        assert_eq!(Pace::new(0).limit(), 1);
    }

    #[test]
    fn kinds_of_requests_are_compared_with_themselves() {
        let mut pace = Pace::new(8);
        (0..40).for_each(|_| pace.on_ok(Purpose::Audit, Duration::from_millis(5)));
        (0..40).for_each(|_| pace.on_ok(Purpose::Sweep, Duration::from_millis(900)));
        assert_eq!(pace.limit(), 8, "pages take longer than counts");
    }

    #[test]
    fn the_pace_settles_where_the_service_is_at_its_best() {
        for (capacity, max, at_least, at_most) in [(8, 64, 8, 24), (3, 16, 2, 9), (100, 16, 16, 16)] {
            let mut pace = Pace::new(max);
            let mut limits = Vec::new();
            for _ in 0..2_000 {
                // Beyond its capacity a service takes longer for each request in proportion.
                let load = f64::from(pace.limit()) / f64::from(capacity);
                pace.on_ok(Purpose::Details, PAGE.mul_f64(load.max(1.0)));
                limits.push(pace.limit());
            }
            let late = &limits[1_000..];
            let (low, high) = (*late.iter().min().unwrap(), *late.iter().max().unwrap());
            assert!(low >= at_least && high <= at_most, "capacity {capacity}: {low} to {high}");
        }
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
        held.0.ok(Purpose::Details, PAGE);
        drop(dropped);
        waiting.await;
    }
}
