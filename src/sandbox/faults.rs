//! Faults on demand: what the network, a proxy or the service may do to the next requests.
//!
//! A plan is a list of [`Rule`]s. A request takes, in each layer, the first rule that matches it and is due; rules that
//! match but are not due yet count the request. Only rules with a percentage are random, and the plan's seed determines
//! their choice: the same requests get the same faults.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::model::{Instant, Resource};

use super::fault::{Fault, TakenFaults};
use super::request_line::{RequestLine, Route};

/// A fault and the requests that it applies to: by default the next request.
#[must_use]
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    fault: Fault,
    resource: Option<Resource>,
    method: Option<&'static str>,
    lists: Option<bool>,
    id: Option<String>,
    cursor: Option<bool>,
    param: Option<String>,
    from: Option<Instant>,
    until: Option<Instant>,
    percent: f64,
    skip: u32,
    times: u32,
}

impl Rule {
    /// The fault applies to the next request.
    pub fn new(fault: Fault) -> Rule {
        Rule {
            fault,
            resource: None,
            method: None,
            lists: None,
            id: None,
            cursor: None,
            param: None,
            from: None,
            until: None,
            percent: 100.0,
            skip: 0,
            times: 1,
        }
    }

    /// Only requests of this resource, lists and single records.
    pub fn on(mut self, resource: Resource) -> Rule {
        self.resource = Some(resource);
        self
    }

    pub fn method(mut self, method: &'static str) -> Rule {
        self.method = Some(method);
        self
    }

    pub fn lists(mut self) -> Rule {
        self.lists = Some(true);
        self
    }

    pub fn records(mut self) -> Rule {
        self.lists = Some(false);
        self
    }

    pub fn record(mut self, id: &str) -> Rule {
        self.id = Some(id.to_string());
        self
    }

    pub fn with_cursor(mut self) -> Rule {
        self.cursor = Some(true);
        self
    }

    /// Only requests with a parameter whose name has this prefix: `count`, `filter[id]`.
    pub fn with_param(mut self, name: &str) -> Rule {
        self.param = Some(name.to_string());
        self
    }

    /// Only requests between two times of the sandbox's clock, the second one excluded.
    pub fn between(mut self, from: Instant, until: Instant) -> Rule {
        self.from = Some(from);
        self.until = Some(until);
        self
    }

    /// Every matching request from a time on, for this long by the sandbox's clock.
    pub fn lasting(self, from: Instant, duration: Duration) -> Rule {
        self.between(from, from.plus(duration)).forever()
    }

    /// Only this share of the matching requests, chosen by the plan's seed.
    pub fn percent(mut self, percent: f64) -> Rule {
        self.percent = percent;
        self
    }

    /// Skips this many matching requests first.
    pub fn after(mut self, requests: u32) -> Rule {
        self.skip = requests;
        self
    }

    /// Applies to this many matching requests.
    pub fn times(mut self, times: u32) -> Rule {
        self.times = times;
        self
    }

    /// Applies to every matching request from now on.
    pub fn forever(self) -> Rule {
        self.times(u32::MAX)
    }

    fn matches(&self, asked: &RequestLine, now: Instant) -> bool {
        let list = matches!(asked.route, Route::List(_));
        let id = match &asked.route {
            Route::One(_, id) => Some(id),
            _ => None,
        };
        let has = |param: &String| asked.query.iter().any(|(name, _)| name.starts_with(param.as_str()));
        (self.id.is_none() || self.id.as_ref() == id)
            && self.resource.is_none_or(|resource| asked.resource() == Some(resource))
            && self.method.is_none_or(|method| asked.method == method)
            && self.lists.is_none_or(|lists| lists == list)
            && self.cursor.is_none_or(|cursor| cursor == asked.param("cursor").is_some())
            && self.param.as_ref().is_none_or(has)
            && self.from.is_none_or(|from| from <= now)
            && self.until.is_none_or(|until| now < until)
    }
}

/// The plan of one sandbox.
#[derive(Clone, Debug, Default)]
pub struct Faults(Arc<Mutex<FaultPlan>>);

#[derive(Debug)]
struct FaultPlan {
    rules: Vec<Rule>,
    rng: fastrand::Rng,
}

impl Default for FaultPlan {
    fn default() -> FaultPlan {
        FaultPlan { rules: Vec::new(), rng: fastrand::Rng::with_seed(1) }
    }
}

impl Faults {
    pub fn add(&self, rule: Rule) {
        self.plan().rules.push(rule);
    }

    pub fn next(&self, fault: Fault) {
        self.add(Rule::new(fault));
    }

    pub fn clear(&self) {
        self.plan().rules.clear();
    }

    /// The number of rules that are not used up.
    pub fn pending(&self) -> usize {
        self.plan().rules.len()
    }

    /// Sets the seed that chooses the requests of rules with a percentage.
    pub fn seed(&self, seed: u64) {
        self.plan().rng = fastrand::Rng::with_seed(seed);
    }

    pub(crate) fn take(&self, asked: &RequestLine, now: Instant) -> TakenFaults {
        let mut plan = self.plan();
        let FaultPlan { rules, rng } = &mut *plan;
        let mut taken = TakenFaults::default();
        for rule in rules.iter_mut().filter(|rule| rule.matches(asked, now)) {
            if taken.has(rule.fault.layer()) {
                continue;
            }
            if rule.skip > 0 {
                rule.skip -= 1;
                continue;
            }
            if rule.percent < 100.0 && rng.f64() * 100.0 >= rule.percent {
                continue;
            }
            if rule.times < u32::MAX {
                rule.times = rule.times.saturating_sub(1);
            }
            taken.push(match rule.fault {
                Fault::SlowBetween(low, high) => Fault::Slow(low + (high - low).mul_f64(rng.f64())),
                _ => rule.fault.clone(),
            });
            if taken.is_full() {
                break;
            }
        }
        rules.retain(|rule| rule.times > 0 && rule.until.is_none_or(|until| now < until));
        taken
    }

    fn plan(&self) -> MutexGuard<'_, FaultPlan> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fault::{DateHeader, FaultLayer};
    use super::*;

    fn at(seconds: i64) -> Instant {
        Instant::from_secs(1_800_000_000 + seconds).unwrap()
    }

    #[test]
    fn rule_applies_only_to_matching_requests() {
        let faults = Faults::default();
        faults.add(Rule::new(Fault::Reset).on(Resource::Contacts).with_cursor().after(1).times(2));
        let first = RequestLine::new("GET", "/v1/contacts", "limit=2");
        let later = RequestLine::new("GET", "/v1/contacts", "limit=2&cursor=x");
        let other = RequestLine::new("GET", "/v1/companies", "cursor=x");
        let taken: Vec<bool> = [&later, &first, &other, &later, &later, &later]
            .iter()
            .map(|asked| faults.take(asked, at(0)).answer().is_some())
            .collect();
        assert_eq!(taken, [false, false, false, true, true, false]);
        assert_eq!(faults.pending(), 0);
    }

    #[test]
    fn rule_lasts_for_its_duration_and_applies_to_its_share() {
        let faults = Faults::default();
        faults.add(Rule::new(Fault::Status(503)).percent(25.0).lasting(at(10), Duration::from_secs(1000)));
        let asked = RequestLine::new("GET", "/v1/contacts", "filter[id][in]=a,b&count=exact");
        let hit = |seconds| faults.take(&asked, at(seconds)).answer().is_some();
        assert!((0..10).all(|second| !hit(second)));
        let hits = (10..1010).filter(|second| hit(*second)).count();
        assert!((200..300).contains(&hits), "{hits}");
        assert!(!hit(1010));
        assert_eq!(faults.pending(), 0, "an ended rule is dropped");
        faults.add(Rule::new(Fault::EmptyList).with_param("filter[updatedAt]").forever());
        assert!(!hit(0));
        faults.add(Rule::new(Fault::EmptyList).with_param("filter[id]").forever());
        assert!(hit(0));
    }

    #[test]
    fn faults_of_different_layers_combine() {
        let faults = Faults::default();
        faults.add(Rule::new(Fault::Lag(Duration::from_secs(5))));
        faults.add(Rule::new(Fault::Status(500)));
        faults.add(Rule::new(Fault::Reset));
        faults.add(Rule::new(Fault::Date(DateHeader::Missing)));
        let asked = RequestLine::new("GET", "/v1/contacts", "");
        let taken = faults.take(&asked, at(0));
        assert_eq!(taken.answer(), Some(&Fault::Status(500)));
        assert!(taken.has(FaultLayer::View) && taken.has(FaultLayer::Date) && !taken.has(FaultLayer::Delay));
        assert_eq!(faults.take(&asked, at(0)).answer(), Some(&Fault::Reset));
        assert_eq!(faults.pending(), 0);
    }
}
