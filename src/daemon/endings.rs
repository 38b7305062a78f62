//! What becomes of jobs: what the runs of one did is added up, told to whoever listens, and counted.

use std::collections::HashMap;

use super::job::Job;
use super::message::RunEnded;
use super::told::Told;
use super::voice::Voice;
use crate::exit::Exit;
use crate::sync::Summary;

/// The runs that have ended, of jobs that have not.
#[derive(Debug)]
pub struct Endings {
    voice: Voice,
    /// What the earlier runs of a job did.
    done: HashMap<u64, Summary>,
    /// The run that ended last.
    ended: Option<RunEnded>,
}

impl Endings {
    /// Nothing has ended yet.
    pub fn new(voice: Voice) -> Endings {
        Endings { voice, done: HashMap::new(), ended: None }
    }

    /// Takes the end of a run; what it is to its job is said next.
    pub fn take(&mut self, ended: RunEnded) {
        self.ended = Some(ended);
    }

    /// A run gave way to another; its job goes on later.
    pub fn yielded(&mut self, job: &Job) {
        let summary = self.ended.take().and_then(|ended| ended.summary);
        if let Some(summary) = self.add_up(job.id, summary) {
            self.done.insert(job.id, summary);
        }
        self.voice.say(&Told::Yielded { job: job.id });
    }

    /// A job ended.
    pub fn finished(&mut self, job: &Job) {
        let Some(ended) = self.ended.take() else { return };
        let summary = self.add_up(job.id, ended.summary);
        self.voice.count(job.work.as_str(), ended.exit);
        self.voice.say(&Told::Finished {
            job: job.id,
            exit: ended.exit,
            summary: summary.map(Box::new),
            found: ended.found,
            error: ended.error,
            hint: ended.hint,
        });
    }

    /// Tells whoever waits for a job that it will not come.
    pub fn dropped(&mut self, job: &Job) {
        // It may have begun, and given way to another.
        let summary = self.done.remove(&job.id);
        self.voice.say(&Told::Finished {
            job: job.id,
            exit: Exit::Paused.code(),
            summary: None,
            found: Vec::new(),
            error: Some(match summary {
                Some(_) => "the job was taken back before its end; what was stored stays".into(),
                None => "the job was taken back before it began".into(),
            }),
            hint: None,
        });
    }

    /// What a job did in all its runs.
    fn add_up(&mut self, job: u64, last: Option<Summary>) -> Option<Summary> {
        match (self.done.remove(&job), last) {
            (Some(earlier), Some(last)) => Some(last.after(&earlier)),
            (earlier, last) => last.or(earlier),
        }
    }
}
