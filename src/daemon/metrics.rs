//! `GET /metrics`: numbers for monitoring, in Prometheus's text form.

use std::fmt::Write as _;

use super::control::Standing;
use crate::model::Instant;

/// The numbers as text. `ended` is how jobs ended since the daemon began: by work and exit code.
pub fn text(standing: &Standing, ended: &[((&'static str, u8), u64)]) -> String {
    let mut page = Page::default();
    let (status, ru) = (&standing.status, &standing.status.ru);
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
    for (name, help, of) in [
        (
            "crm_mirror_changes_as_of_timestamp_seconds",
            "Every change up to here is in the mirror.",
            (|object| object.changes_as_of) as fn(&crate::sync::status::ObjectStatus) -> Option<Instant>,
        ),
        ("crm_mirror_complete_as_of_timestamp_seconds", "Nothing was missing and nothing lingered then.", |object| {
            object.complete_as_of
        }),
    ] {
        page.family(name, "gauge", help);
        for object in &status.objects {
            if let Some(at) = of(object) {
                page.line(name, &[("object", object.object.as_str())], seconds(at));
            }
        }
    }
    page.one("crm_mirror_ru_used", "gauge", "Request units spent in this window.", ru.used as f64);
    page.one("crm_mirror_ru_left", "gauge", "Request units left in this window.", ru.left as f64);
    page.one("crm_mirror_ru_limit", "gauge", "Request units allowed per window.", ru.limit as f64);
    page.one("crm_mirror_ru_spent_total", "counter", "Request units spent since the mirror was made.", ru.total as f64);
    page.one("crm_mirror_ru_refills_timestamp_seconds", "gauge", "When the window ends.", seconds(ru.refills_at));
    page.family(
        "crm_mirror_edits",
        "gauge",
        "Edits that are not at their end, and those that were rejected, by state.",
    );
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
        "Until when the service asked for quiet; 0 where it did not.",
        status.hold_until.map_or(0.0, seconds),
    );
    page.one("crm_mirror_file_bytes", "gauge", "Size of the mirror's file.", status.bytes as f64);
    page.one("crm_mirror_wal_bytes", "gauge", "Size of its WAL.", status.wal_bytes as f64);
    page.one(
        "crm_mirror_last_success_timestamp_seconds",
        "gauge",
        "When a run last did all it was to do; 0 for never.",
        status.last_success.map_or(0.0, seconds),
    );
    page.one(
        "crm_mirror_failing_runs",
        "gauge",
        "Runs that failed in a row.",
        status.trouble.as_ref().map_or(0.0, |trouble| f64::from(trouble.runs)),
    );
    if let Some(daemon) = &standing.daemon {
        page.one("crm_mirror_start_timestamp_seconds", "gauge", "When the daemon began.", seconds(daemon.since));
        page.one(
            "crm_mirror_paused",
            "gauge",
            "Whether the schedule rests.",
            f64::from(u8::from(daemon.paused_since.is_some())),
        );
        page.family("crm_mirror_jobs_total", "counter", "Jobs that ended, by work and exit code.");
        for ((work, exit), count) in ended {
            let exit = exit.to_string();
            page.line("crm_mirror_jobs_total", &[("work", work), ("exit", &exit)], *count as f64);
        }
    }
    page.0
}

fn seconds(at: Instant) -> f64 {
    at.as_micros() as f64 / 1e6
}

#[derive(Default)]
struct Page(String);

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// A line. Labels here are words of ours: nothing in them needs escaping.
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
