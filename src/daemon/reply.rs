//! The form of HTTP answers, on the control socket and of the status page.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde::Serialize;
use serde_json::json;

/// A JSON document and a newline.
pub(super) fn answer(status: StatusCode, value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(mut body) => {
            body.push(b'\n');
            let mut response = with_type("application/json", Body::from(body));
            *response.status_mut() = status;
            response
        }
        Err(error) => problem(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string(), None),
    }
}

pub(super) fn problem(status: StatusCode, error: &str, hint: Option<&str>) -> Response {
    let body = format!("{}\n", json!({"error": error, "hint": hint}));
    let mut response = with_type("application/json", Body::from(body));
    *response.status_mut() = status;
    response
}

/// A successful answer of a content type.
pub(super) fn with_type(kind: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
