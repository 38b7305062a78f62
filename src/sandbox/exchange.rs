//! A request before it is checked, an answer before its faults (reference, *Errors*), and the log of both.

use std::borrow::Cow;

use axum::http::{HeaderMap, StatusCode};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use crate::model::{Instant, Object, Resource, Ru};

#[derive(Clone, Debug)]
pub(crate) struct IncomingRequest {
    pub(crate) asked: RequestLine,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl IncomingRequest {
    /// Etags may contain any character.
    pub(crate) fn header(&self, name: &str) -> Option<Cow<'_, str>> {
        self.headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()))
    }
}

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
    pub(crate) fn check(&self) -> Result<(), Answer> {
        let is_repeated = |n: &usize| self.query[..*n].iter().any(|(name, _)| *name == self.query[*n].0);
        match (1..self.query.len()).find(is_repeated) {
            Some(n) => Err(Answer::of_field(400, &self.query[n].0, "is given more than once")),
            None => Ok(()),
        }
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
    let below = |resource: Resource| Some((resource, path.strip_prefix(resource.path())?));
    let Some((resource, rest)) = Resource::ALL.into_iter().find_map(below) else { return Route::Unknown };
    let id = rest.strip_prefix('/').filter(|id| !id.is_empty() && !id.contains('/'));
    match (resource.object(), id) {
        _ if rest.is_empty() => Route::List(resource),
        (Some(object), Some(id)) => Route::One(object, percent_decode_str(id).decode_utf8_lossy().into_owned()),
        _ => Route::Unknown,
    }
}

/// Whether the answer to a PATCH is a stored one.
pub(crate) const REPLAYED: &str = "idempotent-replayed";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: String,
    pub(crate) rows: usize,
}

impl Answer {
    pub(crate) fn new(status: u16, content_type: &str, body: &str) -> Answer {
        Answer { status, headers: vec![("content-type", content_type.into())], body: body.into(), rows: 0 }
    }

    pub(crate) fn json(status: u16, body: &str) -> Answer {
        Answer::new(status, "application/json; charset=utf-8", body)
    }

    /// An error with its envelope, and with members that only some errors have.
    pub(crate) fn error(status: u16, message: &str, more: &Value) -> Answer {
        let name = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
        let mut body = json!({"error": name.unwrap_or("Error"), "message": message, "code": status});
        for (name, value) in more.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
            body[name] = value.clone();
        }
        if status == 500 {
            body["requestId"] = "req_sandbox".into();
        }
        Answer::json(status, &body.to_string())
    }

    pub(crate) fn refused(status: u16, message: impl AsRef<str>) -> Answer {
        Answer::error(status, message.as_ref(), &Value::Null)
    }

    pub(crate) fn of_field(status: u16, field: &str, message: &str) -> Answer {
        let details = json!([{"field": field, "message": message}]);
        Answer::error(status, &format!("{field} {message}"), &json!({ "details": details }))
    }

    pub(crate) fn with(mut self, header: &'static str, value: Option<impl ToString>) -> Answer {
        self.headers.extend(value.map(|value| (header, value.to_string())));
        self
    }

    pub(crate) fn record(source: &str, etag: Option<&String>) -> Answer {
        let body = format!("{{\"data\":{source}}}");
        Answer { rows: 1, ..Answer::json(200, &body) }.with("etag", etag)
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
