//! The daemon's status, as data and as one line for systemd.

use std::borrow::Cow;

use super::job::QueuedJob;
use super::progress_log::CurrentWork;
use super::state_machine::{HoldReason, StateMachine};
use super::status_reply::{DaemonStatus, JobStatus, NextStatus, TroubleStatus};
use super::timetable::ScheduleKind;
use crate::format;
use crate::model::Instant;

pub(super) fn status(state: &StateMachine, since: Instant, now: Instant) -> DaemonStatus {
    let job =
        |job: &QueuedJob, since| JobStatus { job: job.id, work: job.job.kind().into(), trigger: job.trigger, since };
    DaemonStatus {
        running: state.running().map(|(running, since)| job(running, Some(since))),
        waiting: state.waiting().iter().map(|waiting| job(waiting, None)).collect(),
        paused_since: state.paused_since(),
        hold: state.hold(now),
        trouble: state.trouble().map(|trouble| TroubleStatus {
            since: trouble.since,
            why: trouble.reason.clone(),
            exit: trouble.exit,
            runs: trouble.runs,
            next_try: trouble.next_try,
            partial: trouble.is_partial(),
        }),
        next: ScheduleKind::ALL
            .into_iter()
            .map(|kind| {
                let poll = state.timetable().poll().filter(|_| kind == ScheduleKind::Changes);
                NextStatus {
                    kind: Cow::Borrowed(kind.into()),
                    at: state.next_due(kind, now),
                    interval: poll.map(|poll| poll.interval.as_secs()),
                    reason: poll.map(|poll| poll.reason.sentence().into()),
                }
            })
            .collect(),
        ..DaemonStatus::new(since, state.timetable().zone())
    }
}

pub(super) fn line(state: &StateMachine, work: Option<CurrentWork>, now: Instant) -> String {
    if let Some((job, _)) = state.running() {
        let Some(work) = work else {
            return format!("{} running", job.job.kind());
        };
        // Rounded down, so that the line does not change with every page.
        let rows = format::count(work.rows - work.rows % 1_000);
        return match (work.rows, work.total) {
            (0..1_000, _) => format!("{}: {} of {}", job.job.kind(), work.work, work.resource),
            (_, Some(total)) => format!(
                "{}: {} of {}, {rows} of {} rows",
                job.job.kind(),
                work.work,
                work.resource,
                format::count(total)
            ),
            (_, None) => format!("{}: {} of {}, {rows} rows", job.job.kind(), work.work, work.resource),
        };
    }
    if let Some(hold) = state.hold(now) {
        let until = format::moment(hold.until);
        return match hold.reason {
            HoldReason::Budget => format!("The budget of this window is spent; it refills at {until}"),
            HoldReason::RateLimit => format!("Rate limit: no request is sent until {until}"),
        };
    }
    if let Some(trouble) = state.trouble() {
        if trouble.is_partial() {
            return format!(
                "A part of the mirror has not been updated since {} ({}); the rest is up to date",
                format::moment(trouble.since),
                trouble.reason
            );
        }
        return format!(
            "Runs have failed since {}, {} in a row ({}); next attempt at {}",
            format::moment(trouble.since),
            trouble.runs,
            trouble.reason,
            format::moment(trouble.next_try)
        );
    }
    if let Some(since) = state.paused_since() {
        return format!("The schedule is paused since {}; `crm-mirror resume` resumes it", format::moment(since));
    }
    match state.next_due(ScheduleKind::Changes, now) {
        Some(at) => format!("Up to date; next run at {}", format::moment(at)),
        None => "Up to date; no schedule; runs on request".into(),
    }
}

/// A line for `systemctl status`: that the configuration is invalid stands before everything else until it is mended.
pub(super) fn after_invalid(reason: Option<String>, line: String) -> String {
    match reason {
        Some(reason) => format!("The configuration is invalid and the old one active: {reason}. {line}"),
        None => line,
    }
}
