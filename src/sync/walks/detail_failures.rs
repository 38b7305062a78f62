//! Records details that could not be read, so that one bad record affects only itself. Pure: time is an argument, and
//! the caller stores the value.
//!
//! A record whose detail failed waits longer each time before the next request, unless it changes meanwhile: a new etag
//! is a new detail. Even if details fail permanently, the rate is bounded:
//!
//! | bound | value |
//! |---|---|
//! | requests for one record | 5 an hour (7 in an hour in which the kind of failure changes); from the fifth failure
//! on, 5 a day |
//! | failed requests of one object | 60 an hour |
//! | failed requests of both objects | a tenth of the budget window |
//! | consecutive records that fail without a success | 20 in a run |

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::{Etag, Instant, RecordId};

/// How long a record waits after its first failure, for each request that was made.
const WAIT_PER_REQUEST: Duration = Duration::from_secs(12 * 60);
/// The longest wait. A longer one was stored by a clock that has been set back since.
const MAX_WAIT: Duration = Duration::from_secs(24 * 3600);
const HOUR: Duration = Duration::from_secs(3600);
/// The number of failed requests per hour after which the details of the object wait.
const MAX_PER_HOUR: u32 = 60;
/// The fraction of the window's budget for failed requests of one object: a tenth for both.
const SHARE_OF_WINDOW: u64 = 20;
/// The maximum number of stored records; beyond that, those with the shortest wait are dropped.
const MAX_REMEMBERED: usize = 2_000;

/// A detail that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FailedDetail {
    /// The version of the record at the time of the request.
    etag: Option<Etag>,
    /// The number of consecutive failures.
    failures: u32,
    /// When the next request is due.
    not_before: Instant,
}

/// The failed details of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(in crate::sync) struct DetailFailures {
    records: BTreeMap<RecordId, FailedDetail>,
    /// Failed requests of the last hour, with their times.
    recent: Vec<(Instant, u32)>,
    /// The budget window, and the failed requests in it.
    window: (u32, u64),
}

impl DetailFailures {
    /// The stored records.
    pub(super) fn ids(&self) -> Vec<RecordId> {
        self.records.keys().cloned().collect()
    }

    /// The records that wait: those that have not changed since and are not due yet. Drops records that changed or were
    /// removed. `etags` has the current version of every stored record that still exists.
    pub(super) fn waiting(&mut self, etags: &HashMap<RecordId, Option<Etag>>, now: Instant) -> HashSet<RecordId> {
        self.records.retain(|id, failed| etags.get(id) == Some(&failed.etag));
        let waits = |failed: &FailedDetail| failed.not_before > now && failed.not_before.since(now) <= MAX_WAIT;
        self.records.iter().filter(|(_, failed)| waits(failed)).map(|(id, _)| id.clone()).collect()
    }

    /// Records that a detail could not be read with so many requests.
    pub(super) fn failed(&mut self, id: &RecordId, etag: Option<Etag>, requests: u32, now: Instant) {
        let failures = match self.records.get(id) {
            Some(before) if before.etag == etag => before.failures,
            _ => 0,
        };
        // Two attempts with three requests each would exceed the limit of the hour.
        let first = if requests > 2 { HOUR } else { WAIT_PER_REQUEST.saturating_mul(requests.max(1)) };
        let wait = first.saturating_mul(1 << failures.min(10));
        let not_before = now.plus(wait.min(MAX_WAIT));
        self.records.insert(id.clone(), FailedDetail { etag, failures: failures + 1, not_before });
        if self.records.len() > MAX_REMEMBERED {
            let soonest = self.records.iter().min_by_key(|(_, failed)| failed.not_before).map(|(id, _)| id.clone());
            soonest.and_then(|id| self.records.remove(&id));
        }
        self.recent.retain(|(at, _)| *at <= now && now.since(*at) < HOUR);
        self.recent.push((now, requests));
        self.window.1 += u64::from(requests);
    }

    /// Drops a record whose detail was read. Returns whether it was stored.
    pub(super) fn succeeded(&mut self, id: &RecordId) -> bool {
        self.records.remove(id).is_some()
    }

    /// Whether the limit of this budget window is reached, or that of this hour would be if so many requests under way fail
    /// too.
    pub(super) fn exhausted(&mut self, now: Instant, under_way: u32, window: u32, limit: u64) -> bool {
        if self.window.0 != window {
            self.window = (window, 0);
        }
        let in_hour: u32 =
            self.recent.iter().filter(|(at, _)| *at <= now && now.since(*at) < HOUR).map(|(_, n)| n).sum();
        in_hour.saturating_add(under_way) > MAX_PER_HOUR || self.window.1 >= (limit / SHARE_OF_WINDOW).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMIT: u64 = 100_000;

    fn at(minutes: u64) -> Instant {
        Instant::EPOCH.plus(Duration::from_secs(minutes * 60))
    }

    fn etags(of: &[(&str, &str)]) -> HashMap<RecordId, Option<Etag>> {
        of.iter().map(|(id, etag)| (RecordId::new(*id), Some(Etag::new(*etag)))).collect()
    }

    fn ids(of: &[&str]) -> HashSet<RecordId> {
        of.iter().map(|id| RecordId::new(*id)).collect()
    }

    #[test]
    fn failed_detail_waits_longer_each_time_until_it_changes() {
        let mut failures = DetailFailures::default();
        let (a, one) = (RecordId::new("a"), Some(Etag::new("1")));
        let mut now = 0;
        let mut waits = Vec::new();
        for _ in 0..9 {
            failures.failed(&a, one.clone(), 1, at(now));
            let begin = now;
            while !failures.waiting(&etags(&[("a", "1")]), at(now)).is_empty() {
                now += 1;
            }
            waits.push(now - begin);
        }
        assert_eq!(waits, [12, 24, 48, 96, 192, 384, 768, 1440, 1440]);
        failures.failed(&a, one.clone(), 5, at(now));
        assert_eq!(failures.waiting(&etags(&[("a", "1")]), at(now)), ids(&["a"]));
        assert_eq!(failures.clone().waiting(&etags(&[("a", "2")]), at(now)), ids(&[]), "a new version is a new detail");
        assert_eq!(failures.clone().waiting(&etags(&[]), at(now)), ids(&[]), "a removed record");
        let back = at(now).minus(Duration::from_secs(90_000));
        assert_eq!(failures.waiting(&etags(&[("a", "1")]), back), ids(&[]), "the clock was set back by a day");
        assert!(failures.succeeded(&a) && !failures.succeeded(&a));
    }

    #[test]
    fn failures_use_only_a_part_of_the_budget() {
        let mut failures = DetailFailures::default();
        assert!(!failures.exhausted(at(0), 1, 1, 200));
        for n in 0..10 {
            failures.failed(&RecordId::new(format!("r{n}")), None, 1, at(n * 60));
        }
        assert!(failures.exhausted(at(600), 1, 1, 200), "ten of two hundred, and as many for the other object");
        assert!(!failures.exhausted(at(600), 1, 2, 200), "the next window");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        /// A service whose details all fail permanently, with runs at random times.
        #[test]
        fn rate_of_failed_requests_is_bounded(
            runs in proptest::collection::vec((1u64..90, 1usize..60), 1..200),
            requests in 1u32..=5,
        ) {
            let mut failures = DetailFailures::default();
            let present: HashMap<RecordId, Option<Etag>> =
                (0..40).map(|n| (RecordId::new(format!("r{n}")), None)).collect();
            let mut made: Vec<(u64, RecordId)> = Vec::new();
            let mut now = 0;
            for (minutes, tried) in runs {
                now += minutes;
                // The stored form is read back.
                failures = serde_json::from_str(&serde_json::to_string(&failures).unwrap()).unwrap();
                let waiting = failures.waiting(&present, at(now));
                for id in present.keys().filter(|id| !waiting.contains(*id)).take(tried) {
                    if failures.exhausted(at(now), requests, 1, LIMIT) {
                        break;
                    }
                    failures.failed(id, None, requests, at(now));
                    made.extend((0..requests).map(|_| (now, id.clone())));
                }
            }
            // The requests are in the order of time: each hour that begins with one is a slice of them.
            for (first, (begin, _)) in made.iter().enumerate() {
                let end = made.partition_point(|(at, _)| *at < begin + 60);
                let hour = &made[first..end];
                prop_assert!(hour.len() <= 60, "the object in an hour");
                let mut of_record = HashMap::<&RecordId, u32>::new();
                for (_, id) in hour {
                    *of_record.entry(id).or_default() += 1;
                }
                prop_assert!(of_record.values().all(|requests| *requests <= 5), "one record in an hour");
            }
        }
    }
}
