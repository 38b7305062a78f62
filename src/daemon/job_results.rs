//! The results of jobs: the summaries of their runs are combined, published and counted.

use std::collections::HashMap;

use super::bus::EventBus;
use super::events::Event;
use super::job::QueuedJob;
use super::loop_message::JobRunEnd;
use crate::app::Summary;
use crate::exit::Exit;

/// The finished runs of unfinished jobs.
#[derive(Debug)]
pub(super) struct JobResults {
    bus: EventBus,
    /// The combined summary of the earlier runs of a job.
    earlier: HashMap<u64, Summary>,
    last: Option<JobRunEnd>,
}

impl JobResults {
    pub(super) fn new(bus: EventBus) -> JobResults {
        JobResults { bus, earlier: HashMap::new(), last: None }
    }

    /// Stores the result of a run; the state machine then decides about its job.
    pub(super) fn take(&mut self, ended: JobRunEnd) {
        self.last = Some(ended);
    }

    /// A run was preempted; its job continues later.
    pub(super) fn preempted(&mut self, job: &QueuedJob) {
        let summary = self.last.take().and_then(|ended| ended.summary);
        if let Some(summary) = self.add_up(job.id, summary) {
            self.earlier.insert(job.id, summary);
        }
        self.bus.publish(&Event::Preempted { job: job.id });
    }

    pub(super) fn finished(&mut self, job: &QueuedJob) {
        let Some(ended) = self.last.take() else { return };
        let summary = self.add_up(job.id, ended.summary);
        self.bus.count(job.job.kind(), ended.exit);
        self.bus.publish(&Event::Finished {
            job: job.id,
            exit: ended.exit,
            summary: summary.map(Box::new),
            found: ended.found,
            error: ended.error,
            hint: ended.hint,
        });
    }

    pub(super) fn withdrawn(&mut self, job: &QueuedJob) {
        // It may have started, and been preempted.
        let summary = self.earlier.remove(&job.id);
        self.bus.publish(&Event::Finished {
            job: job.id,
            exit: Exit::Paused.code(),
            summary: None,
            found: Vec::new(),
            error: Some(match summary {
                Some(_) => "the job was withdrawn before it finished; stored data is kept".into(),
                None => "the job was withdrawn before it started".into(),
            }),
            hint: None,
        });
    }

    /// The combined summary of a job's runs.
    fn add_up(&mut self, job: u64, last: Option<Summary>) -> Option<Summary> {
        match (self.earlier.remove(&job), last) {
            (Some(earlier), Some(last)) => Some(last.after(&earlier)),
            (earlier, last) => last.or(earlier),
        }
    }
}
