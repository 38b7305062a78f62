//! `GET /status`: the status of the mirror and of the daemon, as data and as one line for systemd.

use std::borrow::Cow;
use std::time::Duration;

use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use super::job::{QueuedJob, Trigger};
use super::progress_log::CurrentWork;
use super::state_machine::{DaemonHold, HoldReason, StateMachine, Trouble};
use super::timetable::ScheduleKind;
use crate::app::status::MirrorStatus;
use crate::exit::Exit;
use crate::format::{self, HIDDEN};
use crate::model::{Instant, instant};

#[derive(Clone, Debug, Serialize)]
pub struct StatusReply {
    #[serde(flatten)]
    pub status: MirrorStatus,
    pub daemon: Option<DaemonStatus>,
}

impl StatusReply {
    /// The form for every user of the machine: error texts of the service and of PostgreSQL may contain personal data, so
    /// only the kind of failure is kept.
    #[must_use]
    pub fn without_service_messages(mut self) -> StatusReply {
        if let Some(trouble) = self.daemon.as_mut().and_then(|daemon| daemon.trouble.as_mut()) {
            trouble.reason = public_reason(trouble.exit).into();
        }
        if let Some(trouble) = &mut self.status.trouble {
            trouble.error = trouble.error.as_ref().map(|_| HIDDEN.into());
        }
        if let Some(lag) = &mut self.status.publish {
            lag.progress.last_error = lag.last_error.as_ref().map(|_| HIDDEN.into());
            lag.progress.refused_rows.clear();
            lag.progress.left_behind.fill(HIDDEN.into());
        }
        for run in &mut self.status.runs {
            run.error = run.error.as_ref().map(|_| HIDDEN.into());
        }
        for oddity in &mut self.status.oddities {
            oddity.what = HIDDEN.into();
        }
        self
    }
}

pub fn public_reason(exit: u8) -> &'static str {
    let end = Exit::of_code(exit);
    Exit::TABLE.iter().find(|(known, _)| *known == end).map_or(HIDDEN, |(_, meaning)| meaning)
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonStatus {
    pub pid: u32,
    pub version: Cow<'static, str>,
    #[serde(serialize_with = "instant::utc_always")]
    pub since: Instant,
    /// What it waits for before it can work, such as the lock of the mirror.
    #[serde(default)]
    pub waiting_for: Option<String>,
    pub running: Option<JobStatus>,
    pub waiting: Vec<JobStatus>,
    #[serde(serialize_with = "instant::utc")]
    pub paused_since: Option<Instant>,
    pub hold: Option<DaemonHold>,
    pub trouble: Option<Trouble>,
    pub next: Vec<NextStatus>,
    pub time_zone: String,
    #[serde(default)]
    pub page: Option<PageStatus>,
    #[serde(default)]
    pub reload_failed: bool,
}

/// What the daemon waits for at its start.
pub(super) const OPENING: &str = "the mirror is being opened";

impl DaemonStatus {
    pub(super) fn waiting(reason: &str, since: Instant, zone: &TimeZone) -> DaemonStatus {
        DaemonStatus { waiting_for: Some(reason.into()), ..DaemonStatus::new(since, zone) }
    }

    pub(super) fn new(since: Instant, zone: &TimeZone) -> DaemonStatus {
        DaemonStatus {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").into(),
            since,
            waiting_for: None,
            running: None,
            waiting: Vec::new(),
            paused_since: None,
            hold: None,
            trouble: None,
            next: Vec::new(),
            time_zone: zone.iana_name().unwrap_or("UTC").to_string(),
            page: None,
            reload_failed: false,
        }
    }

    /// The interval between runs for changes, where the schedule is automatic.
    pub fn poll_interval(&self) -> Option<Duration> {
        self.next.iter().find_map(|next| next.interval).map(Duration::from_secs)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobStatus {
    pub job: u64,
    pub work: Cow<'static, str>,
    pub trigger: Trigger,
    #[serde(serialize_with = "instant::utc")]
    pub since: Option<Instant>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextStatus {
    pub kind: Cow<'static, str>,
    #[serde(serialize_with = "instant::utc")]
    pub at: Option<Instant>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageStatus {
    pub at: String,
    /// Why it is not served, such as a port that is in use; it is retried.
    pub error: Option<String>,
}

pub(super) fn status(state: &StateMachine, since: Instant, now: Instant) -> DaemonStatus {
    let job =
        |job: &QueuedJob, since| JobStatus { job: job.id, work: job.job.kind().into(), trigger: job.trigger, since };
    DaemonStatus {
        running: state.running().map(|(running, since)| job(running, Some(since))),
        waiting: state.waiting().iter().map(|waiting| job(waiting, None)).collect(),
        waiting_for: lock_of_another(state),
        paused_since: state.paused_since(),
        hold: state.hold(now),
        trouble: state.trouble().cloned(),
        next: ScheduleKind::ALL
            .into_iter()
            .map(|kind| {
                let poll = state.timetable().poll.filter(|_| kind == ScheduleKind::Changes);
                NextStatus {
                    kind: Cow::Borrowed(kind.into()),
                    at: state.next_due(kind, now),
                    interval: poll.map(|poll| poll.interval.as_secs()),
                    reason: poll.map(|poll| poll.reason.sentence().into()),
                }
            })
            .collect(),
        ..DaemonStatus::new(since, &state.timetable().sync.time_zone)
    }
}

/// During a pause no run finds out whether the lock is gone.
fn lock_of_another(state: &StateMachine) -> Option<String> {
    let since = state.locked_since().filter(|_| state.paused_since().is_none())?;
    Some(format!("another program has kept the mirror locked since {}", format::moment(since)))
}

pub(super) fn line(state: &StateMachine, work: Option<CurrentWork>, up_to_date: bool, now: Instant) -> String {
    if let Some((job, _)) = state.running() {
        let Some(work) = work else {
            return format!("{} running", job.job.kind());
        };
        // Rounded down, so that the line does not change with every page.
        let rows = format::count(work.rows - work.rows % 1_000);
        let doing = format!("{}: {} of {}", job.job.kind(), work.work, work.resource);
        return match (work.rows, work.total) {
            (0..1_000, _) => doing,
            (_, Some(total)) => format!("{doing}, {rows} of {} rows", format::count(total)),
            (_, None) => format!("{doing}, {rows} rows"),
        };
    }
    if let Some(reason) = lock_of_another(state) {
        return format!("Waiting: {reason}");
    }
    if let Some(hold) = state.hold(now) {
        let until = format::moment(hold.until);
        return match hold.reason {
            HoldReason::Budget => format!("The budget of this window is spent; it refills at {until}"),
            HoldReason::RateLimit => format!("Rate limit: no request is sent until {until}"),
        };
    }
    if let Some(since) = state.paused_since() {
        return format!("The schedule is paused since {}; `crm-mirror resume` resumes it", format::moment(since));
    }
    if let Some(trouble) = state.trouble() {
        if trouble.partial {
            return format!(
                "A part of the mirror has not been updated since {} ({}); the rest is up to date",
                format::moment(trouble.since),
                public_reason(trouble.exit)
            );
        }
        return format!(
            "Runs have failed since {}, {} in a row ({}); next attempt at {}",
            format::moment(trouble.since),
            trouble.runs,
            public_reason(trouble.exit),
            format::moment(trouble.next_try)
        );
    }
    let mirror = if up_to_date { "Up to date" } else { "Idle" };
    match state.next_due(ScheduleKind::Changes, now) {
        Some(at) => format!("{mirror}; next run at {}", format::moment(at)),
        None => format!("{mirror}; no schedule; runs on request"),
    }
}
