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
    Queued {
        job: u64,
        /// `sync`, `resync`, `verify` or `push`.
        work: Cow<'static, str>,
    },
    Started {
        job: u64,
        /// `sync`, `resync`, `verify` or `push`.
        work: Cow<'static, str>,
        /// `schedule` or `manual`.
        trigger: Cow<'static, str>,
    },
    /// A run stopped at a page boundary so that an urgent job can run first; the job continues afterwards.
    Preempted {
        job: u64,
    },
    Finished {
        job: u64,
        /// The exit code that the verb has for this result.
        exit: u8,
        /// The summary; `None` if it failed.
        summary: Option<Box<Summary>>,
        /// The findings of a verification, object by object.
        found: Vec<(Object, Findings)>,
        error: Option<String>,
        /// The command or setting that fixes it.
        hint: Option<String>,
    },
    Paused,
    Resumed,
    Reloaded,
    Stopping,
    /// The listener was too slow and missed events.
    Missed {
        lines: u64,
    },
    #[serde(untagged)]
    Run(RunEvent),
}

impl Event {
    pub fn queued(job: &QueuedJob) -> Event {
        Event::Queued { job: job.id, work: job.job.kind().into() }
    }

    pub fn started(job: &QueuedJob) -> Event {
        Event::Started { job: job.id, work: job.job.kind().into(), trigger: job.trigger.as_str().into() }
    }
}
