//! The HTTP answers of the status page.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, StreamExt as _};
use serde::Serialize;
use tokio::sync::Semaphore;

use super::host_check::{HostRefusal, ServedAt, host_check};
use super::parts::{HEADERS, PARTS};
use super::public;
use crate::daemon::handler_state::Control;
use crate::daemon::monitoring;
use crate::daemon::reply::{answer, problem, with_type};

const PATHS: &str = "GET /, /status, /history, /events, /metrics, /healthz, /readyz";

/// The maximum silence of the event stream: a closed connection is detected by writing.
const SILENCE: Duration = Duration::from_secs(15);

/// The maximum number of event streams; the other connections remain available for requests.
const STREAMS: usize = 32;

#[derive(Clone)]
struct PageState {
    control: Control,
    served: ServedAt,
    /// One read of the history at a time, however many pages are open.
    asking: Arc<Semaphore>,
    streams: Arc<Semaphore>,
}

pub(super) fn router(control: Control, served: ServedAt) -> Router {
    let (asking, streams) = (Arc::new(Semaphore::new(1)), Arc::new(Semaphore::new(STREAMS)));
    Router::new().fallback(answered).with_state(PageState { control, served, asking, streams })
}

/// Answers a request, and adds the security headers.
async fn answered(State(state): State<PageState>, request: Request) -> Response {
    // A request body is never read.
    let (head, _) = request.into_parts();
    let mut response = state.answer(&head).await;
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, value);
    }
    response
}

impl PageState {
    async fn answer(&self, head: &Parts) -> Response {
        match host_check(&head.uri, &head.headers, self.served) {
            None => {}
            Some(HostRefusal::Host) => {
                let hint = format!("use http://127.0.0.1:{0}/ and http://localhost:{0}/", self.served.at.port());
                return problem(StatusCode::FORBIDDEN, "host name not allowed", Some(&hint));
            }
            Some(HostRefusal::Site) => {
                return problem(StatusCode::FORBIDDEN, "cross-site requests are not allowed", None);
            }
        }
        if head.method != Method::GET && head.method != Method::HEAD {
            let mut response = problem(StatusCode::METHOD_NOT_ALLOWED, "the status page is read-only", Some(PATHS));
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        let path = head.uri.path();
        if let Some((_, kind, content)) = PARTS.iter().find(|(name, ..)| *name == path) {
            return with_type(kind, Body::from(*content));
        }
        match path {
            "/healthz" => monitoring::health(&self.control).await,
            "/events" if head.method == Method::GET => self.events(),
            "/events" => with_type("text/event-stream", Body::empty()),
            "/metrics" => monitoring::metrics(&self.control).await,
            "/readyz" => monitoring::readiness(&self.control).await,
            "/status" => {
                let status = self.control.status().await;
                document(status.map(|status| status.without_service_messages()).map_err(|(error, _)| error))
            }
            "/history" => {
                let _turn = self.asking.acquire().await;
                document(self.control.history().await.map(public::history))
            }
            _ => problem(StatusCode::NOT_FOUND, "unknown path", Some(PATHS)),
        }
    }

    /// A stream of events from now on, as server-sent events.
    fn events(&self) -> Response {
        let Ok(permit) = self.streams.clone().try_acquire_owned() else {
            return problem(StatusCode::SERVICE_UNAVAILABLE, "too many streams are open", None);
        };
        // Tells the browser at once that it is connected.
        let first = stream::iter([SseEvent::default().comment("").retry(Duration::from_secs(3))]);
        let events = self.control.events().filter_map(move |line| {
            let _counted = &permit;
            let event = public::event(&line).map(|line| SseEvent::default().data(line));
            async move { event }
        });
        let all = first.chain(events).map(Ok::<_, Infallible>);
        Sse::new(all).keep_alive(KeepAlive::new().interval(SILENCE)).into_response()
    }
}

fn document(read: Result<impl Serialize, String>) -> Response {
    match read {
        Ok(document) => answer(StatusCode::OK, &document),
        Err(why) => problem(StatusCode::INTERNAL_SERVER_ERROR, &why, None),
    }
}
