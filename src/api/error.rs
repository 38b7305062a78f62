//! Errors between the client and the service, classified by what the caller does next.
//!
//! Texts of the service are shown to users, so they are shortened, and control characters and the key are removed. A
//! body is never shown.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::admission::AdmissionError;
use super::decode::NotUnderstood;
use super::error_class::{ErrorClass, classify};
use super::key::ApiKey;

/// The longest text of the service that is kept, in characters.
const MAX_TEXT: usize = 300;
/// The maximum number of entries of `details` that are kept.
const MAX_DETAILS: usize = 20;

#[derive(Clone, Debug, thiserror::Error)]
pub enum ApiError {
    #[error("{0}")]
    Status(Box<Rejection>),
    #[error(transparent)]
    NotAdmitted(#[from] AdmissionError),
    #[error("could not reach the service: {why} ({})", times(*.tries))]
    Unreachable {
        tries: u32,
        /// The innermost cause, in a few words.
        why: String,
    },
    #[error("the service closed the connection without an answer: {why} ({})", times(*.tries))]
    NoAnswer { tries: u32, why: String },
    /// An immediate retry would not help: the host name is unknown, or the certificate invalid.
    #[error("could not reach the service: {why}")]
    NotConnectable { class: ErrorClass, hint: &'static str, why: String },
    #[error("the service did not answer within {}s ({})", .after.as_secs_f64(), times(*.tries))]
    Timeout { tries: u32, after: Duration },
    /// The answer's body was truncated, or is not valid for a success.
    #[error("the service's answer was broken: {why} ({})", times(*.tries))]
    Broken { tries: u32, why: String },
    #[error("the service's answer is larger than {limit} bytes")]
    TooLarge { limit: usize },
    #[error("the service's answer could not be decoded: {0}")]
    NotUnderstood(#[from] NotUnderstood),
    /// A redirect, which is never followed: the key belongs to the configured address only.
    #[error("the service answered with a redirect ({status}), which is not followed")]
    Redirected { status: u16 },
    #[error("this {what} cannot be sent in a request")]
    Unsendable { what: &'static str },
    /// The rule that a query breaks.
    #[error("{0}")]
    Query(String),
    #[error("could not set up the HTTP client: {why}")]
    Setup { why: String },
}

pub(super) const PROXY_LOGIN: &str =
    "the proxy refuses: set its user and password, `HTTPS_PROXY=http://USER:PASSWORD@HOST:PORT`";
pub(super) const UNREACHABLE: &str = "check `api.base_url` and the network";

impl ApiError {
    pub fn class(&self) -> ErrorClass {
        match self {
            ApiError::Status(rejection) => classify(rejection.status, rejection.envelope),
            ApiError::NotAdmitted(AdmissionError::Ledger) | ApiError::Query(_) => ErrorClass::StopRun,
            ApiError::NotAdmitted(_) => ErrorClass::Pause,
            ApiError::Unreachable { .. }
            | ApiError::NoAnswer { .. }
            | ApiError::Timeout { .. }
            | ApiError::Broken { .. } => ErrorClass::Retry,
            ApiError::Redirected { status } => classify(*status, false),
            ApiError::NotConnectable { class, .. } => *class,
            ApiError::Unsendable { .. } => ErrorClass::SkipRecord,
            ApiError::TooLarge { .. } | ApiError::NotUnderstood(_) => ErrorClass::Failed,
            ApiError::Setup { .. } => ErrorClass::Configuration,
        }
    }

    pub fn status(&self) -> Option<u16> {
        match self {
            ApiError::Status(rejection) => Some(rejection.status),
            ApiError::Redirected { status } => Some(*status),
            _ => None,
        }
    }

    /// Whether a gateway answered, so that the service may have applied the request: not if it limits or redirects.
    pub(crate) fn is_of_gateway(&self) -> bool {
        let ApiError::Status(rejection) = self else { return false };
        rejection.status != 429 && (!rejection.envelope || matches!(rejection.status, 408 | 502 | 504))
    }

    /// Whether the service may have applied the request despite the error.
    pub(crate) fn leaves_doubt(&self) -> bool {
        self.is_of_gateway() || self.status().is_some_and(|status| status >= 500 || status == 425)
    }

    pub fn hint(&self) -> Option<&'static str> {
        match self {
            ApiError::Status(rejection) if rejection.status == 407 => Some(PROXY_LOGIN),
            ApiError::Status(rejection) if !rejection.envelope => {
                Some("the answer does not come from the service: check `api.base_url` and the proxies in between")
            }
            ApiError::Status(rejection) => match rejection.status {
                401 => Some(
                    "the API key must be complete, belong to this workspace, and not be revoked; `crm-mirror check` shows where it is read from",
                ),
                403 => Some(
                    "give the key this scope in the workspace console; `crm-mirror check` lists the scopes that it has",
                ),
                _ => None,
            },
            ApiError::Unreachable { .. } | ApiError::NoAnswer { .. } => Some(UNREACHABLE),
            ApiError::NotConnectable { hint, .. } => Some(hint),
            ApiError::Timeout { .. } => Some("`api.timeout` sets the timeout of a request"),
            ApiError::Redirected { .. } => Some("`api.base_url` must be the service's final address"),
            ApiError::Setup { .. } => Some("install the CA certificates of the system (package `ca-certificates`)"),
            _ => None,
        }
    }

    pub fn tries(&self) -> u32 {
        self.clone().tries_mut().map_or(1, |tries| *tries)
    }

    fn tries_mut(&mut self) -> Option<&mut u32> {
        match self {
            ApiError::Status(rejection) => Some(&mut rejection.tries),
            ApiError::NotAdmitted(AdmissionError::Hold { tries, .. })
            | ApiError::Unreachable { tries, .. }
            | ApiError::NoAnswer { tries, .. }
            | ApiError::Timeout { tries, .. }
            | ApiError::Broken { tries, .. } => Some(tries),
            _ => None,
        }
    }

    /// How often the service refused this request for a while; zero where it was another one, and this one was not sent.
    pub fn refusals(&self) -> u32 {
        let is_held = matches!(self, ApiError::NotAdmitted(AdmissionError::Hold { .. }));
        if is_held || self.class() == ErrorClass::Hold { self.tries() } else { 0 }
    }

    pub(crate) fn after_tries(mut self, made: u32) -> ApiError {
        self.tries_mut().into_iter().for_each(|tries| *tries = made);
        self
    }
}

/// An error answer of the service (reference, *Errors*).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rejection {
    pub status: u16,
    /// The status name; empty if the body had none.
    pub error: String,
    /// The message, and what `details` says of each field; empty if the body had neither.
    pub message: String,
    /// The identifier to quote to the service's support.
    pub request_id: Option<String>,
    #[serde(skip)]
    pub tries: u32,
    /// Whether the body is the service's error envelope (reference, *Errors*): `error`, `message`, and the status as `code`.
    #[serde(skip)]
    pub envelope: bool,
}

impl Rejection {
    /// Parses an error body as far as possible, and removes `key` from every text.
    pub fn read(status: u16, body: &[u8], key: &ApiKey) -> Rejection {
        let members = members(body);
        let source = |name: &str| members.get(name).map_or("", |source| source.get());
        let text = |value: &Value| value.as_str().map(|text| shown(text, key)).unwrap_or_default();
        // A text with half a character in it cannot be decoded, and is one all the same.
        let member = |name: &str| match serde_json::from_str(source(name)) {
            Ok(value) => value,
            Err(_) if source(name).starts_with('"') => Value::from(source(name).trim_matches('"')),
            Err(_) => Value::Null,
        };
        let (error, message) = (member("error"), member("message"));
        let detail = |entry: &Value| {
            let about = text(if entry.is_string() { entry } else { &entry["message"] });
            let field = entry["field"].as_str().map(|field| format!("{}: ", shown(field, key)));
            field.unwrap_or_default() + &about
        };
        let details = match &member("details") {
            Value::Array(entries) => entries.iter().take(MAX_DETAILS).map(detail).collect::<Vec<String>>().join(", "),
            other => detail(other),
        };
        let said: Vec<String> = [text(&message), details].into_iter().filter(|part| !part.is_empty()).collect();
        let own_code = source("code").parse() == Ok(status);
        Rejection {
            status,
            tries: 1,
            envelope: error.is_string() && message.is_string() && own_code,
            error: text(&error),
            message: said.join("; "),
            request_id: member("requestId").as_str().map(|id| shown(id, key)),
        }
    }
}

/// The members of an error body, each by itself: one that cannot be decoded takes no other with it.
pub(super) fn members(body: &[u8]) -> BTreeMap<String, Box<RawValue>> {
    serde_json::from_str(&String::from_utf8_lossy(body)).unwrap_or_default()
}

impl std::fmt::Display for Rejection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the service answered {}", self.status)?;
        match (self.error.as_str(), self.message.as_str()) {
            ("", "") => {}
            (error, "") => write!(f, " ({error})")?,
            ("", message) => write!(f, ": {message}")?,
            (error, message) => write!(f, " ({error}): {message}")?,
        }
        if let Some(id) = &self.request_id {
            write!(f, " [request {id}]")?;
        }
        Ok(())
    }
}

/// Makes a text of the service safe to show: one line, shortened, without the key.
pub(crate) fn shown(text: &str, key: &ApiKey) -> String {
    // Characters that change the text direction can make a terminal show a different text.
    let turns = |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let line: String = text.chars().filter(|c| !turns(*c)).map(|c| if c.is_control() { ' ' } else { c }).collect();
    let plain = key.redact(line.trim());
    if plain.chars().count() <= MAX_TEXT { plain } else { plain.chars().take(MAX_TEXT).chain(['…']).collect() }
}

fn times(tries: u32) -> String {
    if tries == 1 { "1 attempt".into() } else { format!("{tries} attempts") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Rejection {
        Rejection::read(422, body.as_bytes(), &ApiKey::new("svc_v1_abcdef").unwrap())
    }

    #[test]
    fn details_can_be_a_list_or_a_text() {
        let list =
            read(r#"{"error":"Unprocessable","message":"no","code":422,"details":[{"field":"a","message":"b"},"c"]}"#);
        assert_eq!(list.to_string(), "the service answered 422 (Unprocessable): no; a: b, c");
        let text = read(r#"{"message":"no","details":"CONTACT_IDENTITY_READ_ONLY","requestId":"r1"}"#);
        assert_eq!(text.to_string(), "the service answered 422: no; CONTACT_IDENTITY_READ_ONLY [request r1]");
    }

    #[test]
    fn body_of_unknown_shape_still_gives_a_rejection() {
        for body in ["<html>", "", "[]", "7", r#"{"error":7,"message":{},"details":7}"#] {
            assert_eq!(read(body).to_string(), "the service answered 422", "{body}");
        }
    }

    #[test]
    fn texts_are_one_short_line_without_the_key() {
        let long = "x".repeat(5000);
        let message = format!("\u{1b}[31mkey svc_v1_abcdef\n\u{202e}{long}");
        let shown = read(&serde_json::json!({ "message": message }).to_string()).message;
        assert!(shown.starts_with("[31mkey [key] xxx"), "{shown}");
        assert_eq!(shown.chars().count(), MAX_TEXT + 1);
    }

    #[test]
    fn only_the_services_own_shape_is_an_envelope() {
        for (body, envelope) in [
            (r#"{"error":"Unprocessable","message":"no","code":422}"#, true),
            (r#"{"error":"Unprocessable","message":"","code":422}"#, true),
            (r#"{"error":"E","message":"cut \ud83d","code":422,"details":[1e400]}"#, true),
            (r#"{"error":"E","message":"m","message":"m","code":422}"#, true),
            (r#"{"error":"Unprocessable","message":"no","status":422}"#, false),
            (r#"{"error":"Forbidden","message":"no","code":403}"#, false),
            (r#"{"message":"Forbidden"}"#, false),
            (r#"{"error":{"code":422},"message":"no"}"#, false),
            ("<html><title>422</title>", false),
            ("", false),
        ] {
            assert_eq!(read(body).envelope, envelope, "{body}");
        }
    }

    #[test]
    fn every_failure_has_a_class() {
        let status = |status, envelope| ApiError::Status(Box::new(Rejection { status, envelope, ..read("") }));
        let redirect = |status| ApiError::Redirected { status };
        let (unavailable, why) = (ErrorClass::Unavailable, String::new());
        let not_connectable = ApiError::NotConnectable { class: unavailable, hint: UNREACHABLE, why };
        for (error, class) in [
            (status(404, true), ErrorClass::Gone),
            (status(404, false), ErrorClass::Retry),
            (status(401, true), ErrorClass::StopAll),
            (status(401, false), ErrorClass::Retry),
            (ApiError::NotAdmitted(AdmissionError::Stopping), ErrorClass::Pause),
            (ApiError::NotAdmitted(AdmissionError::Ledger), ErrorClass::StopRun),
            (ApiError::Timeout { tries: 5, after: Duration::from_secs(30) }, ErrorClass::Retry),
            (ApiError::Unsendable { what: "identifier" }, ErrorClass::SkipRecord),
            (ApiError::TooLarge { limit: 1 }, ErrorClass::Failed),
            (not_connectable, unavailable),
            (redirect(301), ErrorClass::Configuration),
            (redirect(302), ErrorClass::Retry),
        ] {
            assert_eq!(error.class(), class, "{error}");
        }
    }
}
