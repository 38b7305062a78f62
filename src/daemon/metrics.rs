//! The monitoring endpoints: metrics in Prometheus' text format, liveness and readiness. The names of the metrics are part of
//! the interface.

use std::fmt::Write as _;
use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

use super::bus::EventBus;
use super::handler_state::{ALIVE_WITHIN, Control};
use super::http_server::{answer, problem, with_type};
use super::progress_log::CurrentWork;
use super::status_reply::{DaemonStatus, StatusReply};
use crate::app::lateness;
use crate::app::status::{MirrorStatus, ObjectStatus, Readiness};
use crate::config::Config;
use crate::exit::Exit;
use crate::model::Instant;
use crate::store::publishing::queue::PublishLag;

const JOBS: [&str; 4] = ["sync", "resync", "verify", "push"];

pub(super) fn text(reply: &StatusReply, config: &Config, bus: &EventBus, now: Instant) -> String {
    let mut page = MetricsText::of(config);
    objects(&mut page, &reply.status);
    ages(&mut page, reply, config, now);
    first_copy(&mut page, &reply.status, bus.current_work().as_ref());
    mirror(&mut page, &reply.status);
    if let Some(lag) = &reply.status.publish {
        published(&mut page, lag);
    }
    page.gauge("failing_runs", "Runs that failed in a row.", reply.status.trouble.as_ref().map_or(0, |of| of.runs));
    page.gauge("missing_scopes", "Scopes that the key lacks.", reply.status.missing_scopes.len() as f64);
    if let Some(daemon) = &reply.daemon {
        of_daemon(&mut page, daemon);
    }
    of_jobs(&mut page, bus);
    page.family("info", "gauge", "The mirror.");
    page.line("info", &[("mirror", &reply.status.database)], 1.0);
    page.family("build_info", "gauge", "The version that runs.");
    page.line("build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    page.text
}

fn objects(page: &mut MetricsText, status: &MirrorStatus) {
    let objects: Vec<&ObjectStatus> = status.objects.iter().collect();
    page.by_object("rows", "Records in the mirror.", &objects, |object| Some(object.rows as f64));
    let about = "Records whose details are still to be read.";
    page.by_object("details_pending", about, &objects, |object| Some(object.details_pending? as f64));
    let about = "Records whose removal looks like an outage and was refused.";
    page.by_object("refused_removals", about, &objects, |object| {
        object.removed.map(|_| object.outage.map_or(0, |outage| outage.going) as f64)
    });
    let about = "Records that may have been removed, which is not proven yet.";
    page.by_object("undecided_removals", about, &objects, |object| {
        Some(object.undecided.map_or(0, |undecided| undecided.items) as f64)
    });
    let about = "Differences that were found and not repaired.";
    page.by_object("differences", about, &objects, |object| Some(object.differences as f64));
}

/// How old each mirrored object is, and how old its schedule lets it become.
fn ages(page: &mut MetricsText, reply: &StatusReply, config: &Config, now: Instant) {
    // What was never read counts from the start of the daemon.
    let begun = reply.daemon.as_ref().map_or(now, |daemon| daemon.since);
    let poll = reply.daemon.as_ref().and_then(|daemon| daemon.next.iter().find_map(|next| next.interval));
    let (sync, poll) = (&config.sync, poll.map(Duration::from_secs));
    let passed = |from: Instant, to: Option<Instant>| Some(to?.since(from).as_secs_f64());
    let read = |object: &ObjectStatus| object.changes_as_of.unwrap_or(begun);
    let complete = |object: &ObjectStatus| object.complete_as_of.unwrap_or(begun);
    let objects: Vec<&ObjectStatus> = reply.status.mirrored(config).collect();
    let about = "Every change up to this time is in the mirror.";
    page.by_object("changes_as_of_timestamp_seconds", about, &objects, |object| object.changes_as_of.map(seconds));
    let about = "The mirror was last known to have no missing and no extra records.";
    page.by_object("complete_as_of_timestamp_seconds", about, &objects, |object| object.complete_as_of.map(seconds));
    let about = "Time since the last complete read of changes; before the first success, since the daemon started.";
    page.by_object("changes_age_seconds", about, &objects, |object| passed(read(object), Some(now)));
    let about =
        "Time from the last complete read to the next one by the object's own schedule; absent if there is none.";
    page.by_object("scheduled_interval_seconds", about, &objects, |object| {
        passed(read(object), lateness::next_read(sync, object.object, read(object), poll))
    });
    let about = "Time since the object was last known to be complete; before the first time, since the daemon started.";
    page.by_object("complete_age_seconds", about, &objects, |object| passed(complete(object), Some(now)));
    let about = "Time from then to the next check by the object's own schedule; absent if there is none.";
    page.by_object("complete_interval_seconds", about, &objects, |object| {
        passed(complete(object), lateness::next_check(sync, object.object, complete(object)))
    });
}

fn first_copy(page: &mut MetricsText, status: &MirrorStatus, work: Option<&CurrentWork>) {
    let is_copied = |object: &&ObjectStatus| object.sweep.is_some_and(|sweep| sweep.first_copy);
    let objects: Vec<&ObjectStatus> = status.objects.iter().filter(is_copied).collect();
    let about = "Rows read so far by a first copy in progress.";
    page.by_object("first_copy_rows", about, &objects, |object| Some(object.sweep?.rows as f64));
    let about = "Rows that a first copy in progress will read.";
    page.by_object("first_copy_expected_rows", about, &objects, |object| {
        Some(work.filter(|work| work.resource == object.object)?.total? as f64)
    });
}

fn mirror(page: &mut MetricsText, status: &MirrorStatus) {
    let ru = &status.ru;
    page.gauge("ru_used", "Request units spent in this window.", ru.used as f64);
    page.gauge("ru_left", "Request units left in this window.", ru.left as f64);
    page.gauge("ru_limit", "Request units allowed per window.", ru.limit as f64);
    page.family("ru_spent_total", "counter", "Request units spent since the mirror was created.");
    page.line("ru_spent_total", &[], ru.total as f64);
    page.gauge("ru_refills_timestamp_seconds", "When the window ends.", seconds(ru.refills_at));
    page.family("edits", "gauge", "Unfinished and rejected edits, by state.");
    let edits = &status.edits;
    for (state, count) in [
        ("queued", edits.queued),
        ("held", edits.held),
        ("sending", edits.sending),
        ("conflict", edits.conflict),
        ("rejected", edits.rejected),
    ] {
        page.line("edits", &[("state", state)], count as f64);
    }
    let about = "End of the hold that a rate limit started; 0 for none.";
    page.gauge("hold_until_timestamp_seconds", about, status.hold_until.map_or(0.0, seconds));
    page.gauge("file_bytes", "Size of the mirror's file.", status.bytes as f64);
    page.gauge("wal_bytes", "Size of its WAL.", status.wal_bytes as f64);
    let about = "When a run last completed; 0 for never.";
    page.gauge("last_success_timestamp_seconds", about, status.last_success.map_or(0.0, seconds));
}

fn published(page: &mut MetricsText, lag: &PublishLag) {
    page.gauge("publish_lag_entries", "Changes not published yet.", lag.entries as f64);
    page.gauge("publish_lag_seconds", "Age of the oldest change not published yet.", lag.seconds as f64);
    page.gauge("publish_refused_rows", "Rows that the target database refuses.", lag.refused as f64);
    let about = "What views of people keep from following the mirror in the target database.";
    page.gauge("publish_left_behind", about, lag.left_behind.len() as f64);
    let about = "Differences that the last comparison with the target database left.";
    page.gauge("publish_differences", about, lag.proof.differences as f64);
    let about = "When the target database was last proven equal; 0 before the first time.";
    page.gauge("publish_equal_timestamp_seconds", about, lag.proof.equal_at.map_or(0.0, seconds));
}

fn of_daemon(page: &mut MetricsText, daemon: &DaemonStatus) {
    page.gauge("start_timestamp_seconds", "When the daemon started.", seconds(daemon.since));
    page.gauge("paused", "Whether the schedule is paused.", daemon.paused_since.is_some());
    let about = "When the schedule was paused; 0 if it is not.";
    page.gauge("paused_since_timestamp_seconds", about, daemon.paused_since.map_or(0.0, seconds));
    let about = "Whether the configuration on disk is invalid and the old one is active.";
    page.gauge("reload_failed", about, daemon.reload_failed);
    if let Some(interval) = daemon.next.iter().find_map(|next| next.interval) {
        let about = "Seconds between runs for changes, where the schedule is automatic.";
        page.gauge("poll_interval_seconds", about, interval as f64);
    }
}

/// Every kind and exit code from the beginning: a counter that appears with its first event hides it from `increase`.
fn of_jobs(page: &mut MetricsText, bus: &EventBus) {
    let (ended, durations) = (bus.counted(), bus.durations());
    page.family("jobs_total", "counter", "Jobs that ended, by work and exit code.");
    for work in JOBS {
        for (exit, _) in Exit::TABLE {
            let count = ended.get(&(work, exit.code())).map_or(0.0, |count| *count as f64);
            page.line("jobs_total", &[("work", work), ("exit", &exit.code().to_string())], count);
        }
    }
    page.family("run_duration_seconds", "histogram", "How long runs took, by work.");
    for work in JOBS {
        let durations = durations.get(work).cloned().unwrap_or_default();
        let of_work = ("work", work);
        for (bound, runs) in durations.buckets() {
            page.line("run_duration_seconds_bucket", &[of_work, ("le", &bound.to_string())], runs as f64);
        }
        page.line("run_duration_seconds_bucket", &[of_work, ("le", "+Inf")], durations.runs as f64);
        page.line("run_duration_seconds_sum", &[of_work], durations.seconds);
        page.line("run_duration_seconds_count", &[of_work], durations.runs as f64);
    }
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

    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP crm_mirror_{name} {help}\n# TYPE crm_mirror_{name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let own = labels.iter().map(|(key, value)| label(key, value));
        let labels: Vec<String> = own.chain([self.common.clone()]).collect();
        let _ = writeln!(self.text, "crm_mirror_{name}{{{}}} {value}", labels.join(","));
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Into<f64>) {
        self.family(name, "gauge", help);
        self.line(name, &[], value.into());
    }

    /// A gauge with a sample for each object that has a value.
    fn by_object(
        &mut self,
        name: &str,
        help: &str,
        objects: &[&ObjectStatus],
        value: impl Fn(&ObjectStatus) -> Option<f64>,
    ) {
        self.family(name, "gauge", help);
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

pub(super) async fn metrics(control: &Control) -> Response {
    match control.status().await {
        Ok(status) => {
            let text = text(&status, &control.config(), &control.bus, control.now());
            with_type("text/plain; version=0.0.4; charset=utf-8", Body::from(text))
        }
        // The daemon may be waiting for its mirror: an alert on missing metrics is then correct.
        Err((error, _)) => problem(StatusCode::SERVICE_UNAVAILABLE, &error, None),
    }
}

/// `GET /healthz`: 200 while the daemon's loop answers.
pub(super) async fn health(control: &Control) -> Response {
    match control.daemon(ALIVE_WITHIN).await {
        Some(_) => answer(StatusCode::OK, &json!({"alive": true})),
        None => problem(StatusCode::SERVICE_UNAVAILABLE, "the daemon's loop does not answer", None),
    }
}

/// `GET /readyz`: 200 once the lists were copied, and while they are fresh.
pub(super) async fn readiness(control: &Control) -> Response {
    let readiness = match control.status().await {
        Ok(status) => status.status.readiness(&control.config(), control.now()),
        Err(_) => Readiness::Unreadable,
    };
    let code = if readiness == Readiness::Ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    answer(code, &json!({"ready": readiness == Readiness::Ready, "reason": readiness}))
}
