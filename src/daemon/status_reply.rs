//! `GET /status`: what the mirror's file says, and what the daemon says of itself.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::app::status::MirrorStatus;
use crate::exit::Exit;
use crate::model::instant::{self, Instant};

/// `GET /status`, and `crm-mirror status --json`.
#[derive(Clone, Debug, Serialize)]
pub struct StatusReply {
    /// The mirror.
    #[serde(flatten)]
    pub status: MirrorStatus,
    /// The daemon; `None` where none runs.
    pub daemon: Option<DaemonStatus>,
}

impl StatusReply {
    /// The same for every user of the machine: what the service wrote into its errors may be somebody's data, so only
    /// what kind of failure it was stays.
    #[must_use]
    pub fn without_the_services_words(mut self) -> StatusReply {
        if let Some(trouble) = self.daemon.as_mut().and_then(|daemon| daemon.trouble.as_mut()) {
            trouble.why = public_reason(trouble.exit).into();
        }
        if let Some(trouble) = &mut self.status.trouble {
            trouble.error = trouble.error.as_ref().map(|_| HIDDEN.into());
        }
        if let Some(lag) = &mut self.status.publish {
            lag.last_error = lag.last_error.as_ref().map(|_| HIDDEN.into());
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

/// What stands on the page instead of a text that the service may have written.
pub const HIDDEN: &str = "`crm-mirror status` shows the reason";

/// What kind of failure an exit code stands for.
pub fn public_reason(exit: u8) -> &'static str {
    let end = Exit::of_code(exit);
    Exit::TABLE.iter().find(|(known, _)| *known == end).map_or(HIDDEN, |(_, meaning)| meaning)
}

/// What the daemon says of itself in `status`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DaemonStatus {
    /// Its process.
    pub pid: u32,
    /// Its version.
    pub version: Cow<'static, str>,
    /// Since when it runs, UTC.
    #[serde(serialize_with = "instant::utc_always")]
    pub since: Instant,
    /// What it waits for before it can work, such as the lock of the mirror; `None` once it works.
    #[serde(default)]
    pub waiting_for: Option<String>,
    /// The job under way.
    pub running: Option<JobStatus>,
    /// Jobs that wait for their turn.
    pub waiting: Vec<JobStatus>,
    /// Since when the schedule is paused, UTC; `None` where it is not.
    #[serde(serialize_with = "instant::utc")]
    pub paused_since: Option<Instant>,
    /// Until when no request is sent, and why.
    pub hold: Option<HoldStatus>,
    /// What keeps runs from succeeding.
    pub trouble: Option<TroubleStatus>,
    /// When each kind is next due by the schedule.
    pub next: Vec<NextStatus>,
    /// The zone of the schedule.
    pub time_zone: String,
    /// Where the status page is, or why it is nowhere.
    #[serde(default)]
    pub page: Option<PageStatus>,
    /// Whether the configuration on the disk is invalid and the one before it is active.
    #[serde(default)]
    pub reload_failed: bool,
}

/// A job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JobStatus {
    /// Its number, since the daemon began.
    pub job: u64,
    /// `sync`, `resync`, `verify` or `push`.
    pub work: Cow<'static, str>,
    /// `schedule` or `manual`.
    pub trigger: Cow<'static, str>,
    /// Since when it runs, UTC.
    #[serde(serialize_with = "instant::utc")]
    pub since: Option<Instant>,
}

/// A time in which no request is sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HoldStatus {
    /// `rate-limit` or `budget`.
    pub reason: Cow<'static, str>,
    /// Until when, UTC.
    #[serde(serialize_with = "instant::utc_always")]
    pub until: Instant,
}

/// What keeps runs from succeeding.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TroubleStatus {
    /// Since when, UTC.
    #[serde(serialize_with = "instant::utc_always")]
    pub since: Instant,
    /// What the last run ended with.
    pub why: String,
    /// The exit code that the verb has for such an end.
    #[serde(default)]
    pub exit: u8,
    /// Runs that failed in a row.
    pub runs: u32,
    /// When the next is tried, UTC.
    #[serde(serialize_with = "instant::utc_always")]
    pub next_try: Instant,
}

/// When a kind is next due.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NextStatus {
    /// `changes`, `audit` or `sweep`.
    pub kind: Cow<'static, str>,
    /// When, UTC; `None` for never.
    #[serde(serialize_with = "instant::utc")]
    pub at: Option<Instant>,
}

/// The status page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageStatus {
    /// Where it is, or is to be.
    pub at: String,
    /// Why it is not served, such as a port that is taken; it is tried again.
    pub error: Option<String>,
}
