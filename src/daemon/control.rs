//! The HTTP interface of the control socket.
//!
//! Anyone who can open the socket can send every request; its mode restricts who can. Requests are small and answered
//! at once: long work is a job, and its progress is published in `GET /events`.

use std::convert::Infallible;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use axum::routing::{get, post};
use futures_util::stream::StreamExt as _;
use serde_json::{Value, json};

use super::handler_state::{Control, LoopMessage};
use super::http_server::{Problem, answer, problem, with_type};
use super::inputs_and_effects::{DaemonAnswer, DaemonRequest};
use super::metrics;
use crate::sync::{Job, JobKind};

const PATHS: &str = "GET /status, /metrics, /events; POST /sync, /resync, /verify, /push, /pause, /resume, /hold/clear";

/// A job of this kind as the body of a request says it; a missing body is an empty one.
pub fn requested(kind: Job, body: &[u8]) -> serde_json::Result<Job> {
    let said: Job = if body.is_empty() { Job::default() } else { serde_json::from_slice(body)? };
    let verifies = kind.kind == JobKind::Verify;
    let (full, repair, accept_removals) = (said.full && verifies, said.repair && verifies, said.accept_removals);
    Ok(Job { full, repair, accept_removals, ..kind.of(&said.objects.unwrap_or_default()) })
}

pub(super) fn router(control: Control) -> Router {
    Router::new()
        .route("/status", get(status))
        .route("/metrics", get(async |State(control): State<Control>| metrics::metrics(&control).await))
        .route("/events", get(events))
        .route("/sync", post(|State(control), body| job(control, body, Job::sync())))
        .route("/resync", post(|State(control), body| job(control, body, Job::resync())))
        .route("/verify", post(|State(control), body| job(control, body, Job::verify())))
        .route("/push", post(push))
        .route("/pause", post(|State(control)| done(control, DaemonRequest::Pause, json!({"paused": true}))))
        .route("/resume", post(|State(control)| done(control, DaemonRequest::Resume, json!({"paused": false}))))
        .route("/hold/clear", post(|State(control)| done(control, DaemonRequest::ClearHold, json!({"hold": null}))))
        .fallback(|| async { problem(StatusCode::NOT_FOUND, "unknown path", Some(PATHS)) })
        .method_not_allowed_fallback(|| async {
            problem(StatusCode::METHOD_NOT_ALLOWED, "method not allowed", Some(PATHS))
        })
        .with_state(control)
}

async fn status(State(control): State<Control>) -> Response {
    match control.status().await {
        Ok(status) => answer(StatusCode::OK, &status),
        // The daemon may be waiting for the mirror: its own status is useful anyway.
        Err(error) => {
            let database = std::path::absolute(&control.config().database).unwrap_or_default();
            let body = json!({"error": error, "hint": null, "database": database, "daemon": control.daemon()});
            answer(StatusCode::SERVICE_UNAVAILABLE, &body)
        }
    }
}

async fn job(control: Control, body: Result<Bytes, BytesRejection>, kind: Job) -> Result<Response, Problem> {
    let refused = |refused: BytesRejection| {
        problem(refused.status(), &format!("the body was refused: {}", refused.body_text()), None)
    };
    let job = requested(kind, &body.map_err(refused)?).map_err(|error| {
        let hint = "send a JSON object, or no body";
        problem(StatusCode::BAD_REQUEST, &format!("the body is invalid: {error}"), Some(hint))
    })?;
    accept(&control, job).await
}

async fn push(State(control): State<Control>) -> Result<Response, Problem> {
    if !control.config().write_back.enabled {
        let hint = "set `write_back.enabled = true` and reload";
        return Err(problem(StatusCode::CONFLICT, "write-back is off", Some(hint)));
    }
    accept(&control, Job::push()).await
}

/// Carries out a request. An answer of success to a pause, and to its end, says that it is stored.
async fn done(control: Control, request: DaemonRequest, now: Value) -> Result<Response, Problem> {
    asked(&control, request).await?;
    Ok(answer(StatusCode::OK, &now))
}

async fn accept(control: &Control, job: Job) -> Result<Response, Problem> {
    job.clone().within(control.config().sync.objects.as_deref()).map_err(|other| {
        let reason = format!("`{other}` is not among `sync.objects`");
        problem(StatusCode::BAD_REQUEST, &reason, Some("add it there, or choose other objects"))
    })?;
    match asked(control, DaemonRequest::Run(job)).await? {
        DaemonAnswer::Accepted(accepted) => Ok(answer(StatusCode::ACCEPTED, &accepted)),
        _ => Err(unavailable("the daemon is stopping")),
    }
}

/// What the daemon's loop answers, if it can do it now.
async fn asked(control: &Control, request: DaemonRequest) -> Result<DaemonAnswer, Problem> {
    match control.answered(|answer| LoopMessage::Ask(request, answer)).await {
        Some(DaemonAnswer::Unavailable(reason)) => Err(unavailable(&reason)),
        Some(answer) => Ok(answer),
        None => Err(unavailable("the daemon is stopping")),
    }
}

fn unavailable(reason: &str) -> Problem {
    problem(StatusCode::SERVICE_UNAVAILABLE, reason, None)
}

/// A stream of events from now on, one JSON document per line.
async fn events(State(control): State<Control>) -> Response {
    let framed = control.events().map(|line| Ok::<_, Infallible>(Bytes::from(format!("{line}\n"))));
    let mut response = with_type("application/x-ndjson", Body::from_stream(framed));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
