//! The status page: what a person wants to see of the mirror, in a browser on this machine, live.
//!
//! # Always true
//! - It is served on loopback only, and only where the configuration asks for it.
//! - It is for looking: GET and nothing else, and no request changes anything.
//! - Every user of this machine may look. So no value of a record leaves here, only ids and names of columns; what a
//!   verification found, value by value, is told on the control socket alone.
//! - The page loads nothing from elsewhere, runs no script but its own, and puts what it is told into text, never into
//!   markup; the headers hold it to that.

mod door;
pub(super) mod history;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use futures_util::stream;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

use self::door::{Door, Refused};
use super::control::{self, Control};
use super::error::DaemonError;
use super::reply::{answer, problem, with_type};
use super::told::Told;
use super::voice;

/// What the page is made of: path, type and content.
const PARTS: [(&str, &str, &str); 7] = [
    ("/", HTML, include_str!("page/index.html")),
    ("/page.css", "text/css; charset=utf-8", include_str!("page/page.css")),
    ("/page.js", SCRIPT, include_str!("page/page.js")),
    ("/plots.js", SCRIPT, include_str!("page/plots.js")),
    ("/text.js", SCRIPT, include_str!("page/text.js")),
    ("/words.js", SCRIPT, include_str!("page/words.js")),
    ("/icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
];
const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// What every answer says to a browser, beside its type.
const HEADERS: [(HeaderName, HeaderValue); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
             trusted-types 'none'",
        ),
    ),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
];

const PATHS: &str = "GET /, /status, /history, /events";

/// How long the stream of events is silent: a connection that is gone shows in what is written.
const SILENCE: Duration = Duration::from_secs(15);

/// The page's server.
#[derive(Debug)]
pub struct Page {
    wanted_at: SocketAddr,
    end: watch::Sender<bool>,
    serving: JoinHandle<()>,
}

/// What every request has at hand.
#[derive(Clone)]
struct Shown {
    control: Control,
    at: SocketAddr,
    ends: watch::Receiver<bool>,
    /// One question to the mirror's file at a time, however many pages are open.
    asking: Arc<Semaphore>,
}

impl Page {
    /// Begins to serve the page.
    ///
    /// # Errors
    /// If the address is not to be had.
    pub async fn serve(at: SocketAddr, control: Control) -> Result<Page, DaemonError> {
        let failed = |source| DaemonError::Page { at, source };
        let listener = TcpListener::bind(at).await.map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        let (end, mut ends) = watch::channel(false);
        let shown = Shown { control, at: bound, ends: ends.clone(), asking: Arc::new(Semaphore::new(1)) };
        let router = Router::new().fallback(shown_to).with_state(shown);
        let serving = tokio::spawn(async move {
            let ended = async move {
                // An error means that the daemon is gone, which ends it too.
                let _ = ends.wait_for(|ends| *ends).await;
            };
            if let Err(error) = axum::serve(Door::of(listener), router).with_graceful_shutdown(ended).await {
                tracing::error!(%error, "The status page has ended");
            }
        });
        tracing::info!("The status page is at http://{bound}/");
        Ok(Page { wanted_at: at, end, serving })
    }

    /// Where the configuration wanted it; with port 0 it is elsewhere.
    pub fn wanted_at(&self) -> SocketAddr {
        self.wanted_at
    }

    /// Ends it: streams end, and requests under way are answered if they are quick.
    pub async fn end(self) {
        self.end.send_replace(true);
        let mut serving = self.serving;
        if tokio::time::timeout(control::GRACE, &mut serving).await.is_err() {
            serving.abort();
        }
    }
}

/// Answers a request, and says with every answer what a browser may do with it.
async fn shown_to(State(shown): State<Shown>, request: Request) -> Response {
    // A body is never read.
    let (head, _) = request.into_parts();
    let mut response = shown.answer(&head).await;
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, value);
    }
    response
}

impl Shown {
    async fn answer(&self, head: &Parts) -> Response {
        match door::refuses(&head.uri, &head.headers, self.at) {
            None => {}
            Some(Refused::Host) => {
                let hint = format!("it is at http://127.0.0.1:{0}/ and http://localhost:{0}/", self.at.port());
                return problem(StatusCode::FORBIDDEN, "not under this name", Some(&hint));
            }
            Some(Refused::Site) => {
                return problem(StatusCode::FORBIDDEN, "not for other sites", None);
            }
        }
        if head.method != Method::GET {
            let mut response = problem(StatusCode::METHOD_NOT_ALLOWED, "this is for looking only", Some(PATHS));
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET"));
            return response;
        }
        let path = head.uri.path();
        if let Some((_, kind, content)) = PARTS.iter().find(|(name, ..)| *name == path) {
            return with_type(kind, Body::from(*content));
        }
        match path {
            "/status" => {
                let _turn = self.asking.acquire().await;
                document(self.control.standing().await)
            }
            "/history" => {
                let _turn = self.asking.acquire().await;
                document(self.control.history().await)
            }
            "/events" => self.events(),
            _ => problem(StatusCode::NOT_FOUND, "there is nothing here", Some(PATHS)),
        }
    }

    /// A stream of what happens from now on, as server-sent events.
    fn events(&self) -> Response {
        let told = self.control.voice().listen();
        let state = (told, self.ends.clone(), true);
        let lines = stream::unfold(state, |(mut told, mut ends, first)| async move {
            let framed = if first {
                // So that a browser knows at once that it is connected.
                ":\nretry: 3000\n\n".to_string()
            } else {
                tokio::select! {
                    // What was said before the end is told before it.
                    biased;
                    line = voice::next(&mut told) => framed(&line?),
                    () = tokio::time::sleep(SILENCE) => ":\n\n".to_string(),
                    _ = ends.wait_for(|ends| *ends) => return None,
                }
            };
            Some((Ok::<_, Infallible>(Bytes::from(framed)), (told, ends, false)))
        });
        with_type("text/event-stream", Body::from_stream(lines))
    }
}

fn document(read: Result<impl Serialize, String>) -> Response {
    match read {
        Ok(document) => answer(StatusCode::OK, &document),
        Err(why) => problem(StatusCode::INTERNAL_SERVER_ERROR, &why, None),
    }
}

/// A line of the control socket's stream as an event for everybody; nothing, where it is for nobody here.
fn framed(line: &str) -> String {
    let told = match serde_json::from_str(line) {
        // What a verification found names values.
        Ok(Told::Finished { job, exit, summary, error, hint, .. }) => {
            Told::Finished { job, exit, summary, found: Vec::new(), error, hint }
        }
        Ok(told) => told,
        Err(_) => return ":\n\n".into(),
    };
    match serde_json::to_string(&told) {
        Ok(line) => format!("data: {line}\n\n"),
        Err(_) => ":\n\n".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Object, RecordId};
    use crate::store::FieldDifference;
    use crate::sync::Findings;
    use crate::sync::findings::{Difference, DifferenceKind};

    #[test]
    fn what_a_verification_found_is_not_for_everybody() {
        let difference = Difference {
            object: Object::Contact,
            id: RecordId::new("ct_1"),
            kind: DifferenceKind::Stale,
            fields: vec![FieldDifference { column: "name".into(), here: "Ada".into(), there: "Eve".into() }],
        };
        let findings = Findings { differences: vec![difference], ..Findings::default() };
        let finished = Told::Finished {
            job: 4,
            exit: 1,
            summary: None,
            found: vec![(Object::Contact, findings)],
            error: Some("it failed".into()),
            hint: None,
        };
        let line = serde_json::to_string(&finished).unwrap();
        assert!(line.contains("Eve"));
        assert_eq!(
            framed(&line),
            "data: {\"event\":\"finished\",\"job\":4,\"exit\":1,\"summary\":null,\"found\":[],\
             \"error\":\"it failed\",\"hint\":null}\n\n"
        );
        assert_eq!(framed("{\"event\":\"paused\"}"), "data: {\"event\":\"paused\"}\n\n");
        assert_eq!(framed("Eve"), ":\n\n");
    }
}
