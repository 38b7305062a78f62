//! What becomes of jobs: what their runs did is added up, published and counted.

use std::collections::HashMap;

use super::bus::EventBus;
use super::events::Event;
use super::job::QueuedJob;
use super::message::JobRunEnd;
use crate::exit::Exit;
use crate::sync::Summary;

/// The runs that have ended, of jobs that have not.
#[derive(Debug)]
pub struct JobResults {
    bus: EventBus,
    /// What the earlier runs of a job did.
    earlier: HashMap<u64, Summary>,
    /// The run that ended last.
    last: Option<JobRunEnd>,
}

impl JobResults {
    /// Nothing has ended yet.
    pub fn new(bus: EventBus) -> JobResults {
        JobResults { bus, earlier: HashMap::new(), last: None }
    }

    /// Takes the end of a run; what it means for its job follows.
    pub fn take(&mut self, ended: JobRunEnd) {
        self.last = Some(ended);
    }

    /// A run was preempted; its job continues later.
    pub fn preempted(&mut self, job: &QueuedJob) {
        let summary = self.last.take().and_then(|ended| ended.summary);
        if let Some(summary) = self.add_up(job.id, summary) {
            self.earlier.insert(job.id, summary);
        }
        self.bus.publish(&Event::Preempted { job: job.id });
    }

    /// A job ended.
    pub fn finished(&mut self, job: &QueuedJob) {
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

    /// A job was withdrawn.
    pub fn withdrawn(&mut self, job: &QueuedJob) {
        // It may have begun, and been preempted.
        let summary = self.earlier.remove(&job.id);
        self.bus.publish(&Event::Finished {
            job: job.id,
            exit: Exit::Paused.code(),
            summary: None,
            found: Vec::new(),
            error: Some(match summary {
                Some(_) => "the job was withdrawn before its end; what was stored stays".into(),
                None => "the job was withdrawn before it began".into(),
            }),
            hint: None,
        });
    }

    /// What a job did in all its runs.
    fn add_up(&mut self, job: u64, last: Option<Summary>) -> Option<Summary> {
        match (self.earlier.remove(&job), last) {
            (Some(earlier), Some(last)) => Some(last.after(&earlier)),
            (earlier, last) => last.or(earlier),
        }
    }
}
