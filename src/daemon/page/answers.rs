//! The HTTP answers of the status page: its files, and the part of the status that every user of the machine may see.

use axum::Router;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::access::{ServedAt, host_check};
use crate::daemon::handler_state::Control;
use crate::daemon::http_server::{Problem, answer, problem, with_type};
use crate::daemon::metrics;

const PATHS: &str = "GET /, /status, /metrics, /healthz, /readyz";

pub(super) fn router(control: Control, served: ServedAt) -> Router {
    Router::new().fallback(move |request| answered(control, served, request))
}

async fn answered(control: Control, served: ServedAt, request: Request) -> Response {
    // A request body is never read.
    let (head, _) = request.into_parts();
    let mut response = content(&control, served, &head).await.into_response();
    for (name, value) in HEADERS {
        response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    response
}

async fn content(control: &Control, served: ServedAt, head: &Parts) -> Result<Response, Problem> {
    host_check(&head.uri, &head.headers, served).map_err(|refusal| {
        let hint = format!("use http://127.0.0.1:{0}/ and http://localhost:{0}/", served.at.port());
        problem(StatusCode::FORBIDDEN, refusal, Some(&hint))
    })?;
    if head.method != Method::GET && head.method != Method::HEAD {
        let refusal = problem(StatusCode::METHOD_NOT_ALLOWED, "the status page is read-only", Some(PATHS));
        return Ok(([(header::ALLOW, "GET, HEAD")], refusal).into_response());
    }
    let path = head.uri.path();
    if let Some((_, kind, content)) = PARTS.iter().find(|(name, ..)| *name == path) {
        return Ok(with_type(kind, *content));
    }
    match path {
        "/healthz" => metrics::health(control).await,
        "/metrics" => metrics::metrics(control).await,
        "/readyz" => Ok(metrics::readiness(control).await),
        "/status" => {
            let unreadable = |error: String| problem(StatusCode::INTERNAL_SERVER_ERROR, &error, None);
            let status = control.status().await.map_err(unreadable)?;
            Ok(answer(StatusCode::OK, &status.without_service_messages()))
        }
        _ => Err(problem(StatusCode::NOT_FOUND, "unknown path", Some(PATHS))),
    }
}

pub(super) const PARTS: [(&str, &str, &str); 6] = [
    ("/", "text/html; charset=utf-8", include_str!("index.html")),
    ("/page.css", "text/css; charset=utf-8", include_str!("page.css")),
    ("/page.js", SCRIPT, include_str!("page.js")),
    ("/text.js", SCRIPT, include_str!("text.js")),
    ("/words.js", SCRIPT, include_str!("words.js")),
    ("/icon.svg", "image/svg+xml", include_str!("icon.svg")),
];
const SCRIPT: &str = "text/javascript; charset=utf-8";

const HEADERS: [(&str, &str); 6] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
         trusted-types 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cache-control", "no-store"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
];
