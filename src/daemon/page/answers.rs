//! The HTTP answers of the status page: its files, and the parts of status and history that every user of the machine may see.

use axum::Router;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::access::{ServedAt, host_check};
use crate::app::limits;
use crate::budget::Ledger;
use crate::config::Config;
use crate::daemon::handler_state::Control;
use crate::daemon::http_server::{Problem, answer, internal, problem, with_type};
use crate::daemon::metrics;
use crate::format::HIDDEN;
use crate::model::{Instant, instant};
use crate::store::{Reader, RecordedRun, StoreError, report};

const PATHS: &str = "GET /, /status, /history, /metrics, /healthz, /readyz";

#[derive(Clone)]
struct PageState {
    control: Control,
    served: ServedAt,
}

pub(super) fn router(control: Control, served: ServedAt) -> Router {
    Router::new().fallback(answered).with_state(PageState { control, served })
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
        host_check(&head.uri, &head.headers, self.served).map_err(|refusal| {
            let hint = format!("use http://127.0.0.1:{0}/ and http://localhost:{0}/", self.served.at.port());
            problem(StatusCode::FORBIDDEN, refusal, Some(&hint))
        })?;
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
            "/metrics" => metrics::metrics(&self.control).await,
            "/readyz" => Ok(metrics::readiness(&self.control).await),
            "/status" => {
                let status = self.control.status().await.map_err(|error| internal(&error))?;
                Ok(answer(StatusCode::OK, &status.without_service_messages()))
            }
            "/history" => {
                let now = self.control.now();
                let read = self.control.with_reader(move |reader, config| PageHistory::read(reader, config, now)).await;
                Ok(answer(StatusCode::OK, &read.map_err(|error| internal(&error))?))
            }
            _ => Err(problem(StatusCode::NOT_FOUND, "unknown path", Some(PATHS))),
        }
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
        Ok(PageHistory { now, windows, runs, changes })
    }
}
