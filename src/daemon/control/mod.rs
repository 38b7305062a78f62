//! The HTTP interface of the control socket.
//!
//! Anyone who can open the socket can send every request; its mode restricts who can. Requests are small and answered
//! at once: long work is a job, and its progress is published in `GET /events`.

pub mod bodies;

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

use self::bodies::{EditBody, SentBody, SyncBody, VerifyBody};
use super::handler_state::{Control, PATIENT};
use super::http_server::{Problem, answer, internal, problem, with_type};
use super::inputs_and_effects::{DaemonAnswer, DaemonRequest};
use super::metrics;
use super::status_reply::DaemonStatus;
use crate::app::person;
use crate::app::status::MirrorStatus;
use crate::outbox::{EditSource, QueueError, queue};
use crate::store::write_beside;
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
        Err(error) => {
            let database = std::path::absolute(&control.config().database).unwrap_or_default();
            let body = json!({"error": error, "hint": null, "database": database, "daemon": control.daemon()});
            answer(StatusCode::SERVICE_UNAVAILABLE, &body)
        }
    }
}

async fn job<B>(control: Control, body: SentBody, job: impl FnOnce(B) -> Job) -> Result<Response, Problem>
where
    B: DeserializeOwned + Default,
{
    let body = bodies::parse(&bodies::bytes(body)?);
    let body = body.map_err(|error| bodies::invalid(&error, "send a JSON object, or no body"))?;
    accept(&control, job(body)).await
}

async fn push(State(control): State<Control>) -> Result<Response, Problem> {
    requires_write_back(&control)?;
    accept(&control, Job::Push).await
}

async fn edit(State(control): State<Control>, body: SentBody) -> Result<Response, Problem> {
    requires_write_back(&control)?;
    let edit: EditBody = serde_json::from_slice(&bodies::bytes(body)?).map_err(|error| {
        let hint = r#"the form is {"object": "contact", "id": "…", "fields": {"position": "CTO"}}"#;
        bodies::invalid(&error, hint)
    })?;
    let (request, mirror, now) = (edit.request(), control.config().database.clone(), control.now());
    let write = move || {
        write_beside(&mirror, |tx| {
            // The socket takes requests of this user only.
            tx.by(person());
            queue(tx, &request, EditSource::Socket, now)
        })
    };
    let (queued, _) = tokio::task::spawn_blocking(write).await.map_err(|error| internal(&error))?.map_err(|error| {
        let (status, hint) = match &error {
            QueueError::NoRecord { .. } => (StatusCode::NOT_FOUND, None),
            QueueError::OtherVersion { .. } => (StatusCode::CONFLICT, None),
            QueueError::Store(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.hint()),
            _ => (StatusCode::UNPROCESSABLE_ENTITY, None),
        };
        problem(status, &error.to_string(), hint)
    })?;
    // The watch on the outbox notices it within a second, as one that another process queued.
    Ok(answer(StatusCode::ACCEPTED, &queued))
}

fn requires_write_back(control: &Control) -> Result<(), Problem> {
    let off = || problem(StatusCode::CONFLICT, "write-back is off", Some("set `write_back.enabled = true` and reload"));
    control.config().write_back.enabled.then_some(()).ok_or_else(off)
}

async fn stop_resync(State(control): State<Control>) -> Result<Response, Problem> {
    // The state of the loop is current; an older one of the file may lack a sweep that has begun since.
    let daemon = control.daemon();
    let read = control.mirror(PATIENT).await;
    // An unreadable status does not prevent the stop.
    if read.is_ok_and(|status| !has_resync(&status, &daemon)) {
        return Ok(answer(StatusCode::OK, &json!({"stopped": false})));
    }
    asked(&control, DaemonRequest::StopSweeps).await?;
    Ok(answer(StatusCode::OK, &json!({"stopped": true})))
}

/// Whether a resync is running, was interrupted, or is queued. A first copy does not count: it is never discarded.
fn has_resync(status: &MirrorStatus, daemon: &DaemonStatus) -> bool {
    let mut swept = status.objects.iter().filter_map(|object| object.sweep.as_ref());
    let mut jobs = daemon.running.iter().chain(&daemon.waiting);
    swept.any(|sweep| !sweep.first_copy) || jobs.any(|job| job.work == "resync")
}

async fn clear_hold(State(control): State<Control>) -> Result<Response, Problem> {
    asked(&control, DaemonRequest::ClearHold).await?;
    Ok(answer(StatusCode::OK, &json!({"hold": null})))
}

/// Pauses or resumes: 200 once it is stored; 202 if it is in effect but not stored, so that a restart may lose it.
async fn pause(control: &Control, paused: bool) -> Result<Response, Problem> {
    Ok(match asked(control, if paused { DaemonRequest::Pause } else { DaemonRequest::Resume }).await? {
        DaemonAnswer::NotStored { reason } => {
            answer(StatusCode::ACCEPTED, &json!({"paused": paused, "stored": false, "reason": reason}))
        }
        _ => answer(StatusCode::OK, &json!({"paused": paused, "stored": true})),
    })
}

async fn accept(control: &Control, job: Job) -> Result<Response, Problem> {
    job.clone().within(control.config().sync.objects.as_deref()).map_err(|other| {
        let reason = format!("`{other}` is not among `sync.objects`");
        problem(StatusCode::BAD_REQUEST, &reason, Some("add it there, or choose other objects"))
    })?;
    let DaemonAnswer::Accepted { job, waits_until } = asked(control, DaemonRequest::Run(job)).await? else {
        return Err(unavailable("the daemon is stopping"));
    };
    let waits_until = waits_until.map(|until| until.to_string());
    Ok(answer(StatusCode::ACCEPTED, &json!({"job": job, "waits_until": waits_until})))
}

/// What the daemon's loop answers, if it can do it now.
async fn asked(control: &Control, request: DaemonRequest) -> Result<DaemonAnswer, Problem> {
    match control.ask(request).await {
        Some(DaemonAnswer::Unavailable { reason }) => Err(unavailable(&reason)),
        Some(answer) => Ok(answer),
        None => Err(unavailable("the daemon is stopping")),
    }
}

fn unavailable(reason: &str) -> Problem {
    problem(StatusCode::SERVICE_UNAVAILABLE, reason, None)
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
