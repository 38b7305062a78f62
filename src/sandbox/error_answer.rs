//! The error answers of the service (reference, *Errors*).

use serde_json::{Value, json};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ErrorAnswer {
    pub(crate) status: u16,
    pub(crate) message: String,
    pub(crate) details: Option<Value>,
    pub(crate) retry_after: Option<u64>,
}

impl ErrorAnswer {
    pub(crate) fn new(status: u16, message: impl Into<String>) -> ErrorAnswer {
        ErrorAnswer { status, message: message.into(), details: None, retry_after: None }
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

    pub(crate) fn body(&self, request: u64) -> String {
        let name = axum::http::StatusCode::from_u16(self.status)
            .ok()
            .and_then(|status| status.canonical_reason())
            .unwrap_or("Error");
        let mut body = json!({"error": name, "message": self.message, "code": self.status});
        if let Some(details) = &self.details {
            body["details"] = details.clone();
        }
        if let Some(seconds) = self.retry_after {
            body["retryAfter"] = Value::from(seconds);
        }
        if self.status == 500 {
            body["requestId"] = Value::from(format!("req_{request:08}"));
        }
        body.to_string()
    }
}

/// Everything that is wrong with a request; all of it is reported in one answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Complaints(Vec<(String, String)>);

impl Complaints {
    pub(crate) fn add(&mut self, field: &str, message: impl Into<String>) {
        self.0.push((field.to_string(), message.into()));
    }

    /// `value` if nothing is wrong.
    pub(crate) fn or<T>(self, value: T) -> Result<T, ErrorAnswer> {
        if self.0.is_empty() {
            return Ok(value);
        }
        let details: Vec<Value> =
            self.0.iter().map(|(field, message)| json!({"field": field, "message": message})).collect();
        Err(ErrorAnswer { details: Some(Value::from(details)), ..ErrorAnswer::new(400, "The request is invalid") })
    }
}
