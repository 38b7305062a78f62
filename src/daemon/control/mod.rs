//! The HTTP interface of the control socket.
//!
//! Anyone who can open the socket can send every request; its mode restricts who can. Requests are small and answered
//! at once: long work is a job, and its progress is published in `GET /events`. `bodies` parses request bodies, `edits`
//! queues an edit.

pub mod bodies;
pub mod edits;

use std::convert::Infallible;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::stream::StreamExt as _;
use serde::de::DeserializeOwned;
use serde_json::json;

use self::bodies::{SentBody, SyncBody, VerifyBody};
use super::handler_state::{ALIVE_WITHIN, Control, PATIENT};
use super::http_server::{answer, problem, with_type};
use super::inputs_and_effects::{DaemonAnswer, DaemonRequest};
use super::metrics;
use super::status_reply::StatusReply;
use crate::outbox::QueueError;
use crate::sync::Job;

const PATHS: &str = "GET /status, /metrics, /events; POST /sync, /resync, /resync/stop, /verify, /push, /edits, /pause, /resume, /hold/clear";

pub(super) fn router(control: Control) -> Router {
    Router::new()
        .route("/status", get(status))
        .route("/metrics", get(async |State(control): State<Control>| metrics::metrics(&control).await))
        .route("/events", get(events))
        .route("/sync", post(|State(control), body| job(control, body, |body: SyncBody| body.of(Job::sync()))))
        .route("/resync", post(|State(control), body| job(control, body, |body: SyncBody| body.of(Job::resync()))))
        .route("/resync/stop", post(stop_resync))
        .route("/verify", post(|State(control), body| job(control, body, |body: VerifyBody| body.job())))
        .route("/push", post(push))
        .route("/edits", post(edit))
        .route("/pause", post(async |State(control): State<Control>| pause(&control, true).await))
        .route("/resume", post(async |State(control): State<Control>| pause(&control, false).await))
        .route("/hold/clear", post(clear_hold))
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
        Err((error, Some(daemon))) => {
            let database = std::path::absolute(&control.config().database).unwrap_or_default();
            let body = json!({"error": error, "hint": null, "database": database, "daemon": daemon});
            answer(StatusCode::SERVICE_UNAVAILABLE, &body)
        }
        Err((error, None)) => problem(StatusCode::INTERNAL_SERVER_ERROR, &error, None),
    }
}

/// Enqueues the job that a body asks for.
async fn job<B: DeserializeOwned + Default>(control: Control, body: SentBody, job: impl FnOnce(B) -> Job) -> Response {
    match bodies::read(&body) {
        Err(response) => *response,
        Ok(body) => accept(&control, job(body)).await,
    }
}

async fn push(State(control): State<Control>) -> Response {
    if !control.config().write_back {
        return write_back_is_off();
    }
    accept(&control, Job::Push).await
}

async fn edit(State(control): State<Control>, body: SentBody) -> Response {
    if !control.config().write_back {
        return write_back_is_off();
    }
    let body = match bodies::bytes(&body) {
        Ok(body) => body,
        Err(refused) => return *refused,
    };
    let edit: edits::EditBody = match serde_json::from_slice(body) {
        Ok(edit) => edit,
        Err(error) => {
            let reason = format!("the body is invalid: {error}");
            let hint = r#"the form is {"object": "contact", "id": "…", "fields": {"position": "CTO"}}"#;
            return problem(StatusCode::BAD_REQUEST, &reason, Some(hint));
        }
    };
    let (mirror, now) = (control.config().database.clone(), control.now());
    match tokio::task::spawn_blocking(move || edits::queue_edit(&mirror, edit, now)).await {
        Ok(Ok(queued)) => {
            control.edits_due().await;
            answer(StatusCode::ACCEPTED, &queued)
        }
        Ok(Err(error @ QueueError::NoRecord { .. })) => problem(StatusCode::NOT_FOUND, &error.to_string(), None),
        Ok(Err(error @ QueueError::OtherVersion { .. })) => problem(StatusCode::CONFLICT, &error.to_string(), None),
        Ok(Err(QueueError::Store(error))) => {
            problem(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string(), error.hint())
        }
        Ok(Err(error)) => problem(StatusCode::UNPROCESSABLE_ENTITY, &error.to_string(), None),
        Err(error) => problem(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string(), None),
    }
}

fn write_back_is_off() -> Response {
    problem(StatusCode::CONFLICT, "write-back is off", Some("set `write_back.enabled = true` and reload"))
}

async fn stop_resync(State(control): State<Control>) -> Response {
    // The state of the loop is current; an older one of the file may lack a sweep that has begun since.
    let daemon = control.daemon(ALIVE_WITHIN).await;
    let read = control.mirror(PATIENT).await;
    match read.map(|status| StatusReply { status, daemon }) {
        Ok(status) if !has_resync(&status) => {
            return answer(StatusCode::OK, &json!({"stopped": false}));
        }
        // An unreadable status does not prevent the stop.
        _ => {}
    }
    match control.ask(DaemonRequest::StopSweeps).await {
        Some(DaemonAnswer::Done) => answer(StatusCode::OK, &json!({"stopped": true})),
        other => unavailable(other),
    }
}

/// Whether a resync is running, was interrupted, or is queued. A first copy does not count: it is never discarded.
fn has_resync(status: &StatusReply) -> bool {
    let swept = status.status.objects.iter().filter_map(|object| object.sweep.as_ref());
    let jobs = status.daemon.iter().flat_map(|daemon| daemon.running.iter().chain(&daemon.waiting));
    swept.into_iter().any(|sweep| !sweep.first_copy) || jobs.into_iter().any(|job| job.work == "resync")
}

async fn clear_hold(State(control): State<Control>) -> Response {
    match control.ask(DaemonRequest::ClearHold).await {
        Some(DaemonAnswer::Done) => answer(StatusCode::OK, &json!({"hold": null})),
        other => unavailable(other),
    }
}

/// Pauses or resumes: 200 once it is stored; 202 if it is in effect but not stored, so that a restart may lose it.
async fn pause(control: &Control, paused: bool) -> Response {
    match control.ask(if paused { DaemonRequest::Pause } else { DaemonRequest::Resume }).await {
        Some(DaemonAnswer::Done) => answer(StatusCode::OK, &json!({"paused": paused, "stored": true})),
        Some(DaemonAnswer::NotStored { reason }) => {
            answer(StatusCode::ACCEPTED, &json!({"paused": paused, "stored": false, "reason": reason}))
        }
        other => unavailable(other),
    }
}

async fn accept(control: &Control, job: Job) -> Response {
    if let Err(other) = job.clone().within(control.config().sync.objects.as_deref()) {
        let reason = format!("`{other}` is not among `sync.objects`");
        return problem(StatusCode::BAD_REQUEST, &reason, Some("add it there, or choose other objects"));
    }
    match control.ask(DaemonRequest::Run(job)).await {
        Some(DaemonAnswer::Accepted { job, waits_until }) => {
            let waits_until = waits_until.map(|until| until.to_string());
            answer(StatusCode::ACCEPTED, &json!({"job": job, "waits_until": waits_until}))
        }
        other => unavailable(other),
    }
}

fn unavailable(given: Option<DaemonAnswer>) -> Response {
    let reason = match given {
        Some(DaemonAnswer::Unavailable { reason }) => reason,
        _ => "the daemon is stopping".into(),
    };
    problem(StatusCode::SERVICE_UNAVAILABLE, &reason, None)
}

/// A stream of events from now on: one JSON document per line, or server-sent events if the client accepts them.
async fn events(State(control): State<Control>, headers: HeaderMap) -> Response {
    let accepts = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let lines = control.events();
    let mut response = if accepts.is_some_and(|accept| accept.contains("text/event-stream")) {
        let events = lines.map(|line| Ok::<_, Infallible>(SseEvent::default().data(&*line)));
        Sse::new(events).keep_alive(KeepAlive::default()).into_response()
    } else {
        let framed = lines.map(|line| Ok::<_, Infallible>(Bytes::from(format!("{line}\n"))));
        with_type("application/x-ndjson", Body::from_stream(framed))
    };
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
