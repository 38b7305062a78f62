//! The event bus: publishes events to every listener, and keeps what monitoring needs: the current work, and the
//! results of jobs.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::events::Event;
use super::progress_log::{self, ProgressLog};
use super::run_durations::RunDurations;
use crate::model::{Clock, Instant, Resource};
use crate::sync::events::{RunEvent, RunObserver};

/// The number of events that a slow listener may lag behind before it misses some.
const BEHIND: usize = 1024;

/// Publishes events and keeps counters. Clones share the bus.
#[derive(Clone, Debug)]
pub(super) struct EventBus {
    lines: broadcast::Sender<Arc<str>>,
    known: Arc<Mutex<BusState>>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug, Default)]
struct BusState {
    work: Option<CurrentWork>,
    ended: BTreeMap<(&'static str, u8), u64>,
    durations: BTreeMap<&'static str, RunDurations>,
    reload_failed: Option<String>,
    log: ProgressLog,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct CurrentWork {
    pub resource: Resource,
    /// "changes", "full copy", "sweep", "details".
    pub work: Cow<'static, str>,
    pub rows: u64,
    /// The expected number of rows, if it is known.
    pub total: Option<u64>,
}

impl EventBus {
    pub(super) fn new(clock: Arc<dyn Clock>) -> EventBus {
        EventBus { lines: broadcast::channel(BEHIND).0, known: Arc::default(), clock }
    }

    fn known(&self) -> MutexGuard<'_, BusState> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every event from now on, each as one JSON document.
    pub(super) fn subscribe(&self) -> Subscription {
        Subscription(self.lines.subscribe())
    }

    pub(super) fn publish(&self, event: &Event) {
        match event {
            Event::Finished { .. } | Event::Preempted { .. } => self.known().work = None,
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

    pub(super) fn count(&self, kind: &'static str, exit: u8) {
        *self.known().ended.entry((kind, exit)).or_default() += 1;
    }

    /// The results of jobs since the daemon started: by kind and exit code.
    pub(super) fn counted(&self) -> Vec<((&'static str, u8), u64)> {
        self.known().ended.iter().map(|(key, count)| (*key, *count)).collect()
    }

    pub(super) fn took(&self, kind: &'static str, time: Duration) {
        self.known().durations.entry(kind).or_default().record(time);
    }

    pub(super) fn durations(&self) -> BTreeMap<&'static str, RunDurations> {
        self.known().durations.clone()
    }

    /// Records why a new configuration is invalid; the old one stays active.
    pub(super) fn reload_failed(&self, reason: String) {
        self.known().reload_failed = Some(reason);
    }

    /// Why the configuration on disk is invalid, and the old one active.
    pub(super) fn invalid_configuration(&self) -> Option<String> {
        self.known().reload_failed.clone()
    }

    pub(super) fn current_work(&self) -> Option<CurrentWork> {
        self.known().work.clone()
    }

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
                    known.work = Some(CurrentWork { resource: *resource, work: work.clone(), rows: 0, total: *total });
                }
                RunEvent::Total { total, .. } => known.work.iter_mut().for_each(|work| work.total = Some(*total)),
                RunEvent::Stored { rows, .. } => known.work.iter_mut().for_each(|work| work.rows = *rows),
                RunEvent::Ends { .. } => known.work = None,
                RunEvent::Warning { .. } | RunEvent::Holding { .. } => {}
            }
            known.log.line(&event, now)
        };
        progress_log::log(&event, line);
        self.publish(&Event::Run(event));
    }
}

#[derive(Debug)]
pub(super) struct Subscription(broadcast::Receiver<Arc<str>>);

impl Subscription {
    /// The next event as JSON; if events were missed, an event that says so. `None` once the bus is dropped.
    pub(super) async fn next(&mut self) -> Option<Arc<str>> {
        match self.0.recv().await {
            Ok(line) => Some(line),
            Err(RecvError::Lagged(events)) => {
                serde_json::to_string(&Event::Missed { lines: events }).ok().map(Arc::from)
            }
            Err(RecvError::Closed) => None,
        }
    }
}
