//! The types between the socket and the service: a request before validation, and its answer or its errors (reference,
//! *Errors*), with its cost and fault; and the log of both.

use std::time::Duration;

use axum::http::header::{self, HeaderName};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use super::fault::{DateHeader, Fault};
use crate::model::{Instant, Object, Resource, Ru};

#[derive(Clone, Debug)]
pub(crate) struct IncomingRequest {
    pub(crate) asked: RequestLine,
    pub(crate) authorization: Option<String>,
    pub(crate) if_match: Option<String>,
    pub(crate) idempotency_key: Option<String>,
    pub(crate) content_type: Option<String>,
    pub(crate) body: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Success {
    pub(crate) body: String,
    pub(crate) etag: Option<String>,
    /// For a PATCH: whether this is a stored answer.
    pub(crate) replayed: Option<bool>,
    pub(crate) rows: u64,
}

#[derive(Debug)]
pub(crate) struct Served {
    /// `None` if the connection closes without an answer.
    pub(crate) answer: Option<Response<String>>,
    pub(crate) fault: Option<Fault>,
    pub(crate) padding: u64,
    pub(crate) is_gzip_allowed: bool,
    pub(crate) date: DateHeader,
    pub(crate) ru: Ru,
    /// The delays, in real time and by the sandbox's clock.
    pub(crate) slow: Duration,
    pub(crate) drag: Duration,
}

impl Served {
    pub(crate) fn is_cut(&self) -> bool {
        use Fault::{Truncated, TruncatedChunked, TruncatedGzip};
        self.answer.is_none() || matches!(self.fault, Some(Truncated | TruncatedChunked | TruncatedGzip))
    }
}

pub(crate) fn answer(status: u16, content_type: &str, body: String) -> Response<String> {
    let mut answer = Response::new(body);
    *answer.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    put(answer.headers_mut(), header::CONTENT_TYPE, content_type);
    answer
}

pub(crate) fn put(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
        headers.insert(name, value);
    }
}

pub(crate) const JSON: &str = "application/json; charset=utf-8";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    List(Resource),
    One(Object, String),
    Unknown,
}

/// A request's method, path and parameters, for the log, for faults and for hooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestLine {
    /// Upper case.
    pub method: String,
    /// The path below the base URL, unchanged.
    pub path: String,
    pub route: Route,
    /// The decoded parameters in their order, repeated ones included.
    pub query: Vec<(String, String)>,
}

impl RequestLine {
    pub(crate) fn new(method: &str, path: &str, query: &str) -> RequestLine {
        let below = path.strip_prefix("/v1").filter(|rest| rest.starts_with('/'));
        RequestLine {
            method: method.to_string(),
            path: below.unwrap_or(path).to_string(),
            route: below.map_or(Route::Unknown, route),
            query: query.split('&').filter(|part| !part.is_empty()).map(pair).collect(),
        }
    }

    /// Refuses a request with a repeated parameter (*List query conventions*, rule 1).
    pub(crate) fn check(&self) -> Result<(), ErrorAnswer> {
        let mut wrong = Complaints::default();
        for (n, (name, _)) in self.query.iter().enumerate() {
            if self.query[..n].iter().any(|(other, _)| other == name) {
                wrong.add(name, "is given more than once");
            }
        }
        wrong.or(())
    }

    /// A parameter's value, the first one if it is repeated.
    pub fn param(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    pub fn line(&self) -> String {
        let params: Vec<String> = self.query.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mark = if params.is_empty() { "" } else { "?" };
        format!("{}{mark}{}", self.path, params.join("&"))
    }

    pub fn resource(&self) -> Option<Resource> {
        match &self.route {
            Route::List(resource) => Some(*resource),
            Route::One(object, _) => Some(object.resource()),
            Route::Unknown => None,
        }
    }

    pub fn lists(&self, resource: Resource) -> bool {
        self.method == "GET" && self.route == Route::List(resource)
    }
}

fn pair(part: &str) -> (String, String) {
    let decoded = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
    let (name, value) = part.split_once('=').unwrap_or((part, ""));
    (decoded(name), decoded(value))
}

fn route(path: &str) -> Route {
    for resource in Resource::ALL {
        let Some(rest) = path.strip_prefix(resource.path()) else {
            continue;
        };
        if rest.is_empty() {
            return Route::List(resource);
        }
        let id = rest.strip_prefix('/').filter(|id| !id.is_empty() && !id.contains('/'));
        if let (Some(object), Some(id)) = (resource.object(), id) {
            let id = percent_decode_str(id).decode_utf8_lossy();
            return Route::One(object, id.into_owned());
        }
    }
    Route::Unknown
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ErrorAnswer {
    pub(crate) status: u16,
    pub(crate) message: String,
    pub(crate) details: Option<Value>,
    /// The wait in the body, and in the `Retry-After` header.
    pub(crate) retry_after: (Option<u64>, Option<u64>),
}

impl Success {
    pub(crate) fn answer(self) -> Response<String> {
        let mut answer = answer(200, JSON, self.body);
        if let Some(etag) = &self.etag {
            put(answer.headers_mut(), header::ETAG, etag);
        }
        if let Some(replayed) = self.replayed {
            let name = HeaderName::from_static("idempotent-replayed");
            put(answer.headers_mut(), name, &replayed.to_string());
        }
        answer
    }
}

impl ErrorAnswer {
    pub(crate) fn new(status: u16, message: impl Into<String>) -> ErrorAnswer {
        ErrorAnswer { status, message: message.into(), details: None, retry_after: (None, None) }
    }

    /// Sets `details` as a string, the other form that the reference allows.
    pub(crate) fn with_details(mut self, details: &str) -> ErrorAnswer {
        self.details = Some(Value::from(details));
        self
    }

    pub(crate) fn of_field(status: u16, field: &str, message: &str) -> ErrorAnswer {
        ErrorAnswer {
            details: Some(json!([{"field": field, "message": message}])),
            ..ErrorAnswer::new(status, format!("{field} {message}"))
        }
    }

    pub(crate) fn invalid(field: &str, message: &str) -> ErrorAnswer {
        ErrorAnswer { message: "The request is invalid".to_string(), ..ErrorAnswer::of_field(400, field, message) }
    }

    pub(crate) fn answer(&self, request: u64) -> Response<String> {
        let mut answer = answer(self.status, JSON, String::new());
        let name = answer.status().canonical_reason().unwrap_or("Error");
        let mut body = json!({"error": name, "message": self.message, "code": self.status});
        if let Some(details) = &self.details {
            body["details"] = details.clone();
        }
        let (in_body, in_header) = self.retry_after;
        if let Some(seconds) = in_body {
            body["retryAfter"] = Value::from(seconds);
        }
        if let Some(seconds) = in_header {
            put(answer.headers_mut(), header::RETRY_AFTER, &seconds.to_string());
        }
        if self.status == 500 {
            body["requestId"] = Value::from(format!("req_{request:08}"));
        }
        *answer.body_mut() = body.to_string();
        answer
    }
}

/// Everything that is wrong with a request; all of it is reported in one answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Complaints(Vec<Value>);

impl Complaints {
    pub(crate) fn add(&mut self, field: &str, message: impl Into<String>) {
        let message: String = message.into();
        self.0.push(json!({"field": field, "message": message}));
    }

    pub(crate) fn or<T>(self, value: T) -> Result<T, ErrorAnswer> {
        if self.0.is_empty() {
            return Ok(value);
        }
        Err(ErrorAnswer { details: Some(self.0.into()), ..ErrorAnswer::new(400, "The request is invalid") })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedRequest {
    pub at: Instant,
    pub asked: RequestLine,
    pub if_match: Option<String>,
    pub idempotency_key: Option<String>,
    pub body: Option<String>,
    /// `None` if there was no answer.
    pub status: Option<u16>,
    pub ru: Ru,
    /// The index of its key, in the order in which keys were added.
    pub key: Option<usize>,
    /// Whether the answer was lost or truncated on its way.
    pub cut: bool,
    pub replayed: bool,
    pub changed: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    entries: Vec<LoggedRequest>,
    requests: usize,
    charged: Ru,
}

impl Log {
    /// Adds a request, and drops the oldest ones beyond a limit, several at a time.
    pub(crate) fn push(&mut self, entry: LoggedRequest, limit: Option<usize>) {
        if let Some(limit) = limit.filter(|limit| self.entries.len() > limit + limit / 10) {
            self.entries.drain(..self.entries.len() - limit);
        }
        self.requests += 1;
        self.charged += entry.ru;
        self.entries.push(entry);
    }

    pub fn entries(&self) -> &[LoggedRequest] {
        &self.entries
    }

    /// How many requests there were, also those that were dropped since.
    pub fn len(&self) -> usize {
        self.requests
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn ru(&self) -> Ru {
        self.charged
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
