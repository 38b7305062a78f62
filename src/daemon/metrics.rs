//! The metrics in Prometheus' text format. Their names are part of the interface.

use std::fmt::Write as _;

use super::bus::CurrentWork;
use super::status_reply::{DaemonStatus, StatusReply};
use crate::app::status::{MirrorStatus, ObjectStatus};
use crate::model::{Instant, Resource};

/// The metrics as text. `ended` has the results of jobs since the daemon started, by kind and exit code; `work` is the
/// work in progress.
pub(super) fn text(
    reply: &StatusReply,
    ended: &[((&'static str, u8), u64)],
    work: Option<CurrentWork>,
    now: Instant,
) -> String {
    let mut page = MetricsText::default();
    objects(&mut page, &reply.status);
    ages(&mut page, reply, now);
    first_copy(&mut page, &reply.status, work);
    mirror(&mut page, &reply.status);
    if let Some(daemon) = &reply.daemon {
        of_daemon(&mut page, daemon, ended);
    }
    page.family("crm_mirror_build_info", "gauge", "The version that runs.");
    page.line("crm_mirror_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    page.0
}

/// Contacts and companies, which changes and sweeps read.
fn records(status: &MirrorStatus) -> impl Iterator<Item = &ObjectStatus> {
    status.objects.iter().filter(|object| object.removed.is_some())
}

fn objects(page: &mut MetricsText, status: &MirrorStatus) {
    page.family("crm_mirror_rows", "gauge", "Records in the mirror.");
    for object in &status.objects {
        page.line("crm_mirror_rows", &[("object", object.object.as_str())], object.rows as f64);
    }
    page.family("crm_mirror_details_pending", "gauge", "Records whose details are still to be read.");
    for object in &status.objects {
        if let Some(pending) = object.details_pending {
            let labels = [("object", object.object.as_str())];
            page.line("crm_mirror_details_pending", &labels, pending as f64);
        }
    }
    page.family("crm_mirror_refused_removals", "gauge", "Records whose removal looks like an outage and was refused.");
    for object in records(status) {
        let refused = object.outage.map_or(0, |outage| outage.going);
        page.line("crm_mirror_refused_removals", &[("object", object.object.as_str())], refused as f64);
    }
}

fn ages(page: &mut MetricsText, reply: &StatusReply, now: Instant) {
    let status = &reply.status;
    type Of = fn(&ObjectStatus) -> Option<Instant>;
    let stamps: [(&str, &str, Of); 2] = [
        ("crm_mirror_changes_as_of_timestamp_seconds", "Every change up to this time is in the mirror.", |object| {
            object.changes_as_of
        }),
        (
            "crm_mirror_complete_as_of_timestamp_seconds",
            "The mirror was last known to have no missing and no extra records.",
            |object| object.complete_as_of,
        ),
    ];
    for (name, help, of) in stamps {
        page.family(name, "gauge", help);
        for object in &status.objects {
            if let Some(at) = of(object) {
                page.line(name, &[("object", object.object.as_str())], seconds(at));
            }
        }
    }
    page.family(
        "crm_mirror_changes_age_seconds",
        "gauge",
        "Time since the last complete read of changes; before the first success, since the daemon started.",
    );
    let begun = reply.daemon.as_ref().map_or(now, |daemon| daemon.since);
    for object in &status.objects {
        let age = now.since(object.changes_as_of.unwrap_or(begun)).as_secs_f64();
        page.line("crm_mirror_changes_age_seconds", &[("object", object.object.as_str())], age);
    }
}

fn first_copy(page: &mut MetricsText, status: &MirrorStatus, work: Option<CurrentWork>) {
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
        let about = "Differences that the last comparison with the target database left.";
        page.one("crm_mirror_publish_differences", "gauge", about, lag.differences as f64);
        let about = "When the target database was last proven equal; 0 before the first time.";
        let equal = lag.equal_at.map_or(0.0, seconds);
        page.one("crm_mirror_publish_equal_timestamp_seconds", "gauge", about, equal);
    }
    let failing = status.trouble.as_ref().map_or(0.0, |trouble| f64::from(trouble.runs));
    page.one("crm_mirror_failing_runs", "gauge", "Runs that failed in a row.", failing);
    let missing = status.missing_scopes.len() as f64;
    page.one("crm_mirror_missing_scopes", "gauge", "Scopes that the key lacks.", missing);
}

fn of_daemon(page: &mut MetricsText, daemon: &DaemonStatus, ended: &[((&'static str, u8), u64)]) {
    page.one("crm_mirror_start_timestamp_seconds", "gauge", "When the daemon started.", seconds(daemon.since));
    page.one("crm_mirror_paused", "gauge", "Whether the schedule is paused.", flag(daemon.paused_since.is_some()));
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
    page.family("crm_mirror_jobs_total", "counter", "Jobs that ended, by work and exit code.");
    for ((work, exit), count) in ended {
        let exit = exit.to_string();
        page.line("crm_mirror_jobs_total", &[("work", work), ("exit", &exit)], *count as f64);
    }
}

fn flag(is: bool) -> f64 {
    f64::from(u8::from(is))
}

fn seconds(at: Instant) -> f64 {
    at.as_micros() as f64 / 1e6
}

#[derive(Default)]
struct MetricsText(String);

impl MetricsText {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// A sample. Labels are constants of this program, so they need no escaping.
    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}=\"{value}\"")).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.family(name, kind, help);
        self.line(name, &[], value);
    }
}
