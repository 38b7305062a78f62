//! The events of `GET /events`.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::job::QueuedJob;
use crate::app::Summary;
use crate::model::Object;
use crate::sync::Findings;
use crate::sync::events::RunEvent;

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
    /// What happens in a run.
    #[serde(untagged)]
    Run(RunEvent),
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
}
