//! Everything that was asked and what it cost, in order.

use crate::model::{Instant, Object, Resource, Ru};

use super::request_line::{RequestLine, Route};

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedRequest {
    /// When it came, by the sandbox's clock.
    pub at: Instant,
    /// What was asked.
    pub asked: RequestLine,
    /// The `If-Match` header.
    pub if_match: Option<String>,
    /// The `Idempotency-Key` header.
    pub idempotency_key: Option<String>,
    /// The body of a PATCH.
    pub body: Option<String>,
    /// The status of the answer; `None` if none was made.
    pub status: Option<u16>,
    /// What was charged for it.
    pub ru: Ru,
    /// Which key it came with, in the order they were added; never the secret.
    pub key: Option<usize>,
    /// Whether the answer was lost or cut on its way.
    pub cut: bool,
    /// Whether the answer was a stored one.
    pub replayed: bool,
    /// Whether it was an update that was carried out, by this very request.
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

    /// Forgets the oldest requests beyond a limit, some at a time.
    pub(crate) fn keep(&mut self, limit: usize) {
        if self.entries.len() > limit + limit / 10 {
            self.entries.drain(..self.entries.len() - limit);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }

    /// Every request in order.
    pub fn entries(&self) -> &[LoggedRequest] {
        &self.entries
    }

    /// How many requests there were.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there were none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Everything charged.
    pub fn ru(&self) -> Ru {
        self.entries.iter().map(|entry| entry.ru).sum()
    }

    /// How many list requests of a resource there were.
    pub fn lists(&self, resource: Resource) -> usize {
        self.entries.iter().filter(|entry| entry.asked.lists(resource)).count()
    }

    /// How many detail requests of an object there were.
    pub fn details(&self, object: Object) -> usize {
        self.of_records(object, "GET").count()
    }

    /// How many PATCH requests of an object there were.
    pub fn patches(&self, object: Object) -> usize {
        self.of_records(object, "PATCH").count()
    }

    /// How many requests had this answer.
    pub fn with_status(&self, status: u16) -> usize {
        self.entries.iter().filter(|entry| entry.status == Some(status)).count()
    }

    /// The updates that were carried out, whatever became of their answers; stored answers given again are none.
    pub fn carried_out(&self) -> impl Iterator<Item = &LoggedRequest> {
        self.entries.iter().filter(|entry| entry.asked.method == "PATCH" && entry.changed)
    }

    fn of_records<'a>(&'a self, object: Object, method: &'a str) -> impl Iterator<Item = &'a LoggedRequest> {
        let of_object = move |route: &Route| matches!(route, Route::One(o, _) if *o == object);
        self.entries.iter().filter(move |entry| entry.asked.method == method && of_object(&entry.asked.route))
    }
}
