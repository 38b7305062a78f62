//! The control socket's HTTP: what the daemon answers, and to whom.
//!
//! Whoever may open the socket may ask for everything; its mode says who that is. Requests are small and their answers
//! come at once: what takes time is a job, and is told in `GET /events`.

use std::convert::Infallible;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use axum::routing::{get, post};
use futures_util::stream;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::UnixListener;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use super::edit_request;
use super::event::{Answer, Request};
use super::job::Work;
use super::message::Message;
use super::metrics;
use super::page::history::{self, History};
use super::reply::{answer, problem, with_type};
use super::told::DaemonStatus;
use super::voice::{self, Voice};
use crate::config::Config;
use crate::model::{Clock, Resource};
use crate::outbox::QueueError;
use crate::sync::Job as SyncJob;
use crate::sync::status::{self, Status};

/// How long requests under way may take to end with the daemon.
pub(super) const GRACE: Duration = Duration::from_millis(200);

/// What every request has at hand. Clones are the same.
#[derive(Clone)]
pub struct Control {
    inbox: mpsc::Sender<Message>,
    voice: Voice,
    config: Arc<RwLock<Arc<Config>>>,
    clock: Arc<dyn Clock>,
    ends: watch::Receiver<bool>,
    end: Arc<watch::Sender<bool>>,
}

/// `GET /status`: what the mirror's file tells, and what the daemon tells of itself.
#[derive(Clone, Debug, Serialize)]
pub struct Standing {
    /// The mirror.
    #[serde(flatten)]
    pub status: Status,
    /// The daemon; `None` where none runs.
    pub daemon: Option<DaemonStatus>,
}

impl Control {
    /// What the requests of a daemon have at hand.
    pub fn new(inbox: mpsc::Sender<Message>, voice: Voice, config: Arc<Config>, clock: Arc<dyn Clock>) -> Control {
        let (end, ends) = watch::channel(false);
        Control { inbox, voice, config: Arc::new(RwLock::new(config)), clock, ends, end: Arc::new(end) }
    }

    /// The configuration in force.
    pub(super) fn config(&self) -> Arc<Config> {
        self.config.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asks the daemon's loop.
    async fn ask(&self, request: Request) -> Option<Answer> {
        let (answer, answered) = oneshot::channel();
        self.inbox.send(Message::Ask(request, answer)).await.ok()?;
        answered.await.ok()
    }

    /// How the daemon stands.
    pub(super) async fn daemon(&self) -> Option<DaemonStatus> {
        let (answer, answered) = oneshot::channel();
        self.inbox.send(Message::Status(answer)).await.ok()?;
        answered.await.ok()
    }

    /// How mirror and daemon stand.
    pub(super) async fn standing(&self) -> Result<Standing, String> {
        let (config, now) = (self.config(), self.clock.now());
        let read = tokio::task::spawn_blocking(move || status::read(&config, now));
        let (read, daemon) = tokio::join!(read, self.daemon());
        let mut status = read.map_err(|e| e.to_string())?.map_err(|e| e.to_string())?;
        // Whoever asks may stand in another folder.
        if let Ok(database) = std::path::absolute(&status.database) {
            status.database = database.display().to_string();
        }
        Ok(Standing { status, daemon })
    }

    /// What the mirror's file tells of the past.
    pub(super) async fn history(&self) -> Result<History, String> {
        let (config, now, work) = (self.config(), self.clock.now(), self.voice.under_way());
        let read = tokio::task::spawn_blocking(move || history::read(&config, work, now));
        read.await.map_err(|e| e.to_string())?.map_err(|e| e.to_string())
    }

    pub(super) fn voice(&self) -> &Voice {
        &self.voice
    }
}

/// The server of the control socket.
pub struct Server {
    control: Control,
    serving: JoinHandle<()>,
}

impl Server {
    /// Takes over a configuration that was read again.
    pub fn take(&self, config: Arc<Config>) {
        *self.control.config.write().unwrap_or_else(PoisonError::into_inner) = config;
    }

    /// Ends it: streams end, and requests under way are answered if they are quick.
    pub async fn end(self) {
        self.control.end.send_replace(true);
        let mut serving = self.serving;
        if tokio::time::timeout(GRACE, &mut serving).await.is_err() {
            serving.abort();
        }
    }
}

/// Serves the control socket.
pub fn serve(control: Control, listener: UnixListener) -> Server {
    let router = router(control.clone());
    let mut ends = control.ends.clone();
    let serving = tokio::spawn(async move {
        let ended = async move {
            // An error means that the daemon is gone, which ends it too.
            let _ = ends.wait_for(|ends| *ends).await;
        };
        if let Err(error) = axum::serve(listener, router).with_graceful_shutdown(ended).await {
            tracing::error!(%error, "The control socket has ended: {error}");
        }
    });
    Server { control, serving }
}

fn router(control: Control) -> Router {
    Router::new()
        .route("/status", get(standing))
        .route("/metrics", get(numbers))
        .route("/events", get(events))
        .route("/sync", post(sync))
        .route("/resync", post(resync))
        .route("/resync/stop", post(stop_resync))
        .route("/verify", post(verify))
        .route("/push", post(push))
        .route("/edits", post(edit))
        .route("/pause", post(pause))
        .route("/resume", post(resume))
        .route("/hold/clear", post(clear_hold))
        .fallback(|| async { problem(StatusCode::NOT_FOUND, "there is nothing here", Some(PATHS)) })
        .method_not_allowed_fallback(|| async {
            problem(StatusCode::METHOD_NOT_ALLOWED, "not with this method", Some(PATHS))
        })
        .with_state(control)
}

const PATHS: &str = "GET /status, /metrics, /events; POST /sync, /resync, /resync/stop, /verify, /push, /edits, /pause, /resume, /hold/clear";

/// The body of `POST /sync` and `POST /resync`; none is an empty one.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Wanted {
    objects: Vec<Resource>,
    accept_removals: bool,
}

/// The body of `POST /verify`.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct WantedVerify {
    objects: Vec<Resource>,
    full: bool,
    repair: bool,
    accept_removals: bool,
}

async fn standing(State(control): State<Control>) -> Response {
    match control.standing().await {
        Ok(standing) => answer(StatusCode::OK, &standing),
        Err(why) => problem(StatusCode::INTERNAL_SERVER_ERROR, &why, None),
    }
}

async fn numbers(State(control): State<Control>) -> Response {
    match control.standing().await {
        Ok(standing) => with_type(
            "text/plain; version=0.0.4; charset=utf-8",
            Body::from(metrics::text(&standing, &control.voice().counted())),
        ),
        Err(why) => problem(StatusCode::INTERNAL_SERVER_ERROR, &why, None),
    }
}

async fn sync(State(control): State<Control>, body: Sent) -> Response {
    match read::<Wanted>(&body) {
        Err(response) => *response,
        Ok(wanted) => {
            let work = Work::Sync { objects: wanted.objects.clone(), accept_removals: wanted.accept_removals };
            control.accept(&wanted.objects, work).await
        }
    }
}

async fn resync(State(control): State<Control>, body: Sent) -> Response {
    match read::<Wanted>(&body) {
        Err(response) => *response,
        Ok(wanted) => {
            let work = Work::Resync { objects: wanted.objects.clone(), accept_removals: wanted.accept_removals };
            control.accept(&wanted.objects, work).await
        }
    }
}

async fn verify(State(control): State<Control>, body: Sent) -> Response {
    match read::<WantedVerify>(&body) {
        Err(response) => *response,
        Ok(wanted) => {
            let work = Work::Verify {
                objects: wanted.objects.clone(),
                full: wanted.full,
                repair: wanted.repair,
                accept_removals: wanted.accept_removals,
            };
            control.accept(&wanted.objects, work).await
        }
    }
}

async fn edit(State(control): State<Control>, body: Sent) -> Response {
    if !control.config().write_back {
        return write_back_is_off();
    }
    let body = match taken(&body) {
        Ok(body) => body,
        Err(refused) => return *refused,
    };
    let wanted: edit_request::Wanted = match serde_json::from_slice(body) {
        Ok(wanted) => wanted,
        Err(error) => {
            let told = format!("the body is not understood: {error}");
            let hint = r#"it is like {"object": "contact", "id": "…", "fields": {"position": "CTO"}}"#;
            return problem(StatusCode::BAD_REQUEST, &told, Some(hint));
        }
    };
    let (mirror, now) = (control.config().database.clone(), control.clock.now());
    match tokio::task::spawn_blocking(move || edit_request::take(&mirror, wanted, now)).await {
        Ok(Ok(queued)) => {
            // Where this is lost, the watch on the outbox sees the edit in a second.
            let _ = control.inbox.send(Message::Edited).await;
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

async fn push(State(control): State<Control>) -> Response {
    if !control.config().write_back {
        return write_back_is_off();
    }
    control.accept(&[], Work::Push).await
}

async fn stop_resync(State(control): State<Control>) -> Response {
    match control.standing().await {
        Ok(standing) if !has_resync(&standing) => {
            return problem(StatusCode::CONFLICT, "no resync is under way", None);
        }
        // Whatever cannot be read now is no reason against stopping.
        _ => {}
    }
    control.tell(Request::StopSweeps, json!({"stopped": true})).await
}

/// Whether a resync is under way, was interrupted, or waits for its turn. A first copy is none: it is never forgotten.
fn has_resync(standing: &Standing) -> bool {
    let swept = standing.status.objects.iter().filter_map(|object| object.sweep.as_ref());
    let jobs = standing.daemon.iter().flat_map(|daemon| daemon.running.iter().chain(&daemon.waiting));
    swept.into_iter().any(|sweep| !sweep.first_copy) || jobs.into_iter().any(|job| job.work == "resync")
}

async fn pause(State(control): State<Control>) -> Response {
    control.tell(Request::Pause, json!({"paused": true})).await
}

async fn resume(State(control): State<Control>) -> Response {
    control.tell(Request::Resume, json!({"paused": false})).await
}

async fn clear_hold(State(control): State<Control>) -> Response {
    control.tell(Request::ClearHold, json!({"hold": null})).await
}

impl Control {
    /// Puts a job into the queue.
    async fn accept(&self, objects: &[Resource], work: Work) -> Response {
        if let Err(other) = SyncJob::sync().of(objects).within(self.config().sync.objects.as_deref()) {
            let told = format!("`{other}` is not among `sync.objects`");
            return problem(StatusCode::BAD_REQUEST, &told, Some("add it there, or name others"));
        }
        match self.ask(Request::Run(work)).await {
            Some(Answer::Accepted { job, waits_until }) => {
                let waits_until = waits_until.map(|until| until.to_string());
                answer(StatusCode::ACCEPTED, &json!({"job": job, "waits_until": waits_until}))
            }
            _ => ending(),
        }
    }

    async fn tell(&self, request: Request, done: Value) -> Response {
        match self.ask(request).await {
            Some(Answer::Done) => answer(StatusCode::OK, &done),
            _ => ending(),
        }
    }
}

fn ending() -> Response {
    problem(StatusCode::SERVICE_UNAVAILABLE, "the daemon is ending", None)
}

/// A stream of what happens from now on: a JSON document a line, or server-sent events for whoever accepts these.
async fn events(State(control): State<Control>, headers: HeaderMap) -> Response {
    let sse = headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.contains("text/event-stream"));
    let told = control.voice.listen();
    let lines = stream::unfold((told, control.ends.clone()), |(mut told, mut ends)| async move {
        let line = tokio::select! {
            // What was told before the end is still heard: how a job ended is among it.
            biased;
            line = voice::next(&mut told) => line?,
            _ = ends.wait_for(|ends| *ends) => return None,
        };
        Some((line, (told, ends)))
    });
    let framed = futures_util::StreamExt::map(lines, move |line| {
        let framed = if sse { format!("data: {line}\n\n") } else { format!("{line}\n") };
        Ok::<_, Infallible>(Bytes::from(framed))
    });
    let kind = if sse { "text/event-stream" } else { "application/x-ndjson" };
    let mut response = with_type(kind, Body::from_stream(framed));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// A body as it came, or why it was not taken.
type Sent = Result<Bytes, BytesRejection>;

fn taken(body: &Sent) -> Result<&Bytes, Box<Response>> {
    body.as_ref().map_err(|refused| {
        let told = format!("the body is not taken: {}", refused.body_text());
        Box::new(problem(refused.status(), &told, None))
    })
}

/// Reads a body; none is an empty document.
fn read<T: DeserializeOwned + Default>(body: &Sent) -> Result<T, Box<Response>> {
    let body = taken(body)?;
    if body.is_empty() {
        return Ok(T::default());
    }
    serde_json::from_slice(body).map_err(|error| {
        let told = format!("the body is not understood: {error}");
        Box::new(problem(StatusCode::BAD_REQUEST, &told, Some("it is a JSON object, or nothing")))
    })
}
