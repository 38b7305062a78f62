//! What monitoring asks: numbers, whether the daemon is alive, and whether the mirror can be relied on.

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

use super::handle::Control;
use super::metrics;
use super::reply::{answer, problem, with_type};
use crate::app::status::Readiness;

/// `GET /metrics`.
pub async fn metrics(control: &Control) -> Response {
    match control.status().await {
        Ok(status) => {
            let bus = control.bus();
            let text = metrics::text(&status, &bus.counted(), bus.current_work(), control.now());
            with_type("text/plain; version=0.0.4; charset=utf-8", Body::from(text))
        }
        // The daemon may wait for its mirror: an alert on missing metrics is then right.
        Err((error, _)) => problem(StatusCode::SERVICE_UNAVAILABLE, &error, None),
    }
}

/// `GET /healthz`: 200 while the daemon's loop answers.
pub async fn health(control: &Control) -> Response {
    match control.daemon().await {
        Some(_) => answer(StatusCode::OK, &json!({"alive": true})),
        None => problem(StatusCode::SERVICE_UNAVAILABLE, "the daemon's loop does not answer", None),
    }
}

/// `GET /readyz`: 200 once the lists were copied, and while they are fresh.
pub async fn readiness(control: &Control) -> Response {
    let readiness = match control.status().await {
        Ok(status) => status.status.readiness(&control.config(), control.now()),
        Err(_) => Readiness::Unreadable,
    };
    let code = if readiness == Readiness::Ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    answer(code, &json!({"ready": readiness == Readiness::Ready, "reason": readiness}))
}
