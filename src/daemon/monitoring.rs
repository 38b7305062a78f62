//! The monitoring endpoints: metrics, liveness and readiness.

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

use super::handler_state::{ALIVE_WITHIN, Control};
use super::metrics;
use super::reply::{answer, problem, with_type};
use crate::app::status::Readiness;

pub(super) async fn metrics(control: &Control) -> Response {
    match control.status().await {
        Ok(status) => {
            let text = metrics::text(&status, &control.config(), &control.bus, control.now());
            with_type("text/plain; version=0.0.4; charset=utf-8", Body::from(text))
        }
        // The daemon may be waiting for its mirror: an alert on missing metrics is then correct.
        Err((error, _)) => problem(StatusCode::SERVICE_UNAVAILABLE, &error, None),
    }
}

/// `GET /healthz`: 200 while the daemon's loop answers.
pub(super) async fn health(control: &Control) -> Response {
    match control.daemon(ALIVE_WITHIN).await {
        Some(_) => answer(StatusCode::OK, &json!({"alive": true})),
        None => problem(StatusCode::SERVICE_UNAVAILABLE, "the daemon's loop does not answer", None),
    }
}

/// `GET /readyz`: 200 once the lists were copied, and while they are fresh.
pub(super) async fn readiness(control: &Control) -> Response {
    let readiness = match control.status().await {
        Ok(status) => status.status.readiness(&control.config(), control.now()),
        Err(_) => Readiness::Unreadable,
    };
    let code = if readiness == Readiness::Ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    answer(code, &json!({"ready": readiness == Readiness::Ready, "reason": readiness}))
}
