//! The events of `GET /events`, what the daemon keeps of its work for monitoring, and the results of jobs.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::job::{JobResult, QueuedJob, Trigger};
use super::progress_log::ProgressLog;
use super::status_reply::PageStatus;
use crate::app::Summary;
use crate::exit::Exit;
use crate::sync::RunEvent;

/// One event. Its JSON form is documented in `docs/interfaces.md`; members may be added, but not removed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    Queued {
        job: u64,
        work: Cow<'static, str>,
    },
    Started {
        job: u64,
        work: Cow<'static, str>,
        trigger: Trigger,
    },
    /// A run stopped at a page boundary so that an urgent job can run first; the job continues afterwards.
    Preempted {
        job: u64,
    },
    Finished {
        job: u64,
        #[serde(flatten)]
        result: JobResult,
    },
    Paused,
    Resumed,
    Reloaded,
    Stopping,
    Missed {
        lines: u64,
    },
    #[serde(untagged)]
    Run(RunEvent),
}

/// What is known of the work since the daemon started.
#[derive(Debug, Default)]
pub(super) struct WorkKnown {
    /// The jobs that ended, by kind and exit code.
    pub ended: BTreeMap<(&'static str, u8), u64>,
    /// How many runs there were of each kind, and how long they took.
    pub durations: BTreeMap<&'static str, (u32, Duration)>,
    /// Why the configuration on disk is invalid, and the old one active.
    pub reload_failed: Option<String>,
    pub page: Option<PageStatus>,
    pub log: ProgressLog,
}

/// The results of the jobs that are not at their end.
#[derive(Debug, Default)]
pub(super) struct JobResults {
    earlier: HashMap<u64, Box<Summary>>,
    pub last: Option<JobResult>,
}

impl JobResults {
    pub(super) fn preempted(&mut self, job: &QueuedJob) -> Event {
        let summary = self.last.take().and_then(|ended| ended.summary);
        if let Some(summary) = self.add_up(job.id, summary) {
            self.earlier.insert(job.id, summary);
        }
        Event::Preempted { job: job.id }
    }

    pub(super) fn finished(&mut self, job: &QueuedJob) -> Option<JobResult> {
        let mut result = self.last.take()?;
        result.summary = self.add_up(job.id, result.summary);
        Some(result)
    }

    pub(super) fn withdrawn(&mut self, job: &QueuedJob) -> Event {
        // It may have started, and been preempted.
        let why = match self.earlier.remove(&job.id) {
            Some(_) => "the job was withdrawn before it finished; stored data is kept",
            None => "the job was withdrawn before it started",
        };
        Event::Finished { job: job.id, result: JobResult::failed(Exit::Paused, why.into(), None) }
    }

    /// The runs of a job as one. If the last one has no summary, the job has none: the earlier ones do not say how it ended.
    fn add_up(&mut self, job: u64, last: Option<Box<Summary>>) -> Option<Box<Summary>> {
        let (earlier, last) = (self.earlier.remove(&job), last?);
        Some(match earlier {
            Some(earlier) => Box::new(last.after(&earlier)),
            None => last,
        })
    }
}
