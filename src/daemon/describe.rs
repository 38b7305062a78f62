//! How the daemon stands, for `status` and in one line for systemd.

use super::job::Job;
use super::state::State;
use super::timetable::Kind;
use super::told::{DaemonStatus, JobStatus, NextStatus, QuietStatus, TroubleStatus};
use super::voice::Voice;
use crate::format;
use crate::model::Instant;

/// Everything that `status` tells of the daemon.
pub fn status(state: &State, since: Instant, now: Instant) -> DaemonStatus {
    let job = |job: &Job, since| JobStatus {
        job: job.id,
        work: job.work.as_str().into(),
        trigger: job.trigger.as_str().into(),
        since,
    };
    DaemonStatus {
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").into(),
        since,
        running: state.running().map(|(running, since)| job(running, Some(since))),
        waiting: state.waiting().iter().map(|waiting| job(waiting, None)).collect(),
        paused_since: state.paused_since(),
        quiet: state.quiet(now).map(|quiet| QuietStatus { why: quiet.why.into(), until: quiet.until }),
        trouble: state.trouble().map(|trouble| TroubleStatus {
            since: trouble.since,
            why: trouble.why.clone(),
            runs: trouble.runs,
            next_try: trouble.next_try,
        }),
        next: Kind::ALL
            .into_iter()
            .map(|kind| NextStatus { kind: kind.as_str().into(), at: state.next_due(kind, now) })
            .collect(),
        time_zone: state.timetable().zone().iana_name().unwrap_or("UTC").to_string(),
    }
}

/// One line that a person likes.
pub fn line(state: &State, voice: &Voice, now: Instant) -> String {
    if let Some((job, _)) = state.running() {
        let Some(work) = voice.under_way() else {
            return format!("{} under way", job.work.as_str());
        };
        // Rounded down, so that the line does not change with every page.
        let rows = format::count(work.rows - work.rows % 1_000);
        return match (work.rows, work.total) {
            (0..1_000, _) => format!("{}: {} of {}", job.work.as_str(), work.work, work.resource),
            (_, Some(total)) => format!(
                "{}: {} of {}, {rows} of {} rows",
                job.work.as_str(),
                work.work,
                work.resource,
                format::count(total)
            ),
            (_, None) => format!("{}: {} of {}, {rows} rows", job.work.as_str(), work.work, work.resource),
        };
    }
    if let Some(quiet) = state.quiet(now) {
        let until = format::moment(quiet.until);
        return match quiet.why {
            "budget" => format!("The budget of this window is spent; going on at {until}"),
            _ => format!("The service asked for quiet until {until}"),
        };
    }
    if let Some(trouble) = state.trouble() {
        return format!(
            "Runs have failed since {}, {} in a row ({}); next try at {}",
            format::moment(trouble.since),
            trouble.runs,
            trouble.why,
            format::moment(trouble.next_try)
        );
    }
    if let Some(since) = state.paused_since() {
        return format!("The schedule rests since {}; `crm-mirror resume` lets it go on", format::moment(since));
    }
    match state.next_due(Kind::Changes, now) {
        Some(at) => format!("Up to date; next run at {}", format::moment(at)),
        None => "Up to date; no schedule, waiting to be asked".into(),
    }
}
