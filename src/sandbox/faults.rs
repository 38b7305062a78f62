//! Misbehaviour on demand: what the network, a proxy or a careless service may do to the next requests.
//!
//! A plan is a list of [`Rule`]s. A request takes the first rule that fits it and is due; rules that fit but still wait
//! for their turn count it. Nothing here is random: a test says exactly which request suffers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::model::Resource;

use super::asked::{Asked, Route};

/// What happens to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// 429, saying how long to wait in the body, in the `Retry-After` header, in both or nowhere.
    TooMany {
        /// `retryAfter`, seconds.
        body: Option<u64>,
        /// `Retry-After`, seconds.
        header: Option<u64>,
    },
    /// An error status with its envelope; nothing is done.
    Status(u16),
    /// The connection closes without an answer; nothing is done.
    Reset,
    /// The request is carried out and charged, and the connection closes without an answer.
    ResetAfterApply,
    /// Less of the body comes than `Content-Length` says.
    Truncated,
    /// The chunked body ends without its last chunk.
    TruncatedChunked,
    /// 200 with a page of HTML.
    NotJson,
    /// 200 with this body.
    Body(String),
    /// The answer takes this long in real time.
    Slow(Duration),
    /// The answer takes this long by the sandbox's clock.
    Drag(Duration),
    /// A good cursor is refused with 400.
    RefusedCursor,
    /// The page served last for this resource comes again, its cursor too.
    RepeatedPage,
    /// `nextCursor` is the cursor that was sent.
    SameCursor,
    /// No rows, and a cursor to where they still are.
    EmptyPageWithCursor,
    /// The rows of the page come in reverse.
    Unordered,
    /// The page has one more row, which does not meet the conditions.
    RowOutsideFilter,
    /// No rows and no cursor, as if there were nothing.
    EmptyList,
    /// A body with this many bytes of padding in front of its end.
    HugeBody(u64),
}

/// A fault and the requests that it befalls: by default the next one, whatever it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    fault: Fault,
    resource: Option<Resource>,
    method: Option<&'static str>,
    lists: Option<bool>,
    id: Option<String>,
    cursor: Option<bool>,
    skip: u32,
    times: u32,
}

impl Rule {
    /// The fault befalls the next request.
    pub fn new(fault: Fault) -> Rule {
        Rule { fault, resource: None, method: None, lists: None, id: None, cursor: None, skip: 0, times: 1 }
    }

    /// Only requests of this resource, lists and single records.
    #[must_use]
    pub fn on(mut self, resource: Resource) -> Rule {
        self.resource = Some(resource);
        self
    }

    /// Only this method.
    #[must_use]
    pub fn method(mut self, method: &'static str) -> Rule {
        self.method = Some(method);
        self
    }

    /// Only lists.
    #[must_use]
    pub fn lists(mut self) -> Rule {
        self.lists = Some(true);
        self
    }

    /// Only single records.
    #[must_use]
    pub fn records(mut self) -> Rule {
        self.lists = Some(false);
        self
    }

    /// Only requests of the record with this id.
    #[must_use]
    pub fn record(mut self, id: &str) -> Rule {
        self.id = Some(id.to_string());
        self
    }

    /// Only requests with a cursor.
    #[must_use]
    pub fn with_cursor(mut self) -> Rule {
        self.cursor = Some(true);
        self
    }

    /// Only requests without a cursor.
    #[must_use]
    pub fn without_cursor(mut self) -> Rule {
        self.cursor = Some(false);
        self
    }

    /// Lets this many fitting requests pass first.
    #[must_use]
    pub fn after(mut self, requests: u32) -> Rule {
        self.skip = requests;
        self
    }

    /// Befalls this many fitting requests.
    #[must_use]
    pub fn times(mut self, times: u32) -> Rule {
        self.times = times;
        self
    }

    /// Befalls every fitting request from now on.
    #[must_use]
    pub fn forever(self) -> Rule {
        self.times(u32::MAX)
    }

    fn fits(&self, asked: &Asked) -> bool {
        let list = matches!(asked.route, Route::List(_));
        let id = match &asked.route {
            Route::One(_, id) => Some(id),
            _ => None,
        };
        (self.id.is_none() || self.id.as_ref() == id)
            && self.resource.is_none_or(|resource| asked.resource() == Some(resource))
            && self.method.is_none_or(|method| asked.method == method)
            && self.lists.is_none_or(|lists| lists == list)
            && self.cursor.is_none_or(|cursor| cursor == asked.param("cursor").is_some())
    }
}

/// The plan of one sandbox.
#[derive(Clone, Debug, Default)]
pub struct Faults(Arc<Mutex<Vec<Rule>>>);

impl Faults {
    /// Adds a rule behind the others.
    pub fn add(&self, rule: Rule) {
        self.rules().push(rule);
    }

    /// The next request suffers this.
    pub fn next(&self, fault: Fault) {
        self.add(Rule::new(fault));
    }

    /// From now on everything goes well.
    pub fn clear(&self) {
        self.rules().clear();
    }

    /// How many rules are not used up.
    pub fn pending(&self) -> usize {
        self.rules().len()
    }

    pub(crate) fn take(&self, asked: &Asked) -> Option<Fault> {
        let mut rules = self.rules();
        let mut due = None;
        for (n, rule) in rules.iter_mut().enumerate().filter(|(_, rule)| rule.fits(asked)) {
            if rule.skip > 0 {
                rule.skip -= 1;
                continue;
            }
            if rule.times < u32::MAX {
                rule.times = rule.times.saturating_sub(1);
            }
            due = Some((n, rule.fault.clone(), rule.times == 0));
            break;
        }
        let (n, fault, spent) = due?;
        if spent {
            rules.remove(n);
        }
        Some(fault)
    }

    fn rules(&self) -> MutexGuard<'_, Vec<Rule>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_befalls_just_the_requests_it_names() {
        let faults = Faults::default();
        faults.add(Rule::new(Fault::Reset).on(Resource::Contacts).with_cursor().after(1).times(2));
        let first = Asked::new("GET", "/v1/contacts", "limit=2");
        let later = Asked::new("GET", "/v1/contacts", "limit=2&cursor=x");
        let other = Asked::new("GET", "/v1/companies", "cursor=x");
        let taken: Vec<bool> =
            [&later, &first, &other, &later, &later, &later].iter().map(|asked| faults.take(asked).is_some()).collect();
        assert_eq!(taken, [false, false, false, true, true, false]);
        assert_eq!(faults.pending(), 0);
    }
}
