//! The HTTP layer: headers, compression, and answers that are damaged on purpose.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use serde_json::Value;

use super::admin;
use super::body::{broken, compressed, padded};
use super::error_answer::ErrorAnswer;
use super::exchange::{IncomingRequest, Served, Success};
use super::fault::Fault;
use super::handle::Sandbox;
use super::request_line::RequestLine;
use super::service::INJECTED;
use super::wire::Switch;

const MAX_BODY: usize = 16 << 20;
/// Bodies up to this size are not worth compressing.
const SMALL: usize = 256;

/// Answers one request, after the delay of its fault.
pub(crate) async fn answer(
    sandbox: Sandbox,
    switch: Switch,
    http: Request<Body>,
) -> Result<Response<Body>, Infallible> {
    let (head, body) = http.into_parts();
    // Longer than any valid update: a truncated body is not valid JSON, and is refused.
    let body = axum::body::to_bytes(body, MAX_BODY).await.unwrap_or_default();
    if head.uri.path().starts_with(admin::PREFIX) {
        return Ok(admin_response(&admin::answer(&sandbox, head.method.as_str(), head.uri.path(), &body)));
    }
    let request = incoming(&head, body.to_vec());
    let (served, number) = sandbox.serve(&request);
    if !served.drag.is_zero() {
        let clock = sandbox.clock();
        clock.sleep_until(clock.now().plus(served.drag)).await;
    }
    let settings = sandbox.settings();
    let wait: Duration = settings.latency + served.slow;
    if !wait.is_zero() {
        tokio::time::sleep(wait).await;
    }
    let gzip = settings.gzip && accepts_gzip(&head.headers);
    let mut response = response(&served, number, gzip, &switch);
    if let Some(date) = served.date.at(sandbox.clock().now()) {
        put(&mut response, header::DATE, &date);
    }
    Ok(response)
}

fn admin_response(answered: &Result<Value, ErrorAnswer>) -> Response<Body> {
    let (status, body) = match answered {
        Ok(data) => (200, data.to_string()),
        Err(error) => (error.status, error.body(0)),
    };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    put(&mut response, header::CONTENT_TYPE, "application/json; charset=utf-8");
    response
}

fn incoming(head: &Parts, body: Vec<u8>) -> IncomingRequest {
    let text = |name: &str| head.headers.get(name).and_then(|v| v.to_str().ok()).map(str::to_string);
    IncomingRequest {
        asked: RequestLine::new(head.method.as_str(), head.uri.path(), head.uri.query().unwrap_or_default()),
        authorization: text("authorization"),
        // Etags may contain any character; the bytes of the header are compared.
        if_match: head.headers.get("if-match").map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()),
        idempotency_key: text("idempotency-key"),
        content_type: text("content-type"),
        body,
    }
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|coding| coding.trim().starts_with("gzip") && !coding.contains("q=0"))
}

fn response(served: &Served, number: u64, gzip: bool, switch: &Switch) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    let status = served.status().unwrap_or(500);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    match &served.fault {
        Some(Fault::Reset | Fault::ResetAfterApply) => {
            switch.cut();
            return response;
        }
        Some(Fault::Html(_) | Fault::StatusAfterApply(_) | Fault::NotJson) => {
            put(&mut response, header::CONTENT_TYPE, "text/html");
            *response.body_mut() = Body::from("<html><body><h1>Scheduled maintenance</h1></body></html>");
            return response;
        }
        Some(Fault::Redirect { location, .. }) => {
            put(&mut response, header::LOCATION, location);
            return response;
        }
        _ => put(&mut response, header::CONTENT_TYPE, "application/json; charset=utf-8"),
    }
    let body = match &served.result {
        Ok(_) if matches!(served.fault, Some(Fault::ErrorAfterApply(_))) => {
            ErrorAnswer::new(status, INJECTED).body(number)
        }
        Ok(Success { body, etag, replayed, .. }) => {
            if let Some(etag) = etag {
                put(&mut response, header::ETAG, etag);
            }
            if let Some(replayed) = replayed {
                put(&mut response, header::HeaderName::from_static("idempotent-replayed"), &replayed.to_string());
            }
            body.clone()
        }
        Err(refusal) => refusal.body(number),
    };
    if let Some(seconds) = served.retry_after_header {
        put(&mut response, header::RETRY_AFTER, &seconds.to_string());
    }
    *response.body_mut() = deliver(&mut response, served, body, gzip);
    response
}

fn deliver(response: &mut Response<Body>, served: &Served, body: String, gzip: bool) -> Body {
    match &served.fault {
        Some(Fault::Truncated) => {
            put(response, header::CONTENT_LENGTH, &body.len().to_string());
            broken(&body)
        }
        Some(Fault::TruncatedChunked) => broken(&body),
        Some(Fault::TruncatedGzip) => {
            let mut bytes = compressed(body.as_bytes()).unwrap_or_default();
            bytes.truncate(bytes.len() / 2);
            put(response, header::CONTENT_ENCODING, "gzip");
            Body::from(bytes)
        }
        Some(Fault::HugeBody(bytes)) => padded(&body, *bytes),
        Some(Fault::HeavyRows(bytes)) => {
            padded(&body, bytes.saturating_mul(served.result.as_ref().map_or(0, |success| success.rows)))
        }
        _ if gzip && body.len() > SMALL => match compressed(body.as_bytes()) {
            Ok(bytes) => {
                put(response, header::CONTENT_ENCODING, "gzip");
                Body::from(bytes)
            }
            Err(_) => Body::from(body),
        },
        _ => Body::from(body),
    }
}

fn put(response: &mut Response<Body>, name: header::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
        response.headers_mut().insert(name, value);
    }
}
