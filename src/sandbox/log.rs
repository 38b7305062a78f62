//! Every request and its cost, in order.

use crate::model::{Instant, Object, Resource, Ru};

use super::exchange::{RequestLine, Route};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedRequest {
    pub at: Instant,
    pub asked: RequestLine,
    pub if_match: Option<String>,
    pub idempotency_key: Option<String>,
    pub body: Option<String>,
    /// The status of the answer; `None` if there was none.
    pub status: Option<u16>,
    pub ru: Ru,
    /// The index of its key, in the order in which keys were added.
    pub key: Option<usize>,
    /// Whether the answer was lost or truncated on its way.
    pub cut: bool,
    /// Whether the answer was a stored one.
    pub replayed: bool,
    /// Whether this request applied an update.
    pub changed: bool,
}

/// The requests since the start or the last clearing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    entries: Vec<LoggedRequest>,
}

impl Log {
    pub(crate) fn push(&mut self, entry: LoggedRequest) {
        self.entries.push(entry);
    }

    /// Drops the oldest requests beyond a limit, several at a time.
    pub(crate) fn keep(&mut self, limit: usize) {
        if self.entries.len() > limit + limit / 10 {
            self.entries.drain(..self.entries.len() - limit);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }

    pub fn entries(&self) -> &[LoggedRequest] {
        &self.entries
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn ru(&self) -> Ru {
        self.entries.iter().map(|entry| entry.ru).sum()
    }

    pub fn lists(&self, resource: Resource) -> usize {
        self.entries.iter().filter(|entry| entry.asked.lists(resource)).count()
    }

    pub fn details(&self, object: Object) -> usize {
        self.of_records(object, "GET").count()
    }

    pub fn patches(&self, object: Object) -> usize {
        self.of_records(object, "PATCH").count()
    }

    pub fn with_status(&self, status: u16) -> usize {
        self.entries.iter().filter(|entry| entry.status == Some(status)).count()
    }

    /// The updates that were applied, whether or not their answers arrived; replayed answers do not count.
    pub fn carried_out(&self) -> impl Iterator<Item = &LoggedRequest> {
        self.entries.iter().filter(|entry| entry.asked.method == "PATCH" && entry.changed)
    }

    fn of_records<'a>(&'a self, object: Object, method: &'a str) -> impl Iterator<Item = &'a LoggedRequest> {
        let of_object = move |route: &Route| matches!(route, Route::One(o, _) if *o == object);
        self.entries.iter().filter(move |entry| entry.asked.method == method && of_object(&entry.asked.route))
    }
}
