//! The voice: tells every listener what happens, remembers what the run under way does, and counts how jobs end.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::told::Told;
use crate::model::Resource;
use crate::sync::events::{RunEvent, RunObserver};

/// Lines that a slow listener may be behind before it misses some.
const BEHIND: usize = 1024;

/// Tells and remembers. Clones speak with one voice.
#[derive(Clone, Debug)]
pub struct Voice {
    lines: broadcast::Sender<Arc<str>>,
    heard: Arc<Mutex<Heard>>,
}

#[derive(Debug, Default)]
struct Heard {
    work: Option<UnderWay>,
    ended: BTreeMap<(&'static str, u8), u64>,
}

/// The piece of work under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct UnderWay {
    /// What is worked on.
    pub resource: Resource,
    /// "changes", "full copy", "sweep", "details".
    pub work: &'static str,
    /// Rows so far.
    pub rows: u64,
    /// Rows there will be, where that is known.
    pub total: Option<u64>,
}

impl Voice {
    /// A voice that nobody listens to yet.
    pub fn new() -> Voice {
        Voice { lines: broadcast::channel(BEHIND).0, heard: Arc::default() }
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything from now on, line by line.
    pub fn listen(&self) -> broadcast::Receiver<Arc<str>> {
        self.lines.subscribe()
    }

    /// Tells it to whoever listens.
    pub fn say(&self, told: &Told) {
        if let Told::Finished { .. } | Told::Yielded { .. } = told {
            self.heard().work = None;
        }
        if self.lines.receiver_count() == 0 {
            return;
        }
        if let Ok(line) = serde_json::to_string(told) {
            // The last listener may have gone just now.
            let _ = self.lines.send(line.into());
        }
    }

    /// Counts the end of a job.
    pub fn count(&self, work: &'static str, exit: u8) {
        *self.heard().ended.entry((work, exit)).or_default() += 1;
    }

    /// How jobs ended since the daemon began: by work and exit code.
    pub fn counted(&self) -> Vec<((&'static str, u8), u64)> {
        self.heard().ended.iter().map(|(key, count)| (*key, *count)).collect()
    }

    /// The piece of work under way.
    pub fn under_way(&self) -> Option<UnderWay> {
        self.heard().work
    }
}

impl RunObserver for Voice {
    fn on(&self, event: RunEvent) {
        match &event {
            RunEvent::Begins { resource, work, total } => {
                self.heard().work = Some(UnderWay { resource: *resource, work, rows: 0, total: *total });
            }
            RunEvent::Total { total, .. } => {
                if let Some(work) = &mut self.heard().work {
                    work.total = Some(*total);
                }
            }
            RunEvent::Stored { rows, .. } => {
                if let Some(work) = &mut self.heard().work {
                    work.rows = *rows;
                }
            }
            RunEvent::Ends { .. } => self.heard().work = None,
            RunEvent::Warning(warning) => tracing::warn!("{warning}"),
            RunEvent::Holding { .. } => {}
        }
        self.say(&Told::from(event));
    }

    fn wants_totals(&self) -> bool {
        self.lines.receiver_count() > 0
    }
}

/// The next line; where the listener was too slow, one that says so. `None` once nobody speaks any more.
pub async fn next(told: &mut broadcast::Receiver<Arc<str>>) -> Option<Arc<str>> {
    match told.recv().await {
        Ok(line) => Some(line),
        Err(RecvError::Lagged(lines)) => serde_json::to_string(&Told::Missed { lines }).ok().map(Arc::from),
        Err(RecvError::Closed) => None,
    }
}
