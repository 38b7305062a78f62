//! The event bus: publishes the events of `GET /events` to every listener, and keeps what monitoring needs: the current work,
//! and the results of jobs.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream::{self, Stream};
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};

use super::error::DaemonError;
use super::job::{JobResult, QueuedJob, Trigger};
use super::progress_log::{self, ProgressLog};
use super::status_reply::PageStatus;
use crate::app::Summary;
use crate::error_chain::error_chain;
use crate::exit::Exit;
use crate::model::Clock;
use crate::sync::{RunEvent, RunObserver};

/// The number of events that a slow listener may lag behind before it misses some.
const BEHIND: usize = 1024;

#[derive(Clone, Debug)]
pub(super) struct EventBus {
    lines: broadcast::Sender<Arc<str>>,
    known: Arc<Mutex<BusState>>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug, Default)]
pub(super) struct BusState {
    /// The jobs that ended since the daemon started, by kind and exit code.
    pub ended: BTreeMap<(&'static str, u8), u64>,
    pub durations: BTreeMap<&'static str, RunDurations>,
    /// Why the configuration on disk is invalid, and the old one active.
    pub reload_failed: Option<String>,
    pub page: Option<PageStatus>,
    pub log: ProgressLog,
}

impl EventBus {
    pub(super) fn new(clock: Arc<dyn Clock>) -> EventBus {
        EventBus { lines: broadcast::channel(BEHIND).0, known: Arc::default(), clock }
    }

    pub(super) fn known(&self) -> MutexGuard<'_, BusState> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every event from now on as one JSON document each, until the daemon stops; one says so if others were missed.
    pub(super) fn events(&self, ends: watch::Receiver<bool>) -> impl Stream<Item = Arc<str>> + Send + use<> {
        stream::unfold((self.lines.subscribe(), ends), |(mut lines, mut ends)| async move {
            let line = tokio::select! {
                // Events that were published before the stop are still delivered, including the results of jobs.
                biased;
                line = lines.recv() => match line {
                    Ok(line) => line,
                    Err(RecvError::Lagged(lines)) => serde_json::to_string(&Event::Missed { lines }).ok()?.into(),
                    Err(RecvError::Closed) => return None,
                },
                _ = ends.wait_for(|ends| *ends) => return None,
            };
            Some((line, (lines, ends)))
        })
    }

    /// Says whether a new configuration is active: to listeners, in the log, and in the status until it is valid.
    pub(super) fn reloaded(&self, invalid: Option<&DaemonError>) {
        let Some(error) = invalid else {
            self.publish(&Event::Reloaded);
            tracing::info!("Configuration reloaded");
            return;
        };
        let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
        let error = error_chain(error);
        tracing::error!("The new configuration is invalid and the old one stays active: {error}{hint}");
        self.known().reload_failed = Some(error);
    }

    /// A line for `systemctl status`: that the configuration is invalid stands before everything else until it is valid.
    pub(super) fn after_invalid(&self, line: String) -> String {
        match &self.known().reload_failed {
            Some(reason) => format!("The configuration is invalid and the old one active: {reason}. {line}"),
            None => line,
        }
    }

    pub(super) fn publish(&self, event: &Event) {
        match event {
            Event::Finished { .. } | Event::Preempted { .. } => self.known().log.work = None,
            Event::Reloaded => self.known().reload_failed = None,
            _ => {}
        }
        if self.lines.receiver_count() == 0 {
            return;
        }
        if let Ok(line) = serde_json::to_string(event) {
            // The last listener may just have disconnected.
            let _ = self.lines.send(line.into());
        }
    }
}

impl RunObserver for EventBus {
    fn on(&self, event: RunEvent) {
        let line = self.known().log.line(&event, self.clock.now());
        progress_log::log(&event, line);
        self.publish(&Event::Run(event));
    }
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

#[derive(Debug)]
pub(super) struct JobResults {
    bus: EventBus,
    earlier: HashMap<u64, Box<Summary>>,
    last: Option<JobResult>,
}

impl JobResults {
    pub(super) fn new(bus: EventBus) -> JobResults {
        JobResults { bus, earlier: HashMap::new(), last: None }
    }

    pub(super) fn take(&mut self, ended: JobResult) {
        self.last = Some(ended);
    }

    pub(super) fn preempted(&mut self, job: &QueuedJob) {
        let summary = self.last.take().and_then(|ended| ended.summary);
        if let Some(summary) = self.add_up(job.id, summary) {
            self.earlier.insert(job.id, summary);
        }
        self.bus.publish(&Event::Preempted { job: job.id });
    }

    pub(super) fn finished(&mut self, job: &QueuedJob) {
        let Some(mut result) = self.last.take() else { return };
        result.summary = self.add_up(job.id, result.summary);
        *self.bus.known().ended.entry((job.job.kind(), result.exit)).or_default() += 1;
        self.bus.publish(&Event::Finished { job: job.id, result });
    }

    pub(super) fn withdrawn(&mut self, job: &QueuedJob) {
        // It may have started, and been preempted.
        let why = match self.earlier.remove(&job.id) {
            Some(_) => "the job was withdrawn before it finished; stored data is kept",
            None => "the job was withdrawn before it started",
        };
        let result = JobResult::failed(Exit::Paused, why.into(), None);
        self.bus.publish(&Event::Finished { job: job.id, result });
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
