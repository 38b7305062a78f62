//! The form of answers over HTTP, on the control socket and of the status page.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde::Serialize;
use serde_json::json;

/// A JSON document and a newline.
pub fn answer(status: StatusCode, value: &impl Serialize) -> Response {
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

/// What is wrong, and the command or setting that fixes it, as JSON.
pub fn problem(status: StatusCode, error: &str, hint: Option<&str>) -> Response {
    let body = format!("{}\n", json!({"error": error, "hint": hint}));
    let mut response = with_type("application/json", Body::from(body));
    *response.status_mut() = status;
    response
}

/// A good answer of a type.
pub fn with_type(kind: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
