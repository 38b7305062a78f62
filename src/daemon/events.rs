//! The events of `GET /events`.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::job::QueuedJob;
use crate::model::instant::{self, Instant};
use crate::model::{Object, Resource, Ru};
use crate::sync::events::{RunEvent, WORK};
use crate::sync::{Findings, Summary};

/// One event. Its JSON form is documented in `docs/interfaces.md`; members may be added, but not removed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// A job was queued.
    Queued {
        /// The job.
        job: u64,
        /// `sync`, `resync`, `verify` or `push`.
        work: Cow<'static, str>,
    },
    /// A run of a job started.
    Started {
        /// The job.
        job: u64,
        /// `sync`, `resync`, `verify` or `push`.
        work: Cow<'static, str>,
        /// `schedule` or `manual`.
        trigger: Cow<'static, str>,
    },
    /// A run stopped at a page boundary so that an urgent job can run first; the job continues afterwards.
    Preempted {
        /// The job.
        job: u64,
    },
    /// A job ended.
    Finished {
        /// The job.
        job: u64,
        /// The exit code that the verb has for this result.
        exit: u8,
        /// The summary; `None` if it failed.
        summary: Option<Box<Summary>>,
        /// The findings of a verification, object by object.
        found: Vec<(Object, Findings)>,
        /// Why it failed.
        error: Option<String>,
        /// The command or setting that fixes it.
        hint: Option<String>,
    },
    /// Work on a resource started.
    Begins {
        /// The resource.
        resource: Resource,
        /// "changes", "full copy", "sweep", "details".
        work: Cow<'static, str>,
        /// The expected number of rows, if it is known without a request.
        total: Option<u64>,
    },
    /// The service reported the number of rows.
    Total {
        /// The resource.
        resource: Resource,
        /// The rows.
        total: u64,
    },
    /// A page or a detail was stored.
    Stored {
        /// The resource.
        resource: Resource,
        /// Rows so far in this step.
        rows: u64,
        /// Request units charged so far in this run.
        ru: u64,
    },
    /// Work on a resource ended.
    Ends {
        /// The resource.
        resource: Resource,
    },
    /// Every request waits because of a rate limit.
    Holding {
        /// The end of the hold, UTC.
        #[serde(serialize_with = "instant::utc_always")]
        until: Instant,
    },
    /// A warning for the user.
    Warning {
        /// A sentence.
        text: String,
    },
    /// The schedule was paused.
    Paused,
    /// The schedule was resumed.
    Resumed,
    /// The configuration was reloaded.
    Reloaded,
    /// The daemon is stopping.
    Stopping,
    /// The listener was too slow and missed events.
    Missed {
        /// The number of missed events.
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
    /// The event for a queued job.
    pub fn queued(job: &QueuedJob) -> Event {
        Event::Queued { job: job.id, work: job.job.kind().into() }
    }

    /// The event for a started run.
    pub fn started(job: &QueuedJob) -> Event {
        Event::Started { job: job.id, work: job.job.kind().into(), trigger: job.trigger.as_str().into() }
    }

    /// The corresponding event of the engine, if there is one.
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

/// The engine's name for a step.
fn known_work(work: &str) -> &'static str {
    WORK.into_iter().find(|known| *known == work).unwrap_or("work")
}
