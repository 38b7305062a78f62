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
    pub durations: BTreeMap<&'static str, RunDurations>,
    /// Why the configuration on disk is invalid, and the old one active.
    pub reload_failed: Option<String>,
    pub page: Option<PageStatus>,
    pub log: ProgressLog,
}

#[derive(Clone, Debug, Default)]
pub(super) struct RunDurations {
    counts: [u64; RunDurations::BOUNDS.len()],
    pub runs: u64,
    pub seconds: f64,
}

impl RunDurations {
    /// The upper bounds of the buckets in seconds: from an idle run to the first copy of a large workspace.
    const BOUNDS: [f64; 10] = [0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0];

    pub(super) fn record(&mut self, time: Duration) {
        let seconds = time.as_secs_f64();
        self.runs += 1;
        self.seconds += seconds;
        for (count, bound) in self.counts.iter_mut().zip(RunDurations::BOUNDS) {
            *count += u64::from(seconds <= bound);
        }
    }

    pub(super) fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        RunDurations::BOUNDS.into_iter().zip(self.counts)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_counts_in_each_bucket_that_holds_it() {
        let mut durations = RunDurations::default();
        for ms in [100, 2_000, 100_000_000] {
            durations.record(Duration::from_millis(ms));
        }
        let counts: Vec<u64> = durations.buckets().map(|(_, runs)| runs).collect();
        assert_eq!(counts, [1, 1, 1, 2, 2, 2, 2, 2, 2, 2]);
        assert_eq!((durations.runs, durations.seconds), (3, 100_002.1));
    }
}
