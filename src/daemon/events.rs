//! What the daemon publishes: the events of `GET /events`.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::job::QueuedJob;
use crate::model::instant::{self, Instant};
use crate::model::{Object, Resource, Ru};
use crate::sync::events::{RunEvent, WORK};
use crate::sync::{Findings, Summary};

/// One event. Its JSON form is documented in `docs/interfaces.md` and only ever grows.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
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
    /// A run ended at a page's boundary to let something urgent run first; the job continues after it.
    Preempted {
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
        /// The command or setting that fixes it.
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
    /// Every request waits, since the service set a rate limit.
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
    /// The schedule is paused until it is resumed.
    Paused,
    /// The schedule is resumed.
    Resumed,
    /// The configuration was read again.
    Reloaded,
    /// The daemon ends.
    Stopping,
    /// The listener was too slow, and events are missing here.
    Missed {
        /// So many.
        lines: u64,
    },
}

impl From<RunEvent> for Event {
    fn from(event: RunEvent) -> Event {
        match event {
            RunEvent::Begins { resource, work, total } => Event::Begins { resource, work: work.into(), total },
            RunEvent::Total { resource, total } => Event::Total { resource, total },
            RunEvent::Stored { resource, rows, ru } => Event::Stored { resource, rows, ru: ru.get() },
            RunEvent::Ends { resource } => Event::Ends { resource },
            RunEvent::Holding { until } => Event::Holding { until },
            RunEvent::Warning(text) => Event::Warning { text },
        }
    }
}

impl Event {
    /// That a job waits.
    pub fn queued(job: &QueuedJob) -> Event {
        Event::Queued { job: job.id, work: job.job.kind().into() }
    }

    /// That a run of a job begins.
    pub fn started(job: &QueuedJob) -> Event {
        Event::Started { job: job.id, work: job.job.kind().into(), trigger: job.trigger.as_str().into() }
    }

    /// The run's own event, if this is one.
    pub fn of_run(&self) -> Option<RunEvent> {
        Some(match self {
            Event::Begins { resource, work, total } => {
                RunEvent::Begins { resource: *resource, work: known_work(work), total: *total }
            }
            Event::Total { resource, total } => RunEvent::Total { resource: *resource, total: *total },
            Event::Stored { resource, rows, ru } => {
                RunEvent::Stored { resource: *resource, rows: *rows, ru: Ru::new(*ru) }
            }
            Event::Ends { resource } => RunEvent::Ends { resource: *resource },
            Event::Holding { until } => RunEvent::Holding { until: *until },
            Event::Warning { text } => RunEvent::Warning(text.clone()),
            _ => return None,
        })
    }
}

/// The engine's own name for a piece of work.
fn known_work(work: &str) -> &'static str {
    WORK.into_iter().find(|known| *known == work).unwrap_or("work")
}
