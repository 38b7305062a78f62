//! The event bus: publishes what happens to every listener, and remembers what monitoring asks for: the work under way,
//! and how jobs ended.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::events::Event;
use super::progress_log::ProgressLog;
use crate::model::{Clock, Instant, Resource};
use crate::sync::events::{RunEvent, RunObserver};

/// Events that a slow listener may be behind before it misses some.
const BEHIND: usize = 1024;

/// Publishes events, and remembers. Clones are the same bus.
#[derive(Clone, Debug)]
pub struct EventBus {
    lines: broadcast::Sender<Arc<str>>,
    known: Arc<Mutex<Known>>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug, Default)]
struct Known {
    work: Option<CurrentWork>,
    ended: BTreeMap<(&'static str, u8), u64>,
    reload_failed: bool,
    log: ProgressLog,
}

/// The piece of work under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CurrentWork {
    /// What is worked on.
    pub resource: Resource,
    /// "changes", "full copy", "sweep", "details".
    pub work: &'static str,
    /// Rows so far.
    pub rows: u64,
    /// Rows there will be, where that is known.
    pub total: Option<u64>,
}

impl EventBus {
    /// A bus that nobody listens to yet.
    pub fn new(clock: Arc<dyn Clock>) -> EventBus {
        EventBus { lines: broadcast::channel(BEHIND).0, known: Arc::default(), clock }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every event from now on, each as one JSON document.
    pub fn subscribe(&self) -> Subscription {
        Subscription(self.lines.subscribe())
    }

    /// Publishes an event to every listener.
    pub fn publish(&self, event: &Event) {
        match event {
            Event::Finished { .. } | Event::Preempted { .. } => self.known().work = None,
            Event::Reloaded => self.known().reload_failed = false,
            _ => {}
        }
        if self.lines.receiver_count() == 0 {
            return;
        }
        if let Ok(line) = serde_json::to_string(event) {
            // The last listener may have gone just now.
            let _ = self.lines.send(line.into());
        }
    }

    /// Counts the end of a job.
    pub fn count(&self, kind: &'static str, exit: u8) {
        *self.known().ended.entry((kind, exit)).or_default() += 1;
    }

    /// How jobs ended since the daemon began: by kind and exit code.
    pub fn counted(&self) -> Vec<((&'static str, u8), u64)> {
        self.known().ended.iter().map(|(key, count)| (*key, *count)).collect()
    }

    /// Notes that a new configuration is invalid and the one before stays active.
    pub fn reload_failed(&self) {
        self.known().reload_failed = true;
    }

    /// Whether the configuration on the disk is another than the active one, because it is invalid.
    pub fn has_invalid_configuration(&self) -> bool {
        self.known().reload_failed
    }

    /// The piece of work under way.
    pub fn current_work(&self) -> Option<CurrentWork> {
        self.known().work
    }

    /// The time, for what is logged.
    fn now(&self) -> Instant {
        self.clock.now()
    }
}

impl RunObserver for EventBus {
    fn on(&self, event: RunEvent) {
        let now = self.now();
        let line = {
            let mut known = self.known();
            match &event {
                RunEvent::Begins { resource, work, total } => {
                    known.work = Some(CurrentWork { resource: *resource, work, rows: 0, total: *total });
                }
                RunEvent::Total { total, .. } => {
                    if let Some(work) = &mut known.work {
                        work.total = Some(*total);
                    }
                }
                RunEvent::Stored { rows, .. } => {
                    if let Some(work) = &mut known.work {
                        work.rows = *rows;
                    }
                }
                RunEvent::Ends { .. } => known.work = None,
                RunEvent::Warning(_) | RunEvent::Holding { .. } => {}
            }
            known.log.line(&event, now)
        };
        if let RunEvent::Warning(warning) = &event {
            tracing::warn!("{warning}");
        }
        if let Some(line) = line {
            tracing::info!("{line}");
        }
        self.publish(&Event::from(event));
    }

    fn wants_totals(&self) -> bool {
        self.lines.receiver_count() > 0
    }
}

/// What one listener hears.
#[derive(Debug)]
pub struct Subscription(broadcast::Receiver<Arc<str>>);

impl Subscription {
    /// The next event as JSON; where the listener was too slow, one that says so. `None` once the bus is gone.
    pub async fn next(&mut self) -> Option<Arc<str>> {
        match self.0.recv().await {
            Ok(line) => Some(line),
            Err(RecvError::Lagged(events)) => {
                serde_json::to_string(&Event::Missed { lines: events }).ok().map(Arc::from)
            }
            Err(RecvError::Closed) => None,
        }
    }
}
