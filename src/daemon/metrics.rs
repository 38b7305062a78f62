//! The monitoring endpoints: liveness, readiness, and metrics in Prometheus' text format, whose names are an interface.

use std::fmt::Write as _;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

use super::handler_state::{ALIVE_WITHIN, Control};
use super::http_server::{Problem, answer, problem, with_type};
use super::status_reply::{DaemonStatus, StatusReply};
use crate::app::ages;
use crate::app::status::{ObjectStatus, Readiness};
use crate::config::Config;
use crate::model::Instant;

/// The name of each metric without `crm_mirror_`, its type, and its meaning.
const FAMILIES: &str = include_str!("metrics.txt");

fn text(reply: &StatusReply, control: &Control) -> String {
    let (config, now) = (&*control.config(), control.now());
    let (mut page, status) = (MetricsText::of(config), &reply.status);
    let all = Vec::from_iter(&status.objects);
    page.by_object("rows", &all, |object| Some(object.rows as f64));
    page.by_object("details_pending", &all, |object| Some(object.details_pending? as f64));
    page.by_object("refused_removals", &all, |object| {
        object.removed.map(|_| object.outage.map_or(0, |outage| outage.going) as f64)
    });
    page.by_object("undecided_removals", &all, |object| Some(object.undecided.map_or(0, |of| of.items) as f64));
    page.by_object("differences", &all, |object| Some(object.differences as f64));
    ages(&mut page, reply, config, now);
    let is_copied = |object: &&ObjectStatus| object.sweep.is_some_and(|sweep| sweep.first_copy);
    let copied: Vec<&ObjectStatus> = status.objects.iter().filter(is_copied).collect();
    page.by_object("first_copy_rows", &copied, |object| Some(object.sweep?.rows as f64));
    let (ru, edits) = (&status.ru, &status.edits);
    page.family("edits");
    for (state, count) in [
        ("queued", edits.queued),
        ("held", edits.held),
        ("sending", edits.sending),
        ("conflict", edits.conflict),
        ("rejected", edits.rejected),
    ] {
        page.line("edits", &[("state", state)], count as f64);
    }
    page.gauges([
        ("ru_left", ru.left as f64),
        ("ru_spent_total", ru.total as f64),
        ("hold_until_timestamp_seconds", status.hold_until.map_or(0.0, seconds)),
        ("file_bytes", status.bytes as f64),
        ("wal_bytes", status.wal_bytes as f64),
        ("failing_runs", f64::from(status.trouble.as_ref().map_or(0, |of| of.runs))),
        ("missing_scopes", status.missing_scopes.len() as f64),
    ]);
    if let Some(lag) = &status.publish {
        page.gauges([
            ("publish_lag_seconds", lag.seconds as f64),
            ("publish_refused_rows", lag.progress.refused as f64),
            ("publish_differences", lag.progress.proof.differences as f64),
        ]);
        page.gauges(lag.progress.unproven_since().map(|at| ("publish_equal_timestamp_seconds", seconds(at))));
    }
    if let Some(daemon) = &reply.daemon {
        page.gauges([
            ("paused", f64::from(daemon.paused_since.is_some())),
            ("paused_since_timestamp_seconds", daemon.paused_since.map_or(0.0, seconds)),
            ("reload_failed", f64::from(daemon.reload_failed)),
        ]);
    }
    page.family("info");
    page.line("info", &[("mirror", &status.database)], 1.0);
    page.text
}

/// How old each mirrored object is, and how old its schedule lets it become.
fn ages(page: &mut MetricsText, reply: &StatusReply, config: &Config, now: Instant) {
    let begun = reply.begun(now);
    let poll = reply.daemon.as_ref().and_then(DaemonStatus::poll_interval);
    let sync = &config.sync;
    let passed = |from: Instant, to: Option<Instant>| Some(to?.since(from).as_secs_f64());
    let read = |object: &ObjectStatus| object.changes_as_of.unwrap_or(begun);
    let complete = |object: &ObjectStatus| object.complete_as_of.unwrap_or(begun);
    let objects: Vec<&ObjectStatus> = reply.status.mirrored(config).collect();
    page.by_object("changes_age_seconds", &objects, |object| passed(read(object), Some(now)));
    page.by_object("scheduled_interval_seconds", &objects, |object| {
        passed(read(object), ages::next_read(sync, object.object, read(object), poll))
    });
    page.by_object("complete_age_seconds", &objects, |object| passed(complete(object), Some(now)));
    page.by_object("complete_interval_seconds", &objects, |object| {
        passed(complete(object), ages::next_check(sync, object.object, complete(object)))
    });
}

fn seconds(at: Instant) -> f64 {
    at.as_micros() as f64 / 1e6
}

/// The page; a metric is named without `crm_mirror_`, which each begins with.
struct MetricsText {
    text: String,
    /// The labels of every sample, so that a fleet is told apart and an alert can name the command that fixes it.
    common: String,
}

impl MetricsText {
    fn of(config: &Config) -> MetricsText {
        let mut common = label("workspace", &config.workspace());
        if let Some(file) = &config.file {
            common.push(',');
            common.push_str(&label("config", &file.to_string_lossy()));
        }
        MetricsText { text: String::new(), common }
    }

    fn family(&mut self, name: &str) {
        let of_name = |line: &'static str| line.strip_prefix(name)?.strip_prefix(' ')?.split_once(' ');
        let (kind, help) = FAMILIES.lines().find_map(of_name).unwrap_or_default();
        let _ = writeln!(self.text, "# HELP crm_mirror_{name} {help}\n# TYPE crm_mirror_{name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let own = labels.iter().map(|(key, value)| label(key, value));
        let labels: Vec<String> = own.chain([self.common.clone()]).collect();
        let _ = writeln!(self.text, "crm_mirror_{name}{{{}}} {value}", labels.join(","));
    }

    fn gauges(&mut self, gauges: impl IntoIterator<Item = (&'static str, f64)>) {
        for (name, value) in gauges {
            self.family(name);
            self.line(name, &[], value);
        }
    }

    fn by_object(&mut self, name: &str, objects: &[&ObjectStatus], value: impl Fn(&ObjectStatus) -> Option<f64>) {
        self.family(name);
        for object in objects {
            if let Some(value) = value(object) {
                self.line(name, &[("object", object.object.as_str())], value);
            }
        }
    }
}

fn label(name: &str, value: &str) -> String {
    format!("{name}=\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

pub(super) async fn metrics(control: &Control) -> Result<Response, Problem> {
    // The daemon may be waiting for its mirror: an alert on missing metrics is then correct.
    let unavailable = |error: String| problem(StatusCode::SERVICE_UNAVAILABLE, &error, None);
    let status = control.status().await.map_err(unavailable)?;
    Ok(with_type("text/plain; version=0.0.4; charset=utf-8", text(&status, control)))
}

/// `GET /healthz`: 200 while the daemon's loop answers.
pub(super) async fn health(control: &Control) -> Result<Response, Problem> {
    match control.is_alive(ALIVE_WITHIN).await {
        true => Ok(answer(StatusCode::OK, &json!({"alive": true}))),
        false => Err(problem(StatusCode::SERVICE_UNAVAILABLE, "the daemon's loop does not answer", None)),
    }
}

/// `GET /readyz`: 200 once the lists were copied, and while they are fresh.
pub(super) async fn readiness(control: &Control) -> Response {
    let readiness = match control.status().await {
        Ok(StatusReply { status, daemon }) => {
            status.readiness(&control.config(), control.now(), daemon.as_ref().and_then(DaemonStatus::poll_interval))
        }
        Err(_) => Readiness::Unreadable,
    };
    let code = if readiness == Readiness::Ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    answer(code, &json!({"ready": readiness == Readiness::Ready, "reason": readiness}))
}
