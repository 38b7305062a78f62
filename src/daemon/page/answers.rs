//! The HTTP answers of the status page: its files, and the parts of events, status and history that every user of the
//! machine may see.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, StreamExt as _};
use serde::Serialize;
use tokio::sync::Semaphore;

use super::access::{HostRefusal, ServedAt, host_check};
use crate::app::limits;
use crate::budget::Ledger;
use crate::config::Config;
use crate::daemon::bus::Event;
use crate::daemon::handler_state::Control;
use crate::daemon::http_server::{Problem, answer, internal, problem, with_type};
use crate::daemon::job::JobResult;
use crate::daemon::metrics;
use crate::daemon::progress_log::CurrentWork;
use crate::daemon::status_reply::public_reason;
use crate::format::HIDDEN;
use crate::model::{Instant, instant};
use crate::store::{Reader, RecordedRun, StoreError, report};
use crate::sync::RunEvent;

const PATHS: &str = "GET /, /status, /history, /events, /metrics, /healthz, /readyz";

/// The maximum silence of the event stream: a closed connection is detected by writing.
const SILENCE: Duration = Duration::from_secs(15);

/// The maximum number of event streams; the other connections remain available for requests.
const STREAMS: usize = 32;

#[derive(Clone)]
struct PageState {
    control: Control,
    served: ServedAt,
    streams: Arc<Semaphore>,
}

pub(super) fn router(control: Control, served: ServedAt) -> Router {
    let streams = Arc::new(Semaphore::new(STREAMS));
    Router::new().fallback(answered).with_state(PageState { control, served, streams })
}

async fn answered(State(state): State<PageState>, request: Request) -> Response {
    // A request body is never read.
    let (head, _) = request.into_parts();
    let mut response = state.answer(&head).await.into_response();
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, value);
    }
    response
}

impl PageState {
    async fn answer(&self, head: &Parts) -> Result<Response, Problem> {
        match host_check(&head.uri, &head.headers, self.served) {
            None => {}
            Some(HostRefusal::Host) => {
                let hint = format!("use http://127.0.0.1:{0}/ and http://localhost:{0}/", self.served.at.port());
                return Err(problem(StatusCode::FORBIDDEN, "host name not allowed", Some(&hint)));
            }
            Some(HostRefusal::Site) => {
                return Err(problem(StatusCode::FORBIDDEN, "cross-site requests are not allowed", None));
            }
        }
        if head.method != Method::GET && head.method != Method::HEAD {
            let refusal = problem(StatusCode::METHOD_NOT_ALLOWED, "the status page is read-only", Some(PATHS));
            return Ok(([(header::ALLOW, "GET, HEAD")], refusal).into_response());
        }
        let path = head.uri.path();
        if let Some((_, kind, content)) = PARTS.iter().find(|(name, ..)| *name == path) {
            return Ok(with_type(kind, *content));
        }
        match path {
            "/healthz" => metrics::health(&self.control).await,
            "/events" if head.method == Method::GET => self.events(),
            "/events" => Ok(with_type("text/event-stream", Body::empty())),
            "/metrics" => metrics::metrics(&self.control).await,
            "/readyz" => Ok(metrics::readiness(&self.control).await),
            "/status" => {
                let status = self.control.status().await.map_err(|error| internal(&error))?;
                Ok(answer(StatusCode::OK, &status.without_service_messages()))
            }
            "/history" => {
                let now = self.control.now();
                let read = self.control.with_reader(move |reader, config| PageHistory::read(reader, config, now)).await;
                let under_way = self.control.known().log.work.clone();
                let history = PageHistory { under_way, ..read.map_err(|error| internal(&error))? };
                Ok(answer(StatusCode::OK, &history))
            }
            _ => Err(problem(StatusCode::NOT_FOUND, "unknown path", Some(PATHS))),
        }
    }

    fn events(&self) -> Result<Response, Problem> {
        let permit = self.streams.clone().try_acquire_owned();
        let permit = permit.map_err(|_| problem(StatusCode::SERVICE_UNAVAILABLE, "too many streams are open", None))?;
        // Tells the browser at once that it is connected.
        let first = stream::iter([SseEvent::default().comment("").retry(Duration::from_secs(3))]);
        let events = self.control.events().filter_map(move |line| {
            let _counted = &permit;
            let shown = event(&line).map(|line| SseEvent::default().data(line));
            async move { shown }
        });
        let all = first.chain(events).map(Ok::<_, Infallible>);
        Ok(Sse::new(all).keep_alive(KeepAlive::new().interval(SILENCE)).into_response())
    }
}

pub(super) const PARTS: [(&str, &str, &str); 7] = [
    ("/", HTML, include_str!("index.html")),
    ("/page.css", "text/css; charset=utf-8", include_str!("page.css")),
    ("/page.js", SCRIPT, include_str!("page.js")),
    ("/plots.js", SCRIPT, include_str!("plots.js")),
    ("/text.js", SCRIPT, include_str!("text.js")),
    ("/words.js", SCRIPT, include_str!("words.js")),
    ("/icon.svg", "image/svg+xml", include_str!("icon.svg")),
];
const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

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

/// The public form of an event; `None` if it is not public.
pub(super) fn event(line: &str) -> Option<String> {
    let event = match serde_json::from_str(line).ok()? {
        // Findings contain values, and an error may quote the service.
        Event::Finished { job, mut result } => {
            result.summary.iter_mut().for_each(|summary| summary.notes.clear());
            let error = result.error.map(|_| public_reason(result.exit).into());
            Event::Finished { job, result: JobResult { error, found: Vec::new(), hint: None, ..result } }
        }
        Event::Run(RunEvent::Warning { .. }) => {
            Event::Run(RunEvent::Warning { text: format!("a run reported a warning; {HIDDEN}") })
        }
        event => event,
    };
    serde_json::to_string(&event).ok()
}

const WINDOWS: u32 = 7;

const RUNS: u32 = 50;

const CHANGES: u32 = 50;

/// `GET /history`: the data of the plots, and of the tables beside them.
#[derive(Debug, Serialize)]
struct PageHistory {
    /// The daemon's time, UTC: a browser's clock may differ.
    #[serde(serialize_with = "instant::utc_always")]
    now: Instant,
    /// The RU of the runs that ended in each of the last windows, the oldest first; the last is the current one.
    windows: Vec<WindowSpent>,
    runs: Vec<RecordedRun>,
    changes: Vec<report::RecentChange>,
    under_way: Option<CurrentWork>,
}

#[derive(Debug, Serialize)]
struct WindowSpent {
    #[serde(serialize_with = "instant::utc_always")]
    since: Instant,
    ru: u64,
}

impl PageHistory {
    fn read(reader: &Reader, config: &Config, now: Instant) -> Result<PageHistory, StoreError> {
        let moment = reader.begin()?;
        let limits = limits(&config.budget);
        let current = Ledger::default().at(now, &limits).since;
        let before = |windows| WindowSpent { since: current.minus(limits.window * windows), ru: 0 };
        let mut windows: Vec<WindowSpent> = (0..WINDOWS).rev().map(before).collect();
        for (ended, ru) in report::spent_since(&moment, before(WINDOWS - 1).since)? {
            if let Some(window) = windows.iter_mut().rfind(|window| window.since <= ended) {
                window.ru += ru;
            }
        }
        let (mut runs, changes) = (report::last_runs(&moment, RUNS)?, report::last_changes(&moment, CHANGES)?);
        for run in &mut runs {
            run.error = run.error.as_ref().map(|_| HIDDEN.into());
        }
        Ok(PageHistory { now, windows, runs, changes, under_way: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;
    use crate::model::{Object, RecordId};
    use crate::store::FieldDifference;
    use crate::sync::Findings;
    use crate::sync::findings::{Difference, DifferenceKind};

    #[test]
    fn findings_and_texts_of_the_service_are_not_public() {
        let difference = Difference {
            object: Object::Contact,
            id: RecordId::new("ct_1"),
            kind: DifferenceKind::Different,
            fields: vec![FieldDifference { column: "name".into(), here: "Ada".into(), there: "Eve".into() }],
        };
        let findings = Findings { differences: vec![difference], ..Findings::default() };
        let finished = Event::Finished {
            job: 4,
            result: JobResult {
                found: vec![(Object::Contact, findings)],
                ..JobResult::failed(Exit::Unavailable, "400: Ada's position is too long".into(), None)
            },
        };
        let line = serde_json::to_string(&finished).unwrap();
        assert!(line.contains("Eve") && line.contains("Ada's position"));
        assert_eq!(
            event(&line).unwrap(),
            "{\"event\":\"finished\",\"job\":4,\"exit\":69,\"summary\":null,\"found\":[],\
             \"error\":\"the service is unavailable\",\"hint\":null}"
        );
        assert_eq!(event("{\"event\":\"paused\"}").unwrap(), "{\"event\":\"paused\"}");
        let warning = serde_json::to_string(&Event::Run(RunEvent::Warning { text: "Ada".into() })).unwrap();
        assert!(!event(&warning).unwrap().contains("Ada"));
        assert_eq!(event("Eve"), None);
    }
}
