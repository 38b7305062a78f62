//! A small HTTP/1.1 server for the control socket and the status page, and the form of its answers.
//!
//! # Invariants
//! - It supports HTTP/1.1 only: a connection cannot be upgraded.
//! - A connection that sends no request for a while is closed, so idle connections do not block others.
//! - On shutdown, streams end and requests in flight are answered; requests that take longer are aborted.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle, JoinSet};

/// How long a connection may take to send a request's head, including the time between two requests.
pub(super) const IDLE: Duration = Duration::from_secs(10);

/// The largest head of a request, in bytes, and the memory for reading a connection.
const MAX_HEAD: usize = 64 * 1024;

const GRACE: Duration = Duration::from_millis(200);

/// Serves those that it `admits` until `ends` becomes true. A connection may be idle, and live, for this long; `begun` gets
/// each one.
pub(super) fn spawn<L: Listener>(
    mut listener: L,
    router: Router,
    ends: watch::Receiver<bool>,
    limits: (Duration, Duration),
    admits: impl Fn(&L::Addr) -> bool + Send + 'static,
    mut begun: impl FnMut(&L::Addr, AbortHandle) + Send + 'static,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut ended = ends.clone();
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                // An error means that the daemon is gone, which also ends the server.
                _ = ended.wait_for(|ends| *ends) => break,
                (io, from) = listener.accept() => {
                    if admits(&from) {
                        begun(&from, connections.spawn(serve(io, router.clone(), ends.clone(), limits)));
                    }
                }
                Some(_) = connections.join_next() => {}
            }
        }
        // Frees the address at once, whatever the connections do.
        drop(listener);
        let all = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(GRACE, all).await.is_err() {
            connections.abort_all();
        }
    })
}

async fn serve<Io>(io: Io, router: Router, mut ends: watch::Receiver<bool>, (idle, life): (Duration, Duration))
where
    Io: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(idle)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(io), TowerToHyperService::new(router));
    let mut connection = std::pin::pin!(connection);
    let grace = tokio::select! {
        _ = connection.as_mut() => return,
        // An error means that the daemon is gone, which also ends the connection.
        _ = ends.wait_for(|ends| *ends) => GRACE,
        // What was asked by then is answered.
        () = tokio::time::sleep(life) => IDLE,
    };
    connection.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(grace, connection).await;
}

pub(super) async fn finish(mut serving: JoinHandle<()>) {
    if tokio::time::timeout(2 * GRACE, &mut serving).await.is_err() {
        serving.abort();
    }
}

pub(super) fn answer(status: StatusCode, value: &impl Serialize) -> Response {
    match serde_json::to_string(value) {
        Ok(body) => (status, [(header::CONTENT_TYPE, "application/json")], body + "\n").into_response(),
        Err(error) => problem(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string(), None).into_response(),
    }
}

#[derive(Debug)]
pub(super) struct Problem(StatusCode, ProblemReply);

/// The body of an answer that is no success.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ProblemReply {
    pub error: String,
    pub hint: Option<String>,
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        answer(self.0, &self.1)
    }
}

pub(super) fn problem(status: StatusCode, error: &str, hint: Option<&str>) -> Problem {
    Problem(status, ProblemReply { error: error.into(), hint: hint.map(String::from) })
}

pub(super) fn with_type(kind: &'static str, body: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, kind)], body.into()).into_response()
}
