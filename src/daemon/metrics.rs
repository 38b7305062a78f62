//! The metrics in Prometheus' text format. Their names are part of the interface.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use super::bus::CurrentWork;
use super::run_durations::RunDurations;
use super::status_reply::{DaemonStatus, StatusReply};
use crate::app::due;
use crate::app::status::{MirrorStatus, ObjectStatus};
use crate::config::Config;
use crate::exit::Exit;
use crate::model::{Instant, Resource};

const JOBS: [&str; 4] = ["sync", "resync", "verify", "push"];

/// What the daemon counts since it started.
#[derive(Debug, Default)]
pub(super) struct JobMetrics {
    /// The results of jobs, by kind and exit code.
    pub ended: Vec<((&'static str, u8), u64)>,
    pub durations: BTreeMap<&'static str, RunDurations>,
    pub work: Option<CurrentWork>,
}

pub(super) fn text(reply: &StatusReply, config: &Config, jobs: &JobMetrics, now: Instant) -> String {
    let mut page = MetricsText::of(config);
    objects(&mut page, &reply.status);
    ages(&mut page, reply, config, now);
    first_copy(&mut page, &reply.status, jobs.work.as_ref());
    mirror(&mut page, &reply.status);
    if let Some(daemon) = &reply.daemon {
        of_daemon(&mut page, daemon);
    }
    of_jobs(&mut page, jobs);
    page.family("crm_mirror_info", "gauge", "The mirror.");
    page.line("crm_mirror_info", &[("mirror", &reply.status.database)], 1.0);
    page.family("crm_mirror_build_info", "gauge", "The version that runs.");
    page.line("crm_mirror_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    page.text
}

/// Contacts and companies, which changes and sweeps read.
fn records(status: &MirrorStatus) -> impl Iterator<Item = &ObjectStatus> {
    status.objects.iter().filter(|object| object.removed.is_some())
}

fn objects(page: &mut MetricsText, status: &MirrorStatus) {
    type Of = fn(&ObjectStatus) -> Option<u64>;
    let counts: [(&str, &str, Of); 5] = [
        ("crm_mirror_rows", "Records in the mirror.", |object| Some(object.rows)),
        ("crm_mirror_details_pending", "Records whose details are still to be read.", |object| object.details_pending),
        ("crm_mirror_refused_removals", "Records whose removal looks like an outage and was refused.", |object| {
            object.removed.map(|_| object.outage.map_or(0, |outage| outage.going))
        }),
        ("crm_mirror_undecided_removals", "Records that may have been removed, which is not proven yet.", |object| {
            Some(object.undecided.map_or(0, |undecided| undecided.items))
        }),
        ("crm_mirror_differences", "Differences that were found and not repaired.", |object| Some(object.differences)),
    ];
    for (name, help, of) in counts {
        page.family(name, "gauge", help);
        for object in &status.objects {
            if let Some(count) = of(object) {
                page.line(name, &[("object", object.object.as_str())], count as f64);
            }
        }
    }
}

/// How old each mirrored object is, and how old its schedule lets it become.
fn ages(page: &mut MetricsText, reply: &StatusReply, config: &Config, now: Instant) {
    let status = &reply.status;
    // What was never read counts from the start of the daemon.
    let begun = reply.daemon.as_ref().map_or(now, |daemon| daemon.since);
    let poll = reply.daemon.as_ref().and_then(|daemon| daemon.next.iter().find_map(|next| next.interval));
    let poll = poll.map(Duration::from_secs);
    type Of<'a> = Box<dyn Fn(&ObjectStatus) -> Option<f64> + 'a>;
    let passed = |from: Instant, to: Option<Instant>| Some(to?.since(from).as_secs_f64());
    let read = |object: &ObjectStatus| object.changes_as_of.unwrap_or(begun);
    let complete = |object: &ObjectStatus| object.complete_as_of.unwrap_or(begun);
    let metrics: [(&str, &str, Of<'_>); 6] = [
        (
            "crm_mirror_changes_as_of_timestamp_seconds",
            "Every change up to this time is in the mirror.",
            Box::new(|object| object.changes_as_of.map(seconds)),
        ),
        (
            "crm_mirror_complete_as_of_timestamp_seconds",
            "The mirror was last known to have no missing and no extra records.",
            Box::new(|object| object.complete_as_of.map(seconds)),
        ),
        (
            "crm_mirror_changes_age_seconds",
            "Time since the last complete read of changes; before the first success, since the daemon started.",
            Box::new(|object| passed(read(object), Some(now))),
        ),
        (
            "crm_mirror_scheduled_interval_seconds",
            "Time from the last complete read to the next one by the object's own schedule; absent if there is none.",
            Box::new(|object| passed(read(object), due::next_read(&config.sync, object.object, read(object), poll))),
        ),
        (
            "crm_mirror_complete_age_seconds",
            "Time since the object was last known to be complete; before the first time, since the daemon started.",
            Box::new(|object| passed(complete(object), Some(now))),
        ),
        (
            "crm_mirror_complete_interval_seconds",
            "Time from then to the next check by the object's own schedule; absent if there is none.",
            Box::new(|object| passed(complete(object), due::next_check(&config.sync, object.object, complete(object)))),
        ),
    ];
    for (name, help, of) in metrics {
        page.family(name, "gauge", help);
        for object in status.mirrored(config) {
            if let Some(value) = of(object) {
                page.line(name, &[("object", object.object.as_str())], value);
            }
        }
    }
}

fn first_copy(page: &mut MetricsText, status: &MirrorStatus, work: Option<&CurrentWork>) {
    let copied: Vec<(Resource, u64)> = records(status)
        .filter_map(|object| Some((object.object, object.sweep.filter(|sweep| sweep.first_copy)?.rows)))
        .collect();
    page.family("crm_mirror_first_copy_rows", "gauge", "Rows read so far by a first copy in progress.");
    for (object, rows) in &copied {
        page.line("crm_mirror_first_copy_rows", &[("object", object.as_str())], *rows as f64);
    }
    page.family("crm_mirror_first_copy_expected_rows", "gauge", "Rows that a first copy in progress will read.");
    for (object, _) in &copied {
        if let Some(total) = work.filter(|work| work.resource == *object).and_then(|work| work.total) {
            page.line("crm_mirror_first_copy_expected_rows", &[("object", object.as_str())], total as f64);
        }
    }
}

fn mirror(page: &mut MetricsText, status: &MirrorStatus) {
    let ru = &status.ru;
    page.one("crm_mirror_ru_used", "gauge", "Request units spent in this window.", ru.used as f64);
    page.one("crm_mirror_ru_left", "gauge", "Request units left in this window.", ru.left as f64);
    page.one("crm_mirror_ru_limit", "gauge", "Request units allowed per window.", ru.limit as f64);
    page.one(
        "crm_mirror_ru_spent_total",
        "counter",
        "Request units spent since the mirror was created.",
        ru.total as f64,
    );
    page.one("crm_mirror_ru_refills_timestamp_seconds", "gauge", "When the window ends.", seconds(ru.refills_at));
    page.family("crm_mirror_edits", "gauge", "Unfinished and rejected edits, by state.");
    let edits = &status.edits;
    for (state, count) in [
        ("queued", edits.queued),
        ("held", edits.held),
        ("sending", edits.sending),
        ("conflict", edits.conflict),
        ("rejected", edits.rejected),
    ] {
        page.line("crm_mirror_edits", &[("state", state)], count as f64);
    }
    page.one(
        "crm_mirror_hold_until_timestamp_seconds",
        "gauge",
        "End of the hold that a rate limit started; 0 for none.",
        status.hold_until.map_or(0.0, seconds),
    );
    page.one("crm_mirror_file_bytes", "gauge", "Size of the mirror's file.", status.bytes as f64);
    page.one("crm_mirror_wal_bytes", "gauge", "Size of its WAL.", status.wal_bytes as f64);
    page.one(
        "crm_mirror_last_success_timestamp_seconds",
        "gauge",
        "When a run last completed; 0 for never.",
        status.last_success.map_or(0.0, seconds),
    );
    if let Some(lag) = &status.publish {
        page.one("crm_mirror_publish_lag_entries", "gauge", "Changes not published yet.", lag.entries as f64);
        let about = "Age of the oldest change not published yet.";
        page.one("crm_mirror_publish_lag_seconds", "gauge", about, lag.seconds as f64);
        let about = "Rows that the target database refuses.";
        page.one("crm_mirror_publish_refused_rows", "gauge", about, lag.refused as f64);
        let about = "What views of people keep from following the mirror in the target database.";
        page.one("crm_mirror_publish_left_behind", "gauge", about, lag.left_behind.len() as f64);
        let about = "Differences that the last comparison with the target database left.";
        page.one("crm_mirror_publish_differences", "gauge", about, lag.proof.differences as f64);
        let about = "When the target database was last proven equal; 0 before the first time.";
        let equal = lag.proof.equal_at.map_or(0.0, seconds);
        page.one("crm_mirror_publish_equal_timestamp_seconds", "gauge", about, equal);
    }
    let failing = status.trouble.as_ref().map_or(0.0, |trouble| f64::from(trouble.runs));
    page.one("crm_mirror_failing_runs", "gauge", "Runs that failed in a row.", failing);
    let missing = status.missing_scopes.len() as f64;
    page.one("crm_mirror_missing_scopes", "gauge", "Scopes that the key lacks.", missing);
}

fn of_daemon(page: &mut MetricsText, daemon: &DaemonStatus) {
    page.one("crm_mirror_start_timestamp_seconds", "gauge", "When the daemon started.", seconds(daemon.since));
    page.one("crm_mirror_paused", "gauge", "Whether the schedule is paused.", flag(daemon.paused_since.is_some()));
    page.one(
        "crm_mirror_paused_since_timestamp_seconds",
        "gauge",
        "When the schedule was paused; 0 if it is not.",
        daemon.paused_since.map_or(0.0, seconds),
    );
    page.one(
        "crm_mirror_reload_failed",
        "gauge",
        "Whether the configuration on disk is invalid and the old one is active.",
        flag(daemon.reload_failed),
    );
    if let Some(interval) = daemon.next.iter().find_map(|next| next.interval) {
        let about = "Seconds between runs for changes, where the schedule is automatic.";
        page.one("crm_mirror_poll_interval_seconds", "gauge", about, interval as f64);
    }
}

/// Every kind and exit code from the beginning: a counter that appears with its first event hides it from `increase`.
fn of_jobs(page: &mut MetricsText, jobs: &JobMetrics) {
    page.family("crm_mirror_jobs_total", "counter", "Jobs that ended, by work and exit code.");
    for work in JOBS {
        for (exit, _) in Exit::TABLE {
            let is_it = |((kind, code), _): &&((&str, u8), u64)| *kind == work && *code == exit.code();
            let count = jobs.ended.iter().find(is_it).map_or(0, |(_, count)| *count);
            page.line("crm_mirror_jobs_total", &[("work", work), ("exit", &exit.code().to_string())], count as f64);
        }
    }
    const NAME: &str = "crm_mirror_run_duration_seconds";
    page.family(NAME, "histogram", "How long runs took, by work.");
    for work in JOBS {
        let durations = jobs.durations.get(work).cloned().unwrap_or_default();
        let of_work = ("work", work);
        for (bound, runs) in durations.buckets() {
            page.line(&format!("{NAME}_bucket"), &[of_work, ("le", &bound.to_string())], runs as f64);
        }
        page.line(&format!("{NAME}_bucket"), &[of_work, ("le", "+Inf")], durations.runs as f64);
        page.line(&format!("{NAME}_sum"), &[of_work], durations.seconds);
        page.line(&format!("{NAME}_count"), &[of_work], durations.runs as f64);
    }
}

fn flag(is: bool) -> f64 {
    f64::from(u8::from(is))
}

fn seconds(at: Instant) -> f64 {
    at.as_micros() as f64 / 1e6
}

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
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let own = labels.iter().map(|(key, value)| label(key, value));
        let labels: Vec<String> = own.chain([self.common.clone()]).collect();
        let _ = writeln!(self.text, "{name}{{{}}} {value}", labels.join(","));
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.family(name, kind, help);
        self.line(name, &[], value);
    }
}

fn label(name: &str, value: &str) -> String {
    format!("{name}=\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}
