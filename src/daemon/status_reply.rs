//! `GET /status`: the status of the mirror and of the daemon, as data and as one line for systemd.

use std::borrow::Cow;
use std::time::Duration;

use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use super::job::{QueuedJob, Trigger};
use super::state_machine::{DaemonHold, HoldReason, StateMachine, Trouble};
use super::timetable::ScheduleKind;
use crate::app::status::MirrorStatus;
use crate::exit::Exit;
use crate::format::{self, HIDDEN};
use crate::model::Instant;

#[derive(Clone, Debug, Serialize)]
pub struct StatusReply {
    #[serde(flatten)]
    pub status: MirrorStatus,
    pub daemon: Option<DaemonStatus>,
}

impl StatusReply {
    /// What was never read counts from the start of the daemon.
    pub(super) fn begun(&self, now: Instant) -> Instant {
        self.daemon.as_ref().map_or(now, |daemon| daemon.since)
    }

    /// The form for every user of the machine: only kinds of failure, as error texts may contain personal data.
    #[must_use]
    pub fn without_service_messages(mut self) -> StatusReply {
        if let Some(trouble) = self.daemon.as_mut().and_then(|daemon| daemon.trouble.as_mut()) {
            trouble.reason = public_reason(trouble.exit).into();
        }
        if let Some(trouble) = &mut self.status.trouble {
            trouble.error = trouble.error.as_ref().map(|_| HIDDEN.into());
        }
        if let Some(lag) = &mut self.status.publish {
            lag.progress.last_error = lag.progress.last_error.as_ref().map(|_| HIDDEN.into());
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
    pub since: Instant,
    /// What it waits for before it can work, such as the lock of the mirror.
    pub waiting_for: Option<String>,
    pub running: Option<JobStatus>,
    pub waiting: Vec<JobStatus>,
    pub paused_since: Option<Instant>,
    pub hold: Option<DaemonHold>,
    pub trouble: Option<Trouble>,
    pub next: Vec<NextStatus>,
    pub time_zone: String,
    pub reload_failed: bool,
}

pub(super) const OPENING: &str = "the mirror is being opened";

impl DaemonStatus {
    pub(super) fn new(waiting_for: Option<&str>, since: Instant, zone: &TimeZone) -> DaemonStatus {
        DaemonStatus {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").into(),
            since,
            waiting_for: waiting_for.map(String::from),
            running: None,
            waiting: Vec::new(),
            paused_since: None,
            hold: None,
            trouble: None,
            next: Vec::new(),
            time_zone: zone.iana_name().unwrap_or("UTC").to_string(),
            reload_failed: false,
        }
    }

    /// What it waits for, in one sentence.
    pub(super) fn wait(&self) -> Option<String> {
        if let Some(reason) = &self.waiting_for {
            return Some(format!("Waiting: {reason}"));
        }
        let DaemonHold { reason, until } = self.hold?;
        let until = format::moment(until);
        Some(match reason {
            HoldReason::Budget => format!("The budget of this window is spent; it refills at {until}"),
            HoldReason::RateLimit => format!("Rate limit: no request is sent until {until}"),
        })
    }

    /// Why nothing is updated, in one sentence.
    pub fn condition(&self) -> Option<String> {
        if let Some(since) = self.paused_since.map(format::moment) {
            return Some(format!("The schedule has been paused since {since}; `crm-mirror resume` resumes it"));
        }
        if let Some(wait) = self.wait() {
            return Some(wait);
        }
        let trouble = self.trouble.as_ref().filter(|trouble| !trouble.partial)?;
        let (since, next) = (format::moment(trouble.since), format::moment(trouble.next_try));
        Some(format!("Runs have failed since {since} ({}); next attempt at {next}", public_reason(trouble.exit)))
    }

    /// The line of `systemctl status`.
    pub(super) fn line(&self) -> String {
        if let Some(job) = &self.running {
            return format!("{} running", job.work);
        }
        let changes = self.next.first().and_then(|changes| changes.at).map(format::moment);
        let idle = self.trouble.as_ref().map_or("Idle".into(), |part| {
            let (since, why) = (format::moment(part.since), public_reason(part.exit));
            format!("A part of the mirror has not been updated since {since} ({why})")
        });
        self.condition().unwrap_or_else(|| match changes {
            Some(at) => format!("{idle}; next run at {at}"),
            None => format!("{idle}; no schedule; runs on request"),
        })
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
    pub since: Option<Instant>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextStatus {
    pub kind: Cow<'static, str>,
    pub at: Option<Instant>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<u64>,
}

pub(super) fn status(state: &StateMachine, since: Instant, now: Instant) -> DaemonStatus {
    let job =
        |job: &QueuedJob, since| JobStatus { job: job.id, work: job.job.name().into(), trigger: job.trigger, since };
    DaemonStatus {
        running: state.running().map(|(running, since)| job(running, Some(since))),
        waiting: state.queue.iter().map(|waiting| job(waiting, None)).collect(),
        // During a pause no run finds out whether the lock is gone.
        waiting_for: state
            .locked
            .filter(|_| state.paused_since.is_none())
            .map(|(since, _)| format!("another program has kept the mirror locked since {}", format::moment(since))),
        paused_since: state.paused_since,
        hold: state.hold(now),
        trouble: state.trouble.clone(),
        next: ScheduleKind::ALL
            .into_iter()
            .map(|kind| {
                let poll = state.timetable.poll.filter(|_| kind == ScheduleKind::Changes);
                NextStatus {
                    kind: Cow::Borrowed(kind.into()),
                    at: state.next_due(kind, now),
                    interval: poll.map(|interval| interval.as_secs()),
                }
            })
            .collect(),
        ..DaemonStatus::new(None, since, &state.timetable.sync.time_zone)
    }
}
