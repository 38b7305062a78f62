//! What the daemon tells whoever listens: the lines of `GET /events`, and what it says of itself in `status`.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::job::Job;
use crate::model::instant::{self, Instant};
use crate::model::{Object, Resource, Ru};
use crate::sync::{Findings, Summary, events};

/// One line of the event stream. Its JSON form is documented in the README and only ever grows.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Told {
    /// A job waits for its turn.
    Queued {
        /// The job.
        job: u64,
        /// `sync`, `resync`, `verify` or `push`.
        work: Cow<'static, str>,
    },
    /// A run of a job begins.
    Started {
        /// The job.
        job: u64,
        /// `sync`, `resync`, `verify` or `push`.
        work: Cow<'static, str>,
        /// `schedule` or `manual`.
        trigger: Cow<'static, str>,
    },
    /// A run ended at a page's boundary to let another go first; the job goes on after it.
    Yielded {
        /// The job.
        job: u64,
    },
    /// A job ended.
    Finished {
        /// The job.
        job: u64,
        /// The exit code that the verb has for such an end.
        exit: u8,
        /// What it did; `None` where it failed.
        summary: Option<Box<Summary>>,
        /// What a verification found, object by object.
        found: Vec<(Object, Findings)>,
        /// Why it failed.
        error: Option<String>,
        /// A next move for a person.
        hint: Option<String>,
    },
    /// Work on a resource begins.
    Begins {
        /// What is worked on.
        resource: Resource,
        /// "changes", "full copy", "sweep", "details".
        work: Cow<'static, str>,
        /// The rows there will be, where that is known for free.
        total: Option<u64>,
    },
    /// The service said how many rows there are.
    Total {
        /// What it is of.
        resource: Resource,
        /// The rows.
        total: u64,
    },
    /// A page or a detail was stored.
    Stored {
        /// What it was of.
        resource: Resource,
        /// Rows so far in this piece of work.
        rows: u64,
        /// Request units charged so far in this run.
        ru: u64,
    },
    /// A piece of work ended.
    Ends {
        /// What was worked on.
        resource: Resource,
    },
    /// Every request waits, since the service asked for it.
    Holding {
        /// Until when, UTC.
        #[serde(serialize_with = "instant::utc_always")]
        until: Instant,
    },
    /// Something a person should know.
    Warning {
        /// A sentence.
        text: String,
    },
    /// The schedule rests until it is resumed.
    Paused,
    /// The schedule goes on.
    Resumed,
    /// The configuration was read again.
    Reloaded,
    /// The daemon ends.
    Stopping,
    /// The listener was too slow, and lines are missing here.
    Missed {
        /// So many.
        lines: u64,
    },
}

impl From<events::RunEvent> for Told {
    fn from(event: events::RunEvent) -> Told {
        use events::RunEvent;
        match event {
            RunEvent::Begins { resource, work, total } => Told::Begins { resource, work: work.into(), total },
            RunEvent::Total { resource, total } => Told::Total { resource, total },
            RunEvent::Stored { resource, rows, ru } => Told::Stored { resource, rows, ru: ru.get() },
            RunEvent::Ends { resource } => Told::Ends { resource },
            RunEvent::Holding { until } => Told::Holding { until },
            RunEvent::Warning(text) => Told::Warning { text },
        }
    }
}

impl Told {
    /// That a job waits.
    pub fn queued(job: &Job) -> Told {
        Told::Queued { job: job.id, work: job.work.as_str().into() }
    }

    /// That a run of a job begins.
    pub fn started(job: &Job) -> Told {
        Told::Started { job: job.id, work: job.work.as_str().into(), trigger: job.trigger.as_str().into() }
    }

    /// The engine's event that this line tells of, if it is one.
    pub fn of_run(&self) -> Option<events::RunEvent> {
        use events::RunEvent;
        Some(match self {
            Told::Begins { resource, work, total } => {
                RunEvent::Begins { resource: *resource, work: known_work(work), total: *total }
            }
            Told::Total { resource, total } => RunEvent::Total { resource: *resource, total: *total },
            Told::Stored { resource, rows, ru } => {
                RunEvent::Stored { resource: *resource, rows: *rows, ru: Ru::new(*ru) }
            }
            Told::Ends { resource } => RunEvent::Ends { resource: *resource },
            Told::Holding { until } => RunEvent::Holding { until: *until },
            Told::Warning { text } => RunEvent::Warning(text.clone()),
            _ => return None,
        })
    }
}

/// The engine's own word for a piece of work.
fn known_work(work: &str) -> &'static str {
    events::WORK.into_iter().find(|known| *known == work).unwrap_or("work")
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
    /// The job under way.
    pub running: Option<JobStatus>,
    /// Jobs that wait for their turn.
    pub waiting: Vec<JobStatus>,
    /// Since when the schedule rests, UTC; `None` where it does not.
    #[serde(serialize_with = "instant::utc")]
    pub paused_since: Option<Instant>,
    /// Until when nothing is asked, and why.
    pub quiet: Option<QuietStatus>,
    /// What keeps runs from succeeding.
    pub trouble: Option<TroubleStatus>,
    /// When each kind is next due by the schedule.
    pub next: Vec<NextStatus>,
    /// The zone of the schedule.
    pub time_zone: String,
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

/// A time of quiet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct QuietStatus {
    /// `hold` or `budget`.
    pub why: Cow<'static, str>,
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
