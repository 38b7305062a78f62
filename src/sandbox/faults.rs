//! Faults on demand: what the network, a proxy or the service may do to the next requests.
//!
//! A plan is a list of [`Rule`]s. A request takes, in each layer, the first rule that matches it and is due; rules that
//! match but are not due yet count the request. Only rules with a percentage are random, and the plan's seed determines
//! their choice: the same requests get the same faults.
//!
//! Faults can be one line of text: `429:1%,503:2%,latency:50..400ms`. Each part is a kind and its share of the requests that
//! no part before it takes. A kind is an error status, a redirect, or one of [`KINDS`]; `latency` takes a duration, or a range, in place of a share.

use std::ops::Range;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::exchange::{RequestLine, Route};
use super::fault::{DateHeader, Fault, TakenFaults};
use crate::model::{Instant, Resource, decimal, duration};

/// A fault and the requests that it applies to: by default the next request.
#[must_use]
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    fault: Fault,
    resource: Option<Resource>,
    method: Option<&'static str>,
    is_list: Option<bool>,
    record: Option<String>,
    /// The beginnings of the names of parameters.
    params: Vec<String>,
    during: Option<Range<Instant>>,
    percent: f64,
    skip: u32,
    times: u32,
}

impl Rule {
    pub fn new(fault: Fault) -> Rule {
        let (resource, method, is_list, record, params, during) = (None, None, None, None, Vec::new(), None);
        Rule { fault, resource, method, is_list, record, params, during, percent: 100.0, skip: 0, times: 1 }
    }

    pub fn on(self, resource: Resource) -> Rule {
        Rule { resource: Some(resource), ..self }
    }

    pub fn method(self, method: &'static str) -> Rule {
        Rule { method: Some(method), ..self }
    }

    pub fn lists(self) -> Rule {
        Rule { is_list: Some(true), ..self }
    }

    pub fn records(self) -> Rule {
        Rule { is_list: Some(false), ..self }
    }

    pub fn record(self, id: &str) -> Rule {
        Rule { record: Some(id.to_string()), ..self }
    }

    /// Only requests with a parameter that begins so: `cursor`, `filter[id]`, `sort=updatedAt`.
    pub fn with_param(mut self, begin: &str) -> Rule {
        self.params.push(begin.to_string());
        self
    }

    /// Every matching request from a time on, for this long by the sandbox's clock.
    pub fn lasting(self, from: Instant, duration: Duration) -> Rule {
        Rule { during: Some(from..from.plus(duration)), ..self }.forever()
    }

    pub fn percent(self, percent: f64) -> Rule {
        Rule { percent, ..self }
    }

    pub fn after(self, requests: u32) -> Rule {
        Rule { skip: requests, ..self }
    }

    pub fn times(self, times: u32) -> Rule {
        Rule { times, ..self }
    }

    pub fn forever(self) -> Rule {
        self.times(u32::MAX)
    }

    fn matches(&self, asked: &RequestLine, now: Instant) -> bool {
        let has_param =
            |begin: &String| asked.query.iter().any(|(name, value)| format!("{name}={value}").starts_with(begin));
        self.resource.is_none_or(|resource| asked.resource() == Some(resource))
            && self.method.is_none_or(|method| asked.method == method)
            && self.is_list.is_none_or(|is_list| matches!(asked.route, Route::List(_)) == is_list)
            && self.record.as_ref().is_none_or(|id| matches!(&asked.route, Route::One(_, of) if of == id))
            && self.params.iter().all(has_param)
            && self.during.as_ref().is_none_or(|during| during.contains(&now))
    }

    fn is_over(&self, now: Instant) -> bool {
        self.times == 0 || self.during.as_ref().is_some_and(|during| during.end <= now)
    }
}

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

    /// Replaces the rules by those of a fault line.
    pub(crate) fn set(&self, line: &FaultLine) {
        self.plan().rules.clone_from(&line.0);
    }

    pub fn seed(&self, seed: u64) {
        self.plan().rng = fastrand::Rng::with_seed(seed);
    }

    pub(crate) fn take(&self, asked: &RequestLine, now: Instant) -> TakenFaults {
        let mut plan = self.plan();
        let FaultPlan { rules, rng } = &mut *plan;
        let mut taken = TakenFaults::default();
        for rule in rules.iter_mut().filter(|rule| rule.matches(asked, now)) {
            let layer = taken.layer(&rule.fault);
            if layer.is_some() {
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
            *layer = Some(rule.fault.clone());
        }
        rules.retain(|rule| !rule.is_over(now));
        taken
    }

    fn plan(&self) -> MutexGuard<'_, FaultPlan> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const KINDS: [(&str, Fault); 7] = [
    ("reset", Fault::Reset),
    ("lost", Fault::ResetAfterApply),
    ("truncated", Fault::Truncated),
    ("html", Fault::StatusAfterApply(200)),
    ("gateway", Fault::StatusAfterApply(502)),
    ("empty", Fault::EmptyList),
    ("no-date", Fault::Date(DateHeader::Missing)),
];

#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultLine(Vec<Rule>);

impl FromStr for FaultLine {
    type Err = String;

    fn from_str(text: &str) -> Result<FaultLine, String> {
        let rule = |part: &str| {
            let (name, amount) = part.split_once(':').ok_or_else(|| {
                format!("`{part}` must be KIND:SHARE%, such as 503:2%, or latency:DURATION, such as latency:50..400ms")
            })?;
            let (fault, share) = match name.trim() {
                "latency" => (latency(amount.trim())?, 100.0),
                name => (kind(name)?, share(amount.trim())?),
            };
            Ok(Rule::new(fault).percent(share).forever())
        };
        let parts = text.split(',').map(str::trim).filter(|_| !text.trim().is_empty());
        Ok(FaultLine(parts.map(rule).collect::<Result<_, String>>()?))
    }
}

fn kind(name: &str) -> Result<Fault, String> {
    if let Some((_, fault)) = KINDS.iter().find(|(known, _)| *known == name) {
        return Ok(fault.clone());
    }
    match name.parse::<u16>().ok().filter(|_| name.len() == 3) {
        Some(429) => Ok(Fault::Wait { status: 429, body: Some(1), header: Some(1) }),
        Some(status @ 400..=599) => Ok(Fault::Status(status)),
        Some(status @ (301 | 302 | 303 | 307 | 308)) => {
            Ok(Fault::Redirect { status, location: "/elsewhere".to_string() })
        }
        _ => {
            let known = KINDS.map(|(name, _)| name).join(", ");
            Err(format!("`{name}` is not a fault; known faults: error statuses, redirects, latency, {known}"))
        }
    }
}

fn share(amount: &str) -> Result<f64, String> {
    let number = amount.strip_suffix('%').map(str::trim).filter(|number| decimal::is_plain(number));
    let share = number.and_then(|number| number.parse().ok()).filter(|share| (0.0..=100.0).contains(share));
    share.ok_or_else(|| format!("`{amount}` must be a percentage from 0% to 100%, such as 2%"))
}

fn latency(amount: &str) -> Result<Fault, String> {
    let (low, high) = amount.split_once("..").unwrap_or((amount, amount));
    // `50..400ms`: the unit of the upper end applies to both.
    let unit = high.trim_start_matches(|c: char| c.is_ascii_digit());
    let low = if low.bytes().all(|b| b.is_ascii_digit()) { format!("{low}{unit}") } else { low.to_string() };
    let (low, high) = (duration(&low)?, duration(high)?);
    if low > high {
        return Err(format!("`{amount}`: the range ends before it begins"));
    }
    Ok(Fault::Slow(low, high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(seconds: i64) -> Instant {
        Instant::from_secs(1_800_000_000 + seconds).unwrap()
    }

    #[test]
    fn rule_applies_only_to_matching_requests() {
        let faults = Faults::default();
        faults.add(Rule::new(Fault::Reset).on(Resource::Contacts).with_param("cursor").after(1).times(2));
        let first = RequestLine::new("GET", "/v1/contacts", "limit=2");
        let later = RequestLine::new("GET", "/v1/contacts", "limit=2&cursor=x");
        let other = RequestLine::new("GET", "/v1/companies", "cursor=x");
        let taken: Vec<bool> = [&later, &first, &other, &later, &later, &later]
            .iter()
            .map(|asked| faults.take(asked, at(0)).answer.is_some())
            .collect();
        assert_eq!(taken, [false, false, false, true, true, false]);
        assert_eq!(faults.pending(), 0);
    }

    #[test]
    fn rule_lasts_for_its_duration_and_applies_to_its_share() {
        let faults = Faults::default();
        faults.add(Rule::new(Fault::Status(503)).percent(25.0).lasting(at(10), Duration::from_secs(1000)));
        let asked = RequestLine::new("GET", "/v1/contacts", "filter[id][in]=a,b&count=exact");
        let hit = |seconds| faults.take(&asked, at(seconds)).answer.is_some();
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
        assert_eq!(taken.answer, Some(Fault::Status(500)));
        assert!(taken.view.is_some() && taken.date.is_some() && taken.delay.is_none());
        assert_eq!(faults.take(&asked, at(0)).answer, Some(Fault::Reset));
        assert_eq!(faults.pending(), 0);
    }

    #[test]
    fn valid_lines_are_parsed_and_invalid_lines_refused() {
        let line: FaultLine = "429:1%, 503:2.5%,latency:50..400ms,reset:0%".parse().unwrap();
        assert_eq!(line.0.len(), 4);
        assert_eq!(line.0[1], Rule::new(Fault::Status(503)).percent(2.5).forever());
        let range = Fault::Slow(Duration::from_millis(50), Duration::from_millis(400));
        assert_eq!(line.0[2], Rule::new(range).forever());
        assert!("".parse::<FaultLine>().unwrap().0.is_empty());
        for junk in [
            "503",
            "503:2",
            "503:101%",
            "503:-1%",
            "503:NaN%",
            "503:%",
            "200:1%",
            "nope:1%",
            ",",
            "503:1%,",
            "latency:fast",
            "latency:9..1ms",
            "latency:",
            "60:1%",
            "0503:1%",
            "503:1e1%",
        ] {
            assert!(junk.parse::<FaultLine>().is_err(), "{junk}");
        }
    }
}
